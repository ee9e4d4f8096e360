"""Prompts, responses, budgets."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from hobus.bus.limits import TOOLS_KEPT_MAX_BYTES
from hobus.bus.messages.base import Count, Message, NonBlank, Record, Timestamp, pack
from hobus.bus.messages.work_order import Caller, Callers, Sampling, Segment, ToolCall, ToolChoice, ToolFile, ToolSpec

Outcome = Literal["SUCCESS", "REJECTED", "TIMEOUT", "ERROR"]

ERROR_CODES = (
    "INVALID_INPUT", "AUTH_ERROR", "FORBIDDEN", "PROVIDER_NOT_FOUND", "BUDGET_EXHAUSTED", "HIERARCHY_EXCEEDED",
    "TURN_LIMIT", "NOT_ALLOCATED", "RATE_LIMITED", "CIRCUIT_OPEN", "UNAVAILABLE", "UNKNOWN_OUTCOME",
    "MODEL_NOT_FOUND", "MODEL_UNFIT", "PROVIDER_UNUSABLE", "PROVIDER_REFUSED", "PROVIDER_RATE_LIMITED",
    "PROVIDER_ERROR", "PROVIDER_TIMEOUT", "CONTEXT_TOO_LONG", "DEADLINE_EXCEEDED", "CANCELLED",
)  # fmt: skip
"""Of a provider's own: it is not fit for use here (UNUSABLE, nothing was sent), it will not do what it was asked, or
not for this key (REFUSED), not now (RATE_LIMITED), it failed (ERROR), it took too long (TIMEOUT)."""


class SeenImage(ToolFile):
    """A file of a tool as a provider is given it; no message that crosses the wire holds one."""

    data: Annotated[bytes, Meta(description="the image, of the type that is named")]


class PromptMessage(Record):
    """One message of a chat transcript; its text is the concatenation of its segments."""

    role: Annotated[
        Literal["system", "user", "assistant", "tool", "history"],
        Meta(description="speaker; history: earlier turns, which the gateway expands"),
    ]
    segments: list[Segment] = field(default_factory=list[Segment])
    tool_calls: Annotated[list[ToolCall], Meta(description="assistant only")] = field(default_factory=list[ToolCall])
    tool_call_id: Annotated[str, Meta(description="tool only: the call this answers")] = ""

    @property
    def text(self) -> str:
        """Return the exact text that the provider gets."""
        return list_texts([self])[0]

    @property
    def images(self) -> list[SeenImage]:
        """Return what the provider gets beside the text: images that its model sees."""
        return [file for segment in self.segments for file in segment.files if isinstance(file, SeenImage)]


def list_texts(messages: Iterable[PromptMessage]) -> list[str]:
    """Return the exact text of each message, as its provider gets it."""
    said = [one.segments for one in messages]  # nearly always one of them
    return ["" if not one else "".join([part.text for part in one]) if one[1:] else one[0].text for one in said]


def hash_tools(tools: Sequence[ToolSpec]) -> bytes | None:
    """Return SHA-256 of tools that the gateway keeps for later prompts; None: there are none, or too many bytes."""
    packed = pack(tools)
    return hashlib.sha256(packed).digest() if tools and len(packed) <= TOOLS_KEPT_MAX_BYTES else None


class Prompt(Message, wire="gateway.prompt"):
    """One LLM call, without the history and the tools that the gateway has already (else: `history_unknown`)."""

    messages: list[PromptMessage]
    history_after: Annotated[
        bytes | None, Meta(description="SHA-256 of the earlier text that its history continues; None: complete")
    ] = None
    prompt_pack_id: Annotated[str, Meta(description="`PRM-<NAME>-<nnn>`")]
    contract_id: Annotated[str, Meta(description="`PRC-<NAME>-<nnn>`")]
    agent_id: Annotated[str, Meta(description="a configured agent")]
    agent_class: Annotated[str, Meta(description="class of the agent; empty: none")] = ""
    framework_id: Annotated[str, Meta(description="`FMWK-<nnn>` of the agent; empty: none")] = ""
    package_id: Annotated[str, Meta(description="package that owns the agent; empty: none")] = ""
    work_order_id: Annotated[str, Meta(description="the order; empty: none")]
    session_id: Annotated[str, Meta(description="full id")]
    run_seq: Annotated[Count, Meta(description="number of the run in its session, from 1; 0: none")] = 0
    tier: Annotated[str, Meta(description="hot, ho2 or ho1; empty: none")] = ""
    provider_id: Annotated[str | None, Meta(description="None: routed by tag or default")] = None
    model_id: Annotated[str | None, Meta(description="None: routed by tag or default")] = None
    domain_tags: Annotated[list[str], Meta(description="the first one with a configured route decides")] = field(
        default_factory=list[str]
    )
    max_tokens: Annotated[int, Meta(description="longest answer, tokens")]
    token_budget: Annotated[int | None, Meta(description="of its order: prompts and answers of all its calls")] = None
    headroom_tokens: Annotated[
        Count, Meta(description="tokens that session and agent must keep for the next order")
    ] = 0
    temperature: Annotated[float, Meta(description="0 to 2")]
    reasoning_effort: Annotated[Literal["Low", "Medium", "High"] | None, Meta(description="the model's effort")] = None
    provider_profile_id: Annotated[str | None, Meta(description="a key of gateway.profiles")] = None
    sampling: Annotated[Sampling | None, Meta(description="the requester's; its temperature is above")] = None
    tools: list[ToolSpec] = field(default_factory=list[ToolSpec])
    tools_digest: Annotated[
        bytes | None, Meta(description="SHA-256 of all tools, which may be left out then; None: what is there is all")
    ] = None
    tool_choice: Annotated[ToolChoice, Meta(description="required: the model must call a tool")] = "auto"
    output_schema: Annotated[dict[str, Any] | None, Meta(description="JSON Schema of the answer; None: free text")] = (
        None
    )
    structured_output: Annotated[bool, Meta(description="ask the provider itself to keep the schema")] = False
    stream: Annotated[bool, Meta(description="send deltas before the answer")] = False
    due_at: Annotated[
        Timestamp | None, Meta(description="a chain of models shares the time until here; None: its deadline")
    ] = None
    is_dispatching: Annotated[
        bool,
        Meta(description="its order's WO_DISPATCHED is not durable yet; no call leaves the cluster before it is"),
    ] = False
    idempotency_key: Annotated[str, Meta(description="`<wo_id>#<n>`: one recorded answer per key")]
    budget_mode: Annotated[Literal["enforce", "warn", "off"] | None, Meta(description="None: the configured mode")] = (
        None
    )
    callers: Callers = field(default_factory=list[Caller])
    config_digest: Annotated[
        str,
        Meta(
            pattern=r"^(sha256:[0-9a-f]{64})?\Z",
            description="`sha256:<64 hex>` of the configuration snapshot; empty: none yet",
        ),
    ] = ""


class DegradedPrompt(Message, wire="gateway.degraded_prompt"):
    """One bare call of the session host under PRC-DEGRADED-001."""

    prompt: Prompt


class Embed(Message, wire="gateway.embed"):
    """Door -> host -> gateway: texts as vectors, by one call of a provider, under no order and no contract."""

    texts: Annotated[list[NonBlank], Meta(min_length=1, description="each becomes one vector")]
    vector_numbers: Annotated[Count, Meta(description="length of each vector; 0: the model's choice")] = 0
    agent_id: Annotated[str, Meta(description="its permissions and budget apply")]
    session_id: Annotated[str, Meta(description="full id, for this request only: its budget")]
    provider_id: Annotated[str, Meta(description="a configured provider instance")]
    model_id: Annotated[str, Meta(description="a model of it that makes vectors")]
    idempotency_key: Annotated[str, Meta(description="one recorded answer per key")]
    config_digest: Annotated[str, Meta(description="`sha256:<64 hex>` of the configuration snapshot")]


class PromptResponse(Message, wire="gateway.response"):
    """The gateway's answer; check `outcome` before `content`."""

    outcome: Annotated[Outcome, Meta(description="anything but SUCCESS is a failure")]
    content: Annotated[str, Meta(description="the answer; vectors: float32 in base64; empty unless SUCCESS")] = ""
    content_ref: Annotated[str | None, Meta(description="ref of the recorded content")] = None
    tool_calls: list[ToolCall] = field(default_factory=list[ToolCall])
    finish_reason: Annotated[
        str,
        Meta(description="stop, tool_calls, length, content_filter, refusal, pause, too_large, or its provider's word"),
    ] = ""
    input_tokens: Annotated[Count, Meta(description="tokens of the prompts, also of failed sends")] = 0
    output_tokens: Annotated[Count, Meta(description="tokens of the answers")] = 0
    cached_tokens: Annotated[Count, Meta(description="of the prompt, cached by the provider")] = 0
    reasoning_tokens: Annotated[Count, Meta(description="of the answer, thinking only")] = 0
    usage_is_estimated: Annotated[bool, Meta(description="the provider did not report usage")] = False
    provider_id: Annotated[str, Meta(description="a configured provider instance")] = ""
    model_id: Annotated[str, Meta(description="a model of that provider")] = ""
    latency_ms: Annotated[Count, Meta(description="from sending to the whole answer")] = 0
    cost_usd: Annotated[float | None, Meta(description="money; None: unknown")] = None
    budget_remaining: Annotated[int | None, Meta(description="tokens left in its session; None: no limit")] = None
    output_valid: Annotated[bool | None, Meta(description="fits its contract's output_schema; None: not checked")] = (
        None
    )
    output_errors: Annotated[list[str], Meta(description="why the answer breaks its schema")] = field(
        default_factory=list[str]
    )
    context_hash: Annotated[str, Meta(description="SHA-256 of the prompt as sent, hex; empty: erased")] = ""
    tools_told: Annotated[list[str], Meta(description="tools offered to the model")] = field(default_factory=list[str])
    sent_record_id: Annotated[str, Meta(description="submission id of PROMPT_SENT; empty: never sent")] = ""
    received_record_id: Annotated[str, Meta(description="submission id of PROMPT_RECEIVED; empty: no answer")] = ""
    error_code: Annotated[str, Meta(description="one of ERROR_CODES; empty: none")] = ""
    error_message: Annotated[str, Meta(description="facts, no prompt text")] = ""
    instead_of: Annotated[str, Meta(description="of a degraded call: the failures before it")] = ""
    retry_after_ms: Annotated[int | None, Meta(description="when to try again")] = None
    attempts: Annotated[Count, Meta(description="sends, to all providers")] = 0


