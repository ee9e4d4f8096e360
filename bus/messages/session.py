"""Sessions: identities, configuration, commands, turns, and what is asked of the host and of HO2.

What happened to a session is `bus/record/session_facts.py`. Exported schema names carry the prefix `aos.agent/`.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from hobus.bus.messages.base import Chosen, Count, Message, NonBlank, Record, Timestamp
from hobus.bus.messages.ids import PRINCIPAL_PATTERN, CommandId, InputId, PersonName, Principal, RunId, SessionId
from hobus.bus.messages.work_order import Caller, Callers, Cost, Sampling, ToolChoice, ToolFile, ToolSpec

Lifecycle = Literal["Idle", "Running", "WaitingInput", "Paused", "Cancelling", "Completed", "Failed", "Cancelled"]
ReasoningEffort = Literal["Low", "Medium", "High"]


class RunSettings(Record):
    """What a session's settings and a run's have in common."""

    provider_profile_id: Annotated[str | None, Meta(description="a key of gateway.profiles; None: none")] = None
    reasoning_effort: Annotated[ReasoningEffort | None, Meta(description="the model's effort")] = None
    max_tokens: Annotated[Chosen | None, Meta(description="cap of an answer, tokens; None: the contract decides")] = (
        None
    )
    caller_tools: Annotated[
        list[ToolSpec] | None, Meta(description="tools that the asker runs itself, beside the agent's own")
    ] = None
    tool_choice: Annotated[
        ToolChoice | None, Meta(description="required: caller_tools alone, one has to be called; None: auto")
    ] = None
    output_schema: Annotated[dict[str, Any] | None, Meta(description="JSON Schema of the answer; None: text")] = None
    sampling: Annotated[Sampling | None, Meta(description="if the agent takes it; None: as configured")] = None


class SessionConfig(RunSettings):
    """Mutable defaults for future runs (`aos.agent/SessionConfig@1`)."""

    provider: Annotated[str | None, Meta(description="None: routed by tag or default")] = None
    model: Annotated[str | None, Meta(description="None: routed by tag or default")] = None
    attention_template: Annotated[str | None, Meta(description="`ATT-…` for contexts; None: by selectors")] = None


NamedBy = Literal["request", "session", "agent", "contract", "tag", "default"]
"""Who named a model, in the order in which they are heard."""


class ModelChoice(Record):
    """The model of a run, and who named it."""

    provider: Annotated[str, Meta(description="provider id")]
    model: Annotated[str, Meta(description="model id")]
    named_by: Annotated[NamedBy, Meta(description="who named it")]


class RunConfig(RunSettings):
    """Resolved, immutable snapshot for one run (`aos.agent/RunConfig@1`)."""

    provider: Annotated[NonBlank, Meta(description="provider id")]
    model: Annotated[NonBlank, Meta(description="model id")]
    named_by: Annotated[NamedBy, Meta(description="who named the model")] = "session"


class Steer(Record, tag_field="kind", tag="Steer"):
    """A remark for the run; its next model round sees it."""

    kind: ClassVar[Literal["Steer"]] = "Steer"
    text: Annotated[str, Meta(description="word for word; in the journal it is body 1")]


class FollowUp(Record, tag_field="kind", tag="FollowUp"):
    """A message that starts the next run, under input id `followup:<command>`, when this one ends."""

    kind: ClassVar[Literal["FollowUp"]] = "FollowUp"
    text: Annotated[str, Meta(description="word for word; in the journal it is body 1")]


class Pause(Record, tag_field="kind", tag="Pause"):
    """Stop at the next step boundary."""

    kind: ClassVar[Literal["Pause"]] = "Pause"


class Resume(Record, tag_field="kind", tag="Resume"):
    """Go on after a pause."""

    kind: ClassVar[Literal["Resume"]] = "Resume"


class Cancel(Record, tag_field="kind", tag="Cancel"):
    """End the run; open calls are closed."""

    kind: ClassVar[Literal["Cancel"]] = "Cancel"
    reason: Annotated[str | None, Meta(description="in words; None: none")] = None


class LeaseHeartbeat(Record, tag_field="kind", tag="LeaseHeartbeat"):
    """The holder of a lease is alive."""

    kind: ClassVar[Literal["LeaseHeartbeat"]] = "LeaseHeartbeat"
    lease_id: Annotated[str, Meta(description="`LEASE-<run>-<number>`")]
    heartbeat_at: Timestamp


class Approve(Record, tag_field="kind", tag="Approve"):
    """Let a held call run."""

    kind: ClassVar[Literal["Approve"]] = "Approve"
    call_id: Annotated[str, Meta(description="as held_calls names it")]


class Deny(Record, tag_field="kind", tag="Deny"):
    """Refuse a held call."""

    kind: ClassVar[Literal["Deny"]] = "Deny"
    call_id: Annotated[str, Meta(description="as held_calls names it")]
    reason: Annotated[str | None, Meta(description="in words; None: none")] = None


StatedPrincipal = Annotated[
    str,
    Meta(
        pattern=rf"^{PRINCIPAL_PATTERN}?\Z",
        description="on whose behalf; only an HTTP door may set it, others are `local`",
    ),
]

COMMAND_REFUSALS = (
    "not_started", "session_closed", "no_active_run", "stale_target", "stale_epoch", "cancelling", "not_paused",
    "already_paused", "wrong_lease", "lease_expired", "not_newer", "call_not_open", "blank", "too_large", "too_many",
    "command_conflict", "agent_removed", "own_call",
)  # fmt: skip
"""Closed codes of a rejected command."""

Command = Steer | FollowUp | Pause | Resume | Cancel | LeaseHeartbeat | Approve | Deny


class HostCommand(Record):
    """A control action on a session (`aos.agent/HostCommand@1`)."""

    command_id: CommandId
    target_run_id: RunId | None = None
    expected_session_epoch: Annotated[Count | None, Meta(description="applies only to this epoch; None: any")] = None
    issued_at: Timestamp
    command: Annotated[Command, Meta(description="what to do")]


# --- what is asked of the host and of HO2 -------------------------------------------------------------------------


class ToolCallSummary(Record):
    """One tool call of a turn, as a client sees it."""

    tool_id: Annotated[str, Meta(description="name of the tool")]
    status: Annotated[Literal["Succeeded", "Failed", "IgnoredStale", "Cancelled"], Meta(description="how it ended")]
    code: Annotated[str, Meta(description="closed code; empty: none")] = ""
    files: Annotated[list[ToolFile], Meta(description="that it brought beside its text")] = field(
        default_factory=list[ToolFile]
    )


class CallerCall(Record):
    """A tool call that the caller runs, sending its result with the next turn."""

    tool_call_id: Annotated[str, Meta(description="names it in that turn")]
    name: Annotated[str, Meta(description="one of caller_tools")]
    arguments: Annotated[dict[str, Any], Meta(description="from the model, unchecked")]


class CallResult(Record):
    """The result of such a call."""

    tool_call_id: Annotated[NonBlank, Meta(description="of an open CallerCall")]
    content: Annotated[str, Meta(description="for the model, verbatim")]


class Remembered(Record):
    """A turn's statement and its result; undone by its artifact id."""

    statement: Annotated[str, Meta(description="as understood; empty: erased")]
    artifact_id: Annotated[str, Meta(description="`ART-…`")]
    state: Annotated[
        Literal["active", "pending", "refused", "unanswered"],
        Meta(
            description="active: in prompts from the next turn on; pending: once confirmed; refused: in "
            "quarantine; unanswered: unknown yet"
        ),
    ]


