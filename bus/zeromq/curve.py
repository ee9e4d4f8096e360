"""CURVE keys: drawn, kept in a private file, named by a fingerprint. Secrets are printed nowhere."""

from __future__ import annotations

import hashlib
import stat
import struct
from dataclasses import dataclass, field
from pathlib import Path

import zmq
import zmq.utils.z85 as z85  # noqa: PLR0402 - the module ships no names for `from`

from hobus.bus import disk
from hobus.bus.clock import SystemClock
from hobus.bus.errors import ConfigError


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Both halves in Z85, ZeroMQ's own text form: 40 characters each."""

    public: bytes
    secret: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.public)


def check_available() -> None:
    """Raises ConfigError where the installed ZeroMQ cannot encrypt."""
    if not zmq.has("curve"):
        raise ConfigError("this ZeroMQ library was built without CURVE, so nothing may be bound to TCP: install pyzmq")


def new_pair() -> KeyPair:
    """A fresh one, drawn by the system's clock port as every secret is."""
    return pair_of(z85.encode(bytes.fromhex(SystemClock().secret())))


def pair_of(secret: bytes) -> KeyPair:
    """The pair with this secret half (Z85). Raises ValueError for anything else."""
    try:
        return KeyPair(public=zmq.curve_public(secret), secret=secret)
    except (zmq.ZMQError, TypeError) as error:
        raise ValueError("not a CURVE secret key") from error


def fingerprint(public: bytes) -> str:
    """How a public key (Z85) is named to people and in records: `key:<16 hex>` of its SHA-256."""
    return f"key:{hashlib.sha256(public).hexdigest()[:16]}"


def raw(key: bytes) -> bytes:
    """The 32 bytes behind Z85 text. Raises ValueError for anything else."""
    if len(key) != 40:  # noqa: PLR2004 - a CURVE key in Z85
        raise ValueError("not a CURVE key")
    try:
        return z85.decode(key)
    except (KeyError, struct.error) as error:
        raise ValueError("not a CURVE key") from error


def text(key: bytes) -> bytes:
    return z85.encode(key)


BROKER_FIX = "then every worker has to join again"


def kept_pair(path: Path, *, after_loss: str = BROKER_FIX) -> KeyPair:
    """The pair of this file, made at first use; `after_loss`: what follows without it.

    Raises ConfigError for a file that is damaged or open to others.
    """
    try:
        secret = path.read_bytes().strip()
    except FileNotFoundError:
        pair = new_pair()
        disk.write_private(path, pair.secret + b"\n")
        return pair
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ConfigError(f"the key file {path} can be read by others: chmod 600 it, then start again")
    try:
        return pair_of(secret)
    except ValueError:
        raise ConfigError(f"the key file {path} is damaged: put its copy back, or remove it; {after_loss}") from None


_PRIME = 2**255 - 19
_A = 486_662
_ORDER = 2**252 + 27_742_317_777_372_353_535_851_937_790_883_648_493


def is_public_key(key: bytes) -> bool:
    """Whether there is a secret key whose public half these 32 bytes are (RFC 7748, sections 4.1 and 5).

    A secret is clamped to a multiple of eight and the base point has prime order, so a public key that was made from
    one is a point of that order, written in its one shortest form. Of 32 arbitrary bytes about one in thirty is;
    low-order points, which would give everybody the same shared secret, are none of them.
    """
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
