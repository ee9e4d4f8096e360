"""Evidence that fades: mode `bistable` of the gate.

Every event adds 1. What a session has added so far fades with event time and never stands above the cap, so that one
busy session cannot open a gate alone. The sum opens the gate at `high`, never stands above it, and closes the gate
below `low`: whatever there was of a habit, its gate closes within half-life x log2(high / low) of its last event. All
of it follows from the events alone, in order of their time; nothing is remembered beside them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from hobus.actors.ho3_memory.event_time import DECIMALS, remaining
from hobus.config.schema import Ho3Config

_TIME = attrgetter("at_us")


class SignalEvent(NamedTuple):
    """One observation; sorts by time, then by id."""

    at_us: int
    event_id: str
    session_id: str
    seq: int
    principal: str = ""


class Level(NamedTuple):
    """Evidence at a moment, rounded, and whether the gate stands open on it."""

    evidence: float
    is_open: bool


class _Step(NamedTuple):
    at_us: int
    level: Level


NOTHING = Level(0.0, is_open=False)


class EvidenceTrace:
    """The level after each event, extended as events come; a late event lets it begin anew."""

    def __init__(self, config: Ho3Config) -> None:
        self._config = config
        self._steps: list[_Step] = []
        self._of_session: dict[str, tuple[float, int]] = {}

    def forget(self) -> None:
        """An event came in before others: the levels after it do not hold any more."""
        self._steps.clear()
        self._of_session.clear()

    def follow(self, events: Sequence[SignalEvent]) -> None:
        """Goes through those events, in order of time, that it has not gone through yet."""
        for position in range(len(self._steps), len(events)):
            self._add(events[position])

    def level(self, at_us: int) -> Level:
        """The level at a time, faded since the last event before it."""
        position = bisect_right(self._steps, at_us, key=_TIME)
        return NOTHING if not position else self._faded(self._steps[position - 1], at_us)

    def _add(self, event: SignalEvent) -> None:
        before = self._faded(self._steps[-1], event.at_us) if self._steps else NOTHING
        own, own_at_us = self._of_session.get(event.session_id, (0.0, event.at_us))
        own *= remaining(event.at_us - own_at_us, self._config.evidence_half_life_hours)
        following = min(self._config.evidence_cap_per_session, own + 1.0)
        self._of_session[event.session_id] = (following, event.at_us)
        evidence = round(min(self._config.gate_high, before.evidence + max(0.0, following - own)), DECIMALS)
        self._steps.append(_Step(event.at_us, Level(evidence, before.is_open or evidence >= self._config.gate_high)))

    def _faded(self, step: _Step, at_us: int) -> Level:
        share = remaining(at_us - step.at_us, self._config.evidence_half_life_hours)
        evidence = round(step.level.evidence * share, DECIMALS)
        return Level(evidence, step.level.is_open and evidence >= self._config.gate_low)