class TurnResult(Message, wire="session.turn_result"):
    """The answer to one input, exactly once."""

    response: Annotated[str, Meta(description="for the user to read")]
    outcome: Annotated[
        Literal["success", "degraded", "error"], Meta(description="degraded: answered without HO2; error: not answered")
    ]
    session_id: SessionId
    run_id: RunId | None
    input_id: InputId
    tool_calls: list[ToolCallSummary] = field(default_factory=list[ToolCallSummary])
    caller_calls: Annotated[list[CallerCall], Meta(description="for the caller to run")] = field(
        default_factory=list[CallerCall]
    )
    refused: Annotated[bool, Meta(description="the model refused output_schema in words")] = False
    cut: Annotated[str, Meta(description="why the answer is incomplete, one of CUT")] = ""
    tools_missing: Annotated[list[str], Meta(description="unavailable tools: ids, or `<server>__*`")] = field(
        default_factory=list[str]
    )
    tools_withheld: Annotated[list[str], Meta(description="writing tools that only a wildcard permits")] = field(
        default_factory=list[str]
    )
    template_fault: Annotated[
        str, Meta(description="the attention template asked for is gone, or its selectors exclude this agent")
    ] = ""
    over_budget: Annotated[Count, Meta(description="tokens of its session beyond its budget (mode warn)")] = 0
    exchange_entry_ids: Annotated[list[str], Meta(description="submission ids of PROMPT_RECEIVED, in order")] = field(
        default_factory=list[str]
    )
    quality_gate_passed: Annotated[bool | None, Meta(description="None: no answer was judged")] = None
    consolidation_candidates: Annotated[list[str], Meta(description="signals that crossed their gate")] = field(
        default_factory=list[str]
    )
    remembered: Annotated[
        Remembered | None, Meta(description="statement of the message, or of the previous one if recognised late")
    ] = None
    cost: Cost = Cost()
    elapsed_ms: Annotated[Count, Meta(description="from arrival to the answer")] = 0
    code: Annotated[str | None, Meta(description="why the outcome is not success")] = None
    retry_after_ms: Annotated[int | None, Meta(description="when its provider may be asked again")] = None
    reason: Annotated[str, Meta(description="degraded: what failed and why, for the user")] = ""

    @property
    def text(self) -> str:
        return self.response


