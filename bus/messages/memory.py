"""What is asked of HO3: READ and LOG, nothing else.

Every read that depends on time takes `as_of_ts` and `as_of_seq`; what is later by either does not count, so that the
same question gives the same bytes for ever. One agent's memory is invisible to another: every message names its agent.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from hobus.bus.messages.base import Count, Message, NonBlank, Record, Timestamp
from hobus.bus.messages.ids import Principal, SessionId, SignalId
from hobus.bus.record.payloads.memory import GateResult

ArtifactType = Literal["topic_affinity", "interaction_style", "task_pattern", "constraint"]
ArtifactScope = Literal["agent", "session", "global"]
Weight = Annotated[float, Field(ge=0, le=1, description="0 to 1")]
AgentId = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[^/\s]+$", description="whose memory")]
ArtifactId = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^ART-[!-~]+$", description="`ART-<hash>`")]


class Signal(Record):
    """One observation: an immutable source event."""

    event_id: Annotated[str, Field(min_length=1, max_length=300)] = Field(
        description="`EVT-<session>-<run>-<signal>`: sent again, it counts once"
    )
    signal_id: SignalId
    principal: Principal
    session_id: SessionId
    at: Timestamp
    metadata: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="never text of a person or a model"
    )


class Accumulator(Record):
    """What the events of one signal add up to, as of a time."""

    signal_id: SignalId
    principal: Principal | None = Field(description="whose events; None: everybody's")
    count: Count = Field(description="events")
    last_seen: Timestamp
    session_ids: list[str] = Field(description="of the events below, sorted; empty: no ids wanted")
    session_count: Count = Field(default=0, description="distinct sessions")
    event_ids: list[str] = Field(description="the newest ho3.source_events_max, by event time, then id")
    decay: float = Field(description="2 ** -(age / half-life), 9 decimals")


class Labels(Record):
    """Labels of the closed vocabulary by kind."""

    domain: list[str] = Field(default_factory=list[str], description="what it is about")
    task: list[str] = Field(default_factory=list[str], description="what it asks for")


class ArtifactFacts(Record):
    """What was learned: one line, where it holds, and what it rests on but for its events."""

    artifact_id: ArtifactId
    principal: Principal | None = Field(
        description="whose events made it, and in whose prompts it stands; None: everybody's (ho3.shared_types)"
    )
    artifact_type: ArtifactType = Field(description="what kind of thing was learned")
    labels: Labels = Labels()
    weight: Weight
    decay_modifier: Weight = Field(default=1.0, description="factor per day; 1: none")
    scope: ArtifactScope = Field(description="session: for session_id alone; agent: by labels; global: always")
    session_id: SessionId | None = Field(default=None, description="of scope session; None otherwise")
    context_line: NonBlank = Field(description="one sentence for prompts; at most ho3.context_line_max_chars")
    enabled: bool = Field(default=True, description="false: deactivated")
    created_at_event_ts: Timestamp
    expires_at_event_ts: Timestamp | None = Field(default=None, description="returned while this is not past")
    source_signal_ids: Annotated[list[SignalId], Field(min_length=1)] = Field(description="signals it rests on")
    gate_snapshot: GateResult | None = Field(default=None, description="the gate as it was; None: stated explicitly")
    model: str = Field(default="", description="model that wrote the line; empty: stated explicitly")
    prompt_pack_version: str = Field(default="", description="of the pack that asked for it")
    consolidation_event_ts: Timestamp
    window_start: Timestamp
    window_end: Timestamp


class Artifact(ArtifactFacts):
    """An overlay: one learned line, with everything that it rests on."""

    source_event_ids: Annotated[list[str], Field(min_length=1)] = Field(
        description="every one a logged event of its principal"
    )


class InForce(ArtifactFacts):
    """An artifact as a prompt needs it, its events counted."""

    source_event_count: Count = Field(description="events that it rests on")
    source_event_digest: str = Field(description="SHA-256 of their ids, sorted, each with a line feed, hex")


class PlainContent(Record):
    """What a plain overlay says."""

    bias: NonBlank = Field(description="reads as context_line; at most ho3.context_line_max_chars")
    category: str = Field(default="", description="artifact_type if it is one, else topic_affinity")


MomentText = Annotated[
    str,
    Field(
        max_length=40,
        pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$",
        description="ISO 8601 with its offset from UTC",
    ),
]


class PlainOverlay(Record):
    """The short form of an artifact: weight and line alone; no labels, scope global, enabled."""

    overlay_id: str = Field(default="", max_length=100, description="not read")
    signal_id: SignalId
    salience_weight: Weight
    decay_modifier: Weight = Field(default=1.0, description="factor per day; 1: none")
    source_event_ids: Annotated[list[str], Field(min_length=1)] = Field(description="every one a logged event")
    content: PlainContent
    created_at: MomentText
    window_start: MomentText | None = Field(default=None, description="None: created_at")
    window_end: MomentText | None = Field(default=None, description="None: created_at")


class Bias(Record):
    """An artifact in force as of the read."""

    overlay_id: str = Field(description="`OVL-…`")
    artifact: InForce
    decay: float = Field(description="highest among its source signals, 9 decimals")


OverlayState = Literal["active", "pending", "off", "silent", "expired", "superseded"]


class ChangeSaid(Record):
    """What was said of an artifact later, and by whom."""

    entry_id: str = Field(description="submission id; begins with what was said")
    principal: str = Field(description="who said it; empty: logged again")
    door: str = Field(description="the stamped instance")


class Overlay(Record):
    """An artifact as the log has it now."""

    overlay_id: str = Field(description="`OVL-…`")
    artifact: Artifact
    state: OverlayState = Field(
        description="pending: unconfirmed; off: by a person; silent: weight 0; superseded: by newer ones"
    )
    is_active: bool = Field(description="may stand in prompts")
    changes: list[ChangeSaid] = Field(default_factory=list[ChangeSaid], description="later ones, in order")


class Quarantined(Record):
    """A refused line, in no prompt."""

    signal_id: SignalId
    principal: Principal | None = Field(description="whose events; None: everybody's")
    at: Timestamp
    reason: str = Field(description="why it was refused; empty: erased")
    line: str = Field(description="to be shown escaped; empty: erased")


class AsOf(Record):
    """What a read counted."""

    as_of_ts: Timestamp
    as_of_seq: int = Field(ge=-1, description="last ledger sequence that counted; -1: none")
    from_clock: bool = Field(description="the reader named no time")


ItsPrincipal = Annotated[
    Principal | None,
    Field(default=None, description="only if it is this one's; a door has to name it; None: any's"),
]
Place = Annotated[int, Field(ge=-1)]
FIRST_PAGE = -1

# --- READ ----------------------------------------------------------------------------------------------------------


class ReadAsOf(Record):
    """What every question says: whose memory, as of when."""

    agent_id: AgentId
    as_of_ts: Timestamp | None = Field(default=None, description="events up to then; None: the clock")
    as_of_seq: Annotated[int, Field(ge=-1)] | None = Field(
        default=None, description="entries up to then; None: the head"
    )


class ReadSignals(ReadAsOf, Message, wire="memory.read_signals"):
    """Ask for accumulators."""

    signal_id: SignalId | None = Field(default=None, description="None: all")
    principal: Principal | None = Field(default=None, description="only this one's; None: each principal's")
    min_count: Count = Field(default=0, description="only signals with so many events")
    with_ids: bool = Field(default=True, description="false: without session and event ids")
    after: str = Field(default="", max_length=300, description="`next` of the page before; empty: first page")


class Signals(Message, wire="memory.signals"):
    """Answer to ReadSignals: one per signal and principal, sorted by both."""

    signals: list[Accumulator]
    next: str = Field(default="", description="`after` of the next page; empty: the last")
    as_of: AsOf


class ReadOverlays(ReadAsOf, Message, wire="memory.read_overlays"):
    """Ask for overlays."""

    signal_id: SignalId | None = Field(default=None, description="only those resting on it; None: all")
    principal: Principal | None = Field(default=None, description="only this one's; None: all")
    active_only: bool = Field(default=True, description="false: in every state")
    after: Place = Field(default=FIRST_PAGE, description="`next` of the page before; -1: first page")


class Overlays(Message, wire="memory.overlays"):
    """Answer to ReadOverlays, in append order."""

    overlays: list[Overlay]
    next: Place | None = Field(default=None, description="`after` of the next page; None: the last")
    as_of: AsOf


class ReadActiveBiases(ReadAsOf, Message, wire="memory.read_active_biases"):
    """Ask for what may go into a prompt: enabled, not expired, weight > 0, decay above ho3.bias_decay_floor."""

    principal: Principal
    session_id: SessionId | None = Field(default=None, description="whose session-scoped artifacts; None: none")
    after: Place = Field(default=FIRST_PAGE, description="`next` of the page before; -1: first page")


class Biases(Message, wire="memory.biases"):
    """Answer to ReadActiveBiases, in append order."""

    biases: list[Bias]
    next: Place | None = Field(default=None, description="`after` of the next page; None: the last")
    as_of: AsOf


class ReadReview(ReadAsOf, Message, wire="memory.read_review"):
    """Ask for what waits for a person, and for the newest lines that were refused."""

    principal: Principal | None = Field(default=None, description="only this one's; None: all")


class Review(Message, wire="memory.review"):
    """Answer to ReadReview; of each at most ho3.page_max, the newest."""

    pending: list[Overlay] = Field(description="undecided constraints, in append order")
    quarantined: list[Quarantined] = Field(description="refused lines, in order of event time")
    as_of: AsOf


class CheckGate(ReadAsOf, Message, wire="memory.check_gate"):
    """Ask whether a signal's gate is crossed, by a principal's events or everybody's."""

    signal_id: SignalId
    principal: Principal | None = Field(default=None, description="whose events count; None: everybody's")
    event_id: str = Field(
        default="",
        max_length=300,
        description="this event's principal; if that gate is closed, everybody's open one",
    )


