"""Section `ho3`: what is remembered, for how long, and what it takes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hobus.bus.settings import Positive, PositiveFloat, Section, Share


class Ho3Config(Section):
    """Memory. The whole section may be missing: then memory is off, and not one of its code paths runs."""

    enabled: bool = Field(description="false: the same as a missing section")
    memory_dir: str = Field(description="below the home: checkpoints and working store")
    gate_mode: Literal["counting", "bistable"] = Field(
        description="counting: all events count; bistable: evidence decays, two thresholds"
    )
    gate_count_threshold: Positive = Field(description="counting: events that cross the gate")
    gate_session_threshold: Positive = Field(description="distinct sessions among them, in both modes")
    gate_principal_threshold: Positive = Field(
        description="distinct principals among them, where everybody's events count"
    )
    shared_types: list[Literal["topic_affinity", "interaction_style", "task_pattern", "constraint"]] = Field(
        description="artifacts of these types may be made of everybody's events and stand in everybody's prompts"
    )
    gate_window_hours: PositiveFloat = Field(description="a signal is consolidated once per so many hours")
    decay_half_life_hours: PositiveFloat = Field(description="after so long without an event a signal weighs half")
    gate_high: PositiveFloat = Field(description="bistable: evidence at which the gate opens; more never stands")
    gate_low: PositiveFloat = Field(description="bistable: evidence at which it closes again")
    evidence_half_life_hours: PositiveFloat = Field(description="bistable: after so long an event counts half")
    evidence_cap_per_session: PositiveFloat = Field(description="bistable: at most so much evidence from one session")
    require_fresh_evidence: bool = Field(description="an event newer than the last consolidation is needed")
    bias_decay_floor: Share = Field(description="an artifact whose signals weigh less is not injected")
    consolidation_cooldown_hours: PositiveFloat = Field(description="a failed consolidation closes the gate so long")
    gate_excluded_signals: list[str] = Field(description="signals that say nothing alone and never cross")
    log_timeout_ms: Positive = Field(description="a turn waits so long for its signals to be logged")
    read_timeout_ms: Positive = Field(description="a turn waits so long for what it may remember")
    artifact_scope: Literal["agent", "session", "global"] = Field(description="of what consolidation writes")
    artifact_expiry_hours: PositiveFloat = Field(description="of what consolidation writes, from its crossing")
    context_line_max_chars: Positive = Field(description="a longer learned line is refused")
    reason_max_chars: Positive = Field(description="why an artifact is changed or switched off; longer is refused")
    signals_max: Positive = Field(description="events of one turn that are logged together; more are refused")
    stated_weight: Share = Field(description="weight of what somebody stated; 0: not learnt")
    page_max: Positive = Field(description="lines and ids of a page")
    source_events_max: Positive = Field(
        description="newest events that an artifact names as its source; at least gate_count_threshold"
    )
    consolidation_timeout_ms: Positive = Field(description="one consolidation, its model call included")
