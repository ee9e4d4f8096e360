"""What is asked of HO3: READ and LOG, nothing else.

Every read that depends on time takes `as_of_ts` and `as_of_seq`; what is later by either does not count, so that the
same question gives the same bytes for ever. One agent's memory is invisible to another: every message names its agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, convert, field, structs

from hobus.bus.messages.base import Count, Message, NonBlank, Record, Timestamp
from hobus.bus.messages.ids import Principal, SessionId, SignalId
from hobus.bus.record.payloads.memory import GateResult

ArtifactType = Literal["topic_affinity", "interaction_style", "task_pattern", "constraint"]
ArtifactScope = Literal["agent", "session", "global"]
Weight = Annotated[float, Meta(ge=0, le=1, description="0 to 1")]
AgentId = Annotated[str, Meta(min_length=1, max_length=80, pattern=r"^[^/\s]+\Z", description="owner of the memory")]
ArtifactId = Annotated[str, Meta(min_length=1, max_length=80, pattern=r"^ART-[!-~]+\Z", description="`ART-<hash>`")]


class Signal(Record):
    """One observation: an immutable source event."""

    event_id: Annotated[
        str,
        Meta(min_length=1, max_length=300, description="`EVT-<session>-<run>-<signal>`: sent again, it counts once"),
    ]
    signal_id: SignalId
    principal: Principal
    session_id: SessionId
    at: Timestamp
    metadata: Annotated[dict[str, str | int | float | bool], Meta(description="never text of a person or a model")] = (
        field(default_factory=dict)
    )


class Accumulator(Record):
    """The events of one signal, counted as of a time."""

    signal_id: SignalId
    principal: Annotated[Principal | None, Meta(description="whose events; None: everybody's")]
    count: Annotated[Count, Meta(description="events")]
    last_seen: Timestamp
    session_ids: Annotated[list[str], Meta(description="of the events below, sorted; empty: not requested")]
    session_count: Annotated[Count, Meta(description="distinct sessions")] = 0
    event_ids: Annotated[list[str], Meta(description="the newest 200, by event time, then id")]
    decay: Annotated[float, Meta(description="2 ** -(age / half-life), 9 decimals")]


class Labels(Record):
    """Labels of the closed vocabulary by kind."""

    domain: Annotated[list[str], Meta(description="what it is about")] = field(default_factory=list[str])
    task: Annotated[list[str], Meta(description="what a message asks for")] = field(default_factory=list[str])


class ArtifactFacts(Record):
    """What was learned: one line, where it holds, and what it rests on but for its events."""

    artifact_id: ArtifactId
    principal: Annotated[
        Principal | None,
        Meta(description="whose events made it and whose prompts show it; None: everybody's (ho3.shared_types)"),
    ]
    artifact_type: Annotated[ArtifactType, Meta(description="kind of artifact")]
    labels: Labels = Labels()
    weight: Weight
    decay_modifier: Annotated[Weight, Meta(description="factor per day; 1: none")] = 1.0
    scope: Annotated[ArtifactScope, Meta(description="session: for session_id alone; agent: by labels; global: always")]
    session_id: Annotated[SessionId | None, Meta(description="of scope session; None otherwise")] = None
    context_line: Annotated[NonBlank, Meta(description="one sentence for prompts; at most 240 characters")]
    enabled: Annotated[bool, Meta(description="false: deactivated")] = True
    created_at_event_ts: Timestamp
    expires_at_event_ts: Annotated[Timestamp | None, Meta(description="not returned after this time")] = None
    source_signal_ids: Annotated[list[SignalId], Meta(min_length=1, description="signals it rests on")]
    gate_snapshot: Annotated[GateResult | None, Meta(description="the gate as it was; None: stated explicitly")] = None
    model: Annotated[str, Meta(description="model that wrote the line; empty: stated explicitly")] = ""
    prompt_pack_version: Annotated[str, Meta(description="of the pack that asked for it")] = ""
    consolidation_event_ts: Timestamp
    window_start: Timestamp
    window_end: Timestamp


class Artifact(ArtifactFacts):
    """A learned line with the events behind it."""

    source_event_ids: Annotated[list[str], Meta(min_length=1, description="every one a logged event of its principal")]


class InForce(ArtifactFacts):
    """An artifact as a prompt needs it, its events counted."""

    source_event_count: Annotated[Count, Meta(description="events that it rests on")]
    source_event_digest: Annotated[str, Meta(description="SHA-256 of their ids, sorted, each with a line feed, hex")]


class PlainContent(Record):
    """What a plain overlay says."""

    bias: Annotated[NonBlank, Meta(description="reads as context_line; at most 240 characters")]
    category: Annotated[str, Meta(description="artifact_type if it is one, else topic_affinity")] = ""


MomentText = Annotated[
    str,
    Meta(
        max_length=40,
        pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)\Z",
        description="ISO 8601 with its offset from UTC",
    ),
]


class PlainOverlay(Record):
    """The short form of an artifact: weight and line alone; no labels, scope global, enabled."""

    overlay_id: Annotated[str, Meta(max_length=100, description="not read")] = ""
    signal_id: SignalId
    salience_weight: Weight
    decay_modifier: Annotated[Weight, Meta(description="factor per day; 1: none")] = 1.0
    source_event_ids: Annotated[list[str], Meta(min_length=1, description="every one a logged event")]
    content: PlainContent
    created_at: MomentText
    window_start: Annotated[MomentText | None, Meta(description="None: created_at")] = None
    window_end: Annotated[MomentText | None, Meta(description="None: created_at")] = None


class Bias(Record):
    """An artifact in force as of the read."""

    overlay_id: Annotated[str, Meta(description="`OVL-…`")]
    artifact: InForce
    decay: Annotated[float, Meta(description="highest among its source signals, 9 decimals")]


OverlayState = Literal["active", "pending", "off", "silent", "expired", "superseded"]


class ChangeSaid(Record):
    """A later change of an artifact, and its author."""

    entry_id: Annotated[str, Meta(description="submission id; begins with the kind of change")]
    principal: Annotated[str, Meta(description="its author; empty: logged again")]
    door: Annotated[str, Meta(description="the stamped instance")]


class Overlay(Record):
    """An artifact as the log has it now."""

    overlay_id: Annotated[str, Meta(description="`OVL-…`")]
    artifact: Artifact
    state: Annotated[
        OverlayState,
        Meta(description="pending: unconfirmed; off: by a person; silent: weight 0; superseded: by newer ones"),
    ]
    is_active: Annotated[bool, Meta(description="may stand in prompts")]
    changes: Annotated[list[ChangeSaid], Meta(description="later ones, in order")] = field(
        default_factory=list[ChangeSaid]
    )


class Quarantined(Record):
    """A refused line, in no prompt."""

    signal_id: SignalId
    principal: Annotated[Principal | None, Meta(description="whose events; None: everybody's")]
    at: Timestamp
    reason: Annotated[str, Meta(description="why it was refused; empty: erased")]
    line: Annotated[str, Meta(description="to be shown escaped; empty: erased")]


class AsOf(Record):
    """The state that a read is based on."""

    as_of_ts: Timestamp
    as_of_seq: Annotated[int, Meta(ge=-1, description="last ledger sequence that counted; -1: none")]
    from_clock: Annotated[bool, Meta(description="the reader named no time")]


ItsPrincipal = Annotated[
    Principal | None,
    Meta(description="only if it belongs to this one; required of a door; None: any"),
]
Place = Annotated[int, Meta(ge=-1)]
FIRST_PAGE = -1

# --- READ ----------------------------------------------------------------------------------------------------------


class ReadAsOf(Record):
    """What every question says: whose memory, as of when."""

    agent_id: AgentId
    as_of_ts: Annotated[Timestamp | None, Meta(description="events up to then; None: the clock")] = None
    as_of_seq: Annotated[Annotated[int, Meta(ge=-1)] | None, Meta(description="entries up to then; None: the head")] = (
        None
    )


class ReadSignals(ReadAsOf, Message, wire="memory.read_signals"):
    """Ask for accumulators."""

    signal_id: Annotated[SignalId | None, Meta(description="None: all")] = None
    principal: Annotated[Principal | None, Meta(description="only this one's; None: each principal's")] = None
    min_count: Annotated[Count, Meta(description="only signals with so many events")] = 0
    with_ids: Annotated[bool, Meta(description="false: without session and event ids")] = True
    after: Annotated[str, Meta(max_length=300, description="`next` of the page before; empty: first page")] = ""


class Signals(Message, wire="memory.signals"):
    """Answer to ReadSignals: one per signal and principal, sorted by both."""

    signals: list[Accumulator]
    next: Annotated[str, Meta(description="`after` of the next page; empty: the last")] = ""
    as_of: AsOf


class ReadOverlays(ReadAsOf, Message, wire="memory.read_overlays"):
    """Ask for overlays."""

    signal_id: Annotated[SignalId | None, Meta(description="only those of this signal; None: all")] = None
    principal: Annotated[Principal | None, Meta(description="only this one's; None: all")] = None
    active_only: Annotated[bool, Meta(description="false: in every state")] = True
    after: Annotated[Place, Meta(description="`next` of the page before; -1: first page")] = FIRST_PAGE


class Overlays(Message, wire="memory.overlays"):
    """Answer to ReadOverlays, in append order."""

    overlays: list[Overlay]
    next: Annotated[Place | None, Meta(description="`after` of the next page; None: the last")] = None
    as_of: AsOf


class ReadActiveBiases(ReadAsOf, Message, wire="memory.read_active_biases"):
    """Ask for lines that prompts may show: enabled, not expired, weight > 0, decay above ho3.bias_decay_floor."""

    principal: Principal
    session_id: Annotated[SessionId | None, Meta(description="whose session-scoped artifacts; None: none")] = None
    after: Annotated[Place, Meta(description="`next` of the page before; -1: first page")] = FIRST_PAGE


class Biases(Message, wire="memory.biases"):
    """Answer to ReadActiveBiases, in append order."""

    biases: list[Bias]
    next: Annotated[Place | None, Meta(description="`after` of the next page; None: the last")] = None
    as_of: AsOf


class ReadReview(ReadAsOf, Message, wire="memory.read_review"):
    """Ask for pending lines, and for the newest refused lines."""

    principal: Annotated[Principal | None, Meta(description="only this one's; None: all")] = None


class Review(Message, wire="memory.review"):
    """Answer to ReadReview: the newest 1000 of each."""

    pending: Annotated[list[Overlay], Meta(description="undecided constraints, in append order")]
    quarantined: Annotated[list[Quarantined], Meta(description="refused lines, in order of event time")]
    as_of: AsOf


class CheckGate(ReadAsOf, Message, wire="memory.check_gate"):
    """Ask whether a signal's gate is crossed, by a principal's events or everybody's."""

    signal_id: SignalId
    principal: Annotated[Principal | None, Meta(description="whose events count; None: everybody's")] = None
    event_id: Annotated[
        str, Meta(max_length=300, description="this event's principal; if its gate is closed, everybody's open one")
    ] = ""