class GateChecked(Message, wire="memory.gate_checked"):
    """Answer to CheckGate, with what it was judged on (None: no such event)."""

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


def _form_of_overlay(given: object) -> str:
    """Which form was meant, so that a field that is wrong is told of that form alone."""
    if isinstance(given, dict):
        return "plain" if "signal_id" in given or "salience_weight" in given else "artifact"
    return "plain" if isinstance(given, PlainOverlay) else "artifact"


class LogOverlay(Message, wire="memory.log_overlay"):
    """Append an artifact (or a plain overlay); refused unless every source event is logged."""

    agent_id: AgentId
    overlay: Annotated[
        Annotated[Artifact, Tag("artifact")] | Annotated[PlainOverlay, Tag("plain")], Discriminator(_form_of_overlay)
    ]


class OverlayLogged(Message, wire="memory.overlay_logged"):
    """Durable; logged again while active, or exactly as before, appends nothing."""

    overlay_id: str = Field(description="`OVL-…`")
    artifact_id: str = Field(description="`ART-…`")
    is_new: bool = Field(description="true: this logging was appended")
    is_active: bool = Field(description="false: pending, or stayed off")


class OverlayCommand(Record):
    """That a person changes an artifact. Unknown id: refused, nothing appended."""

    agent_id: AgentId
    artifact_id: ArtifactId
    reason: NonBlank = Field(description="at most ho3.reason_max_chars")
    at: Timestamp
    principal: ItsPrincipal = None


