"""The memory of one agent: what its entries of the record add up to, and every question that can be asked of it.

Namespaced by agent: nothing here knows of another agent. Within it by principal: a signal's events, its gate and what
is made of them are one principal's own. Beside these everybody's events are counted together, where the configuration
shares a type between principals, and only then. All answers are functions of the facts applied and of the moment asked
about; how many entries the record has does not matter to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from operator import itemgetter

from hobus.actors.ho3_memory.artifacts import Artifacts
from hobus.actors.ho3_memory.database import Database, Databases
from hobus.actors.ho3_memory.event_time import PointInTime, decay
from hobus.actors.ho3_memory.evidence import Level, reach_us
from hobus.actors.ho3_memory.failures import Failures
from hobus.actors.ho3_memory.gate import STATED, GateFacts, LearnedStatement, judge
from hobus.actors.ho3_memory.limits import PAGE_MAX
from hobus.actors.ho3_memory.records import Fact, derive_signal_entry_id
from hobus.actors.ho3_memory.signals import SignalTable
from hobus.bus.messages.ids import derive_overlay_id
from hobus.bus.messages.memory import Accumulator, Bias, GateResult, Quarantined
from hobus.config.sections.record import Ho3Config

Origin = tuple[str, str]
"""Whose an event is, and of which signal."""


class AgentMemory:
    """The memory of one agent. Grows by `apply_all`; a known fact changes nothing."""

    def __init__(self, agent_id: str, config: Ho3Config, database: Database | None = None) -> None:
        """Begin empty. `database`: the working store; None: an own one, in memory."""
        self.agent_id = agent_id
        self._config = config
        self._event_prefix = derive_signal_entry_id(agent_id, "")
        self._database = database or Databases().open()
        self._signals = SignalTable(config, self._database)
        self._failures = Failures(self._database)
        self._reach_us = reach_us(config)
        self.artifacts = Artifacts(agent_id, self._database)

    # --- growing ----------------------------------------------------------------------------------------------------

    def apply(self, fact: Fact) -> bool:
        return self.apply_all([fact])[0]

    def apply_all(self, facts: Iterable[Fact], *, settles: bool = True) -> list[bool]:
        """Apply all facts or none; return of each whether it was new.

        Without `settles` nothing may be asked of this memory before `settle`.
        """
        with self._database.write_all_or_nothing():
            found = [self._apply(fact) for fact in facts]
            if settles:
                self._signals.settle()
            return found

    def settle(self) -> None:
        """Bring levels up to all events that were applied."""
        with self._database.write_all_or_nothing():
            self._signals.settle()

    def _apply(self, fact: Fact) -> bool:
        if fact.kind == "signal":
            return self._apply_signal(fact)
        return self._failures.add(fact) if fact.kind == "failure" else self.artifacts.change(fact)

    def _apply_signal(self, fact: Fact) -> bool:
        event_id = fact.submission_id.removeprefix(self._event_prefix)
        is_new = self._signals.insert(fact.principal or "", fact, event_id)
        if is_new and self._config.shared_types:
            self._signals.insert(None, fact, event_id)
        return is_new

    @property
    def size_bytes(self) -> int:
        return self._database.size_bytes

    # --- what is known ----------------------------------------------------------------------------------------------

    def origins(self, event_ids: Iterable[str]) -> dict[str, Origin]:
        """Return the origins of those of these events that were logged."""
        return self._signals.origins(event_ids)

    def has_failure(self, submission_id: str) -> bool:
        return self._failures.has(submission_id)

    def has_change(self, artifact_id: str, submission_id: str) -> bool:
        log = self.artifacts.log(artifact_id)
        return log is not None and log.has_change(submission_id)

    def principal_count(self, signal_id: str, as_of: PointInTime) -> int:
        """Return the number of distinct principals of a signal's events; 0 where nothing is shared."""
        return self._signals.tally((None, signal_id), as_of).principal_count

    # --- questions --------------------------------------------------------------------------------------------------

    def signals(  # noqa: PLR0913 - what may be asked of them
        self,
        as_of: PointInTime,
        *,
        signal_id: str | None,
        principal: str | None,
        min_count: int,
        with_ids: bool,
        after: str = "",
    ) -> Iterator[Accumulator]:
        """Yield accumulators with at least `min_count` events, sorted by signal and principal, behind `after`."""
        for name, whose in self._signals.names(signal_id=signal_id, principal=principal):
            if place_of_signal(name, whose) <= after:
                continue
            if self._signals.tally((whose, name), as_of).event_count < min_count:
                continue
            found = self.accumulator(name, whose, as_of, with_ids=with_ids)
            if found is not None:
                yield found

    def accumulator(
        self, signal_id: str, principal: str | None, as_of: PointInTime, *, with_ids: bool
    ) -> Accumulator | None:
        """Return one signal's accumulator, of a principal or of everybody; None before its first event."""
        return self._signals.accumulator((principal, signal_id), as_of, with_ids=with_ids)

    def gate(self, signal_id: str, principal: str | None, as_of: PointInTime) -> GateResult:
        """Judge the gate of a signal, known or not: on a principal's own events, or on everybody's."""
        whose = (principal, signal_id)
        tally, level = self._signals.judged(whose, as_of)
        facts = GateFacts(
            tally=tally,
            level=level,
            consolidated_us=self.artifacts.consolidated_us(signal_id, principal, as_of),
            failed_us=self._failures.newest_us(whose, as_of),
            principal=principal,
            switched_off=self.artifacts.switched_off(signal_id, principal, as_of),
            learned=self._find_learned(signal_id, principal, as_of) if signal_id.startswith(STATED) else None,
        )
        return judge(signal_id, facts, as_of.at_us, self._config)

    def _find_learned(self, signal_id: str, principal: str | None, as_of: PointInTime) -> LearnedStatement | None:
        """Return what a principal's statement became: what is in force, or else the newest."""
        if principal is None:
            return None
        there = list(self.artifacts.overlays(as_of, signal_id=signal_id, principal=principal, active_only=False))
        last = max(reversed(there), key=lambda one: one.is_active, default=None)
        if last is None:
            return None
        share, _ = self.weighed(signal_id, principal=principal, as_of=as_of)
        is_faded = last.is_active and share < self._config.bias_decay_floor
        return LearnedStatement(last.artifact.artifact_id, "faded" if is_faded else last.state)

    def open_gate(self, signal_id: str, principal: str, as_of: PointInTime) -> GateResult:
        """Return a principal's own gate; everybody's in its place, where that one alone is open."""
        own = self.gate(signal_id, principal, as_of)
        if own.crossed or not self._config.shared_types:
            return own
        shared = self.gate(signal_id, None, as_of)
        return shared if shared.crossed else own

    def list_active_biases(
        self, as_of: PointInTime, *, principal: str, session_id: str | None, after: int = -1
    ) -> Iterator[Bias]:
        """Yield what may go into a principal's prompt behind this place, in append order.

        The principal's own, and what everybody's events made of a shared type; of one signal its own alone.
        """
        with self.artifacts.as_of(as_of):
            own = list(self._list_in_force(principal, as_of, session_id))
            shared = list(self._list_in_force(None, as_of, session_id)) if self._config.shared_types else []
        taken = {signal_id for _, bias in own for signal_id in bias.artifact.source_signal_ids}
        others = [
            one
            for one in shared
            if one[1].artifact.artifact_type in self._config.shared_types
            and not taken.issuperset(one[1].artifact.source_signal_ids)
        ]
        return (bias for first_seq, bias in sorted([*own, *others], key=itemgetter(0)) if first_seq > after)

    def _list_in_force(
        self, principal: str | None, as_of: PointInTime, session_id: str | None
    ) -> Iterator[tuple[int, Bias]]:
        """Yield what is active, in scope and not faded, with its place and the weight of its freshest signal.

        What rests on signals alone that went quiet so long ago that nothing is left of them is not looked at.
        """
        since_us = as_of.at_us - self._reach_us
        present = self._signals.present(principal, as_of)
        open_since_us = max(since_us, present.open_since_us)
        fresh = self._signals.fresh(principal, open_since_us)

        @cache
        def weigh_signal(signal_id: str) -> tuple[float, bool]:
            return self._compute_weight(
                self._signals.last((principal, signal_id), as_of, fresh.get(signal_id), present), as_of
            )

        for line in self.artifacts.in_force(
            principal, as_of, session_id or "", since_us=since_us, open_since_us=open_since_us
        ):
            artifact = self.artifacts.line(line)
            behind = [weigh_signal(signal_id) for signal_id in artifact.source_signal_ids]
            share = max(weight for weight, _ in behind)
            # In mode bistable a learned line needs one of its gates still open; a stated one stands by itself.
            has_evidence = line.is_stated or any(is_open for _, is_open in behind)
            if share >= self._config.bias_decay_floor and has_evidence:
                name = derive_overlay_id(self.agent_id, artifact.artifact_id)
                yield line.first_seq, Bias(overlay_id=name, artifact=artifact, decay=share)

    def quarantined(self, as_of: PointInTime, principal: str | None) -> list[Quarantined]:
        """Return refused lines in order of event time; the newest `PAGE_MAX`."""
        return self._failures.quarantined(as_of, principal, at_most=PAGE_MAX)

    def counts(self, as_of: PointInTime) -> tuple[int, int, int, int]:
        """Return the numbers of signals, events, overlays, and active overlays."""
        names = self._signals.names(signal_id=None, principal=None)
        tallies = [(name, self._signals.tally((whose, name), as_of).event_count) for name, whose in names]
        signal_count = len({name for name, count in tallies if count})
        return signal_count, sum(count for _, count in tallies), *self.artifacts.counts(as_of)

    def list_failure_times(self, signal_id: str, principal: str | None) -> list[int]:
        """Return when consolidations of a signal failed, in order of event time."""
        return self._failures.times((principal, signal_id))

    def weighed(self, signal_id: str, *, principal: str | None, as_of: PointInTime) -> tuple[float, bool]:
        """Return a signal's weight, 0 without an event, and whether its evidence stands (always where gates count)."""
        return self._compute_weight(self._signals.last((principal, signal_id), as_of), as_of)

    def _compute_weight(self, last: tuple[int | None, Level | None], as_of: PointInTime) -> tuple[float, bool]:
        last_us, level = last
        share = 0.0 if last_us is None else decay(last_us, as_of.at_us, self._config.decay_half_life_hours)
        return share, level is None or level.is_open


def place_of_signal(signal_id: str, principal: str | None) -> str:
    """Return the sort key of a principal's signal, by signal, then principal: a space sorts before both."""
    return f"{signal_id} {principal}"
