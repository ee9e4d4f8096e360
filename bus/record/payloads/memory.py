"""Streams `signals` and `overlays`: what HO3 logs. An entry's provenance names its agent and session, its id the rest.

The text of a person or a model (a context line, a reason) is body 1, so that it can be erased and the rest stands.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from hobus.bus.messages.base import Count, Record
from hobus.bus.messages.ids import Principal, SignalId


class GateResult(Record):
    """Whether a signal's gate is open, and why."""

    signal_id: SignalId
    crossed: Annotated[bool, Meta(description="true: it may be consolidated now")]
    count: Annotated[Count, Meta(description="events that count")]
    session_count: Annotated[Count, Meta(description="distinct sessions among them")]
    already_consolidated: Annotated[bool, Meta(description="an overlay of this window names the signal")]
    reason: Annotated[str, Meta(description="a sentence that a person can read")]
    evidence: Annotated[float, Meta(description="bistable mode: decayed evidence, 9 decimals; counting mode: 0")] = 0.0
    principal: Annotated[Principal | None, Meta(description="whose events count; None: everybody's")] = None
    principal_count: Annotated[Count, Meta(description="distinct principals among them")] = 0


class SignalLogged(NamedTuple):
    """HO3_SIGNAL: an observation in a run; the entry's id names agent and event."""

    signal_id: Annotated[str, Meta(description="`<kind>:<what was noticed>`")]
    principal: Annotated[str, Meta(description="whose session it was: `local`, `key/<name>`")]
    at: Annotated[str, Meta(description="event time; ISO 8601, UTC")]
    metadata: Annotated[dict[str, str | int | float | bool], Meta(description="facts about it, no text")]


class OverlayWritten(NamedTuple):
    """HO3_OVERLAY: a learned artifact, its line in a body."""

    artifact_id: Annotated[str, Meta(description="`ART-…`")]
    principal: Annotated[str | None, Meta(description="in whose prompts it stands; None: in everybody's")]
    artifact_type: Annotated[str, Meta(description="kind of artifact")]
    domain_labels: Annotated[tuple[str, ...], Meta(description="what it is about")]
    task_labels: Annotated[tuple[str, ...], Meta(description="what a message asks for")]
    weight: Annotated[float, Meta(description="0 to 1")]
    decay_modifier: Annotated[float, Meta(description="factor per day since the consolidation; 1: none")]
    scope: Annotated[Literal["session", "agent", "global"], Meta(description="where it holds")]
    session_id: Annotated[str | None, Meta(description="of scope session; None otherwise")]
    enabled: Annotated[bool, Meta(description="false: deactivated")]
    created_at_event_ts: Annotated[str, Meta(description="ISO 8601, UTC")]
    expires_at_event_ts: Annotated[str | None, Meta(description="returned while this is not past; None: for ever")]
    source_signal_ids: Annotated[tuple[str, ...], Meta(description="signals it rests on")]
    source_event_ids: Annotated[tuple[str, ...], Meta(description="every one a logged event")]
    gate_snapshot: Annotated[GateResult | None, Meta(description="None: stated explicitly")]
    model: Annotated[str, Meta(description="model that wrote the line; empty: stated explicitly")]
    prompt_pack_version: Annotated[str, Meta(description="of the pack that asked for it")]
    consolidation_event_ts: Annotated[str, Meta(description="ISO 8601, UTC")]
    window_start: Annotated[str, Meta(description="ISO 8601, UTC")]
    window_end: Annotated[str, Meta(description="ISO 8601, UTC")]


class OverlayChange(NamedTuple):
    """What a person did to an artifact: switched it off or rejected it, switched it on, confirmed it, weighed it."""

    artifact_id: Annotated[str, Meta(description="`ART-…`")]
    at: Annotated[str, Meta(description="event time; ISO 8601, UTC")]
    principal: Annotated[str, Meta(description="who did: `local`, `key/<name>`")]
    door: Annotated[str, Meta(description="the instance that it came from, as the broker stamped it")]
    new_weight: Annotated[float | None, Meta(description="0 to 1, of HO3_OVERLAY_WEIGHT_UPDATED; None: no weight")]


class ConsolidationFailed(NamedTuple):
    """HO3_CONSOLIDATION_FAILED: a consolidation gave no line."""

    signal_id: Annotated[str, Meta(description="`<kind>:<what was noticed>`")]
    principal: Annotated[str | None, Meta(description="whose gate; None: everybody's")]
    code: Annotated[str, Meta(description="why")]
    at: Annotated[str, Meta(description="event time; ISO 8601, UTC")]