class GateChecked(Message, wire="memory.gate_checked"):
    """Answer to CheckGate, with what it was judged on (None: no such event)."""

    gate: GateResult
    accumulator: Accumulator | None
    as_of: AsOf


class ReadMemoryStats(ReadAsOf, Message, wire="memory.read_stats"):
    """Ask how much one agent's memory holds."""


class MemoryStats(Message, wire="memory.stats"):
    """Answer to ReadMemoryStats."""

    signals: Annotated[Count, Meta(description="distinct signals")]
    events: Annotated[Count, Meta(description="source events")]
    overlays: Annotated[Count, Meta(description="overlays ever logged")]
    active_overlays: Annotated[Count, Meta(description="of them in force")]
    applied_seq: Annotated[int, Meta(ge=-1, description="last ledger sequence that is applied")]
    checkpoint_seq: Annotated[int, Meta(ge=-1, description="sequence of the newest checkpoint; -1: none")]
    gate_mode: Annotated[Literal["counting", "bistable"], Meta(description="ho3.gate_mode")]
    as_of: AsOf


# --- LOG -----------------------------------------------------------------------------------------------------------


class LogSignal(Message, wire="memory.log_signal"):
    """Append one source event; idempotent by event_id."""

    agent_id: AgentId
    signal: Signal


