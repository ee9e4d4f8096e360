"""STATE_SNAPSHOT: a session's record as bytes, and back, checked. Pure.

Body 1 of the entry is the packed record: canonical, versioned, bounded whatever the session's age, refs in place of
texts. Body 2 has the lines of turns that no prompt shows whole any more; where that was erased the lines say so. Both
are deflated, as the record repeats itself with each input. A snapshot stands for the entries before it only if it is
what they fold to: body 1 has the hash that the journal has of it, the state in it the hash that the journal has of
that, and it follows the very entry that it names.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import asdict
from typing import Any, Literal

from pydantic import Field, ValidationError

from hobus.actors.ho2_supervisor.session.record import AnswerKind, EndedRun, Forgotten, KnownInput, SessionRecord
from hobus.actors.ho2_supervisor.session.reducer import reduce
from hobus.actors.ho2_supervisor.session.state import SessionState, state_hash
from hobus.actors.ho2_supervisor.turn.history import ERASED, DeliveredTurn, History, HistoryLimits
from hobus.bus.messages.base import Count, Record, canonical_bytes, pack, unpack
from hobus.bus.messages.ids import RunId, body_ref
from hobus.bus.messages.session import StateSnapshot
from hobus.bus.record.journal import Recorded

VERSION = 5
"""Of the packed record. One of another version is not read; the entries before it are."""
_INFLATES_TIMES = 200
"""What becomes more than so many times as long is no record of a session."""


class _Input(Record):
    input_id: str
    digest: str | None
    input_ref: str
    run_seq: Count | None
    became: AnswerKind
    result_ref: str
    code: str
    form: str | None


class _Command(Record):
    command_id: str
    reason: str


class _Turn(Record):
    input_id: str
    input_ref: str
    reply_ref: str
    tool_ids: list[str]
    is_degraded: bool


class _Ended(Record):
    run_seq: Count
    input_id: str
    requested_at: str
    classified: dict[str, Any] | None
    tool_ids: list[str]
    outcome: Literal["success", "failed", "escalated", ""]
    ended_by: str


class _Packed(Record):
    """Everything of a SessionRecord between two runs but texts, and what follows from the snapshot's own entry."""

    state: SessionState
    head: str
    appended: Count
    inputs: list[_Input]
    commands: list[_Command]
    inputs_forgotten: bool
    unrequested_forgotten: bool
    turns: list[_Turn]
    line_inputs: list[str] = Field(description="whose lines body 2 has, in order")
    turn_count: Count
    total_tokens: Count
    total_cost_usd: float | None
    last_run: _Ended | None
    degraded_agent_id: str


def is_due(record: SessionRecord, every: int) -> bool:
    """Whether this session rests, and enough was recorded since the newest snapshot that a new one is worth it."""
    state = record.state
    is_at_rest = state.is_started and state.run_id is None and state.received_command is None
    return is_at_rest and record.since_snapshot >= every


def of(record: SessionRecord, submission_id: str, at: str) -> tuple[StateSnapshot, list[bytes]]:
    """The event that stands for everything up to here, and the bodies after its own. Only between two runs."""
    body = zlib.compress(packed_record(record))
    event = StateSnapshot(
        after=record.head,
        state_hash=state_hash(record.state),
        record_ref=body_ref(submission_id, 1),
        record_hash=_hash(body),
        record_version=VERSION,
        at=at,
    )
    return event, [body, zlib.compress(pack([line for _, line in record.history.digests]))]


def packed_record(record: SessionRecord) -> bytes:
    """What body 1 holds: the same record, the same bytes."""
    if record.run is not None:
        raise ValueError(f"run {record.run.run_id} is active: a snapshot is made between two runs")
    ended, history = record.last_run, record.history
    return canonical_bytes(
        _Packed(
            state=record.state,
            head=record.head,
            appended=record.appended,
            inputs=[_packed_input(known) for known in record.inputs.values()],
            commands=[_Command(command_id=key, reason=reason) for key, reason in record.commands.items()],
            inputs_forgotten=record.forgotten.inputs,
            unrequested_forgotten=record.forgotten.unrequested,
            turns=[_packed_turn(turn) for turn in history.turns],
            line_inputs=[input_id for input_id, _ in history.digests],
            turn_count=history.count,
            total_tokens=record.total_tokens,
            total_cost_usd=record.total_cost_usd,
            last_run=None if ended is None else _packed_end(ended),
            degraded_agent_id=record.degraded_agent_id,
        )
    )


def fault_of(entry: Recorded, event: StateSnapshot, prev: str | None) -> str:
    """Why the snapshot cannot stand for what is before it; empty: it can, as far as it says of itself."""
    if event.record_version != VERSION:
        return f"its record is of version {event.record_version}; this software reads version {VERSION}"
    if event.after != prev:
        return f"it stands after {prev} and covers what is up to {event.after}"
    body = entry.bodies[1] if len(entry.bodies) > 1 else None
    if body is None:
        return "its record was erased"
    if _hash(body) != event.record_hash:
        return "its record has another hash than the journal says"
    packed = _packed(body)
    if isinstance(packed, str):
        return f"its record does not read: {packed}"
    if packed.head != event.after:
        return f"its record ends at {packed.head}"
    rejection = reduce(packed.state, entry.event).rejection  # compares the state's hash with the event's, among others
    return "" if rejection is None else rejection.reason


