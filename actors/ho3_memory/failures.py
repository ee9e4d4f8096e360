"""Consolidations of one agent that failed, and the lines that were refused with them."""

from __future__ import annotations

from typing import Any

from hobus.actors.ho3_memory.event_time import PointInTime, timestamp_of
from hobus.actors.ho3_memory.id_table import IdTable, key_of
from hobus.actors.ho3_memory.records import Fact
from hobus.actors.ho3_memory.residence import Residence, Spillable, Values
from hobus.actors.ho3_memory.signal_log import Whose
from hobus.actors.ho3_memory.timed import Timed
from hobus.bus.messages.base import pack, unpack
from hobus.bus.messages.memory import Quarantined

_LINE_BYTES = 400
"""What a refused line takes in RAM beside its texts; as measured."""


class _Refused(Spillable):
    """A line, and why it was refused."""

    __slots__ = ("line", "reason", "signal_id")

    def __init__(self, signal_id: str, reason: str, line: str) -> None:
        super().__init__()
        self.signal_id = signal_id
        self.reason = reason
        self.line = line

    @property
    def size_bytes(self) -> int:
        return _LINE_BYTES + len(self.signal_id) + len(self.reason) + len(self.line)

    def packed(self) -> bytes:
        return pack([self.signal_id, self.reason, self.line])


class Failures:
    """Grows by `add`."""

    def __init__(self, residence: Residence) -> None:
        self._ids = IdTable()
        self._times: dict[Whose, Timed] = {}
        self._refused = Values(residence, _unpacked)
        self._refused_at: dict[str | None, list[tuple[int, int, int]]] = {}  # (time, sequence, number), by principal

    def add(self, fact: Fact) -> bool:
        """Whether it was new here."""
        key = key_of(fact.submission_id)
        if self._ids.find(key) is not None:
            return False
        self._ids.number(key)
        self._times.setdefault((fact.principal, fact.about), Timed()).insert(fact.at_us, fact.seq)
        if fact.line:
            number = self._refused.add(_Refused(fact.about, fact.refused, fact.line))
            self._refused_at.setdefault(fact.principal, []).append((fact.at_us, fact.seq, number))
        return True

    def has(self, submission_id: str) -> bool:
        """Whether this one is here."""
        return self._ids.find(key_of(submission_id)) is not None

    def newest_us(self, whose: Whose, as_of: PointInTime) -> int | None:
        """When a consolidation of this signal failed last; None: none did."""
        times = self._times.get(whose)
        return None if times is None else times.newest_us(as_of)

    def times(self, whose: Whose) -> list[int]:
        """When consolidations of this signal failed, in order of event time."""
        return [at_us for at_us, _ in self._times.get(whose, ())]

    def quarantined(self, as_of: PointInTime, principal: str | None, *, at_most: int) -> list[Quarantined]:
        """Lines that were refused, a principal's or (None) everyone's, in order of event time; the newest of them."""
        there = sorted(
            (at_us, seq, number, whose)
            for whose, refused in self._refused_at.items()
            for at_us, seq, number in refused
            if at_us <= as_of.at_us and seq <= as_of.seq and principal in (None, whose)
        )
        return [self._shown(at_us, number, whose) for at_us, _, number, whose in there[-at_most:]]

    def _shown(self, at_us: int, number: int, principal: str | None) -> Quarantined:
        found = self._refused[number]
        return Quarantined(
            signal_id=found.signal_id, principal=principal, at=timestamp_of(at_us), reason=found.reason, line=found.line
        )


def _unpacked(data: bytes) -> _Refused:
    said: list[Any] = unpack(data)
    return _Refused(*said)
