"""Everything that was ever learned for one agent: each artifact's life, and how all of them stand as of a moment."""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from functools import cache, partial
from hashlib import sha256

from hobus.actors.ho3_memory.event_time import PointInTime, micros, newest_time, timestamp_of
from hobus.actors.ho3_memory.kept_artifact import KeptArtifact
from hobus.actors.ho3_memory.overlay_log import OverlayLog, Standing, state_of
from hobus.actors.ho3_memory.records import Fact
from hobus.actors.ho3_memory.shelf import Shelf
from hobus.bus.messages.base import made_of
from hobus.bus.messages.ids import overlay_id
from hobus.bus.messages.memory import InForce, Overlay, OverlayState
from hobus.config.schema import Ho3Config

_Whose = tuple[str | None, str]
"""A principal (None: everybody) and a signal of its."""


class Artifacts:
    """Grows by `change`."""

    def __init__(self, agent_id: str, config: Ho3Config) -> None:
        self._agent_id = agent_id
        self._page_max = config.page_max
        self._overlays: dict[str, OverlayLog] = {}  # by artifact id
        self._shelves: dict[str | None, Shelf] = {}
        self._resting_on: dict[str, dict[str, None]] = {}  # signal -> ids of artifacts that name it
        self._switched: dict[_Whose, dict[str, None]] = {}  # ids of those of them that a person ever switched
        self._windows: dict[_Whose, list[tuple[int, int]]] = {}  # (window_end, sequence) of its overlays, sorted
        self._lines: OrderedDict[str, tuple[KeptArtifact, InForce]] = OrderedDict()  # as prompts need them

    def change(self, fact: Fact) -> bool:
        """An artifact was logged, or a person said something of it; whether it was new, in any order."""
        log = self._overlays.get(fact.about)
        if log is None:
            log = self._overlays[fact.about] = OverlayLog(overlay_id(self._agent_id, fact.about))
        if not log.append(fact):
            return False
        if fact.artifact is not None:
            for signal_id in dict.fromkeys(fact.artifact.source_signal_ids):
                whose = (fact.artifact.principal, signal_id)
                insort(self._windows.setdefault(whose, []), (micros(fact.artifact.window_end), fact.seq))
                self._resting_on.setdefault(signal_id, {})[fact.about] = None
        if log.now is None:
            return True
        made = log.now.artifact
        self._shelves.setdefault(made.principal, Shelf()).put(log)
        if log.was_switched:
            for signal_id in made.source_signal_ids:
                self._switched.setdefault((made.principal, signal_id), {})[fact.about] = None
        return True

    def log(self, artifact_id: str) -> OverlayLog | None:
        """An artifact's life."""
        return self._overlays.get(artifact_id)

    def consolidated_us(self, signal_id: str, principal: str | None, as_of: PointInTime) -> int | None:
        """The latest window_end of what names a principal's signal; None: nothing does."""
        return newest_time(self._windows.get((principal, signal_id)), as_of)

    def switched_off(self, signal_id: str, principal: str | None, as_of: PointInTime) -> str:
        """The artifact with which a person switched a principal's signal off; empty: nobody did, or it is on again.

        The last word decides, in the log's order.
        """
        last = (-1, False, "")
        for artifact_id in self._switched.get((principal, signal_id), {}):
            last = max(last, (*self._overlays[artifact_id].last_switch(as_of), artifact_id))
        return last[2] if last[1] else ""

    def standing(
        self, principal: str | None, as_of: PointInTime, signal_ids: Collection[str] | None
    ) -> list[tuple[OverlayLog, Standing]]:
        """What of a principal's no newer one has superseded, as `Shelf.standing`."""
        shelf = self._shelves.get(principal)
        return [] if shelf is None else shelf.standing(as_of, signal_ids)

    def overlays(
        self, as_of: PointInTime, *, signal_id: str | None, principal: str | None, active_only: bool, after: int = -1
    ) -> Iterator[Overlay]:
        """The overlays as of then behind this place in append order; of one signal or principal, if that is named."""
        as_of_ts = timestamp_of(as_of.at_us)
        for log, standing in self._standing(as_of, signal_id=signal_id, principal=principal, after=after):
            shelf = self._shelves[standing.artifact.principal]
            is_superseded = shelf.is_superseded(log, standing, as_of)
            state = state_of(standing, as_of_ts, is_superseded=is_superseded)
            if state == "active" or not active_only:
                yield log.shown(standing, state, as_of)

    def _states(
        self, as_of: PointInTime, *, principal: str | None = None
    ) -> Iterator[tuple[OverlayLog, Standing, OverlayState]]:
        """Every overlay's, at the cost of all of them."""
        as_of_ts, superseded = timestamp_of(as_of.at_us), cache(partial(self._superseded, as_of))
        for log, standing in self._standing(as_of, principal=principal):
            is_superseded = log.overlay_id in superseded(standing.artifact.principal)
            yield log, standing, state_of(standing, as_of_ts, is_superseded=is_superseded)

    def _superseded(self, as_of: PointInTime, principal: str | None) -> set[str]:
        return self._shelves[principal].superseded(as_of)

    def _standing(
        self, as_of: PointInTime, *, signal_id: str | None = None, principal: str | None = None, after: int = -1
    ) -> Iterator[tuple[OverlayLog, Standing]]:
        """What was there as of then, in append order; of a principal at no cost of the others."""
        logs: Iterable[OverlayLog] = self._overlays.values()
        if signal_id is not None:
            logs = (self._overlays[name] for name in self._resting_on.get(signal_id, ()))
        elif principal is not None:
            logs = self._shelves[principal].logs if principal in self._shelves else ()
        for log in sorted((one for one in logs if one.first_seq > after), key=lambda one: one.first_seq):
            standing = log.standing(as_of)
            if standing is not None and principal in (None, standing.artifact.principal):
                yield log, standing

    def states(self, as_of: PointInTime) -> list[OverlayState]:
        """Of all that were there as of then."""
        return [state for _, _, state in self._states(as_of)]

    def pending(self, as_of: PointInTime, principal: str | None) -> list[Overlay]:
        """What waits for a person, in append order; the newest `ho3.page_max`."""
        found = [one for one in self._states(as_of, principal=principal) if one[2] == "pending"]
        return [log.shown(standing, state, as_of) for log, standing, state in found[-self._page_max :]]

    def line(self, log: OverlayLog, kept: KeptArtifact) -> InForce:
        """An artifact as a prompt needs it, its events as number and digest."""
        known = self._lines.get(log.overlay_id)
        if known is None or known[0] is not kept:
            artifact = kept.whole()
            ids = "".join(f"{event_id}\n" for event_id in sorted(artifact.source_event_ids))
            digest, count = sha256(ids.encode()).hexdigest(), len(artifact.source_event_ids)
            known = kept, made_of(InForce, artifact, source_event_count=count, source_event_digest=digest)
            self._lines[log.overlay_id] = known
            if len(self._lines) > self._page_max:
                self._lines.popitem(last=False)
        return known[1]
