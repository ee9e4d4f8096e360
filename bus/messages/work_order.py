"""Work orders and receipts."""

from typing import Annotated, Any, Literal

from pydantic import Field

from hobus.bus.limits import STOPS_MAX, TEMPERATURE_MAX
from hobus.bus.messages.base import Chosen, Count, Message, NonBlank, Record, Timestamp
from hobus.bus.messages.ids import RunId
from hobus.bus.messages.order_states import WorkOrderState

WorkOrderType = Literal["classify", "tool_call", "synthesize", "consolidate"]
ToolChoice = Literal["auto", "required"]


class Sampling(Record):
    """How the answer is drawn; None: as contract or provider have it."""

    temperature: Annotated[float, Field(ge=0, le=TEMPERATURE_MAX)] | None = Field(default=None, description="0 to 2")
    top_p: Annotated[float, Field(gt=0, le=1)] | None = Field(default=None, description="above 0, up to 1")
    seed: Chosen | None = Field(default=None, description="the same draws again, if the provider can")
    stop: list[NonBlank] = Field(
        default_factory=list[NonBlank], max_length=STOPS_MAX, description="texts before which the answer ends"
    )


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
CUT = {
    "length": "it was cut at its cap of tokens",
    "content_filter": "a content filter of its provider ended it",
    REFUSAL: "the model refused to answer",
    "pause": "its provider interrupted it",
}
"""Finish reason of an answer that is not whole -> what is told of it."""

IN_DOUBT = "in_doubt"
"""Fact of a fault: the order's tool was begun and must not run twice, and its end is not in the record."""


class ToolFile(Record):
    """A file that a tool or a message brought; its bytes are a body of the record."""

    name: str = Field(description="as its tool says; of a message by its bytes")
    media_type: str = Field(description="as its tool says; of a message by its bytes")
    size_bytes: Count = Field(description="of its bytes")
    ref: str = Field(default="", description="`<submission id>/<n>` of the body that holds its bytes")


LEARNED = "ho3_biases"
"""Name of the segments that show lines of memory, and of the input of a prompt pack that they fill."""


class Segment(Record):
    """A piece of text, recorded by `ref` where it has one."""

    name: str = Field(default="", description="user_input, history, system, steer …")
    ref: str | None = Field(
        default=None,
        description="`<submission id>/<n>` of the body that holds this text, or lists its parts",
    )
    text: str = Field(default="", description="blank where only its ref is recorded")
    artifact_id: str | None = Field(default=None, description="ho3_biases: `ART-…` whose context_line this is")
    files: list[ToolFile] = Field(default_factory=list[ToolFile], description="of a tool's result, or a message")


class Fence(Record):
    """Echoed in the receipt; a receipt under an older fence is stale."""

    run_id: RunId
    session_epoch: Count = Field(description="rises when earlier work becomes stale")
    step_epoch: Count = Field(description="the same within a step")


class ToolCall(Record):
    """One call that a model asked for."""

    ADDED_LATER = 2

    call_id: str = Field(description="zero-padded position in the answer")
    provider_call_id: str = Field(default="", description="the provider's own id")
    tool_id: str = Field(description="name of the tool")
    arguments: dict[str, Any] = Field(description="JSON object for the tool")
    fault: str = Field(default="", description="what the model wrote wrong; it is told, nothing runs")
    given_back: dict[str, Any] = Field(
        default_factory=dict,
        description="what its model wants back with it",
    )


class ToolSpec(Record):
    """A tool as a model is told about it."""

    tool_id: str = Field(description="name of the tool")
    description: str = Field(description="what the tool does, for the model")
    parameters: dict[str, Any] = Field(description="JSON Schema of the arguments")


class Constraints(Record):
    """Limits and permissions of one order."""

    prompt_contract_id: str = Field(default="", description="contract of an LLM order")
    token_budget: int = Field(description="input and output of an LLM order")
    timeout_seconds: float = Field(description="> 0; bounds the envelope's deadline")
    tools_allowed: list[str] = Field(
        default_factory=list[str], description="that the model may ask for, or the one to run"
    )
    caller_tools: list[ToolSpec] = Field(
        default_factory=list[ToolSpec],
        description="tools that only the asker runs",
    )
    tool_choice: ToolChoice = Field(default="auto", description="required: caller_tools alone, one has to be called")
    output_schema: dict[str, Any] | None = Field(
        default=None, description="JSON Schema of the answer; None: the contract's"
    )
    domain_tags: list[str] = Field(
        default_factory=list[str], description="the first one with a configured route decides"
    )
    headroom_tokens: int = Field(
        default=0, description="that session and agent must have left beside it, for the next order"
    )
    budget_mode: BudgetMode = Field(description="what happens where a limit is reached")
    provider_id: str | None = Field(default=None, description="None: routed by tag or default")
    model_id: str | None = Field(default=None, description="None: routed by tag or default")
    max_tokens: int | None = Field(default=None, description="cap of the answer, tokens; None: the contract's")
    reasoning_effort: Literal["Low", "Medium", "High"] | None = Field(
        default=None, description="how hard the model shall think"
    )
    provider_profile_id: str | None = Field(default=None, description="a key of gateway.profiles; None: none")
    sampling: Sampling | None = Field(default=None, description="the asker's; None: the contract's")


