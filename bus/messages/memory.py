"""What is asked of HO3: READ and LOG, nothing else.

Every read that depends on time takes `as_of_ts` and `as_of_seq`; what is later by either does not count, so that the
same question gives the same bytes for ever. One agent's memory is invisible to another: every message names its agent.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hobus.bus.messages.base import Count, Message, NonBlank, Record, Timestamp
from hobus.bus.messages.ids import SessionId

ArtifactType = Literal["topic_affinity", "interaction_style", "task_pattern", "constraint"]
ArtifactScope = Literal["agent", "session", "global"]
Weight = Annotated[float, Field(ge=0, le=1, description="0 to 1")]
SignalId = Annotated[
    str, Field(min_length=1, max_length=160, pattern=r"^[a-z_]+:[!-~]+$", description="`<kind>:<label>`")
]
AgentId = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[^/\s]+$", description="whose memory")]
ArtifactId = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^ART-[!-~]+$", description="`ART-<hash>`")]


class Signal(Record):
    """One observation: an immutable source event."""

    event_id: Annotated[str, Field(min_length=1, max_length=300)] = Field(
        description="`EVT-<session>-<run>-<signal>`: derived, so that a redelivered message counts once"
    )
    signal_id: SignalId
    session_id: SessionId
    at: Timestamp
    metadata: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="facts about it; never text of a person or a model"
    )


class Accumulator(Record):
    """What the events of one signal add up to, as of a time; computed, never the record of truth."""

    signal_id: SignalId
    count: Count = Field(description="events")
    last_seen: Timestamp
    session_ids: list[str] = Field(description="distinct sessions, sorted; empty if the question wanted no ids")
    session_count: Count = Field(default=0, description="distinct sessions")
    event_ids: list[str] = Field(description="in order of event time, then id; empty if the question wanted no ids")
    decay: float = Field(description="2 ** -(age / half-life), at most 1, rounded to 9 decimals")


class GateResult(Record):
    """Whether a signal's gate is crossed, and why in words."""

    signal_id: SignalId
    crossed: bool = Field(description="true: it may be consolidated now")
    count: Count = Field(description="events that count")
    session_count: Count = Field(description="distinct sessions among them")
    already_consolidated: bool = Field(description="an overlay of this window names the signal")
    reason: str = Field(description="a sentence that a person can read")
    evidence: float = Field(default=0.0, description="bistable mode: decayed evidence, 9 decimals; counting mode: 0")


class Labels(Record):
    """Labels of the closed vocabulary by kind."""

    domain: list[str] = Field(default_factory=list[str], description="what it is about")
    task: list[str] = Field(default_factory=list[str], description="what it asks for")


class Artifact(Record):
    """An overlay: one learned line, with everything that it rests on."""

    artifact_id: ArtifactId
    artifact_type: ArtifactType = Field(description="what kind of thing was learned")
    labels: Labels = Labels()
    weight: Weight
    decay_modifier: Weight = Field(default=1.0, description="factor per day since the consolidation; 1: none")
    scope: ArtifactScope = Field(description="session: for session_id alone; agent: by labels; global: always")
    session_id: SessionId | None = Field(default=None, description="of scope session; None otherwise")
    context_line: NonBlank = Field(
        description="one sentence, copied verbatim into prompts; at most ho3.context_line_max_chars"
    )
    enabled: bool = Field(default=True, description="false: deactivated")
    created_at_event_ts: Timestamp
    expires_at_event_ts: Timestamp | None = Field(default=None, description="returned while this is not past")
    source_signal_ids: Annotated[list[SignalId], Field(min_length=1)] = Field(description="signals it rests on")
    source_event_ids: Annotated[list[str], Field(min_length=1)] = Field(description="every one a logged event")
    gate_snapshot: GateResult | None = Field(default=None, description="the gate as it was; None: stated explicitly")
    model: str = Field(default="", description="model that wrote the line; empty: stated explicitly")
    prompt_pack_version: str = Field(default="", description="of the pack that asked for it")
    consolidation_event_ts: Timestamp
    window_start: Timestamp
    window_end: Timestamp


class PlainOverlay(Record):
    """The short form of an artifact: reads as weight = salience_weight, context_line = bias, scope global, enabled."""

    signal_id: SignalId
    salience_weight: Weight
    bias: NonBlank = Field(description="content.bias; at most ho3.context_line_max_chars")
    category: str = Field(default="", description="content.category")
    decay_modifier: Weight = Field(default=1.0, description="factor per day since then; 1: none")
    source_event_ids: Annotated[list[str], Field(min_length=1)] = Field(description="every one a logged event")
    at: Timestamp


class Bias(Record):
    """An artifact that is in force as of the read, with the decay of its freshest source signal."""

    overlay_id: str = Field(description="`OVL-…`")
    artifact: Artifact
    decay: float = Field(description="highest among its source signals, 9 decimals")


class Overlay(Record):
    """An artifact as the log has it now."""

    overlay_id: str = Field(description="`OVL-…`")
    artifact: Artifact
    is_active: bool = Field(description="enabled, not expired, weight above 0")
    changed_by: list[str] = Field(default_factory=list[str], description="submission ids of later changes, in order")


class AsOf(Record):
    """What a read counted."""

    as_of_ts: Timestamp
    as_of_seq: int = Field(ge=-1, description="last ledger sequence that counted; -1: none")
    from_clock: bool = Field(description="true: the reader named no time and the clock was used")


# --- READ ----------------------------------------------------------------------------------------------------------