class StartSession(Message, wire="session.start"):
    """Client -> host and host -> HO2: begin (or find again) a session; idempotent by session_id."""

    session_id: Annotated[SessionId | None, Meta(description="None: the host draws one")] = None
    agent_id: Annotated[str | None, Meta(description="None: host.agent_id")] = None
    session_config: SessionConfig = SessionConfig()
    principal: StatedPrincipal = ""


class SessionReady(Message, wire="session.ready"):
    """Answer to StartSession."""

    session_id: SessionId
    agent_id: Annotated[str, Meta(description="the agent of the session")]
    is_new: Annotated[bool, Meta(description="false: the session existed")]


def render_words(text: str, results: Iterable[CallResult]) -> str:
    """Return what a turn says: the user's message, or the results of calls as a person would read them."""
    return text or "\n".join(f"Result of {result.tool_call_id}: {result.content}" for result in results)


def keep_lasting(overrides: SessionConfig | None) -> SessionConfig:
    """Return what of a first turn's overrides is its session's, too: model and attention template."""
    if overrides is None:
        return SessionConfig()
    return SessionConfig(
        provider=overrides.provider, model=overrides.model, attention_template=overrides.attention_template
    )


def describe_form(overrides: SessionConfig | None) -> str:
    """Return what tells the forms of answers apart that requests of one input ask for; empty: none of its own."""
    schema = None if overrides is None else overrides.output_schema
    return "" if schema is None else hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest()


class TurnInput(Record):
    """What whoever asks for a turn says, wherever it is passed on: a user's message, or results of calls."""

    text: Annotated[str, Meta(description="the user's message; empty beside results")] = ""
    results: Annotated[list[CallResult], Meta(description="of all open calls, instead of a message")] = field(
        default_factory=list[CallResult]
    )
    run_overrides: SessionConfig | None = None
    stream: Annotated[bool, Meta(description="send provisional deltas before the answer")] = False
    lease: Annotated[bool, Meta(description="cancel the run if its requester leaves")] = False


CalledBy = Annotated[str, Meta(description="the order by which another agent calls this one; empty: none")]
TokensMax = Annotated[Count, Meta(description="tokens that its caller has left; 0: the agent's limit")]


class ProcessTurn(TurnInput, Message, wire="host.process_turn"):
    """Client -> host: one user message, or results. Idempotent by input_id; its deadline is the client's."""

    session_id: Annotated[SessionId | None, Meta(description="None: a first turn, id from input_id")] = None
    input_id: InputId
    agent_id: Annotated[str | None, Meta(description="None: host.agent_id, or the session's; another is refused")] = (
        None
    )
    files: Annotated[list[ToolFile], Meta(description="images of the message, in its record")] = field(
        default_factory=list[ToolFile]
    )
    start: Annotated[StartSession | None, Meta(description="begins the session if needed")] = None


