"""Evidence that fades: mode `bistable` of the gate.

Every event adds 1. What a session has added so far fades and never stands above the cap, so that one busy session
cannot open a gate alone. The sum opens the gate at `high`, never stands above it, and closes the gate below `low`.
It fades with event time alone: how much else its principal does, or a program in their name, changes nothing. However
strong a habit was, its gate closes within half-life x log2(high / low) of its last event. All of it follows from the
events alone, in order of their time; nothing is remembered beside them.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from hobus.actors.ho3_memory.event_rows import EventRows
from hobus.actors.ho3_memory.event_time import DECIMALS, HOUR_US
from hobus.config.sections.memory import Ho3Config

_GONE = 32
"""After so many halvings nothing is left of what a session has added, which is less than any decimal that counts."""


class Level(NamedTuple):
    """Evidence at a moment, rounded, and whether the gate stands open on it."""

    evidence: float
    is_open: bool


NOTHING = Level(0.0, is_open=False)


class EvidenceTrace:
    """The level after each event, followed as they are asked about; an older event lets it go back to its place."""

    __slots__ = ("_config", "_events", "_evidence", "_is_open", "_newest_of", "_own", "_tidy_at")

    def __init__(self, events: EventRows, config: Ho3Config) -> None:
        self._events = events
        self._config = config
        self._evidence = array("d")
        self._is_open = bytearray()
        self._own = array("d")  # what its session had added after each event
        self._newest_of: dict[int, int] = {}  # session -> place of its newest event so far, of those that are not gone
        self._tidy_at = 64

    def forget_from(self, place: int) -> None:
        """The levels from this place on do not hold any more."""
        if place >= len(self._evidence):
            return
        del self._evidence[place:], self._is_open[place:], self._own[place:]
        self._recall()

    def _recall(self) -> None:
        """Where each session stands that is not gone at the last level."""
        place = len(self._evidence)
        self._newest_of.clear()
        gone_us = self._gone_us(place - 1) if place else 0
        for before in range(place - 1, -1, -1):
            if self._events.times[before] < gone_us:
                break
            self._newest_of.setdefault(self._events.session_numbers[before], before)

    def __len__(self) -> int:
        return len(self._evidence)

    def columns(self) -> tuple[bytes, bytes, bytes]:
        """The levels so far, for `restore`."""
        return self._evidence.tobytes(), bytes(self._is_open), self._own.tobytes()

    def restore(self, evidence: bytes, is_open: bytes, own: bytes) -> None:
        """The levels are those of another trace of these events."""
        self._evidence, self._is_open, self._own = array("d", evidence), bytearray(is_open), array("d", own)
        self._recall()

    def level(self, at_us: int) -> Level:
        """The level at a time, faded since the last event before it."""
        return self.level_after(self._events.until(at_us), at_us)

    def level_after(self, until: int, at_us: int) -> Level:
        """The same, of who knows that so many events are up to then."""
        for place in range(len(self._evidence), until):
            self._add(place)
        return self._faded(until - 1, at_us) if until else NOTHING

    def _add(self, place: int) -> None:
        at_us, session = self._events.times[place], self._events.session_numbers[place]
        before = self._faded(place - 1, at_us) if place else NOTHING
        last = self._newest_of.get(session)
        own = 0.0
        if last is not None and (halvings := self._halvings(last, at_us)) <= _GONE:
            own = self._own[last] * 2.0**-halvings
        following = min(self._config.evidence_cap_per_session, own + 1.0)
        evidence = round(min(self._config.gate_high, before.evidence + max(0.0, following - own)), DECIMALS)
        self._own.append(following)
        self._evidence.append(evidence)
        self._is_open.append(before.is_open or evidence >= self._config.gate_high)
        self._newest_of[session] = place
        if len(self._newest_of) > self._tidy_at:
            gone_us = self._gone_us(place)
            self._newest_of = {one: at for one, at in self._newest_of.items() if self._events.times[at] >= gone_us}
            self._tidy_at = 2 * len(self._newest_of) + 64

    def _faded(self, place: int, at_us: int) -> Level:
        if at_us == self._events.times[place]:
            return Level(
                self._evidence[place], bool(self._is_open[place]) and self._evidence[place] >= self._config.gate_low
            )
        evidence = round(self._evidence[place] * 2.0 ** -self._halvings(place, at_us), DECIMALS)
        return Level(evidence, bool(self._is_open[place]) and evidence >= self._config.gate_low)

    def _halvings(self, place: int, at_us: int) -> float:
        """How often what stood after an event has been halved by a time, which is not before it."""
        return (at_us - self._events.times[place]) / HOUR_US / self._config.evidence_half_life_hours

    def _gone_us(self, place: int) -> float:
        """What a session added before then counts for nothing from this event on."""
        return self._events.times[place] - _GONE * self._config.evidence_half_life_hours * HOUR_US