class ReadAsOf(Record):
    """What every question says: whose memory, as of when."""

    agent_id: AgentId
    as_of_ts: Timestamp | None = Field(default=None, description="later events do not count; None: the clock")
    as_of_seq: Annotated[int, Field(ge=-1)] | None = Field(
        default=None, description="entries of a later sequence do not count; None: the head"
    )


class ReadSignals(ReadAsOf, Message, wire="memory.read_signals"):
    """Ask for accumulators."""

    signal_id: SignalId | None = Field(default=None, description="None: all")
    min_count: Count = Field(default=0, description="only signals with so many events")
    with_ids: bool = Field(default=True, description="false: without session and event ids, however many there are")


class Signals(Message, wire="memory.signals"):
    """Answer to ReadSignals, sorted by signal id."""

    signals: list[Accumulator]
    as_of: AsOf


class ReadOverlays(ReadAsOf, Message, wire="memory.read_overlays"):
    """Ask for overlays."""

    signal_id: SignalId | None = Field(default=None, description="only those that rest on it; None: all")
    active_only: bool = Field(default=True, description="false: deactivated and expired ones too")


class Overlays(Message, wire="memory.overlays"):
    """Answer to ReadOverlays, in append order."""

    overlays: list[Overlay]
    as_of: AsOf


class ReadActiveBiases(ReadAsOf, Message, wire="memory.read_active_biases"):
    """Ask for what may go into a prompt: enabled, not expired, weight > 0, decay above ho3.bias_decay_floor."""

    session_id: SessionId | None = Field(default=None, description="whose session-scoped artifacts; None: none")


class Biases(Message, wire="memory.biases"):
    """Answer to ReadActiveBiases, in append order."""

    biases: list[Bias]
    as_of: AsOf


class CheckGate(ReadAsOf, Message, wire="memory.check_gate"):
    """Ask whether one signal's gate is crossed."""

    signal_id: SignalId


class GateChecked(Message, wire="memory.gate_checked"):
    """Answer to CheckGate, with the accumulator that it was judged on (None: no such event)."""

    gate: GateResult
    accumulator: Accumulator | None
    as_of: AsOf


class ReadMemoryStats(ReadAsOf, Message, wire="memory.read_stats"):
    """Ask how much one agent's memory holds."""


class MemoryStats(Message, wire="memory.stats"):
    """Answer to ReadMemoryStats."""

    signals: Count = Field(description="distinct signals")
    events: Count = Field(description="source events")
    overlays: Count = Field(description="overlays ever logged")
    active_overlays: Count = Field(description="of them in force")
    applied_seq: int = Field(ge=-1, description="last ledger sequence that is applied")
    checkpoint_seq: int = Field(ge=-1, description="sequence of the newest checkpoint; -1: none")
    gate_mode: Literal["counting", "bistable"] = Field(description="ho3.gate_mode")
    as_of: AsOf


# --- LOG -----------------------------------------------------------------------------------------------------------


class LogSignal(Message, wire="memory.log_signal"):
    """Append one source event; idempotent by event_id."""

    agent_id: AgentId
    signal: Signal


class LogSignals(Message, wire="memory.log_signals"):
    """Append a turn's source events in one write; idempotent by their ids."""

    agent_id: AgentId
    signals: Annotated[list[Signal], Field(min_length=1)] = Field(description="at most ho3.signals_max")


class SignalsLogged(Message, wire="memory.signals_logged"):
    """Durable; the gates of the logged signals as of the latest of their times."""

    new_count: Count = Field(description="events that were not there before")
    gates: list[GateResult] = Field(description="one per distinct signal, sorted by signal id")
    as_of: AsOf


class LogOverlay(Message, wire="memory.log_overlay"):
    """Append an artifact (or a plain overlay); refused unless every source event is logged."""

    agent_id: AgentId
    overlay: Artifact | PlainOverlay


class OverlayLogged(Message, wire="memory.overlay_logged"):
    """Durable. Logged again while active, or exactly as it was logged before: the same overlay, nothing appended."""

    overlay_id: str = Field(description="`OVL-…`")
    artifact_id: str = Field(description="`ART-…`")
    is_new: bool = Field(description="true: this logging was appended")
    is_active: bool = Field(description="as all that was said about it has it; false: it stayed switched off")


class DeactivateOverlay(Message, wire="memory.deactivate_overlay"):
    """Append that an artifact is off. Unknown id: refused, nothing appended."""

    agent_id: AgentId
    artifact_id: ArtifactId
    reason: NonBlank = Field(description="a body in the record, not in its chain; at most ho3.reason_max_chars")
    at: Timestamp


class UpdateOverlayWeight(Message, wire="memory.update_overlay_weight"):
    """Append a new weight for an artifact. Unknown id: refused, nothing appended."""

    agent_id: AgentId
    artifact_id: ArtifactId
    new_weight: Weight
    reason: NonBlank = Field(description="a body in the record, not in its chain; at most ho3.reason_max_chars")
    at: Timestamp


class OverlayChanged(Message, wire="memory.overlay_changed"):
    """Durable; the artifact as it is now."""

    overlay: Overlay


class LogConsolidationFailure(Message, wire="memory.log_consolidation_failure"):
    """Append that a consolidation failed: its gate stays closed for ho3.consolidation_cooldown_hours."""

    agent_id: AgentId
    signal_id: SignalId
    wo_id: str = Field(default="", max_length=100, description="the order that failed; empty: it never got that far")
    code: str = Field(max_length=64, description="closed code")
    at: Timestamp


class ConsolidationFailureLogged(Message, wire="memory.consolidation_failure_logged"):
    """Durable; until when the gate is closed, and how many tries of this signal and window have failed."""

    signal_id: SignalId
    closed_until: Timestamp
    failures: Count = Field(description="of this signal in this window")
