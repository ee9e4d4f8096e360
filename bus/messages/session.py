"""Sessions: identities, configuration, commands, turns, and what is asked of the host and of HO2.

What happened to a session is `bus/record/session_facts.py`. Exported schema names carry the prefix `aos.agent/`.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field

from hobus.bus.messages.base import Chosen, Count, Message, NonBlank, Record, Timestamp
from hobus.bus.messages.ids import PRINCIPAL_PATTERN, CommandId, InputId, RunId, SessionId
from hobus.bus.messages.work_order import Cost, Sampling, ToolChoice, ToolFile, ToolSpec

Lifecycle = Literal["Idle", "Running", "WaitingInput", "Paused", "Cancelling", "Completed", "Failed", "Cancelled"]
ReasoningEffort = Literal["Low", "Medium", "High"]


class RunSettings(Record):
    """What a session's settings and a run's have in common."""

    provider_profile_id: str | None = Field(default=None, description="a key of gateway.profiles; None: none")
    reasoning_effort: ReasoningEffort | None = Field(default=None, description="how hard the model shall think")
    max_tokens: Chosen | None = Field(default=None, description="cap of an answer, tokens; None: the contract decides")
    caller_tools: list[ToolSpec] | None = Field(
        default=None, description="tools that the asker runs itself, beside the agent's own"
    )
    tool_choice: ToolChoice | None = Field(
        default=None, description="required: caller_tools alone, one has to be called; None: auto"
    )
    output_schema: dict[str, Any] | None = Field(default=None, description="JSON Schema of the answer; None: text")
    sampling: Sampling | None = Field(default=None, description="if the agent takes it; None: as configured")


class SessionConfig(RunSettings):
    """Mutable defaults for future runs (`aos.agent/SessionConfig@1`)."""

    provider: str | None = Field(default=None, description="None: routed by tag or default")
    model: str | None = Field(default=None, description="None: routed by tag or default")
    attention_template: str | None = Field(default=None, description="`ATT-…` for contexts; None: by selectors")
    calls_tool: str | None = Field(
        default=None,
        description="of one run, by an operator: the tool to call without a model; its message is the arguments, its "
        "answer the result",
    )


NamedBy = Literal["request", "session", "agent", "contract", "tag", "default"]
"""Who named a model, in the order in which they are heard."""


class ModelChoice(Record):
    """The model of a run, and who named it."""

    provider: str = Field(description="provider id")
    model: str = Field(description="model id")
    named_by: NamedBy = Field(description="who named it")


class RunConfig(RunSettings):
    """Resolved, immutable snapshot for one run (`aos.agent/RunConfig@1`)."""

    provider: NonBlank = Field(description="provider id")
    model: NonBlank = Field(description="model id")
    named_by: NamedBy = Field(default="session", description="who named the model")


class Steer(Record):
    """A word to the run, seen by its next model round."""

    kind: Literal["Steer"] = "Steer"
    text: str = Field(description="word for word; in the journal it is body 1")


class FollowUp(Record):
    """A message that starts the next run, under input id `followup:<command>`, when this one ends."""

    kind: Literal["FollowUp"] = "FollowUp"
    text: str = Field(description="word for word; in the journal it is body 1")


class Pause(Record):
    """Stop at the next step boundary."""

    kind: Literal["Pause"] = "Pause"


class Resume(Record):
    """Go on after a pause."""

    kind: Literal["Resume"] = "Resume"


class Cancel(Record):
    """End the run; open calls are closed."""

    kind: Literal["Cancel"] = "Cancel"
    reason: str | None = Field(default=None, description="words of who cancelled; None: none")


class LeaseHeartbeat(Record):
    """The holder of a lease is alive."""

    kind: Literal["LeaseHeartbeat"] = "LeaseHeartbeat"
    lease_id: str = Field(description="`LEASE-<run>-<number>`")
    heartbeat_at: Timestamp


class Approve(Record):
    """Let a held call run."""

    kind: Literal["Approve"] = "Approve"
    call_id: str = Field(description="as held_calls names it")


class Deny(Record):
    """Refuse a held call."""

    kind: Literal["Deny"] = "Deny"
    call_id: str = Field(description="as held_calls names it")
    reason: str | None = Field(default=None, description="words of who denied; None: none")


StatedPrincipal = Annotated[
    str,
    Field(
        pattern=rf"^{PRINCIPAL_PATTERN}?$",
        description="on whose behalf; read of an HTTP door alone, others are `local`",
    ),
]

COMMAND_REFUSALS = (
    "not_started", "session_closed", "no_active_run", "stale_target", "stale_epoch", "cancelling", "not_paused",
    "already_paused", "wrong_lease", "lease_expired", "not_newer", "call_not_open", "blank", "too_large", "too_many",
    "command_conflict", "agent_removed", "own_call",
)  # fmt: skip
"""Closed codes of a rejected command."""

Command = Annotated[
    Steer | FollowUp | Pause | Resume | Cancel | LeaseHeartbeat | Approve | Deny, Field(discriminator="kind")
]


class HostCommand(Record):
    """A control action on a session (`aos.agent/HostCommand@1`)."""

    command_id: CommandId
    target_run_id: RunId | None = None
    expected_session_epoch: Count | None = Field(default=None, description="applies only to this epoch; None: any")
    issued_at: Timestamp
    command: Command = Field(description="what to do")


# --- what is asked of the host and of HO2 -------------------------------------------------------------------------


class ToolCallSummary(Record):
    """One tool call of a turn, as a client sees it."""

    tool_id: str = Field(description="name of the tool")
    status: Literal["Succeeded", "Failed", "IgnoredStale", "Cancelled"] = Field(description="how it ended")
    code: str = Field(default="", description="closed code; empty: none")
    files: list[ToolFile] = Field(default_factory=list[ToolFile], description="that it brought beside its text")


class CallerCall(Record):
    """A tool call that the caller runs, sending its result with the next turn."""

    tool_call_id: str = Field(description="names it in that turn")
    name: str = Field(description="one of caller_tools")
    arguments: dict[str, Any] = Field(description="as the model gave them, unchecked")


class CallResult(Record):
    """What such a call brought."""

    tool_call_id: NonBlank = Field(description="of a CallerCall that is open")
    content: str = Field(description="for the model, as it is")


class Remembered(Record):
    """What a turn stated, and what became of it; undone by its artifact id."""

    statement: str = Field(description="as it was read; empty: erased")
    artifact_id: str = Field(description="`ART-…`")
    state: Literal["active", "pending", "refused", "unanswered"] = Field(
        description="active: in prompts from the next turn on; pending: once confirmed; refused: in quarantine; "
        "unanswered: nobody knows yet, said again it counts once"
    )


class TurnResult(Message, wire="session.turn_result"):
    """The answer to one input, exactly once."""

    response: str = Field(description="for the user to read")
    outcome: Literal["success", "degraded", "error"] = Field(
        description="degraded: answered without HO2; error: not answered"
    )
    session_id: SessionId
    run_id: RunId | None
    input_id: InputId
    tool_calls: list[ToolCallSummary] = Field(default_factory=list[ToolCallSummary])
    caller_calls: list[CallerCall] = Field(default_factory=list[CallerCall], description="for the caller to run")
    refused: bool = Field(default=False, description="the model refuses in words to keep output_schema")
    cut: str = Field(default="", description="why the answer is not whole, one of CUT")
    tools_missing: list[str] = Field(
        default_factory=list[str],
        description="tools that nobody had: ids, or `<server>__*`",
    )
    tools_withheld: list[str] = Field(
        default_factory=list[str],
        description="writing tools that only a wildcard permits",
    )
    template_fault: str = Field(
        default="",
        description="the attention template asked for is gone, or its selectors exclude this agent",
    )
    over_budget: Count = Field(default=0, description="tokens of its session beyond its budget (mode warn)")
    exchange_entry_ids: list[str] = Field(
        default_factory=list[str], description="submission ids of PROMPT_RECEIVED, in order"
    )
    quality_gate_passed: bool | None = Field(default=None, description="None: no answer was judged")
    consolidation_candidates: list[str] = Field(
        default_factory=list[str], description="signals that crossed their gate"
    )
    remembered: Remembered | None = Field(default=None, description="what the message stated")
    cost: Cost = Cost()
    elapsed_ms: Count = Field(default=0, description="from arrival to the answer")
    code: str | None = Field(default=None, description="why the outcome is not success")
    retry_after_ms: int | None = Field(default=None, description="when its provider may be asked again")
    reason: str = Field(
        default="",
        description="degraded: who had not answered and why, for the user",
    )


class StartSession(Message, wire="session.start"):
    """Client -> host and host -> HO2: begin (or find again) a session; idempotent by session_id."""

    session_id: SessionId | None = Field(default=None, description="None: the host draws one")
    agent_id: str | None = Field(default=None, description="None: host.agent_id")
    session_config: SessionConfig = SessionConfig()
    principal: StatedPrincipal = ""


class SessionReady(Message, wire="session.ready"):
    """Answer to StartSession."""

    session_id: SessionId
    agent_id: str = Field(description="the agent of the session")
    is_new: bool = Field(description="false: the session was there already")


def words_of(text: str, results: Iterable[CallResult]) -> str:
    """What a turn says: the message of the user, or the results of calls as a person would read them."""
    return text or "\n".join(f"Result of {result.tool_call_id}: {result.content}" for result in results)


def lasting_of(overrides: SessionConfig | None) -> SessionConfig:
    """What of a first turn's overrides is its session's, too: the model and the attention template that it names."""
    if overrides is None:
        return SessionConfig()
    return SessionConfig(
        provider=overrides.provider, model=overrides.model, attention_template=overrides.attention_template
    )


def form_of(overrides: SessionConfig | None) -> str:
    """Tells the forms of answers apart that requests of one input ask for; empty: none of its own.

    A hash of the schema, or the tool that is called.
    """
    if overrides is None:
        return ""
    if overrides.calls_tool is not None:
        return f"call of {overrides.calls_tool}"
    schema = overrides.output_schema
    return "" if schema is None else hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest()


class TurnInput(Record):
    """What whoever asks for a turn says, wherever it is passed on: a user's message, or results of calls."""

    text: str = Field(default="", description="the user's message; empty beside results")
    results: list[CallResult] = Field(
        default_factory=list[CallResult], description="of every open call, in place of a message"
    )
    run_overrides: SessionConfig | None = None
    stream: bool = Field(default=False, description="send provisional deltas before the answer")
    lease: bool = Field(
        default=False,
        description="the run is cancelled when its asker goes away; asking again renews",
    )