def restored(entry: Recorded, limits: HistoryLimits) -> SessionRecord:
    """The record up to the entry before a snapshot without fault; its newest turns lack their texts."""
    packed = _packed(entry.bodies[1] or b"")
    if isinstance(packed, str):
        raise ValueError(packed)  # noqa: TRY004 - `fault_of` was not asked
    session_id = packed.state.session_id
    record = SessionRecord(session_id, limits)
    record.state, record.head, record.appended = packed.state, packed.head, packed.appended
    record.inputs = {known.input_id: _known(known, session_id) for known in packed.inputs}
    record.commands = {command.command_id: command.reason for command in packed.commands}
    record.forgotten = Forgotten(packed.inputs_forgotten, packed.unrequested_forgotten)
    lines = _lines(entry, len(packed.line_inputs), limits)
    record.history = History(
        turns=tuple(_turn(turn) for turn in packed.turns),
        digests=tuple(zip(packed.line_inputs, lines, strict=True)),
        count=packed.turn_count,
    )
    record.total_tokens, record.total_cost_usd = packed.total_tokens, packed.total_cost_usd
    record.last_run = None if packed.last_run is None else _ended(packed.last_run, session_id)
    record.degraded_agent_id = packed.degraded_agent_id
    return record


def state_in(entry: Recorded, prev: str | None) -> SessionState | None:
    """The state that a snapshot holds; None for another event, and where it cannot stand for what is before it."""
    event = entry.event.event
    if not isinstance(event, StateSnapshot) or fault_of(entry, event, prev):
        return None
    packed = _packed(entry.bodies[1] or b"")
    return None if isinstance(packed, str) else packed.state


def _hash(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _packed(body: bytes) -> _Packed | str:
    """What the body says, or what is the matter with it; only the one encoding counts."""
    try:
        data = _inflated(body)
        packed = _Packed.model_validate(unpack(data))
    except (ValidationError, ValueError, zlib.error) as error:
        return type(error).__name__
    return packed if canonical_bytes(packed) == data else "it is not canonical"


def _inflated(body: bytes) -> bytes:
    """Raises zlib.error or ValueError for what `of` does not make."""
    stream = zlib.decompressobj()
    data = stream.decompress(body, max(1, len(body)) * _INFLATES_TIMES)
    if not stream.eof or stream.unused_data:
        raise ValueError("not one deflated value")
    return data


def _packed_input(known: KnownInput) -> _Input:
    # Of an input that was never requested no digest was recorded: one that was worked out since is no part of the fold.
    return _Input(
        input_id=known.input_id,
        digest=None if known.run_id is None else known.digest,
        input_ref=known.input_ref,
        run_seq=None if known.run_id is None else known.run_id.run_seq,
        became=known.became,
        result_ref=known.result_ref,
        code=known.code,
        form=known.form,
    )


def _known(packed: _Input, session_id: str) -> KnownInput:
    run_id = None if packed.run_seq is None else RunId(session_id=session_id, run_seq=packed.run_seq)
    return KnownInput(
        packed.input_id, packed.digest, packed.input_ref, run_id, packed.became, packed.result_ref, packed.code,
        packed.form,
    )  # fmt: skip


def _packed_turn(turn: DeliveredTurn) -> _Turn:
    return _Turn(
        input_id=turn.input_id,
        input_ref=turn.input_ref,
        reply_ref=turn.reply_ref,
        tool_ids=list(turn.tool_ids),
        is_degraded=turn.is_degraded,
    )


def _turn(packed: _Turn) -> DeliveredTurn:
    return DeliveredTurn(
        packed.input_id, packed.input_ref, packed.reply_ref, None, None, tuple(packed.tool_ids), packed.is_degraded
    )


def _packed_end(ended: EndedRun) -> _Ended:
    values = asdict(ended) | {"run_seq": ended.run_id.run_seq, "tool_ids": list(ended.tool_ids)}
    return _Ended.model_validate({name: values[name] for name in _Ended.model_fields})


def _ended(packed: _Ended, session_id: str) -> EndedRun:
    return EndedRun(
        RunId(session_id=session_id, run_seq=packed.run_seq), packed.input_id, packed.requested_at, packed.classified,
        tuple(packed.tool_ids), packed.outcome, packed.ended_by,
    )  # fmt: skip


def _lines(entry: Recorded, count: int, limits: HistoryLimits) -> list[str]:
    """The older turns' lines; where they were erased each says so, as a turn whose text was erased does."""
    body = entry.bodies[2] if len(entry.bodies) > 2 else None  # noqa: PLR2004 - payload, record, lines
    try:
        lines = [] if body is None else unpack(_inflated(body))
    except (ValueError, zlib.error):
        lines = []
    if isinstance(lines, list) and len(lines) == count and all(isinstance(line, str) for line in lines):
        return lines
    return [f"- user: {ERASED}"[: limits.digest_chars]] * count