class ReadBudget(Message, wire="gateway.read_budget"):
    """Ask for limits and use of a session (or, with '', of everything)."""

    session_id: Annotated[str, Meta(description="full id; empty: everything")] = ""


class ScopeBudget(Record):
    """One scope's tokens and cost."""

    scope: Annotated[str, Meta(description="`work_order:<id>`, `session:<id>`, `agent:<id>` or `provider:<id>`")]
    limit: Annotated[int | None, Meta(description="tokens; None: no limit")]
    used: Annotated[Count, Meta(description="tokens settled")]
    reserved: Annotated[Count, Meta(description="tokens of calls in flight")]
    remaining: Annotated[int | None, Meta(description="limit less used and reserved; None: no limit")]
    calls: Annotated[Count, Meta(description="calls settled")]
    cost_usd: Annotated[float | None, Meta(description="money; None: a price is unknown")]
    unknown_calls: Annotated[Count, Meta(description="of unknown outcome, settled at their reservation")]


class Budget(Message, wire="gateway.budget"):
    """Answer to ReadBudget: one row per scope, sorted by scope."""

    mode: Annotated[Literal["enforce", "warn", "off"], Meta(description="what happens at a limit")]
    scopes: list[ScopeBudget]


class ReadBreakers(Message, wire="gateway.read_breakers"):
    """Ask for the circuit breakers (one per provider and model)."""


class Breaker(Record):
    """One breaker."""

    provider_id: Annotated[str, Meta(description="a configured provider instance")]
    model_id: Annotated[str, Meta(description="a model of that provider")]
    state: Annotated[
        Literal["closed", "open", "half_open"], Meta(description="open: calls are refused; half_open: only probes")
    ]
    failures: Annotated[Count, Meta(description="failures of the provider in a row")]


class Breakers(Message, wire="gateway.breakers"):
    """Answer to ReadBreakers."""

    breakers: list[Breaker]
