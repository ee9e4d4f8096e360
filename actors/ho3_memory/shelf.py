"""The artifacts of one principal, or everybody's, and which of them newer ones have superseded.

A newer artifact of the same signal stands for the older one from its own event time on, so that what is learned again
and again is one line and not ten near-doubles. What has once held supersedes for good: switched off, it does not bring
the older one back. What waits for a person, or was rejected, supersedes nothing. An artifact of several signals is
superseded once each of them has a newer one; one for a session alone supersedes in that session alone. A constraint
also stands for an older one of the same words that holds in the same place, whatever both rest on.

Here are numbers; the artifacts themselves may be out of RAM, and are looked at one after the other. What this says as
of the latest moment is kept, so that a prompt costs what is in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from hobus.actors.ho3_memory.event_time import PointInTime, timestamp_of
from hobus.actors.ho3_memory.number_set import NumberSet, united
from hobus.actors.ho3_memory.overlay_log import OverlayLog, Standing, state_of, waits
from hobus.actors.ho3_memory.overlay_logs import Appended, OverlayLogs
from hobus.actors.ho3_memory.superseding import Superseding

_FOR_EVER, _AT_NO_TIME = "~", ""
"""Sort behind and before all timestamps."""


class Found(NamedTuple):
    """An artifact as of a moment."""

    number: int
    log: OverlayLog
    standing: Standing


class Shelf:
    """Grows by `put`."""

    def __init__(self, logs: OverlayLogs) -> None:
        self._logs = logs
        self.numbers = NumberSet()
        """All that ever stood here."""
        self.stated = set[str]()
        """Signals on which something rests here that was stated."""
        self._about: dict[str, NumberSet] = {}  # signal or rule -> all that ever had it
        self._newest = PointInTime(0, -1)
        self._superseding = Superseding()
        self.left: dict[int, str] = {}
        """What no newer one has superseded, and until when it is active."""
        self._resting: dict[str, NumberSet] = {}  # signal or rule -> those of them that have it
        self._waiting = set[int]()  # for a person
        self._then: tuple[PointInTime, Superseding] | None = None  # as of the earlier moment that was asked about last

    def put(self, said: Appended, now: Standing) -> None:
        """This artifact is here, and stands like this now."""
        self._then = None
        self.numbers.add(said.number)
        for subject in said.log.subjects:
            self._about.setdefault(subject, NumberSet()).add(said.number)
        self.stated |= said.log.stated
        newest = said.log.newest
        self._newest = PointInTime(max(self._newest.at_us, newest.at_us), max(self._newest.seq, newest.seq))
        if waits(now):
            self._waiting.add(said.number)
        else:
            self._waiting.discard(said.number)
        if said.before is not None and not _goes_on(said.before, now):
            self._look_anew({*said.before.artifact.subjects, *now.artifact.subjects})
            return
        self._superseding.note(now)
        self._leave(said.number, said.log, now)
        # Only what has a signal, or the rule, of this one can have been superseded by it, itself included.
        self._judge(self._near(self._resting, now.artifact.subjects))

    def _look_anew(self, subjects: Collection[str]) -> None:
        """What of these has held is less than before; whatever has one of them may have come back."""
        near = self._near(self._about, subjects)
        self._superseding.forget(subjects)
        for found in self._as_now(near):
            self._superseding.note(found.standing, only=subjects)
        self._judge(near)

    def _judge(self, numbers: Iterable[int]) -> None:
        for found in self._as_now(numbers):
            if self._superseding.leaves(found.standing):
                self._leave(found.number, found.log, found.standing)
            elif self.left.pop(found.number, None) is not None:
                self._rests_no_more(found.number, found.log)

    def _leave(self, number: int, log: OverlayLog, now: Standing) -> None:
        self._rests_no_more(number, log)  # logged again it may rest on others
        self.left[number] = _active_until(now)
        for subject in now.artifact.subjects:
            self._resting.setdefault(subject, NumberSet()).add(number)

    def _rests_no_more(self, number: int, log: OverlayLog) -> None:
        for subject in log.subjects & self._resting.keys():
            self._resting[subject].discard(number)

    def standing(self, as_of: PointInTime, signal_ids: Collection[str] | None = None) -> Iterator[Found]:
        """What no newer one has superseded as of then, in append order; in any other state it may be.

        With `signal_ids` of that only what rests on one of these, at the cost of these.
        """
        if not self._is_latest(as_of):
            return self._stood(as_of, signal_ids)
        numbers = self.left if signal_ids is None else self._near(self._resting, signal_ids)
        return self._as_now(self._logs.in_order(numbers))

    def _stood(self, as_of: PointInTime, signal_ids: Collection[str] | None) -> Iterator[Found]:
        if signal_ids is None:
            superseding = self._superseding_then(as_of)
            everything = self._as_of(self._logs.in_order(self.numbers), as_of)
            yield from (found for found in everything if superseding.leaves(found.standing))
            return
        # What supersedes one of them has a signal of its, or its rule.
        theirs = {one for number in self._near(self._about, signal_ids) for one in self._logs[number].subjects}
        beside, asked = self._logs.in_order(self._near(self._about, theirs)), set(signal_ids)
        superseding = self._superseding_among(beside, as_of)
        for found in self._as_of(beside, as_of):
            if superseding.leaves(found.standing) and not asked.isdisjoint(found.standing.artifact.source_signal_ids):
                yield found

    def _superseding_then(self, as_of: PointInTime) -> Superseding:
        if self._then is None or self._then[0] != as_of:
            self._then = as_of, self._superseding_among(self.numbers, as_of)
        return self._then[1]

    def _superseding_among(self, numbers: Iterable[int], as_of: PointInTime) -> Superseding:
        superseding = Superseding()
        for found in self._as_of(numbers, as_of):
            superseding.note(found.standing)
        return superseding

    def _as_of(self, numbers: Iterable[int], as_of: PointInTime) -> Iterator[Found]:
        for number in numbers:
            log = self._logs[number]
            if (standing := log.standing(as_of)) is not None:
                yield Found(number, log, standing)

    def _as_now(self, numbers: Iterable[int]) -> Iterator[Found]:
        for number in numbers:
            log = self._logs[number]
            if log.now is not None:
                yield Found(number, log, log.now)

    def _near(self, resting: dict[str, NumberSet], subjects: Iterable[str]) -> set[int]:
        return united(resting[one] for one in subjects if one in resting)

    def _is_latest(self, as_of: PointInTime) -> bool:
        return as_of.at_us >= self._newest.at_us and as_of.seq >= self._newest.seq

    def is_superseded(self, number: int, standing: Standing, as_of: PointInTime) -> bool:
        """Whether newer ones have superseded this one, which stood like this as of then; at the cost of its signals."""
        if self._is_latest(as_of):
            return number not in self.left
        if self._then is not None and self._then[0] == as_of:
            return not self._then[1].leaves(standing)
        return all(found.number != number for found in self._stood(as_of, standing.artifact.source_signal_ids))

    def maybe_active(self, as_of: PointInTime) -> Iterable[int]:
        """All that may be active as of then, and perhaps others; as of an earlier moment at the cost of all."""
        if not self._is_latest(as_of):
            return (found.number for found in self._stood(as_of, None))
        as_of_ts = timestamp_of(as_of.at_us)
        return (number for number, until in self.left.items() if as_of_ts <= until)

    def maybe_pending(self, as_of: PointInTime) -> Iterable[int]:
        """All that may wait for a person as of then, and perhaps others."""
        return self._waiting if self._is_latest(as_of) else self.numbers

    def counts(self, as_of: PointInTime) -> tuple[int, int]:
        """How many there were as of then, and how many of them active."""
        if self._is_latest(as_of):
            return len(self.numbers), sum(1 for _ in self.maybe_active(as_of))
        superseding, as_of_ts = self._superseding_then(as_of), timestamp_of(as_of.at_us)
        states = [
            state_of(found.standing, as_of_ts, is_superseded=not superseding.leaves(found.standing))
            for found in self._as_of(self.numbers, as_of)
        ]
        return len(states), states.count("active")


def _goes_on(before: Standing, now: Standing) -> bool:
    """Whether it supersedes all that it did: not so a constraint that is logged anew, and waits again."""
    if not before.has_held:
        return True
    was, is_now = before.artifact, now.artifact
    is_same = (was.subjects, was.session_id) == (is_now.subjects, is_now.session_id)
    return is_same and now.has_held and now.made >= before.made


def _active_until(now: Standing) -> str:
    """The last timestamp at which it is active, unless it is superseded."""
    if state_of(now, _AT_NO_TIME, is_superseded=False) != "active":
        return _AT_NO_TIME
    return now.artifact.expires_at_event_ts or _FOR_EVER
