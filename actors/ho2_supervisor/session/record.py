"""A session as its journal says: state, inputs and their answers, history, and what the active run has recorded.

One fold for live appends and for replay, so that both give the same. No I/O; the owner appends and reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from hobus.actors.ho2_supervisor.session.commands import derive_text_ref
from hobus.actors.ho2_supervisor.session.intents import NO_INTENTS, Intents, has_own_words
from hobus.actors.ho2_supervisor.session.order_lives import OrderLives, read_failure
from hobus.actors.ho2_supervisor.session.reducer import reduce
from hobus.actors.ho2_supervisor.session.state import Reduced, SessionState
from hobus.actors.ho2_supervisor.turn import history as history_rules
from hobus.actors.ho2_supervisor.turn.history import DeliveredTurn, History, HistoryLimits
from hobus.bus.limits import IMAGES_TURNS
from hobus.bus.messages import session
from hobus.bus.messages.ids import RunId, derive_completed_id, get_position, is_beside
from hobus.bus.messages.session import TurnResult
from hobus.bus.messages.work_order import LOOKED_UP, Exchange, Receipt, Segment, ToolFile, WorkOrder
from hobus.bus.record import session_facts as events
from hobus.bus.record.ends import End, end_in, read_result, reply_in
from hobus.bus.record.journal import Recorded, find_own_text

_OF_STEPS = frozenset({"RunStarted", "StepStarted", "OrderDispatched", "OrderEnded", "ToolBatchIssued", "ToolReceipt"})
"""Nothing is known since them that was not known before; nearly all entries are of these."""
AnswerKind = Literal["running", "answered", "failed", "degraded"]
RunOutcome = Literal["success", "failed", "escalated", ""]  # "": cancelled, or an outage, which says nothing
_OWN_FAILURES = frozenset(
    {"turn_limit_exceeded", "format_not_met", "output_schema_invalid", "answer_cut", "tool_invalid_args"}
)
"""What a run failed by itself; all else is somebody's outage, or a limit, and no lesson about who asked."""


class KnownInput(Struct):
    """One input of the session and what became of it."""

    input_id: str
    digest: str | None  # None: degraded before HO2 saw it; follows from the text behind input_ref
    input_ref: str
    run_seq: int | None  # None: the host answered it, and no run was requested
    became: AnswerKind = "running"
    result_ref: str = ""  # answered: the packed TurnResult; degraded: the reply's text
    code: str = ""  # failed: why
    form: str | None = None  # `describe_form` what it asked for; None: nobody recorded it


def make_known_input(event: events.RunRequested, run_seq: int) -> KnownInput:
    """Return the input of a request whose run is still to end."""
    form = session.describe_form(event.run_overrides)
    return KnownInput(event.input_id, event.input_digest, event.input_ref, run_seq, form=form)


def settle(known: KnownInput, end: End | None) -> None:
    """Set how the input ended; None: its run is over, and nobody says how."""
    if end is None:
        known.became, known.code = "failed", "execution_error"
        return
    known.became = "failed" if end.became == "cancelled" else end.became
    known.result_ref, known.code = end.result_ref or end.reply_ref, end.code


