"""Work orders and receipts, and the life of an order: one table of what may follow what, and who may say so.

HO2 makes an order (planned), records that it sends it (dispatched: WO_DISPATCHED), and ends one that it does not send
or of which nobody says how it ended. HO1 begins what was dispatched (executing: the record has TOOL_STARTED of a tool
and PROMPT_SENT of a model's order, and no entry of its own) and ends it (WO_COMPLETED, WO_FAILED; of a model's
answer HO2's OrderEnded tells alone). The order itself is never changed behind its dispatch: where it stands is what the
record has of it, how it ended is its receipt.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, field
from msgspec.structs import replace

from hobus.bus.errors import WorkOrderFault
from hobus.bus.limits import STOPS_MAX, TEMPERATURE_MAX
from hobus.bus.messages.base import SENDABLE_MAX, Count, Message, Record, Timestamp
from hobus.bus.messages.ids import RunId

WorkOrderState = Literal["planned", "dispatched", "executing", "completed", "failed"]
OrderRole = Literal["ho2", "ho1"]
To = TypeVar("To", bound=WorkOrderState)

ORDER_TRANSITIONS: Mapping[tuple[WorkOrderState, WorkOrderState], OrderRole] = {
    ("planned", "dispatched"): "ho2",
    ("planned", "failed"): "ho2",  # a call that its operator refused, or of a tool that its model was not told of
    ("dispatched", "executing"): "ho1",
    ("dispatched", "failed"): "ho2",  # lost, expired, or its run was cancelled
    ("executing", "completed"): "ho1",
    ("executing", "failed"): "ho1",
}
"""(from, to) -> who may."""


def move_state(wo_id: str, state: WorkOrderState, to: To, role: OrderRole) -> To:
    """Return the next state. Raises WorkOrderFault(rejected) for a move that is none, or another role's."""
    allowed = ORDER_TRANSITIONS.get((state, to))
    if allowed is None:
        raise WorkOrderFault("rejected", f"{wo_id} is {state}; an order that is {state} does not become {to}")
    if allowed != role:
        raise WorkOrderFault("rejected", f"{wo_id} is {state}; only {allowed} may make it {to}, not {role}")
    return to


WorkOrderType = Literal["classify", "tool_call", "synthesize", "consolidate"]
ToolChoice = Literal["auto", "required"]


class Sampling(Record):
    """Sampling of the answer; None: the contract's or provider's."""

    temperature: Annotated[Annotated[float, Meta(ge=0, le=TEMPERATURE_MAX)] | None, Meta(description="0 to 2")] = None
    top_p: Annotated[Annotated[float, Meta(ge=0, le=1)] | None, Meta(description="0 to 1")] = None
    seed: Annotated[
        Annotated[int, Meta(ge=-SENDABLE_MAX - 1, le=SENDABLE_MAX)] | None,
        Meta(description="reproducible sampling, if the provider can"),
    ] = None
    stop: Annotated[
        list[Annotated[str, Meta(min_length=1)]],
        Meta(max_length=STOPS_MAX, description="stop texts, line ends included"),
    ] = field(default_factory=list[str])


CLASSIFICATION = "classification"
CONSOLIDATION = "consolidation"
DOMAIN_TAGS = (CLASSIFICATION, CONSOLIDATION)
"""What an order may be about that a route can be chosen by; an answer's order has none."""

BudgetMode = Literal["enforce", "warn", "off"]

ERROR_CODES = (
    "contract_not_found", "contract_schema_invalid", "prompt_pack_not_found", "input_schema_invalid",
    "output_schema_invalid", "budget_exhausted", "tool_not_found", "tool_not_permitted", "tool_invalid_args",
    "tool_failed", "tool_name_taken", "format_not_met", "answer_cut", "unknown_outcome",
    "deadline_exceeded", "cancelled", "execution_error",
)  # fmt: skip
"""Closed codes of a failed order; beside them the gateway's own codes (`bus.messages.gateway.ERROR_CODES`)."""

