"""The simulation's clock port: virtual time, counted ids, seeded draws, which are its only randomness."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from random import Random  # noqa: TID251 - seeded: reproducible on purpose

from hobus.bus.sim.loop import VirtualLoop


class SimClock:
    """Implement `bus.port.Clock` for one simulated process; draws depend on `name` alone, not on other processes."""

    def __init__(self, loop: VirtualLoop, *, seed: int, name: str, epoch_s: Callable[[], float]) -> None:
        self._loop = loop
        self.monotonic = loop.time
        """Virtual seconds, the loop's own."""
        self._epoch_s = epoch_s
        self._random = make_draw(seed, name)
        self._namespace = uuid.UUID(bytes=hash_seed(seed, name)[:16])
        self._ids = 0

    def now(self) -> float:
        """Return wall-clock seconds: the simulated machine's time at virtual 0 (jumps when set) plus virtual time."""
        return round(self._epoch_s() + self._loop.now, 6)

    def new_id(self) -> str:
        """Return the process's next id: the same seed and name give the same ids."""
        self._ids += 1
        return str(uuid.uuid5(self._namespace, str(self._ids)))

    def random(self) -> float:
        return self._random.random()


Draw = Random
"""A stream of draws; the same name gives the same ones."""


def make_draw(seed: int, name: str) -> Draw:
    """Return the random draws of `name` under `seed`, independent of what other names draw."""
    return Random(hash_seed(seed, name))  # noqa: S311 - the same


def hash_seed(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}\n{name}".encode()).digest()
