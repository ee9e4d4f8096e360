"""The system's clock and drawn values: the only place of the whole project that reads them."""

from __future__ import annotations

import random
import time
import uuid


class SystemClock:
    """Implement `bus.port.Clock` on the machine's own clocks."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def now(self) -> float:
        """Return wall-clock seconds since 1970 UTC."""
        return round(time.time(), 6)

    monotonic = staticmethod(time.monotonic)
    """Seconds on the base that asyncio's loops use."""

    def new_id(self) -> str:
        return str(uuid.uuid4())

    def random(self) -> float:
        """Return a random number in [0, 1) for jitter; not for secrets."""
        return self._random.random()

    def secret(self) -> str:
        """Return 32 random bytes in hex, for tokens."""
        return self._random.randbytes(32).hex()
