"""One artifact's life: logged, switched off, weighed anew, logged again; and how it stands as of a moment.

The log's order decides, not the order of event times: what was appended last wins among what counts.
"""

from __future__ import annotations

from collections.abc import Iterable

from hobus.actors.ho3_memory.event_time import PointInTime, timestamp_of
from hobus.actors.ho3_memory.records import Fact
from hobus.bus.messages.memory import Artifact, Overlay


class OverlayLog:
    """Grows by `append`, in the log's order."""

    def __init__(self, overlay_id: str) -> None:
        self.overlay_id = overlay_id
        self._changes: list[Fact] = []
        self.newest = PointInTime(0, -1)
        """The latest time and the sequence of what was said about it: from then on all of it counts."""
        self._now: Artifact | None = None

    @property
    def change_count(self) -> int:
        """Entries about it."""
        return len(self._changes)

    @property
    def first_seq(self) -> int:
        """Its place in append order."""
        return self._changes[0].seq

    def append(self, change: Fact) -> None:
        """One entry that is not here yet."""
        self._changes.append(change)
        self._changes.sort(key=lambda one: one.seq)
        newest_us = max(self.newest.at_us, change.at_us) if self.newest.seq >= 0 else change.at_us
        self.newest = PointInTime(newest_us, max(self.newest.seq, change.seq))
        self._now = _folded(self._changes)

    def artifact(self, as_of: PointInTime) -> Artifact | None:
        """The artifact with its weight and `enabled` as of then; None before it was logged."""
        if as_of.at_us >= self.newest.at_us and as_of.seq >= self.newest.seq:
            return self._now
        return _folded(self._counted(as_of))

    def overlay(self, as_of: PointInTime) -> Overlay | None:
        """The artifact as of then, with the entries that changed it; None before it was logged."""
        artifact = self.artifact(as_of)
        if artifact is None:
            return None
        return Overlay(
            overlay_id=self.overlay_id,
            artifact=artifact,
            is_active=is_active(artifact, timestamp_of(as_of.at_us)),
            changed_by=[change.submission_id for change in self._counted(as_of)][1:],
        )

    def is_repeat(self, artifact: Artifact) -> bool:
        """Whether exactly this, its times included, was logged before: then it is that message once more."""
        return any(change.artifact == artifact for change in self._changes)

    def is_off(self, as_of: PointInTime) -> bool:
        """Whether it was switched off as of then, and not logged since."""
        kinds = [change.kind for change in self._counted(as_of) if change.kind != "weight"]
        return kinds[-1:] == ["deactivated"]

    def _counted(self, as_of: PointInTime) -> list[Fact]:
        return [change for change in self._changes if change.at_us <= as_of.at_us and change.seq <= as_of.seq]


def is_active(artifact: Artifact, as_of_ts: str) -> bool:
    """Enabled, of some weight, and not expired: at its very expiry it still counts."""
    if not artifact.enabled or artifact.weight <= 0:
        return False
    # Timestamps have one width, so that the order of texts is that of times.
    return artifact.expires_at_event_ts is None or artifact.expires_at_event_ts >= as_of_ts


def _folded(changes: Iterable[Fact]) -> Artifact | None:
    artifact: Artifact | None = None
    for change in changes:
        if change.artifact is not None:
            artifact = change.artifact
        elif artifact is not None:
            changed = {"enabled": False} if change.kind == "deactivated" else {"weight": change.weight}
            artifact = artifact.model_copy(update=changed)
    return artifact
