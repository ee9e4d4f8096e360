"""One artifact's life: logged, confirmed, switched off and on, weighed anew; and how it stands as of a moment.

The log's order decides, not the order of event times: what was appended last wins among what counts. A constraint
waits for a person, each time it is logged; nobody else's word puts one into a prompt.
"""

from __future__ import annotations

from collections.abc import Iterable
from sys import intern
from typing import NamedTuple

from hobus.actors.ho3_memory.event_time import PointInTime, timestamp_of
from hobus.actors.ho3_memory.kept_artifact import KeptArtifact
from hobus.actors.ho3_memory.records import Fact
from hobus.actors.ho3_memory.residence import Spillable
from hobus.bus.messages.base import pack, unpack
from hobus.bus.messages.memory import Artifact, ChangeSaid, Overlay, OverlayState

_SWITCHES = frozenset({"deactivated", "activated"})
_LOG_BYTES, _CHANGE_BYTES = 500, 300
"""What a log takes in RAM beside its changes, and a change beside its texts; as measured."""


class _Change(NamedTuple):
    """What is kept of an entry about an artifact."""

    seq: int
    at_us: int
    kind: str
    submission_id: str
    artifact: KeptArtifact | None  # of a logging
    weight: float
    principal: str  # who said it, and the instance that it came from; empty: of a logging
    door: str


class Standing(NamedTuple):
    """An artifact as of a moment."""

    artifact: KeptArtifact  # with its weight and `enabled` as of then
    made: PointInTime
    """When its newest logging that counts says that it was made, and where the log has that."""
    is_pending: bool
    """A constraint that waits for a person."""
    has_held: bool
    """It was in force at some time since it was logged, so that older ones of its signals are superseded for good."""


class OverlayLog(Spillable):
    """Grows by `append`, in the log's order."""

    __slots__ = ("_changes", "newest", "now", "overlay_id")

    def __init__(self, overlay_id: str) -> None:
        super().__init__()
        self.overlay_id = overlay_id
        self._changes: list[_Change] = []
        self.newest = PointInTime(0, -1)
        """The latest time and the sequence of what was said about it: from then on all of it counts."""
        self.now: Standing | None = None
        """How all that was said about it has it; None before it was logged."""

    @property
    def size_bytes(self) -> int:
        """As `Spillable`."""
        return _LOG_BYTES + sum(_size_bytes(change) for change in self._changes)

    def packed(self) -> bytes:
        """As `Spillable`."""
        rows = [[*change[:4], change.artifact and change.artifact.columns(), *change[5:]] for change in self._changes]
        return pack([self.overlay_id, *self.newest, rows])

    @staticmethod
    def unpacked(data: bytes) -> OverlayLog:
        """The log that was packed."""
        overlay_id, newest_us, newest_seq, rows = unpack(data)
        log = OverlayLog(overlay_id)
        log.newest = PointInTime(newest_us, newest_seq)
        log._changes = [
            _Change(seq, at_us, intern(kind), name, columns and KeptArtifact.restored(columns), *rest)
            for seq, at_us, kind, name, columns, *rest in rows
        ]
        log.now = _folded(log._changes)
        return log

    @property
    def change_count(self) -> int:
        """Entries about it."""
        return len(self._changes)

    @property
    def first_seq(self) -> int:
        """Its place in append order."""
        return self._changes[0].seq

    @property
    def subjects(self) -> set[str]:
        """Every signal that it ever rested on, and every rule that it ever was."""
        return {one for change in self._changes if change.artifact for one in change.artifact.subjects}

    @property
    def stated(self) -> set[str]:
        """Every signal that it ever rested on as a statement."""
        made = (change.artifact for change in self._changes if change.artifact is not None)
        return {signal_id for one in made if one.is_stated for signal_id in one.source_signal_ids}

    @property
    def was_switched(self) -> bool:
        """Whether a person ever switched it."""
        return any(change.kind in _SWITCHES for change in self._changes)

    def append(self, fact: Fact) -> bool:
        """Whether this entry was new here: its place in the record tells, and the id of a change."""
        if any(one.seq == fact.seq for one in self._changes):
            return False
        if fact.artifact is None and self.has_change(fact.submission_id):
            return False
        kept = None if fact.artifact is None else KeptArtifact(fact.artifact)
        who = intern(fact.principal or ""), intern(fact.door)
        change = _Change(fact.seq, fact.at_us, fact.kind, fact.submission_id, kept, fact.weight, *who)
        self._changes.append(change)
        self._changes.sort(key=lambda one: one.seq)
        newest_us = max(self.newest.at_us, change.at_us) if self.newest.seq >= 0 else change.at_us
        self.newest = PointInTime(newest_us, max(self.newest.seq, change.seq))
        self.now = _folded(self._changes)
        return True

    def standing(self, as_of: PointInTime) -> Standing | None:
        """How it stands as of then; None before it was logged."""
        if as_of.at_us >= self.newest.at_us and as_of.seq >= self.newest.seq:
            return self.now
        return _folded(self._counted(as_of))

    def overlay(self, as_of: PointInTime, *, is_superseded: bool) -> Overlay | None:
        """The artifact as of then, with the entries that changed it; None before it was logged."""
        standing = self.standing(as_of)
        if standing is None:
            return None
        state = state_of(standing, timestamp_of(as_of.at_us), is_superseded=is_superseded)
        return self.shown(standing, state, as_of)

    def shown(self, standing: Standing, state: OverlayState, as_of: PointInTime) -> Overlay:
        """How it stands as of then, as an answer has it."""
        return Overlay(
            overlay_id=self.overlay_id,
            artifact=standing.artifact.whole(),
            state=state,
            is_active=state == "active",
            changes=[
                ChangeSaid(entry_id=one.submission_id, principal=one.principal, door=one.door)
                for one in self._counted(as_of)[1:]
            ],
        )

    def is_repeat(self, artifact: Artifact) -> bool:
        """Whether exactly this, its times included, was logged before: then it is that message once more."""
        return any(change.artifact is not None and change.artifact.is_as_logged(artifact) for change in self._changes)

    def has_change(self, submission_id: str) -> bool:
        """Whether this change is here."""
        return any(change.artifact is None and change.submission_id == submission_id for change in self._changes)

    def last_switch(self, as_of: PointInTime) -> tuple[int, bool]:
        """The sequence of a person's last word on whether it is off, and that word; (-1, False): there is none.

        A statement that is made anew is one, too.
        """
        for change in reversed(self._counted(as_of)):
            if change.kind in _SWITCHES:
                return change.seq, change.kind == "deactivated"
            if change.artifact is not None and change.artifact.is_stated:
                return change.seq, False
        return -1, False

    def _counted(self, as_of: PointInTime) -> list[_Change]:
        return [change for change in self._changes if change.at_us <= as_of.at_us and change.seq <= as_of.seq]


