"""Which overlays may be appended. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import get_args

from hobus.actors.ho3_memory.context_line import fault_of_line
from hobus.actors.ho3_memory.event_time import micros
from hobus.bus.messages.ids import artifact_id, gate_window_key
from hobus.bus.messages.memory import Artifact, ArtifactType, PlainOverlay
from hobus.config.schema import ClassifyLabels, Ho3Config

_TYPES: dict[str, ArtifactType] = {kind: kind for kind in get_args(ArtifactType)}


def artifact_of(overlay: Artifact | PlainOverlay, config: Ho3Config) -> Artifact:
    """The artifact itself, or what a plain overlay reads as.

    A plain overlay's id holds its bias beside signal and window: two biases of one signal are two artifacts. A category
    that is no artifact type reads as topic_affinity.
    """
    if isinstance(overlay, Artifact):
        return overlay
    bias_hash = sha256(overlay.bias.encode()).hexdigest()
    return Artifact(
        artifact_id=artifact_id(
            [overlay.signal_id],
            gate_window_key(overlay.at, config.gate_window_hours),
            model="",
            prompt_pack_version=bias_hash,
        ),
        artifact_type=_TYPES.get(overlay.category, "topic_affinity"),
        weight=overlay.salience_weight,
        decay_modifier=overlay.decay_modifier,
        scope="global",
        context_line=overlay.bias,
        created_at_event_ts=overlay.at,
        source_signal_ids=[overlay.signal_id],
        source_event_ids=overlay.source_event_ids,
        consolidation_event_ts=overlay.at,
        window_start=overlay.at,
        window_end=overlay.at,
    )


def fault_of_artifact(artifact: Artifact, config: Ho3Config, vocabulary: ClassifyLabels) -> str:
    """'' or why it may not stand. Raises MemoryFault(invalid_time) for a time that no calendar has."""
    checks = (
        fault_of_line(artifact.context_line, chars_max=config.context_line_max_chars),
        _fault_of_labels("domain", artifact.labels.domain, vocabulary.domain),
        _fault_of_labels("task", artifact.labels.task, vocabulary.task),
        _fault_of_scope(artifact),
        _fault_of_times(artifact),
    )
    return next((fault for fault in checks if fault), "")


def _fault_of_labels(kind: str, labels: Sequence[str], known: Sequence[str]) -> str:
    """The first label's place is told, not its text, which a model may have written."""
    for number, label in enumerate(labels):
        if label not in known:
            return f"labels.{kind}[{number}] is none of classify_labels.{kind}: {', '.join(known)}"
    return f"labels.{kind} names a label twice" if len(set(labels)) < len(labels) else ""


def _fault_of_scope(artifact: Artifact) -> str:
    if (artifact.scope == "session") == (artifact.session_id is not None):
        return ""
    return f"scope {artifact.scope} {'needs a' if artifact.scope == 'session' else 'has no'} session_id"


def _fault_of_times(artifact: Artifact) -> str:
    start, end = micros(artifact.window_start), micros(artifact.window_end)
    created, consolidated = micros(artifact.created_at_event_ts), micros(artifact.consolidation_event_ts)
    if start > end:
        return "window_start is after window_end"
    if max(created, consolidated) < start:
        return "it was made before its window began"
    if artifact.expires_at_event_ts is not None and micros(artifact.expires_at_event_ts) < created:
        return "expires_at_event_ts is before created_at_event_ts"
    return ""
