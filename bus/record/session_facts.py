"""What happened to a session: the events of its journal. The state and the reducer that folds them are HO2's.

The host writes one of them too, and every reader decodes all. Exported schema names carry the prefix `aos.agent/`.
"""

from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from msgspec import Meta, field

from hobus.bus.messages.base import Count, Record, Timestamp
from hobus.bus.messages.ids import LOCAL, CommandId, InputId, PersonName, RunId, SessionId, StepId, ToolBatchId, TurnId
from hobus.bus.messages.session import CalledBy, HostCommand, Lifecycle, ModelChoice, SessionConfig, TokensMax
from hobus.bus.messages.work_order import Caller, Callers, Receipt, ToolFile, WorkOrder

ENTRY_NAMES = {
    "SessionStarted": "SESSION_START",
    "SessionEnded": "SESSION_END",
    "OrderDispatched": "WO_DISPATCHED",
    "StateSnapshot": "STATE_SNAPSHOT",
    "IntentDeclared": "INTENT_DECLARED",
    "IntentSuperseded": "INTENT_SUPERSEDED",
    "IntentClosed": "INTENT_CLOSED",
    "IntentConflict": "INTENT_CONFLICT",
}
"""Event kinds whose ledger entry has another name; all others are recorded under their own."""


SaidBy = Annotated[
    str, Meta(description="who said it: `local`, the operating system user of this home, or `key/<name>`, by HTTP")
]
SaidAt = Annotated[str, Meta(description="the instance that it came from, as the broker stamped it; empty: not known")]


class SessionFact(Record):
    """One fact of a session's journal; `kind` is the name of its class, `entry_name` the event_type of its entry."""

    kind: ClassVar[str]
    entry_name: ClassVar[str]
    at: Timestamp

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.kind = cls.__name__
        cls.entry_name = ENTRY_NAMES.get(cls.kind, cls.kind)


class SessionStarted(SessionFact):
    """First fact of a session (entry SESSION_START)."""

    agent_id: Annotated[str, Meta(description="the agent of the session")]
    session_config: SessionConfig
    max_in_flight_effects: Annotated[int, Meta(ge=1, description="orders of the session in flight at once")]
    applied_commands_max: Annotated[
        Count | None, Meta(description="command ids remembered against repeats, the newest; None: all")
    ] = None
    principal: Annotated[
        str, Meta(description="whose session it is: `local`, or `key/<name>` of the HTTP door; memory is its own")
    ] = LOCAL


class TookOver(SessionFact):
    """A new owner fences the old one; raises no epoch."""

    tenure: Annotated[int, Meta(ge=1, description="counts from 1 in its session")]
    instance: Annotated[str, Meta(description="the new owner")]


class LeaseTerms(Record):
    """What a requester asks a lease to be."""

    ttl_secs: Annotated[int, Meta(ge=1, description="from its issue, or the last heartbeat, to its expiry, s")]
    heartbeat_timeout_secs: Annotated[int, Meta(ge=1, description="silence after which it is over, s")]


class OpenCalls(Record):
    """Calls that a turn handed out and whose results nobody has sent yet."""

    wo_id: Annotated[str, Meta(description="the order whose model asked for them")]
    call_ids: Annotated[
        list[str], Meta(description="`call_<8 hex of the session>_<run>_<round>_<call>`, in call order")
    ]


class GivenResult(Record):
    """What the caller of a turn says that a call of it brought."""

    tool_call_id: Annotated[str, Meta(description="the call")]
    content_ref: Annotated[str, Meta(description="where the result is")]


class RunRequested(SessionFact):
    """An input was admitted; it will be answered exactly once."""

    ADDED_LATER = 4

    input_ref: Annotated[str, Meta(description="where the text of the user is")]
    input_id: InputId
    input_digest: Annotated[
        str, Meta(description="salted: SHA-256 of input_id and text; tells a retry from a conflict")
    ]
    results: Annotated[
        list[GivenResult], Meta(description="of open calls: the run goes on where they were asked for")
    ] = field(default_factory=list[GivenResult])
    continues: Annotated[str | None, Meta(description="the order whose model asked for them; None: none")] = None
    run_overrides: SessionConfig | None = None
    deadline_at: Annotated[Timestamp, Meta(description="when the answer is due")]
    config_digest: Annotated[str, Meta(description="`sha256:<64 hex>` of the configuration snapshot; empty: none yet")]
    lease: Annotated[LeaseTerms | None, Meta(description="the run needs a lease; None: it runs to its end")] = None
    principal: Annotated[str, Meta(description="on whose behalf it runs, whoever drives it; empty: its driver's")] = ""
    asked_by: SaidBy = LOCAL
    model: Annotated[ModelChoice | None, Meta(description="what answers; None: as run_overrides and session say")] = (
        None
    )
    files: Annotated[list[ToolFile], Meta(description="images that the message brings, by ref")] = field(
        default_factory=list[ToolFile]
    )
    called_by: CalledBy = ""
    tokens_max: TokensMax = 0
    callers: Callers = field(default_factory=list[Caller])


