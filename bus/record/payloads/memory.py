"""Streams `signals` and `overlays`: what HO3 logs. An entry's provenance names its agent and session, its id the rest.

The text of a person or a model (a context line, a reason) is body 1, so that it can be erased and the rest stands.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from hobus.bus.messages.base import Count, Record
from hobus.bus.messages.ids import Principal, SignalId


class GateResult(Record):
    """Whether a signal's gate is crossed, and why in words."""

    signal_id: SignalId
    crossed: bool = Field(description="true: it may be consolidated now")
    count: Count = Field(description="events that count")
    session_count: Count = Field(description="distinct sessions among them")
    already_consolidated: bool = Field(description="an overlay of this window names the signal")
    reason: str = Field(description="a sentence that a person can read")
    evidence: float = Field(default=0.0, description="bistable mode: decayed evidence, 9 decimals; counting mode: 0")
    principal: Principal | None = Field(default=None, description="whose events count; None: everybody's")
    principal_count: Count = Field(default=0, description="distinct principals among them")


class SignalLogged(NamedTuple):
    """HO3_SIGNAL: something that was noticed in a run; its event is named by the entry's id, behind the agent."""

    signal_id: Annotated[str, Field(description="`<kind>:<what was noticed>`")]
    principal: Annotated[str, Field(description="whose session it was: `local`, `key/<name>`")]
    at: Annotated[str, Field(description="event time; ISO 8601, UTC")]
    metadata: Annotated[dict[str, str | int | float | bool], Field(description="facts about it, no text")]


class OverlayWritten(NamedTuple):
    """HO3_OVERLAY: an artifact, without its line: what was learned."""

    artifact_id: Annotated[str, Field(description="`ART-…`")]
    principal: Annotated[str | None, Field(description="in whose prompts it stands; None: in everybody's")]
    artifact_type: Annotated[str, Field(description="what kind of thing was learned")]
    domain_labels: Annotated[tuple[str, ...], Field(description="what it is about")]
    task_labels: Annotated[tuple[str, ...], Field(description="what it asks for")]
    weight: Annotated[float, Field(description="0 to 1")]
    decay_modifier: Annotated[float, Field(description="factor per day since the consolidation; 1: none")]
    scope: Annotated[Literal["session", "agent", "global"], Field(description="where it holds")]
    session_id: Annotated[str | None, Field(description="of scope session; None otherwise")]
    enabled: Annotated[bool, Field(description="false: deactivated")]
    created_at_event_ts: Annotated[str, Field(description="ISO 8601, UTC")]
    expires_at_event_ts: Annotated[str | None, Field(description="returned while this is not past; None: for ever")]
    source_signal_ids: Annotated[tuple[str, ...], Field(description="signals it rests on")]
    source_event_ids: Annotated[tuple[str, ...], Field(description="every one a logged event")]
    gate_snapshot: Annotated[GateResult | None, Field(description="None: stated explicitly")]
    model: Annotated[str, Field(description="model that wrote the line; empty: stated explicitly")]
    prompt_pack_version: Annotated[str, Field(description="of the pack that asked for it")]
    consolidation_event_ts: Annotated[str, Field(description="ISO 8601, UTC")]
    window_start: Annotated[str, Field(description="ISO 8601, UTC")]
    window_end: Annotated[str, Field(description="ISO 8601, UTC")]


class OverlayChange(NamedTuple):
    """What a person did to an artifact: switched it off or rejected it, switched it on, confirmed it, weighed it."""

    artifact_id: Annotated[str, Field(description="`ART-…`")]
    at: Annotated[str, Field(description="event time; ISO 8601, UTC")]
    principal: Annotated[str, Field(description="who did: `local`, `key/<name>`")]
    door: Annotated[str, Field(description="the instance that it came from, as the broker stamped it")]
    new_weight: Annotated[float | None, Field(description="0 to 1, of HO3_OVERLAY_WEIGHT_UPDATED; None: no weight")]


class ConsolidationFailed(NamedTuple):
    """HO3_CONSOLIDATION_FAILED: a consolidation brought nothing."""

    signal_id: Annotated[str, Field(description="`<kind>:<what was noticed>`")]
    principal: Annotated[str | None, Field(description="whose gate; None: everybody's")]
    code: Annotated[str, Field(description="why")]
    at: Annotated[str, Field(description="event time; ISO 8601, UTC")]