class LogSignals(Message, wire="memory.log_signals"):
    """Append a turn's source events in one write; idempotent by their ids."""

    agent_id: AgentId
    signals: Annotated[list[Signal], Meta(min_length=1, description="at most 256")]


class SignalsLogged(Message, wire="memory.signals_logged"):
    """Durable; the gates of the logged signals as of the latest of their times."""

    new_count: Annotated[Count, Meta(description="events that were not there before")]
    gates: Annotated[list[GateResult], Meta(description="one per distinct signal, sorted by signal id")]
    as_of: AsOf


if TYPE_CHECKING:
    EitherOverlay = Artifact | PlainOverlay
else:  # told apart by their fields, not by a tag
    EitherOverlay = Any


class LogOverlay(Message, wire="memory.log_overlay"):
    """Append an artifact (or a plain overlay); refused unless every source event is logged."""

    agent_id: AgentId
    overlay: Annotated[
        EitherOverlay, Meta(description="an Artifact; a PlainOverlay if it has a signal_id or a salience_weight")
    ]

    def __post_init__(self) -> None:
        """Check the overlay as the form that was meant, so that a wrong field is told of that form alone."""
        given: Any = self.overlay
        if not isinstance(given, Record):
            is_plain = isinstance(given, dict) and bool({"signal_id", "salience_weight"} & given.keys())
            structs.force_setattr(self, "overlay", convert(given, PlainOverlay if is_plain else Artifact))


