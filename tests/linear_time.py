"""Whether a rule that looks at anybody's texts takes time in proportion to their length."""

from __future__ import annotations

import time
from collections.abc import Callable

_NO_TIME_S = 0.02


def is_linear(looks: Callable[[str], object], first: str, again: str, last: str, chars: int = 8_000) -> bool:
    """Whether a text four times as long takes about four times as long, or no time. Squares would take sixteen times."""
    short, long = (f"{first}{again * (count // len(again))}{last}" for count in (chars, 4 * chars))
    return any((taken := _took(looks, long)) < _NO_TIME_S or taken < 9 * _took(looks, short) for _ in range(3))


def _took(looks: Callable[[str], object], text: str) -> float:
    """Of this thread's own time, which the rest of the machine does not change much."""
    best = float("inf")
    for _ in range(2):
        begun = time.thread_time()
        looks(text)
        best = min(best, time.thread_time() - begun)
        if best < _NO_TIME_S:
            break
    return best
