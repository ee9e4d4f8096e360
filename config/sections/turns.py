"""Sections of a turn: what it may cost, what it is shown and how it is judged; what sessions may hold."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hobus.bus.settings import NonNegative, Positive, Section


class BudgetConfig(Section):
    """Limits, in tokens unless the name says otherwise."""

    session_token_limit: Positive = Field(description="all calls of one session")
    classify_budget: Positive = Field(description="prompt and answer of a classify order")
    synthesize_budget: Positive = Field(description="prompt and answer of a synthesize order")
    projection_budget: Positive = Field(description="projected context of a turn")
    consolidation_budget: Positive = Field(description="prompt and answer of a consolidate order")
    ho3_bias_budget: Positive = Field(description="memory lines of a turn")
    history_budget: Positive = Field(description="earlier turns in a prompt")
    followup_min_remaining: NonNegative = Field(description="what a further round needs")
    agent_token_limit: Positive = Field(description="all calls of one agent")
    provider_token_limit: Positive = Field(description="all calls to one provider")
    budget_mode: Literal["enforce", "warn", "off"] = Field(
        description="over a limit: enforce refuses, warn records a warning, off only counts"
    )
    turn_limit: Positive = Field(description="model rounds of one run")
    timeout_seconds: Positive = Field(description="longest duration of one run")


class ProjectionConfig(Section):
    """The context of a session's state."""

    mode: Literal["off", "shadow", "enforce"] = Field(
        description="enforce: prompts show it; shadow: only the record has it; off: neither"
    )


class AttentionConfig(Section):
    """Assembly of contexts."""

    chars_per_token: Positive = Field(description="characters per token, for estimates")
    cache_ttl_s: Positive = Field(description="how long the same order reuses a context")


class ClassifyLabels(Section):
    """The closed vocabulary of classification."""

    domain: list[str] = Field(description="what a message is about")
    task: list[str] = Field(description="what a message asks for")


class SessionsConfig(Section):
    """Sessions and their reducer."""

    wait_max_ms: Positive = Field(description="longest wait of a turn for processor time; beyond it is refused")
    max_in_flight_effects: Positive = Field(description="orders of one session in flight at once")
    pending_max: Positive = Field(description="waiting steers, and follow-ups, of one session; more are rejected")
    lease_heartbeat_timeout_s: Positive = Field(description="silence of a client with a lease that cancels its run")
    follow_up_timeout_ms: Positive = Field(description="deadline of a run that a follow-up starts")


class QualityGateConfig(Section):
    """When an answer is accepted."""

    max_retries: NonNegative = Field(description="further tries after a rejected answer")
    requires_response_text: bool = Field(description="a blank answer is rejected")
    min_response_length: NonNegative = Field(description="characters; a shorter answer is rejected")
