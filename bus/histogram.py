"""Counters of the heartbeat: how often something happened, and how long things took. Pure.

Durations are counted by upper bounds, so that sums over processes and time stay true. They travel as counters, too:
`<name>_ms_le_<bound>` (so many took at most that), `<name>_ms_sum`, `<name>_ms_count`. Readers make of them what they
like (`launch/http/metrics.py`: Prometheus).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import NamedTuple

BOUNDS_MS = (1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000)
"""From what costs nothing to what nobody waits for. The format's, not a setting: two processes must agree."""
_PART = re.compile(r"(?P<name>[a-z_]+)_ms_(?:le_(?P<bound>[0-9]+)|sum|count)")
Counters = dict[str, int]
"""Name -> how often since start."""


def counters(*names: str) -> Callable[[], Counters]:
    """Return a factory of counters with these names, at zero, so that each beat has all of them."""
    return lambda: dict.fromkeys(names, 0)


class Histogram:
    """Durations since start."""

    __slots__ = ("_counts", "_sum_ms")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_MS) + 1)
        self._sum_ms = 0.0

    def add(self, elapsed_s: float) -> None:
        """Add one duration; a clock that went back counts as zero."""
        elapsed_ms = elapsed_s * 1000 if elapsed_s > 0 else 0.0
        self._counts[bisect_left(BOUNDS_MS, elapsed_ms)] += 1
        self._sum_ms += elapsed_ms

    def counters(self, name: str) -> dict[str, int]:
        totals = list(accumulate(self._counts))
        found = {f"{name}_ms_le_{bound}": total for bound, total in zip(BOUNDS_MS, totals, strict=False)}
        return found | {f"{name}_ms_sum": round(self._sum_ms), f"{name}_ms_count": totals[-1]}


class Durations(NamedTuple):
    """A histogram as a heartbeat told it."""

    at_most_ms: list[tuple[int, int]]  # (bound, how many took at most that), ascending
    sum_ms: int
    number: int


def read_histograms(counters: Mapping[str, int]) -> tuple[dict[str, Durations], dict[str, int]]:
    """Split counters into histograms by name and the rest; what is incomplete stays a counter."""
    names = {part["name"] for name in counters if (part := _PART.fullmatch(name)) is not None}
    whole = {name for name in names if {f"{name}_ms_sum", f"{name}_ms_count"} <= counters.keys()}
    found: dict[str, Durations] = {}
    rest: dict[str, int] = {}
    for name, value in counters.items():
        part = _PART.fullmatch(name)
        if part is None or part["name"] not in whole:
            rest[name] = value
        elif part["bound"]:
            told = found.setdefault(part["name"], _read_histogram(counters, part["name"]))
            told.at_most_ms.append((int(part["bound"]), value))
    for told in found.values():
        told.at_most_ms.sort()
    return found, rest


def _read_histogram(counters: Mapping[str, int], name: str) -> Durations:
    return Durations([], counters[f"{name}_ms_sum"], counters[f"{name}_ms_count"])
