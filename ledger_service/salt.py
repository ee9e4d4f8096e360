"""Salts for body hashes: nobody can guess a short text from its hash once salt and body are overwritten.

Counted from a secret that is drawn once per process and never written, so one salt tells nothing about another, and the
simulation, whose draws are seeded, gets the same salts each time.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from hobus.ledger_service.frame import SALT_BYTES


def salts(new_id: Callable[[], str]) -> Callable[[], bytes]:
    """A function that gives a fresh salt at each call; `new_id` is the bus port's draw (two of 122 bits each)."""
    secret = f"{new_id()}{new_id()}".encode()
    count = 0

    def draw() -> bytes:
        nonlocal count
        count += 1
        return sha256(secret + count.to_bytes(8, "big")).digest()[:SALT_BYTES]

    return draw