class ProcessTurn(TurnInput, Message, wire="host.process_turn"):
    """Client -> host: one user message, or results. Idempotent by input_id; its deadline is the client's."""

    session_id: SessionId | None = Field(default=None, description="None: a first turn, id from input_id")
    input_id: InputId
    agent_id: str | None = Field(default=None, description="None: host.agent_id, or the session's; another is refused")
    files: list[ToolFile] = Field(default_factory=list[ToolFile], description="images of the message, in its record")


class TurnRequest(TurnInput, Message, wire="ho2.turn"):
    """Host -> HO2: answer one input.

    Idempotent by input_id; routing key = session_id. Owners ask for their sessions' follow-ups themselves.
    """

    session_id: SessionId
    input_id: InputId
    agent_id: str | None = Field(default=None, description="refused unless it is the session's")
    files: list[ToolFile] = Field(default_factory=list[ToolFile], description="images of the message, in its record")
    client: str = Field(
        default="",
        description="instance that waits; lost, it renews no lease",
    )
    waiting: Literal["Paused", "WaitingInput"] | None = Field(
        default=None, description="what the requester knows; answered once that changed"
    )


class HeldCall(Record):
    """A tool call that waits for an Approve or Deny."""

    call_id: str = Field(description="`<position>-<digest of tool and arguments>`")
    tool_id: str = Field(description="name of the tool")
    arguments: dict[str, Any] = Field(default_factory=dict, description="as the model gave them")