class DeactivateOverlay(OverlayCommand, Message, wire="memory.deactivate_overlay"):
    """Switch an artifact off, or reject one that waits; its signals make no new one. Unknown id: refused."""


class ActivateOverlay(OverlayCommand, Message, wire="memory.activate_overlay"):
    """Switch an artifact on again. Unknown id: refused."""


class ConfirmOverlay(OverlayCommand, Message, wire="memory.confirm_overlay"):
    """Confirm a constraint that waits. Unknown id: refused."""


class UpdateOverlayWeight(Message, wire="memory.update_overlay_weight"):
    """Give an artifact another weight. Unknown id: refused."""

    agent_id: AgentId
    artifact_id: ArtifactId
    new_weight: Weight
    reason: NonBlank = Field(description="at most ho3.reason_max_chars")
    at: Timestamp
    principal: ItsPrincipal = None


class OverlayChanged(Message, wire="memory.overlay_changed"):
    """Durable; the artifact as it is now."""

    overlay: Overlay


class LogConsolidationFailure(Message, wire="memory.log_consolidation_failure"):
    """Append that a consolidation failed: its gate stays closed for ho3.consolidation_cooldown_hours."""

    agent_id: AgentId
    signal_id: SignalId
    principal: Principal | None = Field(description="whose gate; None: everybody's")
    wo_id: str = Field(default="", max_length=100, description="the order that failed")
    code: str = Field(max_length=64, description="closed code")
    reason: str = Field(default="", description="why the line was refused; cut to ho3.reason_max_chars")
    line: str = Field(default="", description="the refused line, cut likewise")
    at: Timestamp


class ConsolidationFailureLogged(Message, wire="memory.consolidation_failure_logged"):
    """Durable; until when the gate is closed, after how many failures."""

    signal_id: SignalId
    closed_until: Timestamp
    failures: Count = Field(description="of this signal in this window")
