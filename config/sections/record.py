"""Sections of what is kept: `ledger`, the record, and `ho3`, what is remembered of it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hobus.bus.settings import LedgerClientSettings, NonNegative, Positive, PositiveFloat, Section, Share


class SearchConfig(Section):
    """Search of the record by words."""

    enabled: bool = Field(description="false: removes the index")


class LedgerConfig(LedgerClientSettings):
    """The record."""

    segment_bytes: Positive = Field(description="size of one file of the record")
    reserve_bytes: NonNegative = Field(description="kept free on the disk beside one segment")
    bodies_max_bytes: Positive = Field(description="bodies of one entry together")
    search: SearchConfig = Field(description="full-text search (docs/ledger.md, Search)")


class Ho3Config(Section):
    """Memory. Without this section memory is off."""

    enabled: bool = Field(description="false: memory is off")
    memory_dir: str = Field(description="directory below the home for its working store")
    gate_mode: Literal["counting", "bistable"] = Field(
        description="counting: all events count; bistable: evidence decays, two thresholds"
    )
    gate_count_threshold: Positive = Field(description="counting: events that open the gate; at most 200")
    gate_session_threshold: Positive = Field(description="distinct sessions among them, in both modes")
    gate_principal_threshold: Positive = Field(description="distinct principals among them, for shared types")
    shared_types: list[Literal["topic_affinity", "interaction_style", "task_pattern", "constraint"]] = Field(
        description="types of artifacts that everybody's events make and everybody's prompts show"
    )
    gate_window_hours: PositiveFloat = Field(description="least time between consolidations of a signal")
    decay_half_life_hours: PositiveFloat = Field(description="time without an event that halves a signal's weight")
    gate_high: PositiveFloat = Field(description="bistable: evidence that opens the gate; the most that counts")
    gate_low: PositiveFloat = Field(description="bistable: evidence below which it closes")
    evidence_half_life_hours: PositiveFloat = Field(description="bistable: time that halves an event's evidence")
    evidence_cap_per_session: PositiveFloat = Field(description="bistable: most evidence from one session")
    require_fresh_evidence: bool = Field(description="require an event newer than the last consolidation")
    bias_decay_floor: Share = Field(description="least weight of a shown artifact's signals")
    consolidation_cooldown_hours: PositiveFloat = Field(description="how long a failed consolidation closes the gate")
    gate_excluded_signals: list[str] = Field(description="signals that never open a gate")
    log_timeout_ms: Positive = Field(description="how long a turn waits for logging its signals")
    read_timeout_ms: Positive = Field(description="how long a turn waits for its memory lines")
    artifact_scope: Literal["agent", "session", "global"] = Field(description="scope of new artifacts")
    artifact_expiry_hours: PositiveFloat = Field(description="life of new artifacts")
    stated_weight: Share = Field(description="weight of statements; 0: they are not learned")
    consolidation_timeout_ms: Positive = Field(description="longest consolidation, with its model call")
