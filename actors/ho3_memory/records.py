"""Memory's entries of the record: made from what is logged, read back as facts. Source: spec page "The ledger", table.

Body 0 of an entry holds what was said, without any text of a person or a model; such a text (the context line, a
reason) is body 1, so that it can be erased and the rest stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from actors.ho3_memory.event_time import micros
from actors.ho3_memory.facts import DeactivatedFact, Fact, FailureFact, OverlayFact, SignalFact, WeightFact
from bus.messages.base import canonical_bytes, pack, unpack
from bus.messages.ids import entry_id, overlay_id
from bus.messages.ledger import Entry, Provenance, WriteEntry
from bus.messages.memory import (
    Artifact,
    DeactivateOverlay,
    LogConsolidationFailure,
    Signal,
    SignalId,
    UpdateOverlayWeight,
)

SIGNALS = "signals"
OVERLAYS = "overlays"
STREAMS = (SIGNALS, OVERLAYS)
ERASED_LINE = "(erased)"
"""What an artifact says whose line was erased; it is never active."""
_SIGNAL_ID = TypeAdapter[str](SignalId)


def signal_entry(agent_id: str, signal: Signal, *, trace: str, at_us: int) -> WriteEntry:
    """HO3_SIGNAL, named by agent and event: sent again it adds nothing."""
    provenance = Provenance(agent_id=agent_id, session_id=signal.session_id)
    name = entry_id("HO3_SIGNAL", f"{agent_id}/{signal.event_id}")
    return _entry(name, SIGNALS, [canonical_bytes(signal)], provenance, trace=trace, at_us=at_us)


def overlay_entry(agent_id: str, artifact: Artifact, *, earlier: int, trace: str, at_us: int) -> WriteEntry:
    """HO3_OVERLAY; `earlier` entries about this artifact stand already."""
    again = f"/{earlier}" if earlier else ""
    name = entry_id("HO3_OVERLAY", f"{overlay_id(agent_id, artifact.artifact_id)}{again}")
    facts = artifact.model_dump(mode="json", exclude={"context_line"})
    provenance = Provenance(agent_id=agent_id, session_id=artifact.session_id or "")
    bodies = [_sorted_pack(facts), artifact.context_line.encode()]
    return _entry(name, OVERLAYS, bodies, provenance, trace=trace, at_us=at_us)


def deactivated_entry(message: DeactivateOverlay, *, trace: str, at_us: int) -> WriteEntry:
    """HO3_OVERLAY_DEACTIVATED, named by artifact and time."""
    name = entry_id("HO3_OVERLAY_DEACTIVATED", f"{overlay_id(message.agent_id, message.artifact_id)}/{message.at}")
    facts = {"artifact_id": message.artifact_id, "at": message.at}
    bodies = [_sorted_pack(facts), message.reason.encode()]
    return _entry(name, OVERLAYS, bodies, Provenance(agent_id=message.agent_id), trace=trace, at_us=at_us)


def weight_entry(message: UpdateOverlayWeight, *, trace: str, at_us: int) -> WriteEntry:
    """HO3_OVERLAY_WEIGHT_UPDATED, named by artifact and time."""
    name = entry_id("HO3_OVERLAY_WEIGHT_UPDATED", f"{overlay_id(message.agent_id, message.artifact_id)}/{message.at}")
    facts = {"artifact_id": message.artifact_id, "at": message.at, "new_weight": message.new_weight}
    bodies = [_sorted_pack(facts), message.reason.encode()]
    return _entry(name, OVERLAYS, bodies, Provenance(agent_id=message.agent_id), trace=trace, at_us=at_us)


def failure_entry(message: LogConsolidationFailure, *, trace: str, at_us: int) -> WriteEntry:
    """HO3_CONSOLIDATION_FAILED, named by signal and order; by time where there was no order."""
    name = entry_id("HO3_CONSOLIDATION_FAILED", f"{message.agent_id}/{message.signal_id}/{message.wo_id or message.at}")
    facts = {"signal_id": message.signal_id, "wo_id": message.wo_id, "code": message.code, "at": message.at}
    provenance = Provenance(agent_id=message.agent_id, work_order_id=message.wo_id)
    return _entry(name, OVERLAYS, [_sorted_pack(facts)], provenance, trace=trace, at_us=at_us)


def owned(entry: WriteEntry, packages: Mapping[str, str]) -> WriteEntry:
    """The entry with the package that owns its agent; `packages`: by agent id, of those that one owns."""
    about = entry.provenance
    package_id = packages.get(about.agent_id, "")
    return entry._replace(provenance=about._replace(package_id=package_id))


def fact_of(sequence: int, entry: Entry | WriteEntry) -> Fact | None:
    """What an entry says; None for one whose facts were erased or that is not of memory.

    Raises ValueError, TypeError or LookupError for one that cannot be read.
    """
    body = entry.bodies[0] if entry.bodies else None
    if body is None:
        return None
    name, agent_id, said = entry.submission_id, entry.provenance.agent_id, unpack(body)
    match entry.event_type:
        case "HO3_SIGNAL":
            at_us, signal_id = micros(said["at"]), _SIGNAL_ID.validate_python(said["signal_id"])
            return SignalFact(sequence, agent_id, name, said["event_id"], signal_id, said["session_id"], at_us)
        case "HO3_OVERLAY":
            return OverlayFact(sequence, agent_id, name, _artifact_of(said, entry.bodies))
        case "HO3_OVERLAY_DEACTIVATED":
            return DeactivatedFact(sequence, agent_id, name, said["artifact_id"], micros(said["at"]))
        case "HO3_OVERLAY_WEIGHT_UPDATED":
            at_us = micros(said["at"])
            return WeightFact(sequence, agent_id, name, said["artifact_id"], said["new_weight"], at_us)
        case "HO3_CONSOLIDATION_FAILED":
            return FailureFact(sequence, agent_id, name, said["signal_id"], micros(said["at"]))
        case _:
            return None


def _artifact_of(said: dict[str, Any], bodies: Sequence[bytes | None]) -> Artifact:
    line = bodies[1]
    if line is None:
        return Artifact.model_validate({**said, "context_line": ERASED_LINE, "enabled": False})
    return Artifact.model_validate({**said, "context_line": line.decode()})


def _sorted_pack(facts: dict[str, Any]) -> bytes:
    """The same facts give the same bytes; nested values come from models, whose keys stand in one order."""
    return pack(dict(sorted(facts.items())))


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