REFUSAL = "refusal"
TOO_LARGE = "too_large"
WINDOW = "window"
CUT = {
    "length": "it was cut at its cap of tokens",
    "content_filter": "a content filter of its provider ended it",
    REFUSAL: "the model refused to answer",
    "pause": "its provider interrupted it",
    WINDOW: "the window of its model was full",
    TOO_LARGE: "it, or its call of a tool, is larger than any answer that is read",
}
"""Finish reason of an answer that is not whole -> what is told of it."""


class ToolFile(Record):
    """A file that a tool or a message brought; its bytes are a body of the record."""

    name: Annotated[str, Meta(description="as its tool says; of a message by its bytes")]
    media_type: Annotated[str, Meta(description="as its tool says; of a message by its bytes")]
    size_bytes: Annotated[Count, Meta(description="of its bytes")]
    ref: Annotated[str, Meta(description="`<submission id>/<n>` of the body that holds its bytes")] = ""

    @property
    def told(self) -> str:
        """Return the line that names an image where it is not shown."""
        return f"[image {self.name}, {self.media_type}, {self.size_bytes} bytes]"


LEARNED = "ho3_biases"
"""Name of the segments that show lines of memory, and of the input of a prompt pack that they fill."""


INSTRUCTIONS = "system"
"""Of the one that holds the agent's own words, and of the input that they fill."""
LOOKED_UP = "assembled_context"
"""Of those that show what was looked up for its message, and of the input that they fill."""


class Segment(Record):
    """A piece of text, recorded by `ref` where it has one."""

    name: Annotated[str, Meta(description="user_input, history, system, steer …")] = ""
    ref: Annotated[
        str | None, Meta(description="`<submission id>/<n>` of the body that holds this text, or lists its parts")
    ] = None
    text: Annotated[str, Meta(description="blank where only its ref is recorded")] = ""
    artifact_id: Annotated[str | None, Meta(description="ho3_biases: `ART-…` whose context_line this is")] = None
    files: Annotated[list[ToolFile], Meta(description="of a tool's result, or a message")] = field(
        default_factory=list[ToolFile]
    )


class Fence(Record):
    """Echoed in the receipt; a receipt under an older fence is stale."""

    run_id: RunId
    session_epoch: Annotated[Count, Meta(description="rises when earlier work becomes stale")]
    step_epoch: Annotated[Count, Meta(description="the same within a step")]


class ToolCall(Record):
    """One call that a model asked for."""

    ADDED_LATER = 2

    call_id: Annotated[str, Meta(description="zero-padded position in the answer")]
    provider_call_id: Annotated[str, Meta(description="the provider's own id")] = ""
    tool_id: Annotated[str, Meta(description="name of the tool")]
    arguments: Annotated[dict[str, Any], Meta(description="JSON object for the tool")]
    fault: Annotated[str, Meta(description="what the model wrote wrong; it is told, nothing runs")] = ""
    given_back: Annotated[dict[str, Any], Meta(description="what its model wants back with it")] = field(
        default_factory=dict
    )


class ToolSpec(Record):
    """A tool as a model is told about it."""

    tool_id: Annotated[str, Meta(description="name of the tool")]
    description: Annotated[str, Meta(description="what the tool does, for the model")]
    parameters: Annotated[dict[str, Any], Meta(description="JSON Schema of the arguments")]


class Caller(Record):
    """An agent in the chain of callers of an order's agent, with its session."""

    session_id: Annotated[str, Meta(description="full id; its budget is charged too")]
    agent_id: Annotated[str, Meta(description="the session's agent, whose limit applies")]


CALLERS_MAX = 8
"""More than a configuration allows in a row."""
Callers = Annotated[list[Caller], Meta(max_length=CALLERS_MAX, description="the agents that called it, nearest first")]


