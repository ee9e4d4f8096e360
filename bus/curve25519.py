"""Which public keys of Curve25519 somebody can have. Plain arithmetic; source: RFC 7748, sections 4.1 and 5.

A secret is clamped to a multiple of eight and the base point has prime order, so a public key that was made from one is
a point of that order, written in its one shortest form. Of 32 arbitrary bytes about one in thirty is; low-order points,
which would give everybody the same shared secret, are none of them.
"""

from __future__ import annotations

_PRIME = 2**255 - 19
_A = 486_662
_ORDER = 2**252 + 27_742_317_777_372_353_535_851_937_790_883_648_493


def is_public_key(key: bytes) -> bool:
    """Whether there is a secret key whose public half these 32 bytes are."""
    u = int.from_bytes(key, "little")
    if u >= _PRIME:
        return False  # the same point has a shorter form
    if pow(u * (u * u + _A * u + 1), (_PRIME - 1) // 2, _PRIME) != 1:
        return False  # on the twist, or of order two
    return _is_infinity(_ORDER, u)


def _is_infinity(factor: int, u: int) -> bool:
    """Whether `factor` times the point with this coordinate is the neutral element: the ladder of section 5."""
    x2, z2, x3, z3 = 1, 0, u, 1
    for bit in f"{factor:b}":
        if bit == "1":
            x2, z2, x3, z3 = x3, z3, x2, z2
        plus, minus = x2 + z2, x2 - z2
        plus_2, minus_2 = plus * plus % _PRIME, minus * minus % _PRIME
        crossed, other = (x3 - z3) * plus, (x3 + z3) * minus
        x3, z3 = (crossed + other) ** 2 % _PRIME, u * (crossed - other) ** 2 % _PRIME
        difference = plus_2 - minus_2
        x2, z2 = plus_2 * minus_2 % _PRIME, difference * (plus_2 + (_A - 2) // 4 * difference) % _PRIME
        if bit == "1":
            x2, z2, x3, z3 = x3, z3, x2, z2
    return z2 == 0