class TurnReply(Message, wire="ho2.turn_reply"):
    """HO2 -> host: the result, or how the run stands; then the host asks again under the same input_id."""

    result: TurnResult | None
    waiting: Literal["Paused", "WaitingInput"] | None = Field(default=None, description="for a resume or an approval")
    run_id: RunId | None = Field(default=None, description="that waits or is leased")
    held_calls: list[HeldCall] = Field(default_factory=list["HeldCall"], description="that wait for an approval")
    lease_id: str | None = Field(default=None, description="renewed by asking again")
    meanwhile: TurnResult | None = Field(
        default=None,
        description="for a client whose time is over while the run stands still",
    )


class Consolidate(Message, wire="ho2.consolidate"):
    """Host -> HO2, post, after the reply: these signals crossed their gates.

    Lost, the next turn names them again.
    """

    session_id: SessionId
    run_id: RunId
    agent_id: str = Field(description="whose memory; the routing key")
    signal_ids: Annotated[list[str], Field(min_length=1)] = Field(description="the turn's consolidation_candidates")


class EndSession(Message, wire="session.end"):
    """End a session; best effort at the host, recorded by HO2."""

    session_id: SessionId
    reason: str = Field(default="client", description="why it ends")
    principal: StatedPrincipal = ""
    door: str = Field(default="", description="host -> HO2: the stamped instance that said it")


