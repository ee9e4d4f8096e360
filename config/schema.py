"""The shape of `admin_config.json`: the one source of every threshold, time-out, retry count, window, limit and budget.

Frozen models that reject unknown keys. No field has a default: a missing value is a start-up error naming its path.
Source: spec page "What we build", section Configuration. Units stand last in names.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from bus.settings import BusSettings

Positive = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegative = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    """A frozen part of the configuration; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class LedgerConfig(Section):
    """The record."""

    segment_bytes: Positive
    reserve_bytes: NonNegative = Field(description="kept free on the disk beside one segment")
    zero_fill_chunk_bytes: Positive = Field(description="how much of a segment is zero-filled ahead at once")
    batch_entries_max: Positive
    batch_bytes_max: Positive
    entry_max_bytes: Positive
    outstanding_max: Positive = Field(description="unacknowledged writes before `busy`")
    index_interval_ms: Positive
    outage_wait_ms: Positive = Field(description="how long a barrier waits for a restart of the ledger")
    client_outstanding_max: Positive = Field(description="unacknowledged writes that a client keeps")
    request_timeout_ms: Positive


class ModelConfig(Section):
    """One model of a provider; price per million tokens, null when unknown."""

    model_id: str
    input_usd_per_million: float | None
    output_usd_per_million: float | None
    cached_usd_per_million: float | None


class ProviderConfig(Section):
    """One provider instance."""

    kind: Literal["offline"]
    latency_ms: NonNegative = Field(description="offline: simulated thinking time")
    models: list[ModelConfig]
    concurrency_max: Positive


class Route(Section):
    """A provider and a model."""

    provider_id: str
    model_id: str


class GatewayConfig(Section):
    """The only door to a model."""

    slots: Positive
    providers: dict[str, ProviderConfig]
    default_route: Route
    domain_tag_routes: dict[str, Route]
    attempts_max: Positive
    backoff_min_ms: Positive = Field(description="pause before the second attempt; doubles, with jitter")
    backoff_max_ms: Positive
    request_timeout_ms: Positive
    reply_reserve_ms: NonNegative = Field(description="kept of a caller's deadline for recording and answering")
    recent_calls_max: Positive = Field(description="answered calls remembered in memory; older ones are in the record")
    rebuild_page: Positive = Field(description="entries per read when budgets are rebuilt at start")
    spool_after_ms: Positive = Field(description="silence of the ledger after which unconditional records are spooled")
    on_ledger_outage: Literal["spool", "refuse"]
    on_unknown_outcome: Literal["resend", "fail"]


class BudgetConfig(Section):
    """Every budget, in tokens unless the name says otherwise."""

    session_token_limit: Positive
    classify_budget: Positive
    synthesize_budget: Positive
    projection_budget: Positive
    consolidation_budget: Positive
    ho3_bias_budget: Positive
    history_budget: Positive
    followup_min_remaining: NonNegative
    agent_token_limit: Positive
    provider_token_limit: Positive
    budget_mode: Literal["enforce", "warn", "off"]
    turn_limit: Positive = Field(description="model rounds of one run")
    timeout_seconds: Positive = Field(description="the longest life of one run")


class ProjectionConfig(Section):
    """Which context feeds the model."""

    mode: Literal["off"] = Field(description="shadow and enforce come with the projection itself")


class AttentionConfig(Section):
    """Context assembly."""

    chars_per_token: Positive


class ClassifyLabels(Section):
    """The closed vocabulary of classification."""

    domain: list[str]
    task: list[str]


class SessionsConfig(Section):
    """Sessions and their reducer."""

    max_in_flight_effects: Positive
    applied_commands_max: Positive
    journal_page: Positive = Field(description="entries per read of a journal")


class QualityGateConfig(Section):
    """Acceptance of an answer."""

    max_retries: NonNegative
    requires_response_text: bool
    min_response_length: NonNegative


class ToolsConfig(Section):
    """Built-in tools and their limits."""

    children: Positive = Field(description="pre-forked tool processes per worker")
    timeout_ms: Positive
    output_max_bytes: Positive
    kill_grace_ms: NonNegative


class LauncherConfig(Section):
    """Processes."""

    ready_timeout_ms: Positive
    restart_backoff_min_ms: Positive
    restart_backoff_max_ms: Positive
    healthy_after_ms: Positive = Field(description="a process that lived this long starts its back-off anew")
    crash_budget: Positive = Field(description="crashes within crash_window_ms after which a process is failed")
    crash_window_ms: Positive
    stuck_after_ms: Positive = Field(description="a process without a beat this long is killed and restarted")
    drain_ms: Positive = Field(description="per process, then it is killed")
    orphan_drain_s: PositiveFloat = Field(description="how long orphans may finish runs when the launcher is gone")
    log_tail_lines: Positive
    watch_interval_ms: Positive = Field(description="how often the launcher asks the broker how everybody is")
    ready_poll_ms: Positive = Field(description="the same, as long as something is starting")
    client_timeout_ms: Positive = Field(description="how long a command waits for the cluster's own services")


class Ho1Config(Section):
    """Executors."""

    count: Positive = Field(description="executors that `hobus up` starts")
    slots: Positive
    repair_calls_max: NonNegative
    retry_interval_ms: Positive = Field(description="between tries of a gateway request that may be retried")
    end_reserve_ms: Positive = Field(description="kept of an order's deadline for its end record and the receipt")
    snapshots_kept: Positive = Field(description="configuration snapshots of other digests kept per worker")


class Ho2Config(Section):
    """Supervisors."""

    count: Positive
    runs_max: Positive = Field(description="runs at once per instance")
    classify_timeout_ms: Positive
    order_timeout_ms: Positive
    order_attempts_max: Positive = Field(description="sends of one order by a run")
    order_retry_interval_ms: Positive = Field(description="between two sends of one order, so that `busy` can pass")
    takeover_attempts_max: Positive = Field(description="readings of a journal whose head moves meanwhile")
    sessions_max: Positive = Field(description="sessions held in memory; the longest idle one is read again when asked")
    history_turns_max: Positive
    history_digest_chars: Positive = Field(description="one line for a turn that is no longer shown verbatim")
    reply_reserve_ms: Positive = Field(description="kept of the deadline for recording and replying")


class HostConfig(Section):
    """The session host."""

    agent_id: str
    prompt_max_bytes: Positive
    degrade_reserve_ms: Positive = Field(description="kept of a client's deadline for degrading")
    append_reserve_ms: Positive = Field(description="part of it that the stream's decision gets")
    reply_reserve_ms: NonNegative = Field(description="part of it kept for the reply's own way")
    turn_timeout_ms: Positive = Field(description="a client's deadline when it names none")
    retry_interval_ms: Positive


class AdminConfig(Section):
    """All of it."""

    bus: BusSettings
    ledger: LedgerConfig
    gateway: GatewayConfig
    budget: BudgetConfig
    projection: ProjectionConfig
    attention: AttentionConfig
    classify_labels: ClassifyLabels
    sessions: SessionsConfig
    quality_gate: QualityGateConfig
    tools: ToolsConfig
    launcher: LauncherConfig
    ho1: Ho1Config
    ho2: Ho2Config
    host: HostConfig
