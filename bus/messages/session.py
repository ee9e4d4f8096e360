"""Sessions: identities, configuration, commands, events, turns. Source: spec page "Session contracts" (seed 004).

Exported schema names carry the prefix `aos.agent/`. The state and the reducer that folds these events are HO2's
(`actors/ho2_supervisor/session/`); the event types stand here because the host writes one of them and readers decode all.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from bus.messages.base import Count, Message, NonBlank, Record, Timestamp
from bus.messages.ids import InputId, RunId, SessionId, StepId, ToolBatchId, TurnId
from bus.messages.work_order import Cost, Receipt

Lifecycle = Literal[
    "Idle", "Running", "WaitingInput", "Paused", "Cancelling", "Completed", "Failed", "Cancelled"
]
ReasoningEffort = Literal["Low", "Medium", "High"]


class SessionConfig(Record):
    """Mutable defaults for future runs (`aos.agent/SessionConfig@1`)."""

    provider_profile_id: str | None = None
    provider: str | None = None
    model: str | None = None
    reasoning_effort: ReasoningEffort | None = None
    max_tokens: Count | None = None


class RunConfig(Record):
    """Resolved, immutable snapshot for one run (`aos.agent/RunConfig@1`)."""

    provider_profile_id: str | None = None
    provider: NonBlank
    model: NonBlank
    reasoning_effort: ReasoningEffort | None = None
    max_tokens: Count | None = None


class Steer(Record):
    kind: Literal["Steer"] = "Steer"
    text: str


class FollowUp(Record):
    kind: Literal["FollowUp"] = "FollowUp"
    text: str


class Pause(Record):
    kind: Literal["Pause"] = "Pause"


class Resume(Record):
    kind: Literal["Resume"] = "Resume"


class Cancel(Record):
    kind: Literal["Cancel"] = "Cancel"
    reason: str | None = None


class LeaseHeartbeat(Record):
    kind: Literal["LeaseHeartbeat"] = "LeaseHeartbeat"
    lease_id: str
    heartbeat_at: Timestamp


class Approve(Record):
    kind: Literal["Approve"] = "Approve"
    call_id: str


class Deny(Record):
    kind: Literal["Deny"] = "Deny"
    call_id: str
    reason: str | None = None


Command = Annotated[
    Steer | FollowUp | Pause | Resume | Cancel | LeaseHeartbeat | Approve | Deny, Field(discriminator="kind")
]


class HostCommand(Record):
    """A control action on a session (`aos.agent/HostCommand@1`). Handled by a later stage; its shape is final."""

    command_id: str
    target_run_id: RunId | None = None
    expected_session_epoch: Count | None = None
    issued_at: Timestamp
    command: Command


# --- what happened to a session (the journal) ---------------------------------------------------------------------


class SessionStarted(Record):
    """First fact of a session (entry SESSION_START)."""

    kind: Literal["SessionStarted"] = "SessionStarted"
    agent_id: str
    session_config: SessionConfig
    max_in_flight_effects: Annotated[int, Field(ge=1)]
    at: Timestamp


class TookOver(Record):
    """A new owner fences the old one; raises no epoch."""

    kind: Literal["TookOver"] = "TookOver"
    tenure: Annotated[int, Field(ge=1)]
    instance: str
    at: Timestamp


class RunRequested(Record):
    kind: Literal["RunRequested"] = "RunRequested"
    input_ref: str
    input_id: InputId
    input_digest: str = Field(description="salted: SHA-256 of input_id and text; tells a retry from a conflict")
    run_overrides: SessionConfig | None = None
    deadline_at: Timestamp
    config_digest: str
    at: Timestamp


class RunStarted(Record):
    kind: Literal["RunStarted"] = "RunStarted"
    at: Timestamp


class RunAttached(Record):
    """Another request for the active input joined; the deadline moves, never backwards."""

    kind: Literal["RunAttached"] = "RunAttached"
    deadline_at: Timestamp
    at: Timestamp


class HostCommandReceived(Record):
    kind: Literal["HostCommandReceived"] = "HostCommandReceived"
    command: HostCommand
    at: Timestamp


class HostCommandApplied(Record):
    kind: Literal["HostCommandApplied"] = "HostCommandApplied"
    command_id: str
    at: Timestamp


class HostCommandRejected(Record):
    kind: Literal["HostCommandRejected"] = "HostCommandRejected"
    command_id: str
    reason: str
    at: Timestamp


class LifecycleChanged(Record):
    kind: Literal["LifecycleChanged"] = "LifecycleChanged"
    lifecycle: Lifecycle
    at: Timestamp


class StepStarted(Record):
    """A step boundary: the next step of the current round, or the first step of a new round."""

    kind: Literal["StepStarted"] = "StepStarted"
    step_id: StepId
    new_round: bool
    at: Timestamp


class OrderDispatched(Record):
    """Entry WO_DISPATCHED: the order with its texts replaced by refs; durable before the order is sent."""

    kind: Literal["OrderDispatched"] = "OrderDispatched"
    wo_id: str
    wo_type: str
    step_id: StepId
    order: dict[str, Any] = Field(description="WorkOrder with every referenced text blank")
    at: Timestamp


class OrderEnded(Record):
    """The receipt that HO2 took for an order; texts that the ledger holds elsewhere are refs."""

    kind: Literal["OrderEnded"] = "OrderEnded"
    wo_id: str
    receipt: dict[str, Any] = Field(description="Receipt with every referenced text blank")
    at: Timestamp


class ToolBatchIssued(Record):
    kind: Literal["ToolBatchIssued"] = "ToolBatchIssued"
    tool_batch_id: ToolBatchId
    call_ids: list[str]
    at: Timestamp


class ToolReceipt(Record):
    """One call of the batch is terminal; a stale fence makes it IgnoredStale."""

    kind: Literal["ToolReceipt"] = "ToolReceipt"
    tool_batch_id: ToolBatchId
    call_id: str
    status: Literal["Succeeded", "Failed", "Cancelled"]
    code: str = ""
    session_epoch: Count
    step_epoch: Count
    at: Timestamp


class BatchSettled(Record):
    kind: Literal["BatchSettled"] = "BatchSettled"
    tool_batch_id: ToolBatchId
    results_ref: str | None = None
    at: Timestamp


class LeaseIssued(Record):
    kind: Literal["LeaseIssued"] = "LeaseIssued"
    lease_id: str
    issued_at: Timestamp
    expires_at: Timestamp
    heartbeat_timeout_secs: Count
    at: Timestamp


class TimePassed(Record):
    kind: Literal["TimePassed"] = "TimePassed"
    at: Timestamp


class RunCompleted(Record):
    """The run's answer; its further body is the TurnResult (this entry is TURN_RECORDED)."""

    kind: Literal["RunCompleted"] = "RunCompleted"
    input_id: InputId
    result_ref: str
    reply_ref: str
    at: Timestamp