def _size_bytes(change: _Change) -> int:
    kept_bytes = 0 if change.artifact is None else change.artifact.size_bytes
    return _CHANGE_BYTES + len(change.submission_id) + kept_bytes


def is_stated(artifact: Artifact) -> bool:
    """Whether somebody said it, and no gate and no model stand behind it."""
    return artifact.gate_snapshot is None


def waits(standing: Standing | None) -> bool:
    """Whether it is there, and waits for a person: what is off does not."""
    return standing is not None and standing.is_pending and standing.artifact.enabled


def state_of(standing: Standing, as_of_ts: str, *, is_superseded: bool) -> OverlayState:
    """Why an artifact may stand in prompts or not; at its very expiry it still may."""
    artifact = standing.artifact
    if not artifact.enabled:
        return "off"
    if standing.is_pending:
        return "pending"
    if artifact.weight <= 0:
        return "silent"
    # Timestamps have one width, so that the order of texts is that of times.
    if artifact.expires_at_event_ts is not None and artifact.expires_at_event_ts < as_of_ts:
        return "expired"
    return "superseded" if is_superseded else "active"


def _folded(changes: Iterable[_Change]) -> Standing | None:
    standing: Standing | None = None
    for change in changes:
        if change.artifact is not None:
            made, is_pending = change.artifact, change.artifact.artifact_type == "constraint"
            place = PointInTime(change.at_us, change.seq)
            standing = Standing(made, place, is_pending, has_held=made.enabled and not is_pending)
        elif standing is not None:
            standing = _changed(standing, change)
    return standing


def _changed(standing: Standing, change: _Change) -> Standing:
    artifact = standing.artifact
    match change.kind:
        case "weight":
            return standing._replace(artifact=artifact.changed(weight=change.weight))
        case "deactivated":
            return standing._replace(artifact=artifact.changed(enabled=False))
        case "activated":
            on = standing._replace(artifact=artifact.changed(enabled=True))
        case _:
            on = standing._replace(is_pending=False)
    return on._replace(has_held=on.has_held or (on.artifact.enabled and not on.is_pending))
