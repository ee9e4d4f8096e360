"""Memory's entries of the record: made from what is logged, and read back as facts, of which all else follows.

Body 0 of an entry holds what was said, without any text of a person or a model; such a text (the context line, a
reason) is body 1, so that it can be erased and the rest stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from hobus.actors.ho3_memory.event_time import micros
from hobus.bus.messages.ids import entry_id, overlay_id
from hobus.bus.messages.ledger import Entry, Provenance, WriteEntry
from hobus.bus.messages.memory import (
    Artifact,
    DeactivateOverlay,
    GateResult,
    LogConsolidationFailure,
    Signal,
    SignalId,
    UpdateOverlayWeight,
)
from hobus.bus.record.catalog import read_body
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.memory import (
    ConsolidationFailed,
    GateThen,
    OverlayDeactivated,
    OverlayWritten,
    SignalLogged,
    WeightUpdated,
)

SIGNALS = "signals"
OVERLAYS = "overlays"
STREAMS = (SIGNALS, OVERLAYS)
ERASED_LINE = "(erased)"
"""What an artifact says whose line was erased; it is never active."""
_SIGNAL_ID = TypeAdapter[str](SignalId)


class SignalFact(NamedTuple):
    """A source event stands in the record."""

    seq: int
    agent_id: str
    submission_id: str
    event_id: str
    signal_id: str
    session_id: str
    at_us: int


class OverlayFact(NamedTuple):
    """An artifact was logged, for the first time or again."""

    seq: int
    agent_id: str
    submission_id: str
    artifact: Artifact


class DeactivatedFact(NamedTuple):
    """An artifact was switched off."""

    seq: int
    agent_id: str
    submission_id: str
    artifact_id: str
    at_us: int


class WeightFact(NamedTuple):
    """An artifact got another weight."""

    seq: int
    agent_id: str
    submission_id: str
    artifact_id: str
    new_weight: float
    at_us: int


class FailureFact(NamedTuple):
    """A consolidation failed."""

    seq: int
    agent_id: str
    submission_id: str
    signal_id: str
    at_us: int


Fact = SignalFact | OverlayFact | DeactivatedFact | WeightFact | FailureFact


def signal_entry(agent_id: str, signal: Signal, *, trace: str, at_us: int) -> WriteEntry:
    """HO3_SIGNAL, named by agent and event: sent again it adds nothing."""
    provenance = Provenance(agent_id=agent_id, session_id=signal.session_id)
    name = entry_id("HO3_SIGNAL", f"{agent_id}/{signal.event_id}")
    said = SignalLogged(signal.signal_id, signal.at, dict(sorted(signal.metadata.items())))
    return _entry(name, SIGNALS, [pack_payload(said)], provenance, trace=trace, at_us=at_us)


def overlay_entry(agent_id: str, artifact: Artifact, *, earlier: int, trace: str, at_us: int) -> WriteEntry:
    """HO3_OVERLAY; `earlier` entries about this artifact stand already."""
    again = f"/{earlier}" if earlier else ""
    name = entry_id("HO3_OVERLAY", f"{overlay_id(agent_id, artifact.artifact_id)}{again}")
    provenance = Provenance(agent_id=agent_id, session_id=artifact.session_id or "")
    bodies = [pack_payload(_logged(artifact)), artifact.context_line.encode()]
    return _entry(name, OVERLAYS, bodies, provenance, trace=trace, at_us=at_us)


def deactivated_entry(message: DeactivateOverlay, *, trace: str, at_us: int) -> WriteEntry:
    """HO3_OVERLAY_DEACTIVATED, named by artifact and time."""
    name = entry_id("HO3_OVERLAY_DEACTIVATED", f"{overlay_id(message.agent_id, message.artifact_id)}/{message.at}")
    bodies = [pack_payload(OverlayDeactivated(message.artifact_id, message.at)), message.reason.encode()]
    return _entry(name, OVERLAYS, bodies, Provenance(agent_id=message.agent_id), trace=trace, at_us=at_us)


def weight_entry(message: UpdateOverlayWeight, *, trace: str, at_us: int) -> WriteEntry:
    """HO3_OVERLAY_WEIGHT_UPDATED, named by artifact and time."""
    name = entry_id("HO3_OVERLAY_WEIGHT_UPDATED", f"{overlay_id(message.agent_id, message.artifact_id)}/{message.at}")
    said = WeightUpdated(message.artifact_id, message.at, message.new_weight)
    bodies = [pack_payload(said), message.reason.encode()]
    return _entry(name, OVERLAYS, bodies, Provenance(agent_id=message.agent_id), trace=trace, at_us=at_us)


def failure_entry(message: LogConsolidationFailure, *, trace: str, at_us: int) -> WriteEntry:
    """HO3_CONSOLIDATION_FAILED, named by signal and order; by time where there was no order."""
    name = entry_id("HO3_CONSOLIDATION_FAILED", f"{message.agent_id}/{message.signal_id}/{message.wo_id or message.at}")
    said = ConsolidationFailed(message.signal_id, message.code, message.at)
    provenance = Provenance(agent_id=message.agent_id, work_order_id=message.wo_id)
    return _entry(name, OVERLAYS, [pack_payload(said)], provenance, trace=trace, at_us=at_us)


def owned(entry: WriteEntry, packages: Mapping[str, str]) -> WriteEntry:
    """The entry with the package that owns its agent; `packages`: by agent id, of those that one owns."""
    about = entry.provenance
    package_id = packages.get(about.agent_id, "")
    return entry._replace(provenance=about._replace(package_id=package_id))


def fact_of(sequence: int, entry: Entry | WriteEntry) -> Fact | None:
    """What an entry says; None for one whose facts were erased or that is not of memory.

    Raises ValueError for one that cannot be read.
    """
    name, agent_id = entry.submission_id, entry.provenance.agent_id
    match read_body(entry):
        case SignalLogged(signal_id=signal_id, at=at):
            event_id, session_id = name.removeprefix(f"HO3_SIGNAL:{agent_id}/"), entry.provenance.session_id
            known_id = _SIGNAL_ID.validate_python(signal_id)
            return SignalFact(sequence, agent_id, name, event_id, known_id, session_id, micros(at))
        case OverlayWritten() as said:
            return OverlayFact(sequence, agent_id, name, _artifact_of(said, entry.bodies))
        case OverlayDeactivated(artifact_id=artifact_id, at=at):
            return DeactivatedFact(sequence, agent_id, name, artifact_id, micros(at))
        case WeightUpdated(artifact_id=artifact_id, at=at, new_weight=weight):
            return WeightFact(sequence, agent_id, name, artifact_id, weight, micros(at))
        case ConsolidationFailed(signal_id=signal_id, at=at):
            return FailureFact(sequence, agent_id, name, signal_id, micros(at))
        case _:
            return None


def _logged(artifact: Artifact) -> OverlayWritten:
    gate, labels = artifact.gate_snapshot, artifact.labels
    said: dict[str, Any] = {name: getattr(artifact, name) for name in OverlayWritten._fields if hasattr(artifact, name)}
    said |= {"domain_labels": labels.domain, "task_labels": labels.task}
    said |= {name: tuple(value) for name, value in said.items() if isinstance(value, list)}
    said["gate_snapshot"] = None if gate is None else GateThen(*gate.model_dump().values())
    return OverlayWritten(**said)


def _artifact_of(said: OverlayWritten, bodies: Sequence[bytes | None]) -> Artifact:
    if len(bodies) < 2:  # noqa: PLR2004 - payload and line
        raise ValueError("an overlay without a line")
    line, gate = bodies[1], said.gate_snapshot
    values = said._asdict()
    labels = {"domain": list(values.pop("domain_labels")), "task": list(values.pop("task_labels"))}
    values |= {
        "labels": labels,
        "source_signal_ids": list(said.source_signal_ids),
        "source_event_ids": list(said.source_event_ids),
        "gate_snapshot": None if gate is None else dict(zip(GateResult.model_fields, gate, strict=True)),
        "context_line": ERASED_LINE if line is None else line.decode(),
    }
    return Artifact.model_validate(values if line is not None else values | {"enabled": False})


def _entry(  # noqa: PLR0913 - an entry has these parts
    name: str, stream: str, bodies: list[bytes], provenance: Provenance, *, trace: str, at_us: int
) -> WriteEntry:
    return WriteEntry(
        submission_id=name,
        stream=stream,
        event_type=name.partition(":")[0],
        provenance=provenance,
        trace=trace,
        at_us=at_us,
        bodies=bodies,
    )
