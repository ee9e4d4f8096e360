"""Memory's entries of the record: made from what is logged, and read back as facts, of which all else follows.

Body 0 of an entry holds what was said, without any text of a person or a model; such a text (the context line, a
reason) is body 1, so that it can be erased and the rest stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from msgspec import convert

from hobus.actors.ho3_memory.event_time import parse_micros
from hobus.bus.dispatch import SaidBy
from hobus.bus.messages.base import pack, unpack
from hobus.bus.messages.ids import derive_entry_id, derive_overlay_id
from hobus.bus.messages.ledger import Entry, Provenance, WriteEntry
from hobus.bus.messages.memory import (
    ActivateOverlay,
    Artifact,
    ConfirmOverlay,
    DeactivateOverlay,
    LogConsolidationFailure,
    Signal,
    SignalId,
    UpdateOverlayWeight,
)
from hobus.bus.record.catalog import read_body
from hobus.bus.record.payload import pack_payload, unpack_payload
from hobus.bus.record.payloads.memory import (
    ConsolidationFailed,
    OverlayChange,
    OverlayWritten,
    SignalLogged,
)

SIGNALS = "signals"
OVERLAYS = "overlays"
STREAMS = (SIGNALS, OVERLAYS)
ERASED_LINE = "(erased)"
"""What an artifact says whose line was erased; it is never active."""
EVERYBODY = "*"
"""Stands in ids where a principal would."""
_WORDS_CHARS = 12
"""Of the hash that tells two changes of one artifact and time apart."""
NO_SEQUENCE = -1
"""Of what is on its way to the record."""
Change = DeactivateOverlay | ActivateOverlay | ConfirmOverlay | UpdateOverlayWeight
"""What a person says of an artifact."""
_Kind = Literal["signal", "overlay", "deactivated", "activated", "confirmed", "weight", "failure"]
_CHANGES: dict[type[Change], str] = {
    DeactivateOverlay: "HO3_OVERLAY_DEACTIVATED",
    ActivateOverlay: "HO3_OVERLAY_ACTIVATED",
    ConfirmOverlay: "HO3_OVERLAY_CONFIRMED",
    UpdateOverlayWeight: "HO3_OVERLAY_WEIGHT_UPDATED",
}
_KINDS: dict[str, _Kind] = dict(
    zip(_CHANGES.values(), ("deactivated", "activated", "confirmed", "weight"), strict=True)
)


class Fact(NamedTuple):
    """What an entry of the two streams says, as far as anything follows from it."""

    kind: _Kind
    seq: int
    agent_id: str
    submission_id: str
    at_us: int
    """Event time."""
    about: str
    """The signal's id, or the artifact's."""
    session_id: str = ""
    """Of a signal."""
    artifact: Artifact | None = None
    """Of an overlay."""
    weight: float = 0.0
    """From then on, of a weight."""
    principal: str | None = None
    """Of a signal or a failure (None: everybody); of a change: who said it."""
    door: str = ""
    """Of a change: the instance that it came from."""
    refused: str = ""
    """Of a failure: why its line was refused."""
    line: str = ""
    """Of a failure: that line; empty: there was none, or it was erased."""

    def at(self, seq: int) -> Fact:
        """Return the fact as that of an entry at this sequence."""
        return Fact(self[0], seq, *self[2:])


def name_principal(principal: str | None) -> str:
    """Return a principal's name in ids and tables, or everybody's."""
    return EVERYBODY if principal is None else principal


def derive_signal_entry_id(agent_id: str, event_id: str) -> str:
    return derive_entry_id("HO3_SIGNAL", f"{agent_id}/{event_id}")


def make_signal_entry(agent_id: str, signal: Signal, *, trace: str, at_us: int) -> WriteEntry:
    """Build HO3_SIGNAL, named by agent and event: sent again it adds nothing."""
    provenance = Provenance(agent_id=agent_id, session_id=signal.session_id)
    name = derive_signal_entry_id(agent_id, signal.event_id)
    said = SignalLogged(signal.signal_id, signal.principal, signal.at, dict(sorted(signal.metadata.items())))
    return _make_entry(name, SIGNALS, said, provenance, trace=trace, at_us=at_us)


def make_signal_fact(agent_id: str, signal: Signal) -> Fact:
    """Return what the entry of this event says, without a look into its bytes; its sequence is still to come."""
    name = derive_signal_entry_id(agent_id, signal.event_id)
    return Fact(
        "signal", NO_SEQUENCE, agent_id, name, parse_micros(signal.at), signal.signal_id, signal.session_id,
        principal=signal.principal,
    )  # fmt: skip


def make_overlay_entry(agent_id: str, artifact: Artifact, *, earlier: int, trace: str, at_us: int) -> WriteEntry:
    """Build HO3_OVERLAY; `earlier` entries about this artifact stand already."""
    again = f"/{earlier}" if earlier else ""
    name = derive_entry_id("HO3_OVERLAY", f"{derive_overlay_id(agent_id, artifact.artifact_id)}{again}")
    provenance = Provenance(agent_id=agent_id, session_id=artifact.session_id or "")
    return _make_entry(
        name, OVERLAYS, _make_logged(artifact), provenance, artifact.context_line, trace=trace, at_us=at_us
    )


def change_entry(message: Change, said_by: SaidBy, *, trace: str, at_us: int) -> WriteEntry:
    """Build the entry of a change, named by artifact, time and words: one that is sent twice counts once."""
    artifact_id, at = message.artifact_id, message.at
    event_type = _CHANGES[type(message)]
    new_weight = message.new_weight if isinstance(message, UpdateOverlayWeight) else None
    said = OverlayChange(artifact_id, at, said_by.principal, said_by.door, new_weight)
    words = sha256(message.to_bytes()).hexdigest()[:_WORDS_CHARS]
    name = derive_entry_id(event_type, f"{derive_overlay_id(message.agent_id, artifact_id)}/{at}/{words}")
    about = Provenance(agent_id=message.agent_id)
    return _make_entry(name, OVERLAYS, said, about, message.reason, trace=trace, at_us=at_us)


def make_failure_entry(message: LogConsolidationFailure, *, trace: str, at_us: int) -> WriteEntry:
    """Build HO3_CONSOLIDATION_FAILED, named by signal and order; without an order by principal, signal and time."""
    own = f"{message.signal_id}/{message.wo_id}"  # an order is of one principal
    if not message.wo_id:
        own = f"{message.principal or EVERYBODY}/{message.signal_id}/{message.at}"
    name = derive_entry_id("HO3_CONSOLIDATION_FAILED", f"{message.agent_id}/{own}")
    said = ConsolidationFailed(message.signal_id, message.principal, message.code, message.at)
    provenance = Provenance(agent_id=message.agent_id, work_order_id=message.wo_id)
    texts = (message.reason, message.line) if message.line else ()
    return _make_entry(name, OVERLAYS, said, provenance, *texts, trace=trace, at_us=at_us)


def stamp_agent(entry: WriteEntry, agents: Mapping[str, Provenance]) -> WriteEntry:
    """Return the entry with what is recorded of its agent; `agents`: those that are configured, by id."""
    about = entry.provenance
    agent = agents.get(about.agent_id, about)
    own = {"session_id": about.session_id, "work_order_id": about.work_order_id}
    return entry._replace(provenance=agent._replace(**own))


def read_fact(sequence: int, entry: Entry | WriteEntry) -> Fact | None:
    """Return what an entry says; None for one whose facts were erased or that is not of memory.

    Raises ValueError for one that cannot be read.
    """
    by = sequence, entry.provenance.agent_id, entry.submission_id
    match read_body(entry):
        case SignalLogged(signal_id=signal_id, principal=principal, at=at):
            about, session_id = convert(signal_id, SignalId), entry.provenance.session_id
            return Fact("signal", *by, parse_micros(at), about, session_id, principal=principal)
        case OverlayWritten() as said:
            made = _restore_artifact(said, entry.bodies)
            return Fact("overlay", *by, parse_micros(made.created_at_event_ts), made.artifact_id, artifact=made)
        case OverlayChange(artifact_id, at, principal, door, weight):
            kind = _KINDS[entry.event_type]
            return Fact(kind, *by, parse_micros(at), artifact_id, weight=weight or 0.0, principal=principal, door=door)
        case ConsolidationFailed(signal_id=signal_id, principal=principal, at=at):
            refused, line = _read_texts(entry.bodies)
            return Fact("failure", *by, parse_micros(at), signal_id, principal=principal, refused=refused, line=line)
        case _:
            return None


def pack_artifact(artifact: Artifact) -> bytes:
    return pack((pack_payload(_make_logged(artifact)), artifact.context_line))


def unpack_artifact(data: bytes) -> Artifact:
    """Return the artifact behind `pack_artifact`."""
    said, line = unpack(data)
    return _restore_artifact(unpack_payload(OverlayWritten, said), [None, line.encode()])


def _make_logged(artifact: Artifact) -> OverlayWritten:
    labels = artifact.labels
    said: dict[str, Any] = {name: getattr(artifact, name) for name in OverlayWritten._fields if hasattr(artifact, name)}
    said |= {"domain_labels": labels.domain, "task_labels": labels.task}
    said |= {name: tuple(value) for name, value in said.items() if isinstance(value, list)}
    return OverlayWritten(**said)


def _restore_artifact(said: OverlayWritten, bodies: Sequence[bytes | None]) -> Artifact:
    if len(bodies) < 2:  # noqa: PLR2004 - payload and line
        raise ValueError("an overlay without a line")
    line = bodies[1]
    values = said._asdict()
    labels = {"domain": list(values.pop("domain_labels")), "task": list(values.pop("task_labels"))}
    values |= {
        "labels": labels,
        "source_signal_ids": list(said.source_signal_ids),
        "source_event_ids": list(said.source_event_ids),
        "context_line": ERASED_LINE if line is None else line.decode(),
    }
    return Artifact.model_validate(values if line is not None else values | {"enabled": False})


def _read_texts(bodies: Sequence[bytes | None]) -> tuple[str, str]:
    """Return both texts of a failure; empty where there are none, or where they were erased."""
    refused, line = [(body or b"").decode() for body in bodies[1:3]] or ("", "")
    return refused, line


def _make_entry(  # noqa: PLR0913 - an entry has these parts
    name: str, stream: str, said: tuple[Any, ...], about: Provenance, *texts: str, trace: str, at_us: int
) -> WriteEntry:
    """Build an entry; `texts`: of a person or a model, as bodies from 1 on."""
    return WriteEntry(
        submission_id=name,
        stream=stream,
        event_type=name.partition(":")[0],
        provenance=about,
        trace=trace,
        at_us=at_us,
        bodies=[pack_payload(said), *(text.encode() for text in texts)],
    )
