"""Whether a rule that looks at anybody's texts takes time in proportion to their length."""

from __future__ import annotations

import time
from collections.abc import Callable

_NO_TIME_S = 0.001
_TIMES_MAX = 6.5
"""Below what squares take where half of the short text's time is still in proportion to its length."""
_TRIES = 6


def is_linear(looks: Callable[[str], object], first: str, again: str, last: str, chars: int = 1_500) -> bool:
    """Whether a text four times as long takes about four times as long, or no time. Squares would take sixteen times.

    By the best of some tries: whatever else the machine does makes a look longer, and none shorter.
    """
    short, long = (f"{first}{again * (count // len(again))}{last}" for count in (chars, 4 * chars))
    took_long = took_short = float("inf")
    for _ in range(_TRIES):
        took_long = min(took_long, _took(looks, long))
        if took_long < _NO_TIME_S:
            return True
        took_short = min(took_short, _took(looks, short), _took(looks, short))
        if took_long < _TIMES_MAX * took_short:
            return True
    return False


def _took(looks: Callable[[str], object], text: str) -> float:
    """Of this thread's own time, which the rest of the machine does not change much."""
    begun = time.thread_time()
    looks(text)
    return time.thread_time() - begun