class TurnRequest(TurnInput, Message, wire="ho2.turn"):
    """Host -> HO2, and HO2 -> HO2 if an agent calls another: answer one input.

    Idempotent by input_id; routing key = session_id. Owners request follow-ups of their sessions.
    """

    session_id: SessionId
    input_id: InputId
    agent_id: Annotated[str | None, Meta(description="refused unless it is the session's")] = None
    files: Annotated[list[ToolFile], Meta(description="images of the message, in its record")] = field(
        default_factory=list[ToolFile]
    )
    start: Annotated[StartSession | None, Meta(description="begins the session if needed")] = None
    client: Annotated[str, Meta(description="instance that waits; if lost, its lease is not renewed")] = ""
    waiting: Annotated[
        Literal["Paused", "WaitingInput"] | None,
        Meta(description="state that the requester knows; answered when it changes"),
    ] = None
    called_by: CalledBy = ""
    tokens_max: TokensMax = 0
    callers: Callers = field(default_factory=list[Caller])


class HeldCall(Record):
    """A tool call that waits for an Approve or Deny."""

    call_id: Annotated[str, Meta(description="`<position>-<digest of tool, arguments and round>`")]
    tool_id: Annotated[str, Meta(description="name of the tool")]
    arguments: Annotated[dict[str, Any], Meta(description="from the model")] = field(default_factory=dict)


class TurnReply(Message, wire="ho2.turn_reply"):
    """HO2 -> host: the result, or the state of a waiting run; the host then asks again."""

    result: TurnResult | None
    waiting: Annotated[Literal["Paused", "WaitingInput"] | None, Meta(description="for a resume or an approval")] = None
    run_id: Annotated[RunId | None, Meta(description="the run that waits or is leased")] = None
    held_calls: Annotated[list[HeldCall], Meta(description="that wait for an approval")] = field(
        default_factory=list["HeldCall"]
    )
    lease_id: Annotated[str | None, Meta(description="lease of the waiting requester")] = None
    meanwhile: Annotated[TurnResult | None, Meta(description="for a client whose time ends while the run waits")] = None


class Consolidate(Message, wire="ho2.consolidate"):
    """Host -> HO2, post, after the reply: these signals crossed their gates. The next turn repeats lost ones."""

    session_id: SessionId
    run_id: RunId
    agent_id: Annotated[str, Meta(description="whose memory; the routing key")]
    signal_ids: Annotated[list[str], Meta(min_length=1, description="the turn's consolidation_candidates")]


class EndSession(Message, wire="session.end"):
    """End a session; best effort at the host, recorded by HO2."""

    session_id: SessionId
    reason: Annotated[str, Meta(description="why it ends")] = "client"
    principal: StatedPrincipal = ""
    door: Annotated[str, Meta(description="host -> HO2: the stamped instance that said it")] = ""


class SessionClosed(Message, wire="session.closed"):
    """Answer to EndSession."""

    session_id: SessionId
    turn_count: Annotated[Count | None, Meta(description="turns answered; None: unknown, the end may not be recorded")]
    total_tokens: Annotated[Count | None, Meta(description="of all its turns; None: unknown")] = 0
    cost_usd: Annotated[float | None, Meta(description="of them; None: a price is unknown")] = 0.0


class ReadSession(Message, wire="session.read"):
    """Host, operator, HTTP door -> HO2: what is known of a session."""

    session_id: SessionId


class LeaveSession(Message, wire="session.leave"):
    """Operator -> HO2: close the session here, since it moves to another cell. Idempotent; `run_active`."""

    session_id: SessionId
    principal: Annotated[Principal, Meta(description="owner of a session that only the host has begun")]
    cell: Annotated[str, Meta(min_length=1, max_length=40, description="the new cell")]


class SessionCommand(Message, wire="session.command"):
    """Operator, door, host -> HO2: steer, pause, cancel … a session. Idempotent by command_id; key = session_id."""

    session_id: SessionId
    command: HostCommand
    principal: StatedPrincipal = ""
    person: PersonName = ""


