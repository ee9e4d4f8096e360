"""STATE_SNAPSHOT: a session's record as bytes, and back, checked. Pure.

Body 1 of the entry is the packed record: one encoding, versioned, bounded whatever the session's age, refs in place of
texts. Body 2 has a line of each turn that prompts tell of, and its size; where that was erased the lines say so. Both
are deflated, as the record repeats itself with each input. A snapshot stands for the entries before it only if it is
what they fold to: body 1 has the hash that the journal has of it, the state in it the hash that the journal has of
that, and it follows the very entry that it names.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Annotated, NamedTuple

from msgspec import Meta
from msgspec.msgpack import Decoder, Encoder
from msgspec.structs import replace

from hobus.actors.ho2_supervisor.session.order_lives import OrderLife, OrderLives
from hobus.actors.ho2_supervisor.session.record import EndedRun, KnownInput, SessionRecord
from hobus.actors.ho2_supervisor.session.reducer import reduce
from hobus.actors.ho2_supervisor.session.state import SessionState, hash_state
from hobus.actors.ho2_supervisor.turn.history import ERASED, DeliveredTurn, History, HistoryLimits, ToldTurn
from hobus.bus.messages.base import Count, Record, pack, unpack
from hobus.bus.messages.ids import derive_body_ref
from hobus.bus.messages.work_order import Exchange, Segment, ToolFile
from hobus.bus.record.journal import Recorded
from hobus.bus.record.session_facts import StateSnapshot

VERSION = 16
"""Of the packed record. One of another version is not read; the entries before it are."""
_TOLD = Decoder(list[tuple[str, int, int]])
_encode = Encoder().encode  # the fields of a session's output_schema keep their order
_INFLATES_TIMES = 200
"""What becomes more than so many times as long is no record of a session."""


class _Command(Record):
    command_id: str
    reason: str


class _Turn(NamedTuple):
    """A DeliveredTurn without its texts."""

    input_id: str
    input_ref: str
    reply_ref: str
    tool_ids: tuple[str, ...]
    is_degraded: bool
    rounds: tuple[Exchange, ...]
    beside: tuple[Segment, ...]


class Packed(Record):
    """Everything of a SessionRecord between two runs but texts, and but what follows from the snapshot's own entry."""

    state: SessionState
    head: str
    appended: Count
    inputs: list[KnownInput]
    commands: list[_Command]
    inputs_forgotten: bool
    unrequested_forgotten: bool
    turns: list[_Turn]
    images: list[list[ToolFile]]
    line_inputs: Annotated[list[str], Meta(description="of whose turns body 2 tells, in order")]
    turn_count: Count
    total_tokens: Count
    cost_usd: float | None
    last_run: EndedRun | None
    degraded_agent_id: str
    orders: list[OrderLife]


_AS_THEY_ARE = (
    "state", "head", "appended", "inputs_forgotten", "unrequested_forgotten", "total_tokens", "cost_usd",
    "last_run", "degraded_agent_id", "images",
)  # fmt: skip
"""Fields that a record has under the same name, with the same value."""


def is_due(record: SessionRecord, every: int) -> bool:
    """Return whether the session is idle and enough was recorded since the newest snapshot."""
    state = record.state
    is_at_rest = (
        state.is_started
        and not state.cell
        and state.run_id is None
        and state.failed is None
        and state.received_command is None
    )
    return is_at_rest and record.since_snapshot >= every


def make_snapshot(record: SessionRecord, submission_id: str, at: str) -> tuple[StateSnapshot, list[bytes]]:
    """Build the snapshot event for everything up to here, and its further bodies. Only between two runs."""
    body = zlib.compress(pack_record(record))
    event = StateSnapshot(
        after=record.head,
        state_hash=hash_state(record.state),
        record_ref=derive_body_ref(submission_id, 1),
        record_hash=_hash_body(body),
        record_version=VERSION,
        at=at,
    )
    return event, [body, zlib.compress(pack([line[1:] for line in record.history.lines]))]