class RunMemo(Struct):
    """What the journal holds of the active run: the memo table that makes a run resumable."""

    run_id: RunId
    requested: events.RunRequested
    input_text: str | None
    results: tuple[str | None, ...] = ()  # contents behind requested.results; None where erased
    images: tuple[ToolFile, ...] = ()  # of the newest messages and its own, each once
    intents: Intents = NO_INTENTS  # as they were when it was requested
    is_first: bool = False  # nothing was said in the session before
    steps: set[str] = field(default_factory=set[str])
    orders: dict[str, WorkOrder] = field(default_factory=dict[str, WorkOrder])
    dispatched_in: dict[str, int] = field(default_factory=dict[str, int])
    receipts: dict[str, Receipt] = field(default_factory=dict[str, Receipt])
    steers: dict[str, list[str]] = field(default_factory=dict[str, list[str]])  # step -> refs that it observed
    said: dict[str, str] = field(default_factory=dict[str, str])  # ref -> words of a steer
    texts: dict[str, str] = field(default_factory=dict[str, str])  # ref -> what its rounds brought
    denied: dict[str, str] = field(default_factory=dict[str, str])  # batch.call -> why an operator refused it
    round_count: int = 0
    given_up: set[str] = field(default_factory=set[str])  # orders that were open or had failed when the run failed

    def take(self, entry: Recorded, before: SessionState) -> None:
        event, tenure = entry.event.event, before.tenure
        if key := make_step_key(event):
            self.steps.add(key)
        match event:
            case events.StepStarted():
                self.round_count = event.step_id.turn_id.turn_seq
                if event.steers:
                    self.steers[str(event.step_id)] = event.steers
            case events.OrderDispatched():
                self.orders[event.wo_id] = event.order
                results = [one for each in event.order.exchanges for one in each.results]
                self._keep(entry, results, self.texts)
                self._keep(entry, _list_beside(event.order))
                self.dispatched_in[event.wo_id] = tenure
            case events.OrderEnded():
                self.receipts.setdefault(event.wo_id, event.receipt)
                self._keep(entry, [] if event.receipt.output_result is None else [event.receipt.output_result.text])
            case events.HostCommandReceived(command=command):
                ref = derive_text_ref(before.session_id, command.command_id)
                if (text := find_own_text(entry, ref)) is not None:
                    self.said[ref] = text
                    self.texts[ref] = text
            case events.HostCommandApplied():
                self._note_decided(before)
            case _:
                pass

    def _keep(self, entry: Recorded, said: list[Segment], known: Mapping[str, str] | None = None) -> None:
        own = {ref: find_own_text(entry, ref, known) for one in said if (ref := one.ref) is not None}
        self.texts |= {ref: text for ref, text in own.items() if text is not None}

    def classified(self) -> dict[str, Any] | None:
        """Return the checked answer of the run's classification; None: it has none, or none yet."""
        asked = [wo_id for wo_id, order in self.orders.items() if order.wo_type == "classify"]
        receipt = self.receipts.get(asked[-1]) if asked else None
        return None if receipt is None or receipt.output_result is None else receipt.output_result.parsed

    def delivered(self, objectives: Mapping[str, str], earlier: DeliveredTurn | None) -> DeliveredTurn:
        """Return what the run was asked, and what later prompts show behind its answer.

        Rounds with tool calls or with a person's words, no drafts, no notes on them; and what its message had beside
        it, as far as its own orders brought that, or intents did (ref -> words). With the results of calls of its
        caller's a run goes on with the turn that asked for them (`earlier`), and both are one.
        """
        asked = [order for order in self.orders.values() if order.wo_type == "synthesize"]
        turn = DeliveredTurn(self.requested.input_id, self.requested.input_ref, "", self.input_text, texts={})
        if (continues := self.requested.continues) is not None:
            has_asked = derive_completed_id(continues.removeprefix("WO-").partition(".")[0])
            if earlier is None or not earlier.reply_ref.startswith(f"{has_asked}/"):
                return turn
            turn = earlier
        if not asked:
            return turn
        kept: list[Exchange] = []
        for one in asked[-1].exchanges:
            steers = [words for words in one.said if words.name == "steer"]
            if one.tool_calls or steers:
                kept.append(one.model_copy(update={"said": steers} | ({} if one.tool_calls else {"text": Segment()})))
        beside, own = _list_beside(asked[-1]), self._find_words_beside_calls(asked[-1].wo_id)
        if continues is not None:
            brought = zip(self.requested.results, self.results, strict=True)
            known = {one.content_ref: text for one, text in brought if text is not None}
            known |= self.texts | (turn.texts or {})
            lacking = [one for one in kept if one.text.ref is not None and one.text.ref not in known]
            kept = [one.model_copy(update={"text": Segment()}) if one in lacking else one for one in kept]
            turn = replace(turn, rounds=tuple(kept)).with_texts(known)
        else:
            known = {ref: text for ref, text in objectives.items() if has_own_words(ref)} | self.texts
            unread = {one.name for one in beside if one.ref is not None and one.ref not in known}
            beside = [one for one in beside if one.name not in unread]
            turn = replace(turn, rounds=tuple(kept), beside=tuple(beside)).with_texts(known)
        return replace(turn, texts=(turn.texts or {}) | own)

    def _find_words_beside_calls(self, wo_id: str) -> dict[str, str]:
        """Return what the model said beside calls that its caller carries out, for the turn with their results."""
        receipt = self.receipts.get(wo_id)
        output = receipt and receipt.output_result
        ref = output.text.ref if output and output.tool_calls else None
        return {} if ref is None or ref not in self.texts else {ref: self.texts[ref]}

    def _note_decided(self, before: SessionState) -> None:
        command, batch = before.received_command and before.received_command.command, before.tool_batch
        if isinstance(command, session.Deny) and batch is not None:
            self.denied[f"{batch.tool_batch_id}.{get_position(command.call_id)}"] = command.reason or ""