class RunFailed(Record):
    kind: Literal["RunFailed"] = "RunFailed"
    input_id: InputId
    code: str
    detail_ref: str | None = None
    at: Timestamp


class RunCancelled(Record):
    kind: Literal["RunCancelled"] = "RunCancelled"
    input_id: InputId
    reason: str | None = None
    at: Timestamp


class TurnDegraded(Record):
    """The host answered this input without HO2; legal in every state, also first in a stream."""

    kind: Literal["TurnDegraded"] = "TurnDegraded"
    input_id: InputId
    input_ref: str
    reply_ref: str
    delivered: bool
    at: Timestamp


class SessionEnded(Record):
    kind: Literal["SessionEnded"] = "SessionEnded"
    reason: str
    turn_count: Count
    at: Timestamp


SessionEventKind = Annotated[
    SessionStarted
    | TookOver
    | RunRequested
    | RunStarted
    | RunAttached
    | HostCommandReceived
    | HostCommandApplied
    | HostCommandRejected
    | LifecycleChanged
    | StepStarted
    | OrderDispatched
    | OrderEnded
    | ToolBatchIssued
    | ToolReceipt
    | BatchSettled
    | LeaseIssued
    | TimePassed
    | RunCompleted
    | RunFailed
    | RunCancelled
    | TurnDegraded
    | SessionEnded,
    Field(discriminator="kind"),
]