class Constraints(Record):
    """Limits and permissions of one order."""

    prompt_contract_id: Annotated[str, Meta(description="contract of an LLM order")] = ""
    token_budget: Annotated[int, Meta(description="input and output of an LLM order")]
    timeout_seconds: Annotated[float, Meta(description="> 0; bounds the envelope's deadline")]
    tools_allowed: Annotated[list[str], Meta(description="tools that the model may call, or the one to run")] = field(
        default_factory=list[str]
    )
    caller_tools: Annotated[list[ToolSpec], Meta(description="tools that the requester runs")] = field(
        default_factory=list[ToolSpec]
    )
    tool_choice: Annotated[ToolChoice, Meta(description="required: only caller_tools, and the model must call one")] = (
        "auto"
    )
    output_schema: Annotated[
        dict[str, Any] | None, Meta(description="JSON Schema of the answer; None: the contract's")
    ] = None
    domain_tags: Annotated[list[str], Meta(description="the first one with a configured route decides")] = field(
        default_factory=list[str]
    )
    headroom_tokens: Annotated[int, Meta(description="tokens that session and agent must keep for the next order")] = 0
    budget_mode: Annotated[BudgetMode, Meta(description="what happens at a limit")]
    provider_id: Annotated[str | None, Meta(description="None: routed by tag or default")] = None
    model_id: Annotated[str | None, Meta(description="None: routed by tag or default")] = None
    max_tokens: Annotated[int | None, Meta(description="cap of the answer, tokens; None: the contract's")] = None
    reasoning_effort: Annotated[Literal["Low", "Medium", "High"] | None, Meta(description="the model's effort")] = None
    provider_profile_id: Annotated[str | None, Meta(description="a key of gateway.profiles; None: none")] = None
    sampling: Annotated[Sampling | None, Meta(description="the requester's; None: the contract's")] = None
    callers: Callers = field(default_factory=list[Caller])


class Exchange(Record):
    """One earlier round of the run: the model's text and calls, and the results."""

    tool_calls: list[ToolCall] = field(default_factory=list[ToolCall])
    results: Annotated[list[Segment], Meta(description="in call order; `name` is the call id")] = field(
        default_factory=list[Segment]
    )
    text: Segment = Segment()
    said: Annotated[list[Segment], Meta(description="steers, notes on unsent answers; oldest first")] = field(
        default_factory=list[Segment]
    )


class WorkOrder(Message, wire="wo.order"):
    """What HO2 asks HO1 to do, once, with everything needed to do it."""

    wo_id: Annotated[str, Meta(description="its idempotency key everywhere")]
    session_id: Annotated[str, Meta(description="full id")]
    agent_id: Annotated[str, Meta(description="a configured agent")]
    agent_class: Annotated[str, Meta(description="class of the agent; empty: none")] = ""
    framework_id: Annotated[str, Meta(description="`FMWK-<nnn>` of the agent; empty: none")] = ""
    package_id: Annotated[str, Meta(description="package that owns the agent; empty: none")] = ""
    fence: Fence
    intent_id: Annotated[str | None, Meta(description="active when it was planned")] = None
    wo_type: Annotated[WorkOrderType, Meta(description="what kind of work")]
    tier_target: Annotated[Literal["ho1"], Meta(description="who executes it")] = "ho1"
    state: Annotated[WorkOrderState, Meta(description="planned or dispatched")]
    planned_at: Timestamp
    created_by: Annotated[str, Meta(description="principal that made the order")]
    parent_wo_id: Annotated[str | None, Meta(description="a completed order that it follows")] = None
    input_context: list[Segment] = field(default_factory=list[Segment])
    history_after: Annotated[
        bytes | None, Meta(description="SHA-256 of the gateway's text that its history goes on from; None: all is here")
    ] = None
    exchanges: Annotated[list[Exchange], Meta(description="rounds so far, oldest first")] = field(
        default_factory=list[Exchange]
    )
    tool_call: Annotated[ToolCall | None, Meta(description="the call of a tool_call order")] = None
    constraints: Constraints
    acceptance_criteria: Annotated[dict[str, Any], Meta(description="every key that exists is enforced")] = field(
        default_factory=dict
    )
    config_digest: Annotated[str, Meta(description="`sha256:<64 hex>` of the configuration snapshot; empty: none yet")]


