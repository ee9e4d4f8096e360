"""The artifacts of one principal, or everybody's, and which of them newer ones have superseded.

A newer artifact of the same signal stands for the older one from its own event time on, so that what is learned again
and again is one line and not ten near-doubles. What has once held supersedes for good: switched off, it does not bring
the older one back. What waits for a person, or was rejected, supersedes nothing. An artifact of several signals is
superseded once each of them has a newer one; one for a session alone supersedes in that session alone.
"""

from __future__ import annotations

from hobus.actors.ho3_memory.event_time import PointInTime
from hobus.actors.ho3_memory.overlay_log import OverlayLog, Standing

_EVERYWHERE = ""
_NOTHING = frozenset[str]()
_NEVER = PointInTime(0, -1)


class Shelf:
    """Grows by `put`; a log that is on it has to be told again when it has changed."""

    def __init__(self) -> None:
        self._logs: dict[str, OverlayLog] = {}
        self._newest = _NEVER
        self._left: list[OverlayLog] | None = None  # what no newer one has superseded, as of the latest moment

    def put(self, log: OverlayLog) -> None:
        """This artifact is here, and has just changed."""
        self._logs[log.overlay_id] = log
        self._newest = PointInTime(max(self._newest.at_us, log.newest.at_us), max(self._newest.seq, log.newest.seq))
        self._left = None

    def standing(self, as_of: PointInTime) -> list[tuple[OverlayLog, Standing]]:
        """What no newer one has superseded as of then, in append order; in any other state it may be."""
        if as_of.at_us < self._newest.at_us or as_of.seq < self._newest.seq:
            return _not_superseded(list(self._logs.values()), as_of)
        if self._left is None:
            self._left = [log for log, _ in _not_superseded(list(self._logs.values()), as_of)]
        return [(log, found) for log in self._left if (found := log.standing(as_of)) is not None]

    def superseded(self, as_of: PointInTime) -> set[str]:
        """Ids of the overlays that newer ones have superseded."""
        return self._logs.keys() - {log.overlay_id for log, _ in self.standing(as_of)}


def _not_superseded(logs: list[OverlayLog], as_of: PointInTime) -> list[tuple[OverlayLog, Standing]]:
    there = [(log, found) for log in logs if (found := log.standing(as_of)) is not None]
    there.sort(key=lambda one: one[1].made, reverse=True)
    covered: dict[str, set[str]] = {}
    left: list[tuple[OverlayLog, Standing]] = []
    for log, found in there:
        artifact = found.artifact
        reach = artifact.session_id or _EVERYWHERE
        newer = covered.get(_EVERYWHERE, _NOTHING), covered.get(reach, _NOTHING)
        if not all(any(signal_id in one for one in newer) for signal_id in artifact.source_signal_ids):
            left.append((log, found))
        if found.has_held:
            covered.setdefault(reach, set()).update(artifact.source_signal_ids)
    left.sort(key=lambda one: one[0].first_seq)
    return left
