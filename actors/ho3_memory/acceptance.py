"""Which overlays may be appended. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import get_args

from hobus.actors.ho3_memory.agent_memory import AgentMemory, Origin
from hobus.actors.ho3_memory.context_line import find_line_fault
from hobus.actors.ho3_memory.event_time import LAST_US, PointInTime, format_timestamp, parse_micros
from hobus.actors.ho3_memory.overlay_log import OverlayLog, find_state, is_stated
from hobus.bus.errors import MemoryFault
from hobus.bus.limits import CONTEXT_LINE_MAX_CHARS
from hobus.bus.messages.ids import compute_window_key, derive_artifact_id, format_iso_us
from hobus.bus.messages.memory import Artifact, ArtifactType, PlainOverlay
from hobus.config.sections.record import Ho3Config
from hobus.config.sections.turns import ClassifyLabels

_TYPES: dict[str, ArtifactType] = {kind: kind for kind in get_args(ArtifactType)}


def make_artifact(overlay: Artifact | PlainOverlay, sources: Mapping[str, Origin], config: Ho3Config) -> Artifact:
    """Return the artifact itself, or what a plain overlay reads as. Raises MemoryFault(invalid_time).

    A plain overlay's id holds its bias beside signal and window: two biases of one signal are two artifacts. It belongs
    to the principal of its events (`sources`: of those that were logged); to everybody, where they are of several. A
    category that is no artifact type reads as topic_affinity.
    """
    if isinstance(overlay, Artifact):
        return overlay
    bias, made_at = overlay.content.bias, _normalise_timestamp(overlay.created_at)
    principals = {sources[one][0] for one in overlay.source_event_ids if one in sources}
    principal = principals.pop() if len(principals) == 1 else None
    return Artifact(
        artifact_id=derive_artifact_id(
            principal,
            [overlay.signal_id],
            compute_window_key(made_at, config.gate_window_hours),
            model="",
            prompt_pack_version=sha256(bias.encode()).hexdigest(),
        ),
        principal=principal,
        artifact_type=_TYPES.get(overlay.content.category, "topic_affinity"),
        weight=overlay.salience_weight,
        decay_modifier=overlay.decay_modifier,
        scope="global",
        context_line=bias,
        created_at_event_ts=made_at,
        source_signal_ids=[overlay.signal_id],
        source_event_ids=overlay.source_event_ids,
        consolidation_event_ts=made_at,
        window_start=_normalise_timestamp(overlay.window_start or overlay.created_at),
        window_end=_normalise_timestamp(overlay.window_end or overlay.created_at),
    )


def _normalise_timestamp(moment: str) -> str:
    """Return a moment with any offset as a `Timestamp`. Raises MemoryFault(invalid_time) for an impossible one."""
    try:
        at = datetime.fromisoformat(moment).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise MemoryFault("invalid_time", f"{moment!r}: {error}") from None
    return format_iso_us((at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1))


def demand_acceptable(  # noqa: PLR0913 - what it is judged on
    artifact: Artifact,
    sources: Mapping[str, Origin],
    memory: AgentMemory,
    config: Ho3Config,
    vocabulary: ClassifyLabels,
    *,
    seq: int,
) -> None:
    """Raise MemoryFault for an artifact that may not stand: invalid_overlay, unknown_events, invalid_time."""
    fault = (
        find_artifact_fault(artifact, vocabulary)
        or _find_event_fault(artifact, sources)
        or _find_principal_fault(artifact, memory, config, seq)
    )
    if fault:
        raise MemoryFault("invalid_overlay", f"{artifact.artifact_id}: {fault}")


def _find_event_fault(artifact: Artifact, sources: Mapping[str, Origin]) -> str:
    """Return what is wrong with the artifact's events. Raises MemoryFault(unknown_events)."""
    ids = artifact.source_event_ids
    if unknown := [event_id for event_id in ids if event_id not in sources]:
        raise MemoryFault(
            "unknown_events",
            f"{artifact.artifact_id}: {len(unknown)} of {len(ids)} source events were never logged: "
            f"{name_some(unknown)}",
        )
    signals = artifact.source_signal_ids
    if foreign := [event_id for event_id in ids if sources[event_id][1] not in signals]:
        of = ", ".join(sorted({sources[event_id][1] for event_id in foreign})[:_SHOWN_IDS])
        raise MemoryFault(
            "unknown_events",
            f"{artifact.artifact_id}: {len(foreign)} of {len(ids)} source events are not of {', '.join(signals)}, "
            f"but of {of}: {name_some(foreign)}",
        )
    others = {sources[event_id][0] for event_id in ids} - {artifact.principal}
    if artifact.principal is not None and others:
        return f"it is of {artifact.principal} and rests on events of {', '.join(sorted(others))}"
    return ""


