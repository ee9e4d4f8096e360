"""Everything that was ever learned for one agent: each artifact's life, and how all of them stand as of a moment."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator
from hashlib import sha256

from hobus.actors.ho3_memory.event_time import PointInTime, micros, timestamp_of
from hobus.actors.ho3_memory.kept_artifact import KeptArtifact
from hobus.actors.ho3_memory.number_set import NumberSet
from hobus.actors.ho3_memory.overlay_log import OverlayLog, state_of, waits
from hobus.actors.ho3_memory.overlay_logs import OverlayLogs
from hobus.actors.ho3_memory.records import Fact
from hobus.actors.ho3_memory.residence import Residence
from hobus.actors.ho3_memory.shelf import Found, Shelf
from hobus.actors.ho3_memory.signal_log import Whose
from hobus.actors.ho3_memory.timed import Timed
from hobus.bus.messages.base import made_of
from hobus.bus.messages.memory import InForce, Overlay
from hobus.config.sections.memory import Ho3Config


class Artifacts:
    """Grows by `change`."""

    def __init__(self, agent_id: str, config: Ho3Config, residence: Residence) -> None:
        self._page_max = config.page_max
        self._logs = OverlayLogs(agent_id, residence)
        self._shelves: dict[str | None, Shelf] = {}
        self._resting_on: dict[str, NumberSet] = {}  # signal -> artifacts that name it
        self._switched: dict[Whose, NumberSet] = {}  # those of them that a person ever switched
        self._windows: dict[Whose, Timed] = {}  # window_end of its overlays
        self._lines: OrderedDict[str, tuple[KeptArtifact, InForce]] = OrderedDict()  # as prompts need them

    def change(self, fact: Fact) -> bool:
        """An artifact was logged, or a person said something of it; whether it was new, in any order."""
        said = self._logs.append(fact)
        if said is None:
            return False
        if fact.artifact is not None:
            for signal_id in dict.fromkeys(fact.artifact.source_signal_ids):
                windows = self._windows.setdefault((fact.artifact.principal, signal_id), Timed())
                windows.insert(micros(fact.artifact.window_end), fact.seq)
                self._resting_on.setdefault(signal_id, NumberSet()).add(said.number)
        now = said.log.now
        if now is None:
            return True
        self._shelf(now.artifact.principal).put(said, now)
        if said.log.was_switched:
            for signal_id in now.artifact.source_signal_ids:
                self._switched.setdefault((now.artifact.principal, signal_id), NumberSet()).add(said.number)
        return True

    def _shelf(self, principal: str | None) -> Shelf:
        if principal not in self._shelves:
            self._shelves[principal] = Shelf(self._logs)
        return self._shelves[principal]

    def log(self, artifact_id: str) -> OverlayLog | None:
        """An artifact's life, as it is now."""
        number = self._logs.find(artifact_id)
        return None if number is None else self._logs[number]

    def is_superseded(self, artifact_id: str) -> bool:
        """Whether newer ones stand for it now; of one that is not known nothing does."""
        number = self._logs.find(artifact_id)
        now = None if number is None else self._logs[number].now
        return now is not None and number not in self._shelf(now.artifact.principal).left

    def consolidated_us(self, signal_id: str, principal: str | None, as_of: PointInTime) -> int | None:
        """The latest window_end of what names a principal's signal; None: nothing does."""
        windows = self._windows.get((principal, signal_id))
        return None if windows is None else windows.newest_us(as_of)

    def switched_off(self, signal_id: str, principal: str | None, as_of: PointInTime) -> str:
        """The artifact with which a person switched a principal's signal off; empty: nobody did, or it is on again.

        The last word decides, in the log's order.
        """
        switched = self._switched.get((principal, signal_id), ())
        _, is_off, number = max(
            ((*self._logs[number].last_switch(as_of), number) for number in switched), default=(-1, False, -1)
        )
        now = self._logs[number].now if is_off else None
        return "" if now is None else now.artifact.whole().artifact_id

    def standing(
        self, principal: str | None, as_of: PointInTime, signal_ids: Collection[str] | None
    ) -> Iterator[Found]:
        """What of a principal's no newer one has superseded, as `Shelf.standing`."""
        shelf = self._shelves.get(principal)
        return iter(()) if shelf is None else shelf.standing(as_of, signal_ids)

    def stated(self, principal: str | None) -> set[str]:
        """Signals of a principal's on which something rests that was stated."""
        shelf = self._shelves.get(principal)
        return set() if shelf is None else shelf.stated

    def overlays(
        self, as_of: PointInTime, *, signal_id: str | None, principal: str | None, active_only: bool, after: int = -1
    ) -> Iterator[Overlay]:
        """The overlays as of then behind this place in append order; of one signal or principal, if that is named."""
        numbers: Iterable[int] = range(len(self._logs))
        if signal_id is not None:
            numbers = self._resting_on.get(signal_id, ())
        elif active_only or principal is not None:
            shelves = self._shelves_of(principal)
            numbers = {
                one for shelf in shelves for one in (shelf.maybe_active(as_of) if active_only else shelf.numbers)
            }
        as_of_ts = timestamp_of(as_of.at_us)
        for number in self._logs.in_order(numbers, after=after):
            log = self._logs[number]
            standing = log.standing(as_of)
            if standing is None or principal not in (None, standing.artifact.principal):
                continue
            is_superseded = self._shelves[standing.artifact.principal].is_superseded(number, standing, as_of)
            state = state_of(standing, as_of_ts, is_superseded=is_superseded)
            if state == "active" or not active_only:
                yield log.shown(standing, state, as_of)

    def _shelves_of(self, principal: str | None) -> Iterable[Shelf]:
        """This one's; None: everyone's."""
        if principal is None:
            return self._shelves.values()
        return [self._shelves[principal]] if principal in self._shelves else ()

    def counts(self, as_of: PointInTime) -> tuple[int, int]:
        """How many there were as of then, and how many of them active."""
        found = [shelf.counts(as_of) for shelf in self._shelves.values()]
        return sum(count for count, _ in found), sum(active for _, active in found)

    def pending(self, as_of: PointInTime, principal: str | None) -> list[Overlay]:
        """What waits for a person, in append order; the newest `ho3.page_max`."""
        maybe = {one for shelf in self._shelves_of(principal) for one in shelf.maybe_pending(as_of)}
        waiting = (number for number in self._logs.in_order(maybe) if waits(self._logs[number].standing(as_of)))
        shown: list[Overlay] = []
        for number in deque(waiting, maxlen=self._page_max):
            log = self._logs[number]
            if (standing := log.standing(as_of)) is not None:
                shown.append(log.shown(standing, "pending", as_of))
        return shown

    def line(self, log: OverlayLog, kept: KeptArtifact) -> InForce:
        """An artifact as a prompt needs it, its events as number and digest."""
        known = self._lines.get(log.overlay_id)
        if known is None or not known[0].is_same(kept):
            artifact = kept.whole()
            ids = "".join(f"{event_id}\n" for event_id in sorted(artifact.source_event_ids))
            digest, count = sha256(ids.encode()).hexdigest(), len(artifact.source_event_ids)
            known = kept, made_of(InForce, artifact, source_event_count=count, source_event_digest=digest)
            self._lines[log.overlay_id] = known
            if len(self._lines) > self._page_max:
                self._lines.popitem(last=False)
        return known[1]
