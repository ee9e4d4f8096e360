"""Prompts, responses, budgets. Source: spec page "Gateway: the only door to a model"."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from bus.messages.base import Count, Message, Record
from bus.messages.work_order import Segment, ToolCall

Outcome = Literal["SUCCESS", "REJECTED", "TIMEOUT", "ERROR"]

ERROR_CODES = (
    "INVALID_INPUT", "AUTH_ERROR", "FORBIDDEN", "PROVIDER_NOT_FOUND", "BUDGET_EXHAUSTED", "HIERARCHY_EXCEEDED",
    "TURN_LIMIT", "NOT_ALLOCATED", "RATE_LIMITED", "CIRCUIT_OPEN", "UNAVAILABLE", "UNKNOWN_OUTCOME",
    "PROVIDER_ERROR", "PROVIDER_TIMEOUT", "DEADLINE_EXCEEDED", "CANCELLED",
)  # fmt: skip


class ToolSpec(Record):
    """A tool as a model is told about it."""

    tool_id: str
    description: str
    parameters: dict[str, Any] = Field(description="JSON Schema of the arguments")


class PromptMessage(Record):
    """One message of a chat transcript; its text is the concatenation of its segments."""

    role: Literal["system", "user", "assistant", "tool"]
    segments: list[Segment] = Field(default_factory=list[Segment])
    tool_calls: list[ToolCall] = Field(default_factory=list[ToolCall], description="assistant only")
    tool_call_id: str = Field(default="", description="tool only: the call this answers")

    @property
    def text(self) -> str:
        """The exact text that the provider gets."""
        return "".join(segment.text for segment in self.segments)


class Prompt(Message):
    """One LLM call, complete; the gateway assembles nothing."""

    TYPE: ClassVar[str] = "gateway.prompt"

    messages: list[PromptMessage]
    prompt_pack_id: str
    contract_id: str
    agent_id: str
    agent_class: str = ""
    framework_id: str = ""
    package_id: str = ""
    work_order_id: str
    session_id: str
    run_seq: Count = 0
    tier: str = ""
    provider_id: str | None = None
    model_id: str | None = None
    domain_tags: list[str] = Field(default_factory=list[str])
    max_tokens: int
    temperature: float
    reasoning_effort: Literal["Low", "Medium", "High"] | None = None
    tools: list[ToolSpec] = Field(default_factory=list[ToolSpec])
    output_schema: dict[str, Any] | None = None
    structured_output: bool = False
    stream: bool = False
    idempotency_key: str
    budget_mode: Literal["enforce", "warn", "off"] | None = Field(default=None, description="None: the configured mode")
    config_digest: str = ""


class DegradedPrompt(Message):
    """The session host's last resort: one bare call under PRC-DEGRADED-001; the gateway renders nothing else."""

    TYPE: ClassVar[str] = "gateway.degraded_prompt"

    prompt: Prompt


class PromptResponse(Message):
    """The gateway's answer; check `outcome` before `content`."""

    TYPE: ClassVar[str] = "gateway.response"

    outcome: Outcome
    content: str = ""
    content_ref: str | None = Field(default=None, description="ref of the recorded content")
    tool_calls: list[ToolCall] = Field(default_factory=list[ToolCall])
    finish_reason: str = ""
    input_tokens: Count = 0
    output_tokens: Count = 0
    cached_tokens: Count = 0
    provider_id: str = ""
    model_id: str = ""
    latency_ms: Count = 0
    cost_usd: float | None = None
    budget_remaining: int | None = None
    output_valid: bool | None = None
    output_errors: list[str] = Field(default_factory=list[str])
    context_hash: str = ""
    sent_record_id: str = ""
    received_record_id: str = ""
    error_code: str = ""
    error_message: str = ""
    retry_after_ms: int | None = None
    attempts: Count = 0


class ReadBudget(Message):
    """Ask what a session (or, with '', everything) was allowed and used."""

    TYPE: ClassVar[str] = "gateway.read_budget"

    session_id: str = ""


class ScopeBudget(Record):
    """One scope's tokens and money; remaining is None where no limit is set."""

    scope: str
    limit: int | None
    used: Count
    reserved: Count
    remaining: int | None
    calls: Count
    cost_usd: float | None
    unknown_calls: Count = Field(description="calls whose outcome is unknown, settled at their reservation")


class Budget(Message):
    """Answer to ReadBudget: one row per scope, sorted by scope."""

    TYPE: ClassVar[str] = "gateway.budget"

    mode: Literal["enforce", "warn", "off"]
    scopes: list[ScopeBudget]


class ReadBreakers(Message):
    """Ask for the circuit breakers (one per provider and model)."""

    TYPE: ClassVar[str] = "gateway.read_breakers"


class Breaker(Record):
    """One breaker."""

    provider_id: str
    model_id: str
    state: Literal["closed", "open", "half_open"]
    failures: Count


class Breakers(Message):
    """Answer to ReadBreakers."""

    TYPE: ClassVar[str] = "gateway.breakers"

    breakers: list[Breaker]