def _find_principal_fault(artifact: Artifact, memory: AgentMemory, config: Ho3Config, seq: int) -> str:
    """Return why the artifact may not be this principal's, by its events, the configuration, and a person's refusal."""
    known = memory.artifacts.log(artifact.artifact_id)
    now = None if known is None else known.standing(known.newest)
    if now is not None and now.artifact.principal != artifact.principal:
        return "this id is another principal's artifact"
    moment = PointInTime(parse_micros(artifact.window_end), seq)
    if artifact.principal is None:
        kind = artifact.artifact_type
        if kind not in config.shared_types:
            return f"it would be everybody's, and artifact_type {kind} is none of ho3.shared_types"
        for signal_id in artifact.source_signal_ids:
            if (count := memory.principal_count(signal_id, moment)) < config.gate_principal_threshold:
                needed = f"{config.gate_principal_threshold} (ho3.gate_principal_threshold)"
                return f"it would be everybody's, and {signal_id} has events of {count} principals; it needs {needed}"
    if is_stated(artifact):
        return ""
    # What was said last counts, whatever its event time: it may have been said while this was being made.
    now_on = PointInTime(LAST_US, seq)
    off = [
        memory.artifacts.switched_off(signal_id, artifact.principal, now_on) for signal_id in artifact.source_signal_ids
    ]
    by = next(filter(None, off), "")
    return f"a person switched its signal off with {by}, until it is switched on again" if by else ""


_SHOWN_IDS = 3
"""Unknown ids that a refusal names; their number is told in any case."""


def name_some(ids: Sequence[str]) -> str:
    """Return the first ids, and how many more there are."""
    shown = ", ".join(ids[:_SHOWN_IDS])
    return shown if len(ids) <= _SHOWN_IDS else f"{shown} and {len(ids) - _SHOWN_IDS} more"


def find_artifact_fault(artifact: Artifact, vocabulary: ClassifyLabels) -> str:
    """Return what is wrong with the artifact in itself, or ''. Raises MemoryFault(invalid_time)."""
    checks = (
        find_line_fault(artifact.context_line, chars_max=CONTEXT_LINE_MAX_CHARS),
        _find_label_fault("domain", artifact.labels.domain, vocabulary.domain),
        _find_label_fault("task", artifact.labels.task, vocabulary.task),
        _find_source_fault(artifact),
        _find_scope_fault(artifact),
        _find_time_fault(artifact),
    )
    return next((fault for fault in checks if fault), "")


def _find_label_fault(kind: str, labels: Sequence[str], known: Sequence[str]) -> str:
    """Return which label is unknown by its place, not its text, which a model may have written."""
    for number, label in enumerate(labels):
        if label not in known:
            return f"labels.{kind}[{number}] is none of classify_labels.{kind}: {', '.join(known)}"
    return f"labels.{kind} names a label twice" if len(set(labels)) < len(labels) else ""


def _find_source_fault(artifact: Artifact) -> str:
    """Return which source is named more than once."""
    for name in ("source_signal_ids", "source_event_ids"):
        ids = getattr(artifact, name)
        if len(set(ids)) < len(ids):
            return f"{name} names one of them twice"
    return ""


def _find_scope_fault(artifact: Artifact) -> str:
    if (artifact.scope == "session") == (artifact.session_id is not None):
        return ""
    return f"scope {artifact.scope} {'needs a' if artifact.scope == 'session' else 'has no'} session_id"


def _find_time_fault(artifact: Artifact) -> str:
    start, end = parse_micros(artifact.window_start), parse_micros(artifact.window_end)
    created, consolidated = parse_micros(artifact.created_at_event_ts), parse_micros(artifact.consolidation_event_ts)
    if start > end:
        return "window_start is after window_end"
    if max(created, consolidated) < start:
        return "it was made before its window began"
    if artifact.expires_at_event_ts is not None and parse_micros(artifact.expires_at_event_ts) < created:
        return "expires_at_event_ts is before created_at_event_ts"
    return ""


def is_news(log: OverlayLog | None, artifact: Artifact, *, is_superseded: bool) -> bool:
    """Return whether an artifact is appended: not while it is active or waits, nor when exactly this was logged before.

    One that waits since a model read it where nobody said it is news once a person says it.
    """
    if log is None:
        return True
    is_said = is_stated(artifact) and artifact.artifact_type != "constraint"
    is_there = (
        find_present_state(log, artifact) in (("active",) if is_said else ("active", "pending")) and not is_superseded
    )
    return not (is_there or log.is_repeat(artifact))


def find_present_state(log: OverlayLog, artifact: Artifact) -> str:
    """Return the artifact's state by the log's order, whatever event time the logging names."""
    at_us = max(parse_micros(artifact.created_at_event_ts), log.newest.at_us)
    now = log.standing(PointInTime(at_us, log.newest.seq))
    return "" if now is None else find_state(now, format_timestamp(at_us), is_superseded=False)


def escape_line(line: str) -> str:
    """Return a refused line so that everything in it prints as itself: it may hold anything."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
