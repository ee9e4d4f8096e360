"""The memory of one agent: what its entries of the record add up to, and every question that can be asked of it.

Namespaced by agent: nothing here knows of another agent. All answers are functions of the facts applied and of the
moment asked about; how many entries the record has does not matter to them.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from functools import cache, partial
from operator import attrgetter

from hobus.actors.ho3_memory.event_time import PointInTime, decay, micros, timestamp_of
from hobus.actors.ho3_memory.evidence import NOTHING, Level, SignalEvent
from hobus.actors.ho3_memory.gate import GateFacts, judge
from hobus.actors.ho3_memory.overlay_log import OverlayLog, is_active
from hobus.actors.ho3_memory.records import Fact
from hobus.actors.ho3_memory.signal_log import EventTally, SignalLog
from hobus.bus.messages.ids import overlay_id
from hobus.bus.messages.memory import Accumulator, Artifact, Bias, GateResult, Overlay
from hobus.config.schema import Ho3Config

_NO_EVENT = EventTally(0, 0, None)
_FIRST_SEQ = attrgetter("first_seq")


class AgentMemory:
    """Grows by `apply`; a fact that is here already changes nothing."""

    def __init__(self, agent_id: str, config: Ho3Config) -> None:
        self.agent_id = agent_id
        self._config = config
        self._event_ids: set[str] = set()
        self._entries: set[str] = set()  # submission ids of everything that is no signal
        self._signals: dict[str, SignalLog] = {}
        self._overlays: dict[str, OverlayLog] = {}  # by artifact id
        self._resting_on: dict[str, list[str]] = {}  # signal -> ids of artifacts that name it, in append order
        self._windows: dict[str, list[tuple[int, int]]] = {}  # signal -> (window_end, sequence) of its overlays, sorted
        self._failures: dict[str, list[tuple[int, int]]] = {}  # signal -> (time, sequence) of failures, sorted

    # --- growing ----------------------------------------------------------------------------------------------------

    def apply(self, fact: Fact) -> bool:
        """Whether it was new here."""
        if fact.kind == "signal":
            return self._apply_signal(fact)
        if fact.submission_id in self._entries:
            return False
        self._entries.add(fact.submission_id)
        if fact.kind == "failure":
            insort(self._failures.setdefault(fact.about, []), (fact.at_us, fact.seq))
            return True
        if fact.artifact is not None:
            self._note_sources(fact.artifact, fact.seq)
        self._log_of(fact.about).append(fact)
        return True

    def _apply_signal(self, fact: Fact) -> bool:
        event_id = fact.submission_id.removeprefix(f"HO3_SIGNAL:{self.agent_id}/")
        if event_id in self._event_ids:
            return False
        self._event_ids.add(event_id)
        log = self._signals.get(fact.about)
        if log is None:
            log = self._signals[fact.about] = SignalLog(fact.about, self._config)
        log.insert(SignalEvent(fact.at_us, event_id, fact.session_id, fact.seq))
        return True

    def _note_sources(self, artifact: Artifact, seq: int) -> None:
        for signal_id in dict.fromkeys(artifact.source_signal_ids):
            insort(self._windows.setdefault(signal_id, []), (micros(artifact.window_end), seq))
            if artifact.artifact_id not in self._overlays:
                self._resting_on.setdefault(signal_id, []).append(artifact.artifact_id)

    def _log_of(self, artifact_id: str) -> OverlayLog:
        log = self._overlays.get(artifact_id)
        if log is None:
            log = self._overlays[artifact_id] = OverlayLog(overlay_id(self.agent_id, artifact_id))
        return log

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    def event_count(self) -> int:
        """Source events, of all signals."""
        return len(self._event_ids)

    def unknown_events(self, event_ids: list[str]) -> list[str]:
        """The ids, of these, of events that were never logged."""
        return [event_id for event_id in event_ids if event_id not in self._event_ids]

    def has_entry(self, submission_id: str) -> bool:
        """Whether this entry (not a signal's) is here."""
        return submission_id in self._entries

    def overlay_log(self, artifact_id: str) -> OverlayLog | None:
        """An artifact's life."""
        return self._overlays.get(artifact_id)

    # --- questions --------------------------------------------------------------------------------------------------

    def signals(
        self, as_of: PointInTime, *, signal_id: str | None, min_count: int, with_ids: bool
    ) -> list[Accumulator]:
        """Accumulators with at least so many events, sorted by signal id."""
        asked = sorted(self._signals) if signal_id is None else [signal_id]
        found = [self.accumulator(name, as_of, with_ids=with_ids) for name in asked]
        return [one for one in found if one is not None and one.count >= min_count]

    def accumulator(self, signal_id: str, as_of: PointInTime, *, with_ids: bool) -> Accumulator | None:
        """One signal's; None before its first event."""
        log = self._signals.get(signal_id)
        return None if log is None else log.accumulate(as_of, with_ids=with_ids)

    def gate(self, signal_id: str, as_of: PointInTime) -> GateResult:
        """The gate of a signal, known or not."""
        log = self._signals.get(signal_id)
        facts = GateFacts(
            tally=_NO_EVENT if log is None else log.tally(as_of),
            level=self._level(signal_id, as_of),
            consolidated_us=_newest(self._windows.get(signal_id), as_of),
            failed_us=_newest(self._failures.get(signal_id), as_of),
        )
        return judge(signal_id, facts, as_of.at_us, self._config)

    def overlays(self, as_of: PointInTime, *, signal_id: str | None, active_only: bool) -> list[Overlay]:
        """The overlays as of then, in append order; of one signal, if that is named."""
        asked = self._overlays if signal_id is None else self._resting_on.get(signal_id, [])
        logs = sorted((self._overlays[artifact_id] for artifact_id in asked), key=_FIRST_SEQ)
        found = [log.overlay(as_of) for log in logs]
        return [one for one in found if one is not None and (one.is_active or not active_only)]

    def active_biases(self, as_of: PointInTime, session_id: str | None) -> list[Bias]:
        """What may go into a prompt, in append order."""
        as_of_ts = timestamp_of(as_of.at_us)
        standing = cache(partial(self.standing, as_of=as_of))  # each is looked at once, whatever rests on it
        found: list[Bias] = []
        for log in sorted(self._overlays.values(), key=_FIRST_SEQ):
            artifact = log.artifact(as_of)
            if artifact is None or not is_active(artifact, as_of_ts):
                continue
            if artifact.scope == "session" and artifact.session_id != (session_id or ""):
                continue
            behind = [standing(signal_id) for signal_id in artifact.source_signal_ids]
            share = max(weight for weight, _ in behind)
            # In mode bistable a learned line needs one of its gates still open; a stated one stands by itself.
            has_evidence = artifact.gate_snapshot is None or any(is_open for _, is_open in behind)
            if share >= self._config.bias_decay_floor and has_evidence:
                found.append(Bias(overlay_id=log.overlay_id, artifact=artifact, decay=share))
        return found

    def counts(self, as_of: PointInTime) -> tuple[int, int, int, int]:
        """Signals, events, overlays, and how many of them are active."""
        tallies = [log.tally(as_of).event_count for log in self._signals.values()]
        artifacts = [log.artifact(as_of) for log in self._overlays.values()]
        as_of_ts = timestamp_of(as_of.at_us)
        there = [artifact for artifact in artifacts if artifact is not None]
        active_count = sum(is_active(artifact, as_of_ts) for artifact in there)
        return sum(count > 0 for count in tallies), sum(tallies), len(there), active_count

    def failure_times(self, signal_id: str) -> list[int]:
        """When consolidations of a signal failed, in order of event time."""
        return [at_us for at_us, _ in self._failures.get(signal_id, [])]

    def standing(self, signal_id: str, as_of: PointInTime) -> tuple[float, bool]:
        """What a signal weighs, 0 without an event; and whether its evidence stands (always, where gates count)."""
        log = self._signals.get(signal_id)
        last_us = None if log is None else log.tally(as_of).last_us
        share = 0.0 if last_us is None else decay(last_us, as_of.at_us, self._config.decay_half_life_hours)
        level = self._level(signal_id, as_of)
        return share, level is None or level.is_open

    def _level(self, signal_id: str, as_of: PointInTime) -> Level | None:
        """None where the gate counts."""
        if self._config.gate_mode == "counting":
            return None
        log = self._signals.get(signal_id)
        return NOTHING if log is None else log.level(as_of)


def _newest(timed: list[tuple[int, int]] | None, as_of: PointInTime) -> int | None:
    """The latest time among entries that count; `timed` holds (time, sequence), sorted."""
    if not timed:
        return None
    until = timed[: bisect_right(timed, as_of.at_us, key=lambda one: one[0])]
    return next((at_us for at_us, seq in reversed(until) if seq <= as_of.seq), None)
