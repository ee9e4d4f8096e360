"""One run as its turn sees it: what it is about, its rounds and steps, and where it stands still between them.

What it does beyond itself goes through `effects.py`, by which a run that is driven again goes on where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

from hobus.actors.ho2_supervisor.attention.context import AssembledContext
from hobus.actors.ho2_supervisor.learning.learning import Learning, Weighed
from hobus.actors.ho2_supervisor.resources import Resources
from hobus.actors.ho2_supervisor.run_task import RunTask, find_standstill
from hobus.actors.ho2_supervisor.session.commands import FIRST_LEASE
from hobus.actors.ho2_supervisor.session.record import RunMemo
from hobus.actors.ho2_supervisor.session.state import find_named_template
from hobus.actors.ho2_supervisor.turn.effects import Effects
from hobus.actors.ho2_supervisor.turn.history import History
from hobus.actors.ho2_supervisor.turn.work_orders import OrderContext
from hobus.bus.errors import LedgerError, WorkOrderFault
from hobus.bus.messages.ids import (
    StepId,
    TurnId,
    derive_beside_order_id,
    derive_lease_id,
    derive_requested_id,
    format_iso,
    parse_iso,
    work_order_id,
)
from hobus.bus.messages.ledger import WriteEntry
from hobus.bus.messages.session import RunConfig
from hobus.bus.messages.work_order import Segment
from hobus.bus.record.session_facts import LeaseIssued, LifecycleChanged, RunStarted, StepStarted
from hobus.config.assets import AgentFile
from hobus.config.attention_rules import find_override_fault, find_override_warning


class Run:
    """The active run of one session, at one attempt to drive it."""

    def __init__(
        self, task: RunTask, memo: RunMemo, agent: AgentFile, *, resources: Resources, learning: Learning | None
    ) -> None:
        if memo.input_text is None:
            raise LedgerError("erased", f"the text of input {memo.requested.input_id} is erased")
        task.draft.run = str(memo.run_id)
        self.session = task.session
        self.trace = task.trace
        self.draft = task.draft
        self.memo = memo
        self.run_id = memo.run_id
        self.requested = memo.requested  # at the turn's event time
        self.input_text: str = memo.input_text
        self.is_called = bool(memo.requested.called_by)  # by another agent
        self.is_errand = not self.is_called and agent.is_errand(self.input_text)
        self.agent = agent.on_errand() if self.is_errand else agent
        self.resources = resources
        self.config = resources.config
        own_tokens = agent.budget_tokens("synthesize", resources.config.budget)
        self.budget_tokens = min(own_tokens, memo.requested.tokens_max or own_tokens)  # for all rounds of the answer
        has_memory = agent.memory and not self.is_errand
        self.recall_from = learning if has_memory else None  # None: memory is off, or there is nothing to recall it for
        # A model's words to another agent are no person's habit or wish, and each call has a session of its own, which
        # the gates would count.
        self.learning = None if self.is_called else self.recall_from  # None: nothing is to be learned
        self.effects = Effects(task, memo, resources)
        self.stood_before = task.session.durable  # sequence up to which the session's entries stood when it was driven
        self.weighed: dict[str, Weighed] = {}  # artifact -> what became of its line
        self.learned_earlier: set[str] = set()  # artifacts whose lines stand beside earlier messages
        self.beside: AssembledContext | None = None  # its classification's context, while no record has it
        self.round_count = 0
        self.heard: list[Segment] = []  # what operators said to the run, and no prompt has shown yet, in order
        self._task = task
        self._step_seq = 0
        self._steps: dict[tuple[int, int], StepId] = {}  # by round and step

    # --- facts --------------------------------------------------------------------------------------------------------

    @property
    def history(self) -> History:
        return self.session.record.history

    @property
    def named_template(self) -> str | None:
        """Return the attention template that the run, else its session, names; None: selectors choose."""
        return find_named_template(self.session.record.state.session_config, self.requested.run_overrides)

    @property
    def template_fault(self) -> str:
        """Return that the named template is gone or used against its selectors; empty: neither."""
        known, wanted = self.resources.attention.templates, self.named_template
        if wanted is None:
            return ""
        return find_override_fault(known, wanted) or find_override_warning(known[wanted], self.agent)

    @property
    def run_config(self) -> RunConfig:
        """Return the configuration frozen at RunStarted, with the agent's form of answer where that names none.

        An errand's is without the tools that every request of its client offers.
        """
        run = self.session.record.state.run
        if run is None or run.config is None:
            raise AssertionError(f"run {self.run_id} has not started")
        if self.is_errand:
            return run.config.model_copy(update={"caller_tools": None, "tool_choice": None})
        if run.config.output_schema is None and self.agent.output_schema is not None:
            return run.config.model_copy(update={"output_schema": self.agent.output_schema})
        return run.config

    def compute_window_share(self, share: float) -> int | None:
        """Return this share of the model's window in tokens; None: nothing is known of its size.

        The configuration says it, and what the model could not read in this session.
        """
        chosen = self.run_config
        row, too_long = self.config.gateway.row(chosen.provider, chosen.model), self.session.too_long
        known = [row and row.context_tokens, too_long.get((chosen.provider, chosen.model))]
        return min((int(tokens * share) for tokens in known if tokens is not None), default=None)

    def note_too_long(self, shown: Sequence[Segment]) -> None:
        """Note that the model's window is smaller than a prompt of these texts."""
        tokens = sum([len(one.text) for one in shown]) // self.config.attention.chars_per_token
        asked = self.run_config.provider, self.run_config.model
        self.session.too_long[asked] = min(tokens, self.session.too_long.get(asked, tokens))

    @cached_property
    def classification(self) -> Literal["before", "beside", "off"]:
        """Return when the message is classified: as the journal has it, else as the agent says.

        Results of calls are no message that could be classified.
        """
        if self.requested.continues is not None or self.is_called:
            return "off"
        if (first := self.memo.orders.get(self.first_order_id)) is not None:
            is_beside = derive_beside_order_id(self.run_id) in self.memo.orders
            return "before" if first.wo_type == "classify" else "beside" if is_beside else "off"
        if not self.config.ho2.classify:
            return "off"
        takes_two = self.session.record.state.max_in_flight_effects > 1
        return self.agent.classification if takes_two or self.agent.classification != "beside" else "before"

    @property
    def elapsed_ms(self) -> int:
        """Return the time since the run was requested, by the wall clock (a run may outlive its process)."""
        return max(0, round((self.resources.bus.now() - parse_iso(self.requested.at)) * 1000))

    def remaining_s(self) -> float:
        """Return the time to the run's deadline, which an attached request may have moved; waiting uses none of it."""
        run = self.session.record.state.run
        if run is None:
            return 0.0
        now = self.resources.bus.now() if run.waiting_since is None else parse_iso(run.waiting_since)
        return max(0.0, parse_iso(run.deadline_at) - now)

    def compute_order_timeout_s(self) -> float:
        """Return an order's own time-out: a run's longest life. Raises WorkOrderFault when the run has no time left.

        The run's deadline is not in it: an attached request may move that while the order is on its way. When it
        passes, the drive is cancelled, and with it the request, wherever that is. Whoever shares the time out is told
        of the deadline as it stands (`due_at` of ExecuteWorkOrder).
        """
        if self.remaining_s() <= 0:
            raise WorkOrderFault("deadline_exceeded", f"run {self.run_id} is past its deadline")
        return self.config.budget.timeout_seconds

    def make_entry(self, event_type: str, payload: tuple[Any, ...], **facts: Any) -> WriteEntry:
        """Build an entry about this run, which rests on its request; `facts`: as of `Resources.entry`."""
        parents = [derive_requested_id(self.session.session_id, self.requested.input_id)]
        own = self.session.provenance(self.run_id.run_seq)
        about: dict[str, Any] = {"provenance": own, "parents": parents, "trace": self.trace}
        return self.resources.entry(event_type, payload, **about | facts)

    # --- steps --------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Journal RunStarted: freeze the run's configuration, and begin its lease if its requester asked for one."""
        self.effects.step(RunStarted(at=self.session.now()))
        terms = self.requested.lease
        if terms is None:
            return
        issued_at = self.session.now()
        self.effects.step(
            LeaseIssued(
                lease_id=derive_lease_id(self.run_id, FIRST_LEASE),
                issued_at=issued_at,
                expires_at=format_iso(parse_iso(issued_at) + terms.ttl_secs),
                heartbeat_timeout_secs=terms.heartbeat_timeout_secs,
                at=issued_at,
            )
        )

    async def new_round(self) -> OrderContext:
        """Begin the next model round once the run may go on; the round observes the pending steers."""
        self.round_count += 1
        self._step_seq = 0
        return await self.begin_step()

    async def begin_step(self) -> OrderContext:
        """Pass a step boundary once the run may go on; return what an order of this step carries."""
        self._step_seq += 1
        step_id = self._make_step_id(self.round_count, self._step_seq)
        is_new = not self._is_recorded(step_id)
        if is_new:
            await self.boundary()
        now = self.session.now()
        if is_new:
            is_new_round = self._step_seq == 1
            steers = list(self.session.record.state.pending_steer) if is_new_round else []
            self.effects.step(StepStarted(step_id=step_id, new_round=is_new_round, steers=steers, at=now))
        context = OrderContext(
            step_id=step_id,
            fence=self.session.record.state.fence,
            agent=self.agent,
            package_id=self.session.package_id,
            config_digest=self.requested.config_digest,
            planned_at=now,
            budget_mode=self.config.budget.budget_mode,
            intent_id=None if (intent := self.session.record.state.intents.newest) is None else intent.intent_id,
            callers=self.requested.callers,
        )
        for ref in self.memo.steers.get(str(step_id), ()):
            text = self.memo.said.get(ref)
            self.heard.append(
                Segment(name="steer", ref=ref, text=await self.session.text(ref) if text is None else text)
            )
        return context

    async def boundary(self) -> None:
        """Wait until the run may issue effects: not paused, waiting for no approval, and its turn has come."""
        while True:
            has_stood_still = await self._stand_still()
            if self.effects.receipts or has_stood_still:  # the turn of its first step was its beginning
                await self._task.ticket.turn()
            state = self.session.record.state
            is_paused = state.pause_requested and not state.awaited_orders
            if not is_paused and find_standstill(state.lifecycle) is None:
                return

    async def _stand_still(self) -> bool:
        """Wait until the run is resumed or its held calls are decided; return False at once if it is at work.

        The standstill is durable before anybody is told.
        """
        while True:
            state = self.session.record.state
            if state.pause_requested and not state.awaited_orders:
                self.effects.step(LifecycleChanged(lifecycle="Paused", at=self.session.now()))
            elif (standstill := find_standstill(state.lifecycle)) is None:
                break
            elif self._task.standstill == standstill:
                await self._task.stand_still(standstill)
                continue
            await self.session.barrier()
            state = self.session.record.state
            if not state.pause_requested and (standstill := find_standstill(state.lifecycle)) is not None:
                await self._task.stand_still(standstill)
        if self._task.standstill is None:
            return False
        self._task.go_on(self.resources.bus.clock.monotonic() + self.remaining_s())
        return True

    @property
    def is_steered(self) -> bool:
        """Return whether something was said that no round has observed; as the journal has it if the run goes on."""
        step_id = self._make_step_id(self.round_count + 1, 1)
        if self._is_recorded(step_id):
            return bool(self.memo.steers.get(str(step_id)))
        return bool(self.session.record.state.pending_steer)

    def is_round_recorded(self, number: int) -> bool:
        """Return whether an earlier drive of this run began this round."""
        return self._is_recorded(self._make_step_id(number, 1))

    @cached_property
    def first_order_id(self) -> str:
        """Return the id of the run's first order: the classification, where there is one."""
        return work_order_id(self._make_step_id(1, 1))

    @property
    def answer_order_id(self) -> str:
        """Return the id of the order that first asks a model for the answer, sent or not."""
        return work_order_id(self._make_step_id(2 if self.classification == "before" else 1, 1))

    def _is_recorded(self, step_id: StepId) -> bool:
        return f"StepStarted:{step_id}" in self.memo.steps

    def _make_step_id(self, turn_seq: int, step_seq: int) -> StepId:
        """Return the id of that round and step; one object however often it is asked for."""
        if (turn_seq, step_seq) not in self._steps:
            turn = TurnId(run_id=self.run_id, turn_seq=turn_seq)
            self._steps[turn_seq, step_seq] = StepId(turn_id=turn, step_seq=step_seq)
        return self._steps[turn_seq, step_seq]
