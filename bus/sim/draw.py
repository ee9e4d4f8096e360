"""Seeded draws: the only randomness of the simulation."""

from __future__ import annotations

import hashlib
from random import Random  # noqa: TID251 - seeded: reproducible on purpose

Draw = Random
"""A stream of draws; the same name gives the same ones."""


def seeded(seed: int, name: str) -> Draw:
    """The draws of `name` under this seed, whatever others draw."""
    return Random(digest_of(seed, name))  # noqa: S311 - the same


def digest_of(seed: int, name: str) -> bytes:
    """What stands for this name under this seed."""
    return hashlib.sha256(f"{seed}\n{name}".encode()).digest()