class CommandVerdict(Message, wire="session.command_verdict"):
    """Answer to SessionCommand, durable; the same when repeated."""

    session_id: SessionId
    command_id: CommandId
    outcome: Annotated[Literal["applied", "rejected"], Meta(description="whether it took effect")]
    reason: Annotated[str, Meta(description="`<code>: <facts>`, of COMMAND_REFUSALS")] = ""
    is_repeat: Annotated[bool, Meta(description="the command is a repetition")] = False
    run_id: Annotated[RunId | None, Meta(description="active after it")] = None
    lifecycle: Annotated[Lifecycle, Meta(description="where that run stands after it")]
    session_epoch: Annotated[Count, Meta(description="the current epoch after it")]
    input_id: Annotated[InputId | None, Meta(description="a FollowUp's: input of the run that it starts")] = None


class CallView(Record):
    """One call of the active batch."""

    call_id: Annotated[str, Meta(description="zero-padded position; of a held one with its digest")]
    tool_id: Annotated[str, Meta(description="name of the tool; empty: not known")]
    state: Annotated[str, Meta(description="Pending, Succeeded, Failed, IgnoredStale or Cancelled")]
    code: Annotated[str, Meta(description="closed code; empty: none")] = ""
    held: Annotated[bool, Meta(description="waits for an approval")] = False
    arguments: Annotated[dict[str, Any], Meta(description="from the model")] = field(default_factory=dict)


class RunView(Record):
    """The active run as an operator sees it."""

    run_id: RunId
    input_id: InputId
    rounds: Annotated[Count, Meta(description="model rounds begun")]
    in_flight: Annotated[Count, Meta(description="orders on their way")]
    calls: Annotated[list[CallView], Meta(description="of the active tool batch, in call order")]
    pause_requested: Annotated[bool, Meta(description="at the next step")]
    cancel_reason: Annotated[str | None, Meta(description="why it is being cancelled")]
    pending_steers: Annotated[Count, Meta(description="steers that the next round observes")]
    deadline_at: Annotated[Timestamp | None, Meta(description="when its answer is due; moves while it waits")]
    lease_id: Annotated[str | None, Meta(description="its lease; None: it has none")]
    lease_expires_at: Annotated[Timestamp | None, Meta(description="when that is over")]


class IntentView(Record):
    """An active intent."""

    intent_id: Annotated[str, Meta(description="`INT-<session>-<nnn>`")]
    objective: Annotated[str, Meta(description="its words, cut")]
    declared_at: Timestamp


class ConflictView(Record):
    """The newest conflict of a session's intents."""

    reason: Annotated[str, Meta(description="unclear_signal, several_active")]
    active_intent_ids: Annotated[list[str], Meta(description="active then, in the order of their declaration")]
    chosen: Annotated[str, Meta(description="the intent that the turn continued under")]
    at: Timestamp


class SessionView(Message, wire="session.view"):
    """Answer to ReadSession."""

    session_id: SessionId
    agent_id: Annotated[str, Meta(description="the agent of the session")]
    status: Annotated[Literal["open", "closed"], Meta(description="closed: no further turn")]
    lifecycle: Annotated[Lifecycle, Meta(description="where the current run stands")]
    session_epoch: Annotated[Count, Meta(description="rises when earlier work becomes stale")]
    step_epoch: Annotated[Count, Meta(description="the same within a step")]
    tenure: Annotated[Count, Meta(description="n of the owner's TookOver; 0: nobody yet")]
    owner: Annotated[str, Meta(description="instance that owns the session; empty: none")]
    turn_count: Annotated[Count, Meta(description="turns answered")]
    active_input_id: Annotated[InputId | None, Meta(description="the input being answered; None: none")]
    run: Annotated[RunView | None, Meta(description="the active run; None: none")] = None
    pending_follow_ups: Annotated[Count, Meta(description="messages that wait for its end")] = 0
    created_at: Timestamp
    updated_at: Timestamp
    state_hash: Annotated[str, Meta(description="SHA-256 of the canonical state bytes")]
    active_intents: Annotated[list[IntentView], Meta(description="by declaration; the last one counts")] = field(
        default_factory=list[IntentView]
    )
    intent_conflicts: Annotated[Count, Meta(description="INTENT_CONFLICT entries of the session")] = 0
    newest_conflict: Annotated[ConflictView | None, Meta(description="None: there was none")] = None
