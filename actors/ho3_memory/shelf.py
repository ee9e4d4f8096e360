"""The artifacts of one principal, or everybody's, and which of them newer ones have superseded.

A newer artifact of the same signal stands for the older one from its own event time on, so that what is learned again
and again is one line and not ten near-doubles. What has once held supersedes for good: switched off, it does not bring
the older one back. What waits for a person, or was rejected, supersedes nothing. An artifact of several signals is
superseded once each of them has a newer one; one for a session alone supersedes in that session alone. A constraint
also stands for an older one of the same words that holds in the same place, whatever both rest on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from hobus.actors.ho3_memory.event_time import PointInTime
from hobus.actors.ho3_memory.overlay_log import OverlayLog, Standing

_EVERYWHERE = ""
_NEVER = PointInTime(0, -1)
_Held = dict[tuple[str, str], PointInTime]
"""(a session, or everywhere; a signal or a rule) -> when the newest artifact of it was made that has ever held."""


class Shelf:
    """Grows by `put`; what it says as of the latest moment is kept, so that a prompt costs what is in it."""

    def __init__(self) -> None:
        self._logs: dict[str, OverlayLog] = {}
        self._about: dict[str, set[str]] = {}  # signal or rule -> ids of all that ever had it
        self._newest = _NEVER
        self._held: _Held = {}
        self._left: dict[str, OverlayLog] | None = {}  # what no newer one has superseded; None: to be looked at anew
        self._resting: dict[str, set[str]] = {}  # signal or rule -> those of them that have it
        self._holding: dict[str, Standing] = {}  # those that have ever held, as they stand in `_held`

    def put(self, log: OverlayLog) -> None:
        """This artifact is here, and has just changed."""
        self._logs[log.overlay_id] = log
        for subject in log.subjects:
            self._about.setdefault(subject, set()).add(log.overlay_id)
        self._newest = PointInTime(max(self._newest.at_us, log.newest.at_us), max(self._newest.seq, log.newest.seq))
        now = log.now
        if now is None or not _goes_on(self._holding.get(log.overlay_id), now):
            self._left = None
            return
        if now.has_held:
            self._holding[log.overlay_id] = now
            _note(self._held, now)
        if self._left is not None:
            self._leave(self._left, log, now)
            self._look_again(self._left, now)

    def _leave(self, left: dict[str, OverlayLog], log: OverlayLog, now: Standing) -> None:
        self._rests_no_more(log)  # logged again it may rest on others
        left[log.overlay_id] = log
        for subject in now.artifact.subjects:
            self._resting.setdefault(subject, set()).add(log.overlay_id)

    def _rests_no_more(self, log: OverlayLog) -> None:
        for subject in log.subjects & self._resting.keys():
            self._resting[subject].discard(log.overlay_id)

    def _look_again(self, left: dict[str, OverlayLog], put: Standing) -> None:
        """Only what has a signal, or the rule, of this one can have been superseded by it, itself included."""
        near = set[str]().union(*(self._resting.get(one, ()) for one in put.artifact.subjects))
        for overlay_id in near:
            now = left[overlay_id].now
            if now is None or not _is_left(now, self._held):
                self._rests_no_more(left.pop(overlay_id))

    def standing(
        self, as_of: PointInTime, signal_ids: Collection[str] | None = None
    ) -> list[tuple[OverlayLog, Standing]]:
        """What no newer one has superseded as of then, in append order; in any other state it may be.

        With `signal_ids` of that only what rests on one of these, at the cost of these.
        """
        if as_of.at_us < self._newest.at_us or as_of.seq < self._newest.seq:
            return _in_order(self._stood(as_of, signal_ids))
        left = self._kept_left(as_of)
        if signal_ids is None:
            logs = list(left.values())
        else:
            near = {overlay_id for one in signal_ids for overlay_id in self._resting.get(one, ())}
            logs = [left[overlay_id] for overlay_id in near]
        return _in_order([(log, log.now) for log in logs if log.now is not None])

    def _stood(self, as_of: PointInTime, signal_ids: Collection[str] | None) -> list[tuple[OverlayLog, Standing]]:
        if signal_ids is None:
            return _not_superseded(self._logs.values(), as_of)[0]
        near = {overlay_id for one in signal_ids for overlay_id in self._about.get(one, ())}
        # What supersedes one of them has a signal of its, or its rule.
        theirs = {subject for overlay_id in near for subject in self._logs[overlay_id].subjects}
        beside = {overlay_id for one in theirs for overlay_id in self._about[one]}
        found, _ = _not_superseded((self._logs[overlay_id] for overlay_id in beside), as_of)
        asked = set(signal_ids)
        return [one for one in found if not asked.isdisjoint(one[1].artifact.source_signal_ids)]

    def _kept_left(self, as_of: PointInTime) -> dict[str, OverlayLog]:
        if self._left is not None:
            return self._left
        left, self._held = _not_superseded(self._logs.values(), as_of)
        self._left, self._resting = {}, {}
        for log, now in left:
            self._leave(self._left, log, now)
        self._holding = {log.overlay_id: log.now for log in self._logs.values() if log.now and log.now.has_held}
        return self._left

    @property
    def logs(self) -> Collection[OverlayLog]:
        """All that ever stood here."""
        return self._logs.values()

    def is_superseded(self, log: OverlayLog, standing: Standing, as_of: PointInTime) -> bool:
        """Whether newer ones have superseded this one, which stood like this as of then; at the cost of its signals."""
        if as_of.at_us < self._newest.at_us or as_of.seq < self._newest.seq:
            left = self._stood(as_of, standing.artifact.source_signal_ids)
            return all(one is not log for one, _ in left)
        return log.overlay_id not in self._kept_left(as_of)

    def superseded(self, as_of: PointInTime) -> set[str]:
        """Ids of the overlays that newer ones have superseded, of all."""
        return self._logs.keys() - {log.overlay_id for log, _ in self.standing(as_of)}


def _goes_on(before: Standing | None, now: Standing) -> bool:
    """Whether it supersedes all that it did: not so a constraint that is logged anew, and waits again."""
    if before is None:
        return True
    was, is_now = before.artifact, now.artifact
    is_same = (was.subjects, was.session_id) == (is_now.subjects, is_now.session_id)
    return is_same and now.has_held and now.made >= before.made


def _not_superseded(logs: Iterable[OverlayLog], as_of: PointInTime) -> tuple[list[tuple[OverlayLog, Standing]], _Held]:
    there = [(log, found) for log in logs if (found := log.standing(as_of)) is not None]
    held: _Held = {}
    for _, found in there:
        if found.has_held:
            _note(held, found)
    return [(log, found) for log, found in there if _is_left(found, held)], held


def _note(held: _Held, standing: Standing) -> None:
    for subject in standing.artifact.subjects:
        place = (standing.artifact.session_id or _EVERYWHERE, subject)
        held[place] = max(standing.made, held.get(place, _NEVER))


def _is_left(standing: Standing, held: _Held) -> bool:
    """Whether one of its signals at least has no newer artifact where this one reaches, nor its rule a newer one."""
    artifact = standing.artifact
    reach = artifact.session_id or _EVERYWHERE

    def is_newest(subject: str) -> bool:
        newest = max(held.get((_EVERYWHERE, subject), _NEVER), held.get((reach, subject), _NEVER))
        return newest <= standing.made

    return any(map(is_newest, artifact.source_signal_ids)) and (not artifact.rule or is_newest(artifact.rule))


def _in_order(found: list[tuple[OverlayLog, Standing]]) -> list[tuple[OverlayLog, Standing]]:
    return sorted(found, key=lambda one: one[0].first_seq)
