"""The events of one signal in columns, in order of time, then id: some forty bytes each, whatever their ids are.

An event's id says its session and its signal again; what is left of it, its run, is one text for all that have the
same. An entry of the record is one event, so that its sequence tells whether an event is here already.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from sys import intern
from typing import Any, NamedTuple

from hobus.actors.ho3_memory.event_time import PointInTime
from hobus.actors.ho3_memory.names import Names

_WHOLE, _DERIVED = "=", "-"
"""Before what is kept of an id: all of it, or what stands between its session and its signal."""


class SignalEvent(NamedTuple):
    """One observation; sorts by time, then by id."""

    at_us: int
    event_id: str
    session_id: str
    seq: int
    principal: str = ""


class EventRows:
    """Grows by `insert`; a row's place is its place in order of time, and moves when an older event comes."""

    __slots__ = (
        "_ids", "_newest_seq", "_sessions", "_signal_id", "principals", "seqs", "session_numbers", "times",
    )  # fmt: skip

    def __init__(self, signal_id: str, sessions: Names, *, of_several: bool) -> None:
        """`of_several`: events of more than one principal, so that each names its own."""
        self._signal_id = signal_id
        self._sessions = sessions
        self.times = array("q")
        self.seqs = array("q")
        self.session_numbers = array("I")
        self._ids: list[str] = []
        self.principals: list[str] | None = [] if of_several else None
        self._newest_seq = -1

    def __len__(self) -> int:
        return len(self.times)

    def insert(self, event: SignalEvent) -> int | None:
        """Its place; None for an event that is here already."""
        if event.seq <= self._newest_seq and event.seq in self.seqs:
            return None
        place = self._place(event)
        self.times.insert(place, event.at_us)
        self.seqs.insert(place, event.seq)
        self.session_numbers.insert(place, self._sessions.number(event.session_id))
        self._ids.insert(place, self._kept(event))
        if self.principals is not None:
            self.principals.insert(place, intern(event.principal))
        self._newest_seq = max(self._newest_seq, event.seq)
        return place

    def _place(self, event: SignalEvent) -> int:
        place = bisect_right(self.times, event.at_us)
        while place and self.times[place - 1] == event.at_us and self.event_id(place - 1) > event.event_id:
            place -= 1
        return place

    def _kept(self, event: SignalEvent) -> str:
        before, after = f"EVT-{event.session_id}-", f"-{self._signal_id}"
        run = event.event_id.removeprefix(before).removesuffix(after)
        is_derived = f"{before}{run}{after}" == event.event_id
        return intern(_DERIVED + run) if is_derived else _WHOLE + event.event_id

    def event_id(self, place: int) -> str:
        """Of the event at this place."""
        kept = self._ids[place]
        if kept[0] == _WHOLE:
            return kept[1:]
        return f"EVT-{self.session_id(place)}-{kept[1:]}-{self._signal_id}"

    def session_id(self, place: int) -> str:
        """Of the event at this place."""
        return self._sessions[self.session_numbers[place]]

    def until(self, at_us: int) -> int:
        """How many events there are up to this time."""
        return bisect_right(self.times, at_us)

    def counts_all(self, until: int, seq: int) -> bool:
        """Whether none of the first so many was appended later than this sequence."""
        return seq >= self._newest_seq or not until or max(self.seqs[:until]) <= seq

    def counted(self, as_of: PointInTime) -> range | list[int]:
        """The places of those that count as of then."""
        until = bisect_right(self.times, as_of.at_us)
        if as_of.seq >= self._newest_seq or self.counts_all(until, as_of.seq):
            return range(until)
        return [place for place in range(until) if self.seqs[place] <= as_of.seq]

    def columns(self) -> list[Any]:
        """All of it as bytes and texts, for `restore`."""
        ids = _numbered(self._ids)
        principals = None if self.principals is None else _numbered(self.principals)
        numbers = (self.times, self.seqs, self.session_numbers)
        return [*(column.tobytes() for column in numbers), ids, principals, self._newest_seq]

    def restore(self, columns: Sequence[Any]) -> None:
        """These rows are those of another one's `columns`."""
        times, seqs, sessions, ids, principals, self._newest_seq = columns
        self.times, self.seqs, self.session_numbers = array("q", times), array("q", seqs), array("I", sessions)
        self._ids = _listed(*ids)
        self.principals = None if principals is None else _listed(*principals)

    def taken(self, places: list[int]) -> EventRows:
        """Only these, in columns of their own."""
        found = EventRows(self._signal_id, self._sessions, of_several=self.principals is not None)
        for mine, theirs in ((found.times, self.times), (found.seqs, self.seqs)):
            mine.extend(theirs[place] for place in places)
        found.session_numbers.extend(self.session_numbers[place] for place in places)
        found._ids = [self._ids[place] for place in places]
        if self.principals is not None:
            found.principals = [self.principals[place] for place in places]
        return found


def _numbered(texts: Sequence[str]) -> tuple[list[str], bytes]:
    """Each text once, and which of them each is."""
    known = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return list(known), array("I", (known[text] for text in texts)).tobytes()


def _listed(known: Sequence[str], numbers: bytes) -> list[str]:
    shared = [intern(text) for text in known]
    return [shared[number] for number in array("I", numbers)]
