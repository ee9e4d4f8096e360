"""One artifact's life: logged, confirmed, switched off and on, weighed anew; and how it stands as of a moment. Pure.

The log's order decides, not the order of event times: what was appended last wins among what counts. A constraint
waits for a person, each time it is logged; nobody else's word puts one into a prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hobus.actors.ho3_memory.event_time import PointInTime, format_timestamp
from hobus.bus.messages.ids import normalise_words
from hobus.bus.messages.memory import Artifact, ChangeSaid, Overlay, OverlayState

SWITCHES = ("activated", "deactivated")


class Change(NamedTuple):
    """An entry about an artifact."""

    seq: int
    at_us: int
    kind: str
    submission_id: str
    weight: float
    principal: str  # who said it, and the instance that it came from; empty: of a logging
    door: str
    artifact: Artifact | None  # of a logging


class Standing(NamedTuple):
    """An artifact as of a moment."""

    artifact: Artifact  # with its weight and `enabled` as of then
    made: PointInTime
    """When its newest logging that counts says that it was made, and where the log has that."""
    is_pending: bool
    """A constraint that waits for a person."""
    has_held: bool
    """It was in force at some time since it was logged, so that older ones of its signals are superseded for good."""


class OverlayLog:
    """All entries about one artifact, in the log's order."""

    def __init__(self, overlay_id: str, changes: Sequence[Change]) -> None:
        self.overlay_id = overlay_id
        self._changes = changes

    @property
    def change_count(self) -> int:
        return len(self._changes)

    @property
    def newest(self) -> PointInTime:
        """Return the point from which on all that was said about the artifact counts."""
        return PointInTime(max(one.at_us for one in self._changes), max(one.seq for one in self._changes))

    def standing(self, as_of: PointInTime) -> Standing | None:
        """Return how the artifact stands as of then; None before it was logged."""
        return fold(self._list_counted(as_of))

    def overlay(self, as_of: PointInTime, *, is_superseded: bool) -> Overlay | None:
        """Return the artifact as of then, with the entries that changed it; None before it was logged."""
        standing = self.standing(as_of)
        if standing is None:
            return None
        state = find_state(standing, format_timestamp(as_of.at_us), is_superseded=is_superseded)
        return Overlay(
            overlay_id=self.overlay_id,
            artifact=standing.artifact,
            state=state,
            is_active=state == "active",
            changes=[
                ChangeSaid(entry_id=one.submission_id, principal=one.principal, door=one.door)
                for one in self._list_counted(as_of)[1:]
            ],
        )

    def is_repeat(self, artifact: Artifact) -> bool:
        """Return whether exactly this, its times included, was logged before: then it is that message once more."""
        return any(change.artifact == artifact for change in self._changes)

    def has_change(self, submission_id: str) -> bool:
        return any(change.artifact is None and change.submission_id == submission_id for change in self._changes)

    def _list_counted(self, as_of: PointInTime) -> list[Change]:
        return [change for change in self._changes if change.at_us <= as_of.at_us and change.seq <= as_of.seq]


def is_stated(artifact: Artifact) -> bool:
    """Return whether somebody said it, and no gate and no model stand behind it."""
    return artifact.gate_snapshot is None


def make_rule(artifact: Artifact) -> str:
    """Return a constraint's words and where it holds; empty for any other artifact. No signal's id begins like it."""
    if artifact.artifact_type != "constraint":
        return ""
    labels = artifact.labels
    return f"={artifact.scope} {sorted(labels.domain)} {sorted(labels.task)} {normalise_words(artifact.context_line)}"


def find_state(standing: Standing, as_of_ts: str, *, is_superseded: bool) -> OverlayState:
    """Return why an artifact may stand in prompts or not; at its very expiry it still may."""
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


def fold(changes: Iterable[Change]) -> Standing | None:
    """Return how an artifact stands after these changes; None: it was not logged."""
    standing: Standing | None = None
    for change in changes:
        if change.artifact is not None:
            made, is_pending = change.artifact, change.artifact.artifact_type == "constraint"
            place = PointInTime(change.at_us, change.seq)
            standing = Standing(made, place, is_pending, has_held=made.enabled and not is_pending)
        elif standing is not None:
            standing = _apply_change(standing, change)
    return standing


def _apply_change(standing: Standing, change: Change) -> Standing:
    match change.kind:
        case "weight":
            return _with(standing, weight=change.weight)
        case "deactivated":
            return _with(standing, enabled=False)
        case "activated":
            on = _with(standing, enabled=True)
        case _:
            on = standing._replace(is_pending=False)
    return on._replace(has_held=on.has_held or (on.artifact.enabled and not on.is_pending))


def _with(standing: Standing, **changed: object) -> Standing:
    return standing._replace(artifact=standing.artifact.model_copy(update=changed))