class OverlayLogged(Message, wire="memory.overlay_logged"):
    """Durable. Logging it again while active, or unchanged, appends nothing."""

    overlay_id: Annotated[str, Meta(description="`OVL-…`")]
    artifact_id: Annotated[str, Meta(description="`ART-…`")]
    is_new: Annotated[bool, Meta(description="true: appended now")]
    is_active: Annotated[bool, Meta(description="false: pending, or stayed off")]


class OverlayCommand(Record):
    """That a person changes an artifact. Unknown id: refused, nothing appended."""

    agent_id: AgentId
    artifact_id: ArtifactId
    reason: Annotated[NonBlank, Meta(description="at most 200 characters")]
    at: Timestamp
    principal: ItsPrincipal = None


class DeactivateOverlay(OverlayCommand, Message, wire="memory.deactivate_overlay"):
    """Switch an artifact off, or reject one that waits; its signals make no new one. Unknown id: refused."""


class ActivateOverlay(OverlayCommand, Message, wire="memory.activate_overlay"):
    """Switch an artifact on again. Unknown id: refused."""


class ConfirmOverlay(OverlayCommand, Message, wire="memory.confirm_overlay"):
    """Confirm a constraint that waits. Unknown id: refused."""


class UpdateOverlayWeight(Message, wire="memory.update_overlay_weight"):
    """Change an artifact's weight. Unknown id: refused."""

    agent_id: AgentId
    artifact_id: ArtifactId
    new_weight: Weight
    reason: Annotated[NonBlank, Meta(description="at most 200 characters")]
    at: Timestamp
    principal: ItsPrincipal = None


class OverlayChanged(Message, wire="memory.overlay_changed"):
    """Durable; the artifact as it is now."""

    overlay: Overlay


class LogConsolidationFailure(Message, wire="memory.log_consolidation_failure"):
    """Append that a consolidation failed: its gate stays closed for ho3.consolidation_cooldown_hours."""

    agent_id: AgentId
    signal_id: SignalId
    principal: Annotated[Principal | None, Meta(description="whose gate; None: everybody's")]
    wo_id: Annotated[str, Meta(max_length=100, description="the order that failed")] = ""
    code: Annotated[str, Meta(max_length=64, description="closed code")]
    reason: Annotated[str, Meta(description="why the line was refused; cut to 200 characters")] = ""
    line: Annotated[str, Meta(description="the refused line, cut likewise")] = ""
    at: Timestamp


class ConsolidationFailureLogged(Message, wire="memory.consolidation_failure_logged"):
    """Durable, with the end of the closure and the number of failures."""

    signal_id: SignalId
    closed_until: Timestamp
    failures: Annotated[Count, Meta(description="of this signal in this window")]