class RunStarted(SessionFact):
    """The run began under its resolved configuration."""


class RunAttached(SessionFact):
    """Another request for the active input joined; the deadline may move later."""

    deadline_at: Annotated[Timestamp, Meta(description="the later of both deadlines")]


class HostCommandReceived(SessionFact):
    """A command arrived, a Steer's or FollowUp's text in body 1; its verdict is next."""

    ADDED_LATER = 1

    command: Annotated[HostCommand, Meta(description="with its text blank")]
    principal: SaidBy = LOCAL
    door: SaidAt = ""
    person: PersonName = ""


class HostCommandApplied(SessionFact):
    """The last received command took effect."""

    command_id: CommandId


class HostCommandRejected(SessionFact):
    """The last received command had no effect."""

    command_id: CommandId
    reason: Annotated[str, Meta(description="`<code>: <facts>`, code one of COMMAND_REFUSALS")]


class LifecycleChanged(SessionFact):
    """The run moved to another state."""

    lifecycle: Annotated[Lifecycle, Meta(description="where the current run stands")]


class StepStarted(SessionFact):
    """The next step of the round, or the first of a new round."""

    step_id: StepId
    new_round: Annotated[bool, Meta(description="true: first step of a new round")]
    steers: Annotated[
        list[str], Meta(description="refs of the steers that a new round observes: all that were pending")
    ] = field(default_factory=list[str])


class OrderDispatched(SessionFact):
    """Entry WO_DISPATCHED: the order, with texts as refs."""

    wo_id: Annotated[str, Meta(description="id of the order, its idempotency key everywhere")]
    wo_type: Annotated[str, Meta(description="what kind of work")]
    step_id: StepId
    order: Annotated[WorkOrder, Meta(description="every referenced text is blank")]


class OrderEnded(SessionFact):
    """The receipt that HO2 accepted for an order; texts of other entries are refs."""

    wo_id: Annotated[str, Meta(description="id of the order, its idempotency key everywhere")]
    receipt: Annotated[Receipt, Meta(description="every referenced text is blank")]


class ToolBatchIssued(SessionFact):
    """Parallel calls of one step were sent."""

    tool_batch_id: ToolBatchId
    call_ids: Annotated[list[str], Meta(description="calls of the batch, in order")]
    held: Annotated[
        list[str],
        Meta(description="those of them that wait for an Approve or a Deny before they run, as `<call>-<digest>`"),
    ] = field(default_factory=list[str])
    needs_other: Annotated[bool, Meta(description="whoever asked for the run may not approve them")] = False


class ToolReceipt(SessionFact):
    """A call of the batch ended without an order; IgnoredStale if its fence is stale."""

    tool_batch_id: ToolBatchId
    call_id: Annotated[str, Meta(description="zero-padded position of the call in its answer")]
    status: Annotated[Literal["Succeeded", "Failed", "Cancelled"], Meta(description="how the call ended")]
    code: Annotated[str, Meta(description="closed code; empty: none")] = ""
    session_epoch: Annotated[Count, Meta(description="rises with every decision that makes earlier work stale")]
    step_epoch: Annotated[Count, Meta(description="the same within a step")]


class LeaseIssued(SessionFact):
    """A lease on the run: without renewal it is cancelled."""

    lease_id: Annotated[str, Meta(description="`LEASE-<run>-<number>`")]
    issued_at: Timestamp
    expires_at: Timestamp
    heartbeat_timeout_secs: Annotated[Count, Meta(description="silence after which the lease is over, s")]


class TimePassed(SessionFact):
    """A clock reading for the reducer; an expired lease cancels its run, once."""


class RunCompleted(SessionFact):
    """The run's answer, with the TurnResult (this entry is TURN_RECORDED)."""

    ADDED_LATER = 2

    input_id: InputId
    result_ref: Annotated[str, Meta(description="where the TurnResult is")]
    reply_ref: Annotated[str, Meta(description="where the text of the reply is, with the calls that it hands out")]
    open_calls: Annotated[OpenCalls | None, Meta(description="calls that it hands out to its caller; None: none")] = (
        None
    )
    faults: Annotated[
        list[str], Meta(description="what the quality gate found wrong with the answer; none: it was accepted")
    ] = field(default_factory=list[str])
    steers_unobserved: Annotated[list[str], Meta(description="refs of steers that no round was left for")] = field(
        default_factory=list[str]
    )


class RunFailed(SessionFact):
    """The run ended without an answer."""

    input_id: InputId
    code: Annotated[str, Meta(description="why")]
    detail_ref: Annotated[str | None, Meta(description="where the explanation is; None: nowhere")] = None


class RunCancelled(SessionFact):
    """The run was ended on purpose."""

    input_id: InputId
    reason: Annotated[str | None, Meta(description="words of who cancelled; None: none")] = None