ENTRY_NAMES = {
    "SessionStarted": "SESSION_START",
    "SessionEnded": "SESSION_END",
    "OrderDispatched": "WO_DISPATCHED",
}
"""Event kinds whose ledger entry has another name; all others are recorded under their own."""


class SessionEvent(Record):
    """The journal's envelope (`aos.agent/SessionEvent@1`): correlation fields always present. Body 0 of its entry."""

    session_id: SessionId
    run_id: RunId | None = None
    turn_id: TurnId | None = None
    step_id: StepId | None = None
    session_epoch: Count
    step_epoch: Count
    event: SessionEventKind

    @property
    def entry_name(self) -> str:
        """The event_type of this event's ledger entry."""
        return ENTRY_NAMES.get(self.event.kind, self.event.kind)


# --- what is asked of the host and of HO2 -------------------------------------------------------------------------


class ToolCallSummary(Record):
    """One tool call of a turn, as a client sees it."""

    tool_id: str
    status: Literal["Succeeded", "Failed", "IgnoredStale", "Cancelled"]
    code: str = ""


class TurnResult(Message):
    """The answer to one input, exactly once. `code` says why when outcome is not success."""

    TYPE: ClassVar[str] = "session.turn_result"

    response: str
    outcome: Literal["success", "degraded", "error"]
    session_id: SessionId
    run_id: RunId | None
    input_id: InputId
    tool_calls: list[ToolCallSummary] = Field(default_factory=list[ToolCallSummary])
    exchange_entry_ids: list[str] = Field(
        default_factory=list[str], description="submission ids of the turn's PROMPT_RECEIVED entries, in order"
    )
    quality_gate_passed: bool | None = None
    consolidation_candidates: list[str] = Field(default_factory=list[str])
    cost: Cost = Cost()
    elapsed_ms: Count = 0
    code: str | None = None


class StartSession(Message):
    """Client -> host and host -> HO2: begin (or find again) a session; idempotent by session_id."""

    TYPE: ClassVar[str] = "session.start"

    session_id: SessionId | None = Field(default=None, description="None: the host draws one")
    agent_id: str | None = Field(default=None, description="None: host.agent_id")
    session_config: SessionConfig = SessionConfig()


class SessionReady(Message):
    TYPE: ClassVar[str] = "session.ready"

    session_id: SessionId
    agent_id: str
    is_new: bool


class ProcessTurn(Message):
    """Client -> host: one user message. Idempotent by input_id; the envelope's deadline is the client's."""

    TYPE: ClassVar[str] = "host.process_turn"

    session_id: SessionId | None = Field(default=None, description="None: a first turn; the id follows from input_id")
    input_id: InputId
    text: str
    agent_id: str | None = None
    run_overrides: SessionConfig | None = None


class TurnRequest(Message):
    """Host -> HO2: answer one input. Idempotent by input_id; routing key = session_id."""

    TYPE: ClassVar[str] = "ho2.turn"

    session_id: SessionId
    input_id: InputId
    text: str
    run_overrides: SessionConfig | None = None


class TurnReply(Message):
    """HO2 -> host: the result, or (later stages) that the run waits for an approval or a resume."""

    TYPE: ClassVar[str] = "ho2.turn_reply"

    result: TurnResult | None
    waiting: Literal["Paused", "WaitingInput"] | None = None


class EndSession(Message):
    """End a session; best effort at the host, recorded by HO2."""

    TYPE: ClassVar[str] = "session.end"

    session_id: SessionId
    reason: str = "client"


class SessionClosed(Message):
    TYPE: ClassVar[str] = "session.closed"

    session_id: SessionId
    turn_count: Count


class ReadSession(Message):
    """Host, operator -> HO2: what is known of a session."""

    TYPE: ClassVar[str] = "session.read"

    session_id: SessionId


class SessionView(Message):
    TYPE: ClassVar[str] = "session.view"

    session_id: SessionId
    agent_id: str
    status: Literal["open", "closed"]
    lifecycle: Lifecycle
    session_epoch: Count
    step_epoch: Count
    tenure: Count
    owner: str
    turn_count: Count
    active_input_id: InputId | None
    created_at: Timestamp
    updated_at: Timestamp
    state_hash: str = Field(description="SHA-256 of the canonical state bytes")