def pack_record(record: SessionRecord) -> bytes:
    """Return what body 1 holds: the same record gives the same bytes."""
    if record.run is not None:
        raise ValueError(f"run {record.run.run_id} is active: a snapshot is made between two runs")
    history = record.history
    # Of an input that was never requested no digest was recorded: one that was worked out since is no part of the fold.
    inputs = [replace(known, digest=None) if known.run_seq is None else known for known in record.inputs.values()]
    return _encode(
        Packed(
            inputs=inputs,
            commands=[_Command(command_id=key, reason=reason) for key, reason in record.commands.items()],
            turns=[_Turn(*(getattr(turn, name) for name in _Turn._fields)) for turn in history.turns],
            line_inputs=[line.input_id for line in history.lines],
            turn_count=history.count,
            orders=record.orders.list_known(),
            **{name: getattr(record, name) for name in _AS_THEY_ARE},
        )
    )


def read_packed(entry: Recorded, prev: str | None) -> Packed | str:
    """Return what a snapshot holds, or why it cannot stand for what is before it, as far as it says itself."""
    event = entry.event.event
    if not isinstance(event, StateSnapshot):
        return "it is no snapshot"
    if event.record_version != VERSION:
        return f"its record is of version {event.record_version}; this software reads version {VERSION}"
    if event.after != prev:
        return f"it stands after {prev} and covers what is up to {event.after}"
    body = entry.bodies[1] if len(entry.bodies) > 1 else None
    if body is None:
        return "its record was erased"
    if _hash_body(body) != event.record_hash:
        return "its record has another hash than the journal says"
    packed = _unpack(body)
    if isinstance(packed, str):
        return f"its record does not read: {packed}"
    if packed.head != event.after:
        return f"its record ends at {packed.head}"
    rejection = reduce(packed.state, entry.event).rejection  # compares the state's hash with the event's, among others
    return packed if rejection is None else rejection.reason


def restore(packed: Packed, entry: Recorded, limits: HistoryLimits) -> SessionRecord:
    """Rebuild the record up to the entry before this snapshot; its newest turns lack their texts."""
    record = SessionRecord(packed.state.session_id, limits)
    for name in _AS_THEY_ARE:
        setattr(record, name, getattr(packed, name))
    record.inputs = {known.input_id: known for known in packed.inputs}
    record.commands = {command.command_id: command.reason for command in packed.commands}
    told = _list_lines(entry, len(packed.line_inputs), limits)
    lines = tuple([ToldTurn(name, *line) for name, line in zip(packed.line_inputs, told, strict=True)])
    record.orders = OrderLives(packed.orders)
    record.history = History(
        turns=tuple(DeliveredTurn(**turn._asdict()) for turn in packed.turns), lines=lines, count=packed.turn_count
    )
    return record


def _hash_body(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _unpack(body: bytes) -> Packed | str:
    """Unpack the body, or say what is wrong with it; only the one encoding counts."""
    try:
        data = _inflate(body)
        packed = Packed.model_validate(unpack(data))
    except (ValueError, zlib.error) as error:
        return type(error).__name__
    return packed if _encode(packed) == data else "it is encoded in another way"


def _inflate(body: bytes) -> bytes:
    """Inflate a body. Raises zlib.error or ValueError for what `of` does not make."""
    stream = zlib.decompressobj()
    data = stream.decompress(body, max(1, len(body)) * _INFLATES_TIMES)
    if not stream.eof or stream.unused_data:
        raise ValueError("not one deflated value")
    return data


def _list_lines(entry: Recorded, count: int, limits: HistoryLimits) -> list[tuple[str, int, int]]:
    """Return lines and sizes of the turns; where they were erased each line says so."""
    body = entry.bodies[2] if len(entry.bodies) > 2 else None  # noqa: PLR2004 - payload, record, lines
    try:
        lines = [] if body is None else _TOLD.decode(_inflate(body))
    except (ValueError, zlib.error):
        lines = []
    return lines if len(lines) == count else [(f"- user: {ERASED}"[: limits.digest_chars], 0, 0)] * count