def change_segments(order: WorkOrder, change: Callable[[Segment], Segment], **fields: Any) -> WorkOrder:
    """Return the order with each of its segments changed, and with these fields."""
    exchanges = [
        replace(one, text=change(one.text), results=[*map(change, one.results)], said=[*map(change, one.said)])
        for one in order.exchanges
    ]
    return replace(order, input_context=[*map(change, order.input_context)], exchanges=exchanges, **fields)


class WorkOrderError(Record):
    """Why an order failed: a closed code and facts."""

    code: Annotated[str, Meta(description="one of ERROR_CODES, or of the gateway")]
    message: Annotated[str, Meta(description="facts, no prompt text")]


class OutputResult(Record):
    """The result of a completed order."""

    text: Segment = Segment()
    parsed: Annotated[dict[str, Any] | None, Meta(description="schema-checked output of a structured contract")] = None
    tool_calls: list[ToolCall] = field(default_factory=list[ToolCall])
    finish_reason: Annotated[str, Meta(description="stop, tool_calls, one of CUT, or its provider's word")] = ""
    truncated: Annotated[bool, Meta(description="tool output was cut to tools.output_max_bytes")] = False
    is_stand_in: Annotated[bool, Meta(description="the embedded rules replaced the model: teaches nothing")] = False
    tools_invented: Annotated[list[str], Meta(description="ids that it called without an offer")] = field(
        default_factory=list[str]
    )
    tools_missing: Annotated[list[str], Meta(description="unavailable tools: ids, or `<server>__*`")] = field(
        default_factory=list[str]
    )
    tools_withheld: Annotated[list[str], Meta(description="writing tools that only a wildcard permits")] = field(
        default_factory=list[str]
    )


class Cost(Record):
    """What an order or a turn used; cost_usd is None when a price is unknown."""

    input_tokens: Annotated[Count, Meta(description="tokens of the prompts")] = 0
    output_tokens: Annotated[Count, Meta(description="tokens of the answers")] = 0
    total_tokens: Annotated[Count, Meta(description="input and output")] = 0
    cached_tokens: Annotated[Count, Meta(description="of the input, cached by providers")] = 0
    reasoning_tokens: Annotated[Count, Meta(description="of the output, thinking only")] = 0
    llm_calls: Annotated[Count, Meta(description="answered model calls")] = 0
    tool_calls: Annotated[Count, Meta(description="tool calls")] = 0
    tool_ids_used: Annotated[list[str], Meta(description="in order of first use")] = field(default_factory=list[str])
    elapsed_ms: Annotated[Count, Meta(description="from arrival to the answer")] = 0
    cost_usd: Annotated[float | None, Meta(description="money; None: a price is unknown")] = 0.0


class Receipt(Message, wire="wo.receipt"):
    """The one terminal answer to an order; repeated byte for byte."""

    wo_id: Annotated[str, Meta(description="its idempotency key everywhere")]
    fence: Fence
    state: Annotated[Literal["completed", "failed"], Meta(description="how the order ended")]
    output_result: OutputResult | None = None
    error: WorkOrderError | None = None
    cost: Cost
    prompt_received_ids: Annotated[list[str], Meta(description="submission ids of PROMPT_RECEIVED, in order")] = field(
        default_factory=list[str]
    )
    executed_by: Annotated[str, Meta(description="instance that executed it")]
    completed_at: Timestamp


class ExecuteWorkOrder(Message, wire="wo.execute"):
    """Deliver one order to the pool; the reply is its Receipt, also when it failed."""

    order: WorkOrder
    attempt: Annotated[int, Meta(ge=1, description="which delivery by the sender")]
    stream: Annotated[bool, Meta(description="send deltas before the receipt")] = False
    due_at: Annotated[Timestamp | None, Meta(description="when its run ends; None: no deadline")] = None
    is_dispatching: Annotated[
        bool,
        Meta(
            description="its WO_DISPATCHED is on its way into the record: nothing of it leaves the cluster before that "
            "stands"
        ),
    ] = False
