"""Sections of what is kept: `ledger`, the record, and `ho3`, what is remembered of it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hobus.bus.settings import LedgerClientSettings, NonNegative, Positive, PositiveFloat, Section, Share


class SearchConfig(Section):
    """Search of the record by words."""

    enabled: bool = Field(description="false: nothing is indexed, the index is removed")


class LedgerConfig(LedgerClientSettings):
    """The record."""

    segment_bytes: Positive = Field(description="size of one file of the record")
    reserve_bytes: NonNegative = Field(description="kept free on the disk beside one segment")
    bodies_max_bytes: Positive = Field(description="bodies of one entry together")
    search: SearchConfig = Field(description="texts found by their words (docs/ledger.md, Search)")


class Ho3Config(Section):
    """Memory. The whole section may be missing: then memory is off, and not one of its code paths runs."""

    enabled: bool = Field(description="false: the same as a missing section")
    memory_dir: str = Field(description="below the home: checkpoints and working store")
    gate_mode: Literal["counting", "bistable"] = Field(
        description="counting: all events count; bistable: evidence decays, two thresholds"
    )
    gate_count_threshold: Positive = Field(description="counting: events that cross the gate; at most 200")
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
    stated_weight: Share = Field(description="weight of what somebody stated; 0: not learnt")
    consolidation_timeout_ms: Positive = Field(description="one consolidation, its model call included")
