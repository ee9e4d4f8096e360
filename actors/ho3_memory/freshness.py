"""The signals of one principal by the time of their newest event, so that a read looks at those alone that still weigh.

Pure. An event never makes a signal older: what has an event at some moment before a question has its newest event then
or later, so that `since` names every signal that a question as of any time and sequence may find fresh.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from math import inf, log2

from hobus.actors.ho3_memory.event_time import HOUR_US
from hobus.config.sections.memory import Ho3Config

_ROUNDING = 1e-9
"""A share is compared once it is rounded: half of this away from the floor it may still pass."""


class Freshness:
    """Grows by `note`."""

    def __init__(self) -> None:
        self._newest_of: dict[str, int] = {}
        self._order: list[tuple[int, str]] = []  # (time, signal), sorted

    def note(self, signal_id: str, at_us: int) -> None:
        """One event of this signal."""
        known = self._newest_of.get(signal_id)
        if known is not None:
            if at_us <= known:
                return
            del self._order[bisect_left(self._order, (known, signal_id))]
        self._newest_of[signal_id] = at_us
        insort(self._order, (at_us, signal_id))

    def newest_us(self, signal_id: str) -> float:
        """The time of its newest event; before all times, where there is none."""
        return self._newest_of.get(signal_id, -inf)

    def since(self, at_us: float) -> list[str]:
        """Signals whose newest event is not before this time."""
        return [signal_id for _, signal_id in self._order[bisect_left(self._order, (at_us, "")) :]]


def reach_us(config: Ho3Config) -> float:
    """A signal without an event for longer than this weighs less than `bias_decay_floor`; infinite: 0."""
    if config.bias_decay_floor <= 0:
        return inf
    share = max(config.bias_decay_floor - _ROUNDING, _ROUNDING / 4)
    return -log2(share) * config.decay_half_life_hours * HOUR_US


def open_reach_us(config: Ho3Config) -> float:
    """No gate stands open for longer than this after its signal's newest event; infinite where gates count."""
    low = config.gate_low - _ROUNDING
    if config.gate_mode == "counting" or low <= 0:
        return inf
    return max(0.0, log2(config.gate_high / low)) * config.evidence_half_life_hours * HOUR_US