def _list_beside(order: WorkOrder) -> list[Segment]:
    """Return the context and the memory lines that an order shows beside its message."""
    return [one for one in order.input_context if one.artifact_id or one.name == LOOKED_UP]


class EndedRun(Struct, frozen=True):
    """What the journal says of the newest run that is over, as far as memory learns from it."""

    run_seq: int
    input_id: str
    requested_at: str
    classified: dict[str, Any] | None  # the checked answer of its classification
    tool_ids: tuple[str, ...]  # as the model asked for them
    outcome: RunOutcome
    ended_by: str  # the entry that ended it
    code: str = ""  # why it has no answer


class SessionRecord:
    """The fold of one journal. `take` is the only way it changes."""

    def __init__(self, session_id: str, limits: HistoryLimits) -> None:
        self.session_id = session_id
        self.state = SessionState(session_id=session_id)
        self.head = ""
        self.appended = 0  # entries of the current tenure after its TookOver
        self.since_snapshot = 0  # entries after the newest STATE_SNAPSHOT
        self.inputs: dict[str, KnownInput] = {}  # the newest ones; older ones stand in the ledger
        self.commands: dict[str, str] = {}  # id -> why it was rejected; empty: applied; the newest ones
        self.inputs_forgotten = False  # some were let go: one that is not known here may stand in the ledger
        self.unrequested_forgotten = False  # also of those that the host answered before any run was requested
        self.follow_ups: dict[str, str] = {}  # ref -> text, of those that wait
        self.objectives: dict[str, str] = {}  # ref -> one line, of the active intents; what was erased is not there
        self.orders = OrderLives()  # those that are open or have failed
        self.history = History()
        self.images: list[list[ToolFile]] = []  # that the newest messages brought
        self.total_tokens = 0
        self.cost_usd: float | None = 0.0
        self.run: RunMemo | None = None
        self.failed: RunMemo | None = None  # of the state's failed run
        self.last_run: EndedRun | None = None  # None also after a turn that the host answered
        self.degraded_agent_id = ""  # whom the host answered for before the session had started
        self.limits = limits

    @property
    def turn_count(self) -> int:
        """Return the number of delivered turns, degraded ones included."""
        return self.history.count

    def take(self, entry: Recorded, reduced: Reduced | None = None) -> Reduced:
        """Fold one entry; a rejected event leaves everything but the stream's head as it was.

        `reduced`: what `reduce` says of its own event, where the caller has asked already. The outcome is that of the
        first event that is rejected, else the last one's.
        """
        self._advance(entry.submission_id, entry.event.event.kind)
        rejected = [
            outcome
            for one in entry.earlier
            if (outcome := self.tell(Recorded(entry.submission_id, one, ()))).rejection is not None
        ]
        return [*rejected, self.tell(entry, reduced)][0]

    def tell(self, entry: Recorded, reduced: Reduced | None = None) -> Reduced:
        """Fold an event whose entry is still to come, or was taken before; the stream's head stays."""
        outcome = reduced or reduce(self.state, entry.event)
        if outcome.rejection is None:
            before, self.state = self.state, outcome.state
            if self.failed is not None and before.run is None and entry.event.event.kind == "RunAttached":
                self._goes_on(self.failed)
            self._remember(entry, before)
            if entry.event.event.kind not in _OF_STEPS:
                self._forget()
        return outcome

    def pass_over(self, submission_id: str) -> None:
        """Move the head past an entry that changes nothing, whatever it says."""
        self._advance(submission_id, "")

    def _advance(self, submission_id: str, kind: str) -> None:
        self.head = submission_id
        self.since_snapshot += 1
        if kind == "TookOver":
            self.appended = 0
        elif kind != "TurnDegraded":  # the host's; it counts in no tenure
            self.appended += 1

    def _remember(self, entry: Recorded, before: SessionState) -> None:
        event = entry.event.event
        if self.run is not None:
            self.run.take(entry, before)
        if self.state.intents is not before.intents:
            self._name_objectives(entry)
        match event:
            case events.OrderDispatched() | events.OrderEnded():
                self._take_order(event, before)
            case events.HostCommandReceived():
                self._hear(entry, event.command)
            case events.HostCommandApplied() | events.HostCommandRejected():
                self.commands[event.command_id] = event.reason if isinstance(event, events.HostCommandRejected) else ""
            case events.RunRequested():
                self._take_request(entry, event)
            case events.TurnDegraded():
                self._take_degraded(entry, event)
            case events.StateSnapshot():
                self.since_snapshot = 0
            case _ if (end := end_in(event, entry)) is not None:
                self._take_end(entry, end)
            case _:
                pass

    def _take_order(self, event: events.OrderDispatched | events.OrderEnded, before: SessionState) -> None:
        if isinstance(event, events.OrderDispatched):
            self.orders.note_dispatched(event.wo_id, event.order if self.run is None else self.run.orders[event.wo_id])
            return
        if event.wo_id in before.open_orders:  # its first end, and so what it has cost
            cost = event.receipt.cost
            self._add_spent(cost.total_tokens, cost.cost_usd)
        if event.wo_id in self.orders:  # else it came so late that the order is forgotten
            self.orders.ended(event.wo_id, event.receipt.completed_at, failure=read_failure(event.receipt))
        if self.run is not None and self.state.run is None:  # it was answered, and is over now
            ended, self.run, run = self.last_run, None, self.run
            self.last_run = ended and make_ended_run(run, ended.outcome, ended.ended_by)

    def _forget(self) -> None:
        """Forget the oldest inputs beyond the bound: a session of any age costs the same.

        The ledger still has them under derived ids. It refuses a second RunRequested for an input by itself, but knows
        nothing of one that only the host has answered; those have a bound of their own, reached by none but sick ones.
        """
        for ref in [ref for ref in self.follow_ups if not self._waits(ref)]:
            del self.follow_ups[ref]
        kept = self.limits.known_max
        self.orders.forget(kept, self.state.intents.active_ids)
        if len(self.inputs) > kept:
            settled = [known for known in self.inputs.values() if known.became != "running"]
            requested = [known.input_id for known in settled if known.run_seq is not None]
            unrequested = [known.input_id for known in settled if known.run_seq is None]
            gone = [*requested[: max(0, len(requested) - kept)], *unrequested[: max(0, len(unrequested) - kept)]]
            for input_id in gone:
                del self.inputs[input_id]
            self.inputs_forgotten |= bool(gone)
            self.unrequested_forgotten |= len(unrequested) > kept
        while len(self.commands) > kept:
            del self.commands[next(iter(self.commands))]

    def _hear(self, entry: Recorded, command: session.HostCommand) -> None:
        """Keep the words of a follow-up, which are needed when its run is over, long after this entry."""
        ref = derive_text_ref(self.session_id, command.command_id)
        text = find_own_text(entry, ref) if isinstance(command.command, session.FollowUp) else None
        if text is not None:
            self.follow_ups[ref] = text

    def _name_objectives(self, entry: Recorded) -> None:
        """Keep the words of active intents: those in the entry that declared one, or the run's own message."""
        for ref in self.list_missing_objectives():
            text = find_own_text(entry, ref)
            if text is None and self.run is not None and ref == self.run.requested.input_ref:
                text = self.run.input_text
            self.name_objective(ref, text)
        active = {intent.objective_ref for intent in self.state.intents.active}
        self.objectives = {ref: words for ref, words in self.objectives.items() if ref in active}

    def list_missing_objectives(self) -> list[str]:
        """Return the refs of active intents' words that are still to be read."""
        return [one.objective_ref for one in self.state.intents.active if one.objective_ref not in self.objectives]

    def name_objective(self, ref: str, text: str | None) -> None:
        """Set an intent's words, of a message its beginning; None: they were erased."""
        if text is not None:
            self.objectives[ref] = (
                text if has_own_words(ref) else history_rules.make_one_line(text, self.limits.digest_chars)
            )

    def _waits(self, ref: str) -> bool:
        """Return whether a follow-up's text may still be asked for: it waits, or its command is not decided yet."""
        command = self.state.received_command
        is_undecided = command is not None and ref == derive_text_ref(self.session_id, command.command_id)
        return is_undecided or ref in self.state.pending_follow_up

    def _take_request(self, entry: Recorded, event: events.RunRequested) -> None:
        run_id = self.state.run_id
        if run_id is None:
            raise AssertionError("the reducer accepted RunRequested without an active run")
        self.failed = None
        self.inputs[event.input_id] = make_known_input(event, run_id.run_seq)
        text = find_own_text(entry, event.input_ref)
        self.run = RunMemo(
            run_id,
            event,
            self.follow_ups.get(event.input_ref) if text is None else text,
            tuple(find_own_text(entry, given.content_ref) for given in event.results),
            self._list_images(event),
            self.state.intents,
            self.history.count == 0,
        )

    def _list_images(self, event: events.RunRequested) -> tuple[ToolFile, ...]:
        """Return the images that the run's model is shown, oldest first, and count this message as the newest."""
        known = {file.ref: file for files in [event.files, *reversed(self.images)] for file in reversed(files)}
        if event.continues is None:
            self.images = [*self.images, event.files][-IMAGES_TURNS:]
        return tuple(reversed(known.values()))

    def _goes_on(self, run: RunMemo) -> None:
        """Continue the run that had failed; what it had not brought by then is asked for anew."""
        completed = {wo_id for wo_id, receipt in run.receipts.items() if receipt.state == "completed"}
        run.given_up |= run.orders.keys() - completed
        self.run, self.failed = run, None
        known = self.inputs[run.requested.input_id]
        known.became, known.code, known.result_ref = "running", "", ""

    def _take_end(self, entry: Recorded, end: End) -> None:
        known = self.inputs[end.input_id]
        settle(known, end)
        outcome: RunOutcome = "failed" if end.code in _OWN_FAILURES else ""
        if end.became == "answered":
            result = read_result(entry, end.result_ref)
            asked = (
                DeliveredTurn(end.input_id, known.input_ref, "")
                if self.run is None
                else self.run.delivered(self.objectives, next(reversed(self.history.turns), None))
            )
            turn = with_reply(asked, entry, end, result)
            self.history = history_rules.remember(self.history, turn, self.limits)
            if result is not None and result.quality_gate_passed is False and self.run is not None:
                self._take_escalation(self.run, entry.event.event.at)
            outcome = "escalated" if result is not None and result.quality_gate_passed is False else "success"
        if self.run is not None:
            self.last_run = replace(make_ended_run(self.run, outcome, entry.submission_id), code=end.code)
        self.failed = self.run if self.state.failed else None
        if self.state.run is None:
            self.run = None

    def _take_escalation(self, run: RunMemo, at: str) -> None:
        """Note that the run gave up on its last order's answer (ESCALATION says so beside the journal)."""
        for wo_id in [wo_id for wo_id in run.receipts if not is_beside(wo_id)][-1:]:
            self.orders.note_escalated(wo_id, at, run.orders.get(wo_id))

    def _take_degraded(self, entry: Recorded, event: events.TurnDegraded) -> None:
        known = self.inputs.get(event.input_id) or KnownInput(event.input_id, None, event.input_ref, None)
        settle(known, end_in(event, entry))
        self._add_spent(event.total_tokens, event.cost_usd)
        self.degraded_agent_id = entry.agent_id
        self.inputs[event.input_id] = known
        own_input = find_own_text(entry, event.input_ref)
        if own_input is None and self.run is not None and self.run.requested.input_id == event.input_id:
            own_input = self.run.input_text
        turn = DeliveredTurn(
            input_id=event.input_id,
            input_ref=event.input_ref,
            reply_ref=event.reply_ref,
            input_text=own_input,
            reply_text=find_own_text(entry, event.reply_ref),
            is_degraded=True,
            texts={},
        )
        self.history = history_rules.remember(self.history, turn, self.limits)
        self.failed = None
        if self.state.run_id is None:
            self.run = self.last_run = None

    def _add_spent(self, total_tokens: int, cost_usd: float | None) -> None:
        """Add what the turn's calls cost, however it ends."""
        self.total_tokens += total_tokens
        is_known = cost_usd is not None and self.cost_usd is not None
        self.cost_usd = round((self.cost_usd or 0.0) + (cost_usd or 0.0), 9) if is_known else None


