"""Prompts, responses, budgets."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field

from hobus.bus.messages.base import Count, Message, NonBlank, Record, Timestamp
from hobus.bus.messages.work_order import Sampling, Segment, ToolCall, ToolChoice, ToolFile, ToolSpec

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

    data: bytes = Field(description="the image, of the type that is named")


class PromptMessage(Record):
    """One message of a chat transcript; its text is the concatenation of its segments."""

    role: Literal["system", "user", "assistant", "tool", "history"] = Field(
        description="who speaks; history: earlier turns, of which the gateway makes messages"
    )
    segments: list[Segment] = Field(default_factory=list[Segment])
    tool_calls: list[ToolCall] = Field(default_factory=list[ToolCall], description="assistant only")
    tool_call_id: str = Field(default="", description="tool only: the call this answers")

    @property
    def text(self) -> str:
        """The exact text that the provider gets."""
        return texts_of([self])[0]

    @property
    def images(self) -> list[SeenImage]:
        """What the provider gets beside its text: what its model sees."""
        return [file for segment in self.segments for file in segment.files if isinstance(file, SeenImage)]


def texts_of(messages: Iterable[PromptMessage]) -> list[str]:
    """The exact text of each, as its provider gets it."""
    said = [one.segments for one in messages]  # nearly always one of them
    return ["" if not one else "".join([part.text for part in one]) if one[1:] else one[0].text for one in said]


class Prompt(Message, wire="gateway.prompt"):
    """One LLM call, but for what its session's last prompt showed already."""

    messages: list[PromptMessage]
    history_after: bytes | None = Field(
        default=None, description="SHA-256 of the text that its history goes on from; None: all is here"
    )
    prompt_pack_id: str = Field(description="`PRM-<NAME>-<nnn>`")
    contract_id: str = Field(description="`PRC-<NAME>-<nnn>`")
    agent_id: str = Field(description="a configured agent")
    agent_class: str = Field(default="", description="class of the agent; empty: none")
    framework_id: str = Field(default="", description="`FMWK-<nnn>` of the agent; empty: none")
    package_id: str = Field(default="", description="package that owns the agent; empty: none")
    work_order_id: str = Field(description="the order that this is about; empty: none")
    session_id: str = Field(description="full id")
    run_seq: Count = Field(default=0, description="number of the run in its session, from 1; 0: none")
    tier: str = Field(default="", description="hot, ho2 or ho1; empty: none")
    provider_id: str | None = Field(default=None, description="None: routed by tag or default")
    model_id: str | None = Field(default=None, description="None: routed by tag or default")
    domain_tags: list[str] = Field(
        default_factory=list[str], description="the first one with a configured route decides"
    )
    max_tokens: int = Field(description="cap of the answer, tokens")
    token_budget: int | None = Field(default=None, description="of its order: prompts and answers of all its calls")
    headroom_tokens: Count = Field(
        default=0, description="that session and agent must have left beside it, for the next order"
    )
    temperature: float = Field(description="0 to 2")
    reasoning_effort: Literal["Low", "Medium", "High"] | None = Field(
        default=None, description="how hard the model shall think"
    )
    provider_profile_id: str | None = Field(default=None, description="a key of gateway.profiles")
    sampling: Sampling | None = Field(default=None, description="of whoever asked; its temperature stands above")
    tools: list[ToolSpec] = Field(default_factory=list[ToolSpec])
    tool_choice: ToolChoice = Field(default="auto", description="required: a tool has to be called")
    output_schema: dict[str, Any] | None = Field(default=None, description="JSON Schema of the answer; None: free text")
    structured_output: bool = Field(default=False, description="ask the provider itself to keep the schema")
    stream: bool = Field(default=False, description="send deltas before the answer")
    due_at: Timestamp | None = Field(
        default=None, description="a chain of models shares the time until then; None: its deadline"
    )
    idempotency_key: str = Field(description="`<wo_id>#<n>`: one recorded answer per key")
    budget_mode: Literal["enforce", "warn", "off"] | None = Field(default=None, description="None: the configured mode")
    config_digest: str = Field(
        default="", description="`sha256:<64 hex>` of the configuration snapshot; empty: none yet"
    )


class DegradedPrompt(Message, wire="gateway.degraded_prompt"):
    """The session host's last resort: one bare call under PRC-DEGRADED-001; the gateway renders nothing else."""

    prompt: Prompt


