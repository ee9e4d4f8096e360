"""The memory of one agent: what its entries of the record add up to, and every question that can be asked of it.

Namespaced by agent: nothing here knows of another agent. Within it by principal: a signal's events, its gate and what
is made of them are one principal's own. Beside these everybody's events are counted together, where the configuration
shares a type between principals, and only then. All answers are functions of the facts applied and of the moment asked
about; how many entries the record has does not matter to them.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from functools import cache, partial
from math import inf

from hobus.actors.ho3_memory.artifacts import Artifacts
from hobus.actors.ho3_memory.event_rows import SignalEvent
from hobus.actors.ho3_memory.event_time import PointInTime, decay, newest_time, timestamp_of
from hobus.actors.ho3_memory.evidence import NOTHING, Level
from hobus.actors.ho3_memory.freshness import Freshness, open_reach_us, reach_us
from hobus.actors.ho3_memory.gate import STATED, GateFacts, Learned, judge
from hobus.actors.ho3_memory.kept_artifact import KeptArtifact
from hobus.actors.ho3_memory.names import Names
from hobus.actors.ho3_memory.overlay_log import OverlayLog, state_of
from hobus.actors.ho3_memory.records import Fact, signal_entry_id
from hobus.actors.ho3_memory.session_clock import SessionClock
from hobus.actors.ho3_memory.signal_log import EventTally, SignalLog
from hobus.bus.messages.memory import Accumulator, Bias, GateResult, Quarantined
from hobus.config.schema import Ho3Config

_NEVER_FRESH = Freshness()
_NO_EVENT = EventTally(0, 0, None)
Whose = tuple[str | None, str]
"""A principal (None: everybody) and a signal of its."""
Origin = tuple[str, str]
"""Whose an event is, and of which signal."""


class AgentMemory:
    """Grows by `apply`; a fact that is here already changes nothing."""

    def __init__(self, agent_id: str, config: Ho3Config) -> None:
        self.agent_id = agent_id
        self._config = config
        self._event_prefix = signal_entry_id(agent_id, "")
        self._recent: OrderedDict[str, SignalLog] = OrderedDict()  # where the newest events are, by event id
        self._sessions = Names()
        self._clocks: dict[str | None, SessionClock] = {}
        self._entries: set[str] = set()  # submission ids of failures and of changes of artifacts
        self._signals: dict[Whose, SignalLog] = {}
        self._fresh: dict[str | None, Freshness] = {}
        self._reach_us, self._open_reach_us = reach_us(config), open_reach_us(config)
        self._nothing = None if config.gate_mode == "counting" else NOTHING  # the level of what has no event
        self._has_clock = config.gate_mode == "bistable" and config.evidence_half_life_sessions > 0
        self.artifacts = Artifacts(agent_id, config)
        self._failures: dict[Whose, list[tuple[int, int]]] = {}  # (time, sequence), sorted
        self._refused: list[Fact] = []  # failures with a line
        self.event_count = 0
        """Source events, of all signals."""

    # --- growing ----------------------------------------------------------------------------------------------------

    def apply(self, fact: Fact) -> bool:
        """Whether it was new here."""
        if fact.kind == "signal":
            return self._apply_signal(fact)
        if fact.kind == "overlay":
            return self.artifacts.change(fact)
        if fact.submission_id in self._entries:
            return False
        self._entries.add(fact.submission_id)
        if fact.kind == "failure":
            insort(self._failures.setdefault((fact.principal, fact.about), []), (fact.at_us, fact.seq))
            if fact.line:
                self._refused.append(fact)
            return True
        return self.artifacts.change(fact)

    def _apply_signal(self, fact: Fact) -> bool:
        event_id = fact.submission_id.removeprefix(self._event_prefix)
        principal = fact.principal or ""
        event = SignalEvent(fact.at_us, event_id, fact.session_id, fact.seq, principal)
        log = self._log_of(principal, fact.about)
        if not log.insert(event):
            return False
        self.event_count += 1
        self._recent[event_id] = log
        if len(self._recent) > self._config.known_events_max:
            self._recent.popitem(last=False)
        self._note(principal, fact)
        if self._config.shared_types:
            self._log_of(None, fact.about).insert(event)
            self._note(None, fact)
        return True

    def _log_of(self, whose: str | None, signal_id: str) -> SignalLog:
        """A signal's events, of a principal or of everybody."""
        log = self._signals.get((whose, signal_id))
        if log is None:
            clock = self._clocks.setdefault(whose, SessionClock()) if self._has_clock else None
            log = SignalLog(signal_id, self._config, whose, sessions=self._sessions, clock=clock)
            self._signals[whose, signal_id] = log
        return log

    def _note(self, whose: str | None, fact: Fact) -> None:
        """This event is the newest of its signal, perhaps, and the first of its session."""
        fresh = self._fresh.setdefault(whose, Freshness())
        fresh.note(fact.about, fact.at_us)
        if not self._has_clock:
            return
        changed_us = self._clocks[whose].note(self._sessions.number(fact.session_id), fact.at_us, fact.seq)
        if changed_us is not None:
            for signal_id in fresh.since(changed_us):
                self._signals[whose, signal_id].clock_changed(changed_us)

    # --- what is known ----------------------------------------------------------------------------------------------

    def origins(self, event_ids: Iterable[str]) -> dict[str, Origin]:
        """Of these events those that are known here; of older ones the record knows."""
        known = {event_id: self._recent[event_id] for event_id in event_ids if event_id in self._recent}
        return {event_id: (log.principal or "", log.signal_id) for event_id, log in known.items()}

    def has_entry(self, submission_id: str) -> bool:
        """Whether this entry (of a failure, or a change) is here."""
        return submission_id in self._entries

    def principal_count(self, signal_id: str, as_of: PointInTime) -> int:
        """Distinct principals of a signal's events; 0 where nothing is shared."""
        return self._tally((None, signal_id), as_of).principal_count

    # --- questions --------------------------------------------------------------------------------------------------

    def signals(
        self, as_of: PointInTime, *, signal_id: str | None, principal: str | None, min_count: int, with_ids: bool
    ) -> Iterator[Accumulator]:
        """Accumulators with at least so many events, one per signal and principal, sorted by both."""
        asked = sorted(
            (name, whose)
            for whose, name in self._signals
            if whose is not None and signal_id in (None, name) and principal in (None, whose)
        )
        for name, whose in asked:
            found = self._signals[whose, name].accumulate(as_of, with_ids=with_ids)
            if found is not None and found.count >= min_count:
                yield found

    def accumulator(
        self, signal_id: str, principal: str | None, as_of: PointInTime, *, with_ids: bool
    ) -> Accumulator | None:
        """One signal's, of a principal or of everybody; None before its first event."""
        log = self._signals.get((principal, signal_id))
        return None if log is None else log.accumulate(as_of, with_ids=with_ids)

    def gate(self, signal_id: str, principal: str | None, as_of: PointInTime) -> GateResult:
        """The gate of a signal, known or not: on a principal's own events, or on everybody's."""
        whose = (principal, signal_id)
        log = self._signals.get(whose)
        tally, level = (_NO_EVENT, self._nothing) if log is None else log.judged(as_of)
        facts = GateFacts(
            tally=tally,
            level=level,
            consolidated_us=self.artifacts.consolidated_us(signal_id, principal, as_of),
            failed_us=newest_time(self._failures.get(whose), as_of),
            principal=principal,
            switched_off=self.artifacts.switched_off(signal_id, principal, as_of),
            learned=self._learned(signal_id, principal, as_of) if signal_id.startswith(STATED) else None,
        )
        return judge(signal_id, facts, as_of.at_us, self._config)

    def _learned(self, signal_id: str, principal: str | None, as_of: PointInTime) -> Learned | None:
        """What a principal's statement became: what is in force, or else the newest."""
        if principal is None:
            return None
        there = list(self.artifacts.overlays(as_of, signal_id=signal_id, principal=principal, active_only=False))
        last = max(reversed(there), key=lambda one: one.is_active, default=None)
        if last is None:
            return None
        share, _ = self.weighed(signal_id, principal=principal, as_of=as_of)
        is_faded = last.is_active and share < self._config.bias_decay_floor
        return Learned(last.artifact.artifact_id, "faded" if is_faded else last.state)

    def open_gate(self, signal_id: str, principal: str, as_of: PointInTime) -> GateResult:
        """A principal's own gate; everybody's in its place, where that one alone is open."""
        own = self.gate(signal_id, principal, as_of)
        if own.crossed or not self._config.shared_types:
            return own
        shared = self.gate(signal_id, None, as_of)
        return shared if shared.crossed else own

    def active_biases(
        self, as_of: PointInTime, *, principal: str, session_id: str | None, after: int = -1
    ) -> Iterator[Bias]:
        """What may go into a principal's prompt behind this place, in append order.

        Its own, and what everybody's events made of a type that is shared; of one signal its own alone.
        """
        own = list(self._in_force(principal, as_of, session_id))
        taken = {signal_id for _, artifact, _ in own for signal_id in artifact.source_signal_ids}
        shared = [
            one
            for one in self._in_force(None, as_of, session_id)
            if one[1].artifact_type in self._config.shared_types and not taken.issuperset(one[1].source_signal_ids)
        ]
        for log, artifact, share in sorted([*own, *shared], key=lambda one: one[0].first_seq):
            if log.first_seq > after:
                yield Bias(overlay_id=log.overlay_id, artifact=self.artifacts.line(log, artifact), decay=share)

    def _in_force(
        self, principal: str | None, as_of: PointInTime, session_id: str | None
    ) -> Iterator[tuple[OverlayLog, KeptArtifact, float]]:
        """What is active, in scope and not faded, with the weight of its freshest signal.

        What rests on signals alone that went quiet so long ago that nothing is left of them is not looked at.
        """
        fresh = self._fresh.get(principal, _NEVER_FRESH)
        asked = None if self._reach_us == inf else fresh.since(as_of.at_us - self._reach_us)
        open_since_us = as_of.at_us - self._open_reach_us
        as_of_ts = timestamp_of(as_of.at_us)
        weighed = cache(partial(self.weighed, principal=principal, as_of=as_of))  # each signal is looked at once
        for log, standing in self.artifacts.standing(principal, as_of, asked):
            artifact = standing.artifact
            if state_of(standing, as_of_ts, is_superseded=False) != "active":
                continue
            if artifact.scope == "session" and artifact.session_id != (session_id or ""):
                continue
            if not artifact.is_stated and all(
                fresh.newest_us(signal_id) < open_since_us for signal_id in artifact.source_signal_ids
            ):
                continue
            behind = [weighed(signal_id) for signal_id in artifact.source_signal_ids]
            share = max(weight for weight, _ in behind)
            # In mode bistable a learned line needs one of its gates still open; a stated one stands by itself.
            has_evidence = artifact.is_stated or any(is_open for _, is_open in behind)
            if share >= self._config.bias_decay_floor and has_evidence:
                yield log, artifact, share

    def quarantined(self, as_of: PointInTime, principal: str | None) -> list[Quarantined]:
        """Lines that were refused, in order of event time; the newest `ho3.page_max`."""
        there = sorted(
            (fact.at_us, fact.seq, fact)
            for fact in self._refused
            if fact.at_us <= as_of.at_us and fact.seq <= as_of.seq and principal in (None, fact.principal)
        )
        return [
            Quarantined(
                signal_id=fact.about, principal=fact.principal, at=timestamp_of(at_us), reason=fact.refused,
                line=fact.line,
            )
            for at_us, _, fact in there[-self._config.page_max :]
        ]  # fmt: skip

    def counts(self, as_of: PointInTime) -> tuple[int, int, int, int]:
        """Signals, events, overlays, and how many of them are active."""
        tallies = [(name, log.tally(as_of).event_count) for (whose, name), log in self._signals.items() if whose]
        states = self.artifacts.states(as_of)
        signal_count = len({name for name, count in tallies if count})
        return signal_count, sum(count for _, count in tallies), len(states), states.count("active")

    def failure_times(self, signal_id: str, principal: str | None) -> list[int]:
        """When consolidations of a signal failed, in order of event time."""
        return [at_us for at_us, _ in self._failures.get((principal, signal_id), [])]

    def weighed(self, signal_id: str, *, principal: str | None, as_of: PointInTime) -> tuple[float, bool]:
        """What a signal weighs, 0 without an event; and whether its evidence stands (always, where gates count)."""
        whose = (principal, signal_id)
        log = self._signals.get(whose)
        last_us = None if log is None else log.last_us(as_of)
        share = 0.0 if last_us is None else decay(last_us, as_of.at_us, self._config.decay_half_life_hours)
        level = self._level(whose, as_of)
        return share, level is None or level.is_open

    def _tally(self, whose: Whose, as_of: PointInTime) -> EventTally:
        log = self._signals.get(whose)
        return _NO_EVENT if log is None else log.tally(as_of)

    def _level(self, whose: Whose, as_of: PointInTime) -> Level | None:
        """None where the gate counts."""
        log = self._signals.get(whose)
        return self._nothing if log is None else log.level(as_of)