class SessionClosed(Message, wire="session.closed"):
    """Answer to EndSession."""

    session_id: SessionId
    turn_count: Count | None = Field(description="turns answered; None: unknown, the end may not be recorded")
    total_tokens: Count = Field(default=0, description="of its turns, however they ended")
    cost_usd: float | None = Field(default=0.0, description="of them; None: a price is unknown")


class ReadSession(Message, wire="session.read"):
    """Host, operator, HTTP door -> HO2: what is known of a session."""

    session_id: SessionId


class SessionCommand(Message, wire="session.command"):
    """Operator, door, host -> HO2: steer, pause, cancel … a session. Idempotent by command_id; key = session_id."""

    session_id: SessionId
    command: HostCommand
    principal: StatedPrincipal = ""


class CommandVerdict(Message, wire="session.command_verdict"):
    """Answer to SessionCommand, durable, and the same when asked again."""

    session_id: SessionId
    command_id: CommandId
    outcome: Literal["applied", "rejected"] = Field(description="whether it took effect")
    reason: str = Field(default="", description="`<code>: <facts>`, of COMMAND_REFUSALS")
    is_repeat: bool = Field(default=False, description="it had come before")
    run_id: RunId | None = Field(default=None, description="active after it")
    lifecycle: Lifecycle = Field(description="where that run stands after it")
    session_epoch: Count = Field(description="the current epoch after it")
    input_id: InputId | None = Field(default=None, description="a FollowUp's: input of the run that it starts")


class CallView(Record):
    """One call of the active batch."""

    call_id: str = Field(description="zero-padded position; of a held one with its digest")
    tool_id: str = Field(description="name of the tool; empty: not known")
    state: str = Field(description="Pending, Succeeded, Failed, IgnoredStale or Cancelled")
    code: str = Field(default="", description="closed code; empty: none")
    held: bool = Field(default=False, description="waits for an approval")
    arguments: dict[str, Any] = Field(default_factory=dict, description="as the model gave them")


class RunView(Record):
    """The active run as an operator sees it."""

    run_id: RunId
    input_id: InputId
    rounds: Count = Field(description="model rounds begun")
    in_flight: Count = Field(description="orders on their way")
    calls: list[CallView] = Field(description="of the active tool batch, in call order")
    pause_requested: bool = Field(description="at the next step")
    cancel_reason: str | None = Field(description="why it is being cancelled")
    pending_steers: Count = Field(description="steers that the next round observes")
    deadline_at: Timestamp | None = Field(description="when its answer is due; moves while it waits")
    lease_id: str | None = Field(description="its lease; None: it has none")
    lease_expires_at: Timestamp | None = Field(description="when that is over")


class IntentView(Record):
    """An active intent."""

    intent_id: str = Field(description="`INT-<session>-<nnn>`")
    objective: str = Field(description="its words, cut")
    declared_at: Timestamp


class ConflictView(Record):
    """The newest conflict of a session's intents."""

    reason: str = Field(description="unclear_signal, several_active")
    active_intent_ids: list[str] = Field(description="active then, in the order of their declaration")
    chosen: str = Field(description="under which the turn went on")
    at: Timestamp


class SessionView(Message, wire="session.view"):
    """Answer to ReadSession."""

    session_id: SessionId
    agent_id: str = Field(description="the agent of the session")
    status: Literal["open", "closed"] = Field(description="closed: no further turn")
    lifecycle: Lifecycle = Field(description="where the current run stands")
    session_epoch: Count = Field(description="rises when earlier work becomes stale")
    step_epoch: Count = Field(description="the same within a step")
    tenure: Count = Field(description="n of the owner's TookOver; 0: nobody yet")
    owner: str = Field(description="instance that owns the session; empty: none")
    turn_count: Count = Field(description="turns answered")
    active_input_id: InputId | None = Field(description="the input being answered; None: none")
    run: RunView | None = Field(default=None, description="the active run; None: none")
    pending_follow_ups: Count = Field(default=0, description="messages that wait for its end")
    created_at: Timestamp
    updated_at: Timestamp
    state_hash: str = Field(description="SHA-256 of the canonical state bytes")
    active_intents: list[IntentView] = Field(
        default_factory=list[IntentView], description="by declaration; the last one counts"
    )
    intent_conflicts: Count = Field(default=0, description="INTENT_CONFLICT entries of the session")
    newest_conflict: ConflictView | None = Field(default=None, description="None: there was none")