class Embed(Message, wire="gateway.embed"):
    """Door -> host -> gateway: texts as vectors, by one call of a provider, under no order and no contract."""

    texts: Annotated[list[NonBlank], Field(min_length=1)] = Field(description="each becomes one vector")
    vector_numbers: Count = Field(default=0, description="of each vector; 0: as its model likes")
    agent_id: str = Field(description="its permissions and budget count")
    session_id: str = Field(description="full id, of this request alone: its budget")
    provider_id: str = Field(description="a configured provider instance")
    model_id: str = Field(description="a model of it that makes vectors")
    idempotency_key: str = Field(description="one recorded answer per key")
    config_digest: str = Field(description="`sha256:<64 hex>` of the configuration snapshot")


class PromptResponse(Message, wire="gateway.response"):
    """The gateway's answer; check `outcome` before `content`."""

    outcome: Outcome = Field(description="anything but SUCCESS is a failure")
    content: str = Field(default="", description="the answer; vectors: float32 in base64; empty unless SUCCESS")
    content_ref: str | None = Field(default=None, description="ref of the recorded content")
    tool_calls: list[ToolCall] = Field(default_factory=list[ToolCall])
    finish_reason: str = Field(
        default="",
        description="stop, tool_calls, length, content_filter, refusal, pause, or its provider's word",
    )
    input_tokens: Count = Field(default=0, description="tokens of the prompts, also of failed sends")
    output_tokens: Count = Field(default=0, description="tokens of the answers")
    cached_tokens: Count = Field(default=0, description="of the prompt, cached by the provider")
    reasoning_tokens: Count = Field(default=0, description="of the answer, only thought")
    usage_is_estimated: bool = Field(default=False, description="the provider did not say")
    provider_id: str = Field(default="", description="a configured provider instance")
    model_id: str = Field(default="", description="a model of that provider")
    latency_ms: Count = Field(default=0, description="from sending to the whole answer")
    cost_usd: float | None = Field(default=None, description="money; None: unknown")
    budget_remaining: int | None = Field(default=None, description="tokens left in its session; None: no limit")
    output_valid: bool | None = Field(default=None, description="keeps its contract's output_schema; None: not judged")
    output_errors: list[str] = Field(default_factory=list[str], description="why the answer breaks its schema")
    context_hash: str = Field(default="", description="SHA-256 of the prompt as sent, hex; empty: erased")
    tools_told: list[str] = Field(
        default_factory=list[str],
        description="tools that this answer's model was told of",
    )
    sent_record_id: str = Field(default="", description="submission id of PROMPT_SENT; empty: never sent")
    received_record_id: str = Field(default="", description="submission id of PROMPT_RECEIVED; empty: no answer")
    error_code: str = Field(default="", description="one of ERROR_CODES; empty: none")
    error_message: str = Field(default="", description="facts, no prompt text")
    instead_of: str = Field(default="", description="of a degraded call: what the providers said that failed before it")
    retry_after_ms: int | None = Field(default=None, description="when to try again")
    attempts: Count = Field(default=0, description="sends, to all providers that were asked")


class ReadBudget(Message, wire="gateway.read_budget"):
    """Ask what a session (or, with '', everything) was allowed and used."""

    session_id: str = Field(default="", description="full id; empty: everything")


class ScopeBudget(Record):
    """One scope's tokens and money; remaining is None where no limit is set."""

    scope: str = Field(description="`work_order:<id>`, `session:<id>`, `agent:<id>` or `provider:<id>`")
    limit: int | None = Field(description="tokens; None: no limit")
    used: Count = Field(description="tokens settled")
    reserved: Count = Field(description="tokens of calls in flight")
    remaining: int | None = Field(description="limit less used and reserved; None: no limit")
    calls: Count = Field(description="calls settled")
    cost_usd: float | None = Field(description="money; None: a price is unknown")
    unknown_calls: Count = Field(description="of unknown outcome, settled at their reservation")


class Budget(Message, wire="gateway.budget"):
    """Answer to ReadBudget: one row per scope, sorted by scope."""

    mode: Literal["enforce", "warn", "off"] = Field(description="what happens when a limit is reached")
    scopes: list[ScopeBudget]


class ReadBreakers(Message, wire="gateway.read_breakers"):
    """Ask for the circuit breakers (one per provider and model)."""


class Breaker(Record):
    """One breaker."""

    provider_id: str = Field(description="a configured provider instance")
    model_id: str = Field(description="a model of that provider")
    state: Literal["closed", "open", "half_open"] = Field(description="open: calls are refused; half_open: only probes")
    failures: Count = Field(description="failures of the provider in a row")


class Breakers(Message, wire="gateway.breakers"):
    """Answer to ReadBreakers."""

    breakers: list[Breaker]