class TurnDegraded(SessionFact):
    """The host answered this input without HO2; legal in every state."""

    input_id: InputId
    input_ref: Annotated[str, Meta(description="where the text of the user is")]
    reply_ref: Annotated[str, Meta(description="where the text of the reply is")]
    delivered: Annotated[bool, Meta(description="true: the client has it already, so it is unconditional")]
    reason: Annotated[str, Meta(description="who had not answered and why; no prompt text; empty: not known")] = ""
    total_tokens: Annotated[Count, Meta(description="of the call that made the reply")] = 0
    cost_usd: Annotated[float | None, Meta(description="of that call; None: a price is unknown")] = 0.0


class StateSnapshot(SessionFact):
    """Entry STATE_SNAPSHOT: the state folded so far, where loading begins.

    Its bodies hold the record; it is accepted only if the state there is the one that the journal gives.
    """

    after: Annotated[str, Meta(description="submission id of the entry before it: what the snapshot covers")]
    state_hash: Annotated[str, Meta(description="SHA-256 of the canonical state bytes")]
    record_ref: Annotated[
        str, Meta(description="where the packed record is; the next body has its older turns as lines")
    ]
    record_hash: Annotated[
        str, Meta(description="SHA-256 of the body behind `record_ref`, which holds refs and no texts")
    ]
    record_version: Annotated[Count, Meta(description="form of the packed record; another one is not read")]


IntentScope = Literal["session"]
IntentOutcome = Literal["closed", "session_ended"]
"""How an intent ended: by what the person said, or with its session."""


class IntentDeclared(SessionFact):
    """Entry INTENT_DECLARED: the session's intent from now on."""

    intent_id: Annotated[str, Meta(description="`INT-<session>-<nnn>`, counted in the session")]
    scope: Annotated[IntentScope, Meta(description="how far it reaches")]
    objective_ref: Annotated[
        str,
        Meta(
            description="where its words are: body 1 of this entry, or the message itself where no model has put it "
            "shorter"
        ),
    ]
    parent_intent_id: Annotated[str | None, Meta(description="the intent whose place it takes; None: none")] = None


class IntentSuperseded(SessionFact):
    """Entry INTENT_SUPERSEDED: the next declared intent replaces it."""

    intent_id: Annotated[str, Meta(description="`INT-<session>-<nnn>`, was active")]
    superseded_by_intent_id: Annotated[str, Meta(description="the one that comes next")]
    reason: Annotated[str, Meta(description="closed code: new_objective")]


class IntentClosed(SessionFact):
    """Entry INTENT_CLOSED: the intent ended."""

    intent_id: Annotated[str, Meta(description="`INT-<session>-<nnn>`, was active")]
    outcome: Annotated[
        IntentOutcome, Meta(description="closed: by what the person said; session_ended: with its session")
    ]
    reason: Annotated[str, Meta(description="closed code: close_signal, session_ended")]


class IntentConflict(SessionFact):
    """Entry INTENT_CONFLICT: the turn continued under one intent, with doubt."""

    reason: Annotated[str, Meta(description="closed code: unclear_signal, several_active")]
    active_intent_ids: Annotated[list[str], Meta(description="active then, in the order of their declaration")]
    chosen: Annotated[str, Meta(description="the one under which the turn goes on")]


class SessionEnded(SessionFact):
    """Last fact of a session (entry SESSION_END)."""

    reason: Annotated[str, Meta(description="why, in the words of who ended it")]
    turn_count: Annotated[Count, Meta(description="turns answered")]
    total_tokens: Annotated[Count, Meta(description="of its turns, however they ended")] = 0
    total_cost: Annotated[float | None, Meta(description="of them, USD; None: a call has no known price")] = 0.0
    principal: SaidBy = LOCAL
    door: SaidAt = ""


class SessionLeft(SessionFact):
    """The session moved to another cell; only its return may follow."""

    cell: Annotated[str, Meta(description="name of that cell, as its door has it")]


class SessionArrived(SessionFact):
    """The whole journal is in this cell; supervisors may own the session."""

    cell: Annotated[str, Meta(description="name of this cell, as its door has it")]


SESSION_FACTS: tuple[type[SessionFact], ...] = tuple(SessionFact.__subclasses__())

RUN_ENDS = frozenset({"RunCompleted", "RunFailed", "RunCancelled"})
"""Event types with which a run is over; TurnDegraded, the host's, ends an input without or against its run."""


class SessionEvent(NamedTuple):
    """The journal's envelope (`aos.agent/SessionEvent@1`): an event, and where its session stood.

    `bus.record.journal` is how its entry holds it. No part is checked here: each was where it was made or read.
    """

    session_id: SessionId
    session_epoch: int
    step_epoch: int
    event: SessionFact
    run_id: RunId | None = None
    turn_id: TurnId | None = None
    step_id: StepId | None = None