def make_ended_run(memo: RunMemo, outcome: RunOutcome, ended_by: str) -> EndedRun:
    """Return what is kept of a run's memo once it is over.

    There is nothing to learn where another agent called the run, or embedded rules stood in for its model.
    """
    asked, classified, tool_ids = memo.requested, memo.classified(), dict[str, None]()
    outputs = [receipt.output_result for receipt in memo.receipts.values()]
    is_stand_in = any(output.is_stand_in for output in outputs if output is not None)
    if asked.called_by or is_stand_in:
        return EndedRun(memo.run_id.run_seq, asked.input_id, asked.at, None, (), "", ended_by)
    for order in memo.orders.values():
        if order.tool_call is not None:
            tool_ids[order.tool_call.tool_id] = None
    return EndedRun(memo.run_id.run_seq, asked.input_id, asked.at, classified, tuple(tool_ids), outcome, ended_by)


def with_reply(turn: DeliveredTurn, entry: Recorded, end: End, result: TurnResult | None) -> DeliveredTurn:
    """Return the turn with what this entry answered."""
    called = () if result is None else [call.tool_id for call in result.tool_calls]
    tool_ids = tuple(dict.fromkeys((*turn.tool_ids, *called)))
    return replace(turn, reply_ref=end.reply_ref, reply_text=reply_in(entry, end, result), tool_ids=tool_ids)


def make_step_key(event: events.SessionFact) -> str:
    """Return what identifies a recorded step when its run is driven again; empty for other events."""
    match event:
        case events.RunStarted():
            return event.kind
        case (
            events.LeaseIssued(lease_id=about)
            | events.StepStarted(step_id=about)
            | events.ToolBatchIssued(tool_batch_id=about)
        ):
            return f"{event.kind}:{about}"
        case events.ToolReceipt():
            return f"{event.kind}:{event.tool_batch_id}.{event.call_id}"
        case events.IntentDeclared() | events.IntentSuperseded() | events.IntentClosed():
            return f"{event.kind}:{event.intent_id}"
        case events.IntentConflict():  # a run is in doubt once at most
            return event.kind
        case _:
            return ""
