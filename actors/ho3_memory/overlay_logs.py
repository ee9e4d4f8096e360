"""All that was ever learned for one agent, by number: each artifact's life, in RAM or out of it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import NamedTuple

from hobus.actors.ho3_memory.id_table import IdTable, key_of
from hobus.actors.ho3_memory.overlay_log import OverlayLog, Standing
from hobus.actors.ho3_memory.records import Fact
from hobus.actors.ho3_memory.residence import Residence, Values
from hobus.bus.messages.ids import overlay_id


class Appended(NamedTuple):
    """What has just been said about an artifact."""

    number: int
    log: OverlayLog
    before: Standing | None
    """How it stood until then."""


class OverlayLogs:
    """Grows by `append`. A log is to be held no longer than until the next one is asked for."""

    def __init__(self, agent_id: str, residence: Residence) -> None:
        self._agent_id = agent_id
        self._ids = IdTable()
        self._logs = Values(residence, OverlayLog.unpacked)
        self._first_seqs = array("q")

    def __len__(self) -> int:
        return len(self._logs)

    def __getitem__(self, number: int) -> OverlayLog:
        return self._logs[number]

    def find(self, artifact_id: str) -> int | None:
        """The number of an artifact; None: nothing was said about it."""
        return self._ids.find(key_of(artifact_id))

    def append(self, fact: Fact) -> Appended | None:
        """Of an artifact that was logged, or a change of it; None: it was here already."""
        number = self._ids.number(key_of(fact.about))
        if number == len(self._logs):
            self._logs.add(OverlayLog(overlay_id(self._agent_id, fact.about)))
            self._first_seqs.append(fact.seq)
        log = self._logs[number]
        before = log.now
        if not log.append(fact):
            return None
        self._first_seqs[number] = min(self._first_seqs[number], fact.seq)
        self._logs.changed(number, log)
        return Appended(number, log, before)

    def in_order(self, numbers: Iterable[int], *, after: int = -1) -> list[int]:
        """These, behind this place, in append order."""
        first_seqs = self._first_seqs
        return sorted((one for one in numbers if first_seqs[one] > after), key=first_seqs.__getitem__)