class Exchange(Record):
    """One earlier round of the run: what the model said or asked for, and what came back."""

    tool_calls: list[ToolCall] = Field(default_factory=list[ToolCall])
    results: list[Segment] = Field(
        default_factory=list[Segment],
        description="in call order; `name` is the call id",
    )
    text: Segment = Segment()
    said: list[Segment] = Field(
        default_factory=list[Segment], description="steers, notes on unsent answers; oldest first"
    )


class WorkOrder(Message, wire="wo.order"):
    """What HO2 asks HO1 to do, once, with everything needed to do it."""

    wo_id: str = Field(description="its idempotency key everywhere")
    session_id: str = Field(description="full id")
    agent_id: str = Field(description="a configured agent")
    agent_class: str = Field(default="", description="class of the agent; empty: none")
    framework_id: str = Field(default="", description="`FMWK-<nnn>` of the agent; empty: none")
    package_id: str = Field(default="", description="package that owns the agent; empty: none")
    fence: Fence
    intent_id: str | None = Field(default=None, description="active when it was planned")
    wo_type: WorkOrderType = Field(description="what kind of work")
    tier_target: Literal["ho1"] = Field(default="ho1", description="who executes it")
    state: WorkOrderState = Field(description="planned or dispatched")
    planned_at: Timestamp
    created_by: str = Field(description="principal that made the order")
    parent_wo_id: str | None = Field(default=None, description="a completed order that it follows")
    input_context: list[Segment] = Field(default_factory=list[Segment])
    history_after: bytes | None = Field(
        default=None,
        description="SHA-256 of the gateway's text that its history goes on from; None: all is here",
    )
    exchanges: list[Exchange] = Field(default_factory=list[Exchange], description="rounds so far, oldest first")
    tool_call: ToolCall | None = Field(default=None, description="the call of a tool_call order")
    constraints: Constraints
    acceptance_criteria: dict[str, Any] = Field(default_factory=dict, description="every key that exists is enforced")
    config_digest: str = Field(description="`sha256:<64 hex>` of the configuration snapshot; empty: none yet")


class WorkOrderError(Record):
    """Why an order failed: a closed code and facts."""

    code: str = Field(description="one of ERROR_CODES, or of the gateway")
    message: str = Field(description="facts, no prompt text")


class OutputResult(Record):
    """What a completed order brought."""

    text: Segment = Segment()
    parsed: dict[str, Any] | None = Field(default=None, description="schema-checked output of a structured contract")
    tool_calls: list[ToolCall] = Field(default_factory=list[ToolCall])
    finish_reason: str = Field(default="", description="stop, tool_calls, one of CUT, or its provider's word")
    truncated: bool = Field(default=False, description="tool output was cut to tools.output_max_bytes")
    is_stand_in: bool = Field(default=False, description="the embedded rules stood in: teaches nothing")
    tools_invented: list[str] = Field(default_factory=list[str], description="ids that it called and was never told of")
    tools_missing: list[str] = Field(
        default_factory=list[str],
        description="tools that nobody had: ids, or `<server>__*`",
    )
    tools_withheld: list[str] = Field(
        default_factory=list[str],
        description="writing tools that only a wildcard permits",
    )


class Cost(Record):
    """What an order or a turn used; cost_usd is None when a price is unknown."""

    input_tokens: Count = Field(default=0, description="tokens of the prompts")
    output_tokens: Count = Field(default=0, description="tokens of the answers")
    total_tokens: Count = Field(default=0, description="input and output")
    cached_tokens: Count = Field(default=0, description="of the input, cached by providers")
    reasoning_tokens: Count = Field(default=0, description="of the output, only thought")
    llm_calls: Count = Field(default=0, description="answered model calls")
    tool_calls: Count = Field(default=0, description="tool calls")
    tool_ids_used: list[str] = Field(default_factory=list[str], description="in order of first use")
    elapsed_ms: Count = Field(default=0, description="from arrival to the answer")
    cost_usd: float | None = Field(default=0.0, description="money; None: a price is unknown")


class Receipt(Message, wire="wo.receipt"):
    """The one terminal answer to an order (the same bytes again when asked again)."""

    wo_id: str = Field(description="its idempotency key everywhere")
    fence: Fence
    state: Literal["completed", "failed"] = Field(description="how the order ended")
    output_result: OutputResult | None = None
    error: WorkOrderError | None = None
    cost: Cost
    prompt_received_ids: list[str] = Field(
        default_factory=list[str], description="submission ids of PROMPT_RECEIVED, in order"
    )
    executed_by: str = Field(description="instance that executed it")
    completed_at: Timestamp


class ExecuteWorkOrder(Message, wire="wo.execute"):
    """Deliver one order to the pool; the reply is its Receipt, also when it failed."""

    order: WorkOrder
    attempt: int = Field(ge=1, description="which delivery by the sender")
    stream: bool = Field(default=False, description="send deltas before the receipt")
    due_at: Timestamp | None = Field(default=None, description="when its run ends; None: nobody waits for it")
