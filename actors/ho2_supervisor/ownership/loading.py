"""A session's record from its journal: the newest snapshot that is right, and the entries after it. Never the whole.

Pages are read from the head backwards until a snapshot without fault is met; one with a fault is passed over, said in
the log and counted, and the reading goes on to the one before it, or to the first entry. Nothing is guessed: where an
entry is missing, or does not read, the loading fails and names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog
from msgspec import Struct

from hobus.actors.ho2_supervisor.session import journal, snapshot
from hobus.actors.ho2_supervisor.session.record import SessionRecord
from hobus.actors.ho2_supervisor.session.snapshot import Packed
from hobus.actors.ho2_supervisor.turn.history import History, HistoryLimits
from hobus.bus.errors import LedgerError, RuntimeFault
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.ids import split_body_ref
from hobus.bus.messages.ledger import Entry, Read, name_session_stream
from hobus.bus.record import text_parts
from hobus.bus.record.ends import parse_result
from hobus.bus.record.journal import Recorded, read_recorded
from hobus.bus.record.session_facts import StateSnapshot

_SNAPSHOT = StateSnapshot.entry_name
_log = structlog.get_logger("ho2_supervisor")


class Loaded(Struct):
    """A record, and what reading it took."""

    record: SessionRecord
    entries: int  # read from the journal, the snapshot included
    ignored: int  # snapshots that were passed over


async def load(client: LedgerClient, session_id: str, limits: HistoryLimits, *, page: int) -> Loaded:
    """Load the record up to the head that the first page shows, with the texts of the newest turns.

    Raises LedgerError: damaged or erased, naming session, entry and fix.
    """
    base, tail, ignored = await _read_newest(client, session_id, page)
    record = SessionRecord(session_id, limits)
    if base is not None:
        record = snapshot.restore(*base, limits)
        await _fill(client, record)
    for entry in tail:
        if fault := journal.break_before(entry, record.head, record.state.tenure):
            raise _make_damaged(session_id, entry, fault)
        _take(record, entry)
    _log.debug("session_read", session=session_id, entries=len(tail), ignored=ignored, snapshot=base is not None)
    await _fill(client, record)
    return Loaded(record, len(tail), ignored)


async def read_texts(client: LedgerClient, refs: Sequence[str]) -> dict[str, str]:
    """Return the texts behind these refs in a few questions; erased ones are left out."""
    bodies: dict[str, bytes | None] = {}
    wanted = list(dict.fromkeys(refs))
    while wanted:  # what a composed text is made of comes with the next round
        found = await _read_bodies(client, wanted)
        bodies |= {ref: found.get(ref) for ref in wanted}
        parts = [part for ref in wanted for part, _ in _read_parts(found.get(ref)) if part is not None]
        wanted = [ref for ref in dict.fromkeys(parts) if ref not in bodies]
    texts = {ref: _join_text(ref, bodies) for ref in refs}
    return {ref: text for ref, text in texts.items() if text is not None}


def _read_parts(body: bytes | None) -> list[text_parts.Part]:
    return [] if body is None else text_parts.read_parts(body) or []


def _join_text(ref: str, bodies: dict[str, bytes | None]) -> str | None:
    body = bodies.get(ref)
    if body is None:
        return None
    listed = text_parts.read_parts(body)
    if listed is None:
        return body.decode(errors="replace")
    texts = {part: _join_text(part, bodies) for part, _ in listed if part is not None}
    found = {part: text for part, text in texts.items() if text is not None}
    return text_parts.join(listed, found) if len(found) == len(texts) else None


async def _read_bodies(client: LedgerClient, refs: Sequence[str]) -> dict[str, bytes]:
    places = {ref: split_body_ref(ref) for ref in refs}
    ids = list(dict.fromkeys(submission_id for submission_id, _ in places.values()))
    found = {entry.submission_id: entry for entry in await _read_entries(client, ids) if entry is not None}
    bodies: dict[str, bytes] = {}
    for ref, (submission_id, number) in places.items():
        entry = found.get(submission_id)
        body = entry.bodies[number] if entry is not None and number < len(entry.bodies) else None
        if body is not None:
            bodies[ref] = body
    return bodies


async def _read_entries(client: LedgerClient, ids: Sequence[str]) -> list[Entry | None]:
    """Read all entries in one question, or in two where they are too large for one answer."""
    try:
        return await client.lookup(ids, with_bodies=True) if ids else []
    except RuntimeFault as fault:
        if fault.code != "too_large" or len(ids) == 1:
            raise
    half = len(ids) // 2
    return [*await _read_entries(client, ids[:half]), *await _read_entries(client, ids[half:])]


async def _read_newest(
    client: LedgerClient, session_id: str, page: int
) -> tuple[tuple[Packed, Recorded] | None, list[Entry], int]:
    """Return the newest valid snapshot or None, the entries from it on, and how many snapshots were passed over."""
    tail: list[Entry] = []
    before: int | None = None
    ignored = 0
    while True:
        stream = name_session_stream(session_id)
        question = Read(stream=stream, before=before, limit=page, with_bodies=True, newest_first=True)
        entries = await client.page(question)
        for entry in entries.entries:
            tail.append(entry)
            if entry.event_type != _SNAPSHOT:
                continue
            taken = read_recorded(entry)
            packed = "its event does not read" if taken is None else snapshot.read_packed(taken, entry.prev)
            if taken is not None and not isinstance(packed, str):
                return (packed, taken), tail[::-1], ignored
            ignored += 1
            _log.warning("snapshot_ignored", session=session_id, entry=entry.submission_id, reason=packed)
        if not entries.more:
            return None, tail[::-1], ignored
        before = tail[-1].sequence


async def _fill(client: LedgerClient, record: SessionRecord) -> None:
    """Put texts where they are needed: of waiting follow-ups, active intents, and the newest turns."""
    waiting = [ref for ref in record.state.pending_follow_up if ref not in record.follow_ups]
    objectives = record.list_missing_objectives()
    texts = await read_texts(client, [*waiting, *objectives, *record.history.missing_refs()])
    record.follow_ups |= {ref: texts[ref] for ref in waiting if ref in texts}
    for ref in objectives:
        record.name_objective(ref, texts.get(ref))
    record.history = await _with_texts(client, record, texts)


async def _with_texts(client: LedgerClient, record: SessionRecord, texts: Mapping[str, str]) -> History:
    """Return the newest turns with their texts; erased texts stay away.

    A reply whose own record never committed stands in the result of its turn.
    """
    history = record.history.filled(texts, record.limits)
    results = {
        turn.reply_ref: record.inputs[turn.input_id].result_ref
        for turn in history.turns
        if turn.reply_text is None and not turn.is_degraded and turn.input_id in record.inputs
    }
    if not results:
        return history
    names = {ref: split_body_ref(ref)[0] for ref in results}
    found = await _read_entries(client, list(dict.fromkeys(names.values())))
    there = {entry.submission_id for entry in found if entry is not None}
    wanted = {ref: result_ref for ref, result_ref in results.items() if names[ref] not in there}
    bodies = await _read_bodies(client, list(wanted.values()))
    answers = {ref: parse_result(bodies[result_ref]) for ref, result_ref in wanted.items() if result_ref in bodies}
    return history.filled(
        {ref: answer.response for ref, answer in answers.items() if answer is not None}, record.limits
    )


def _take(record: SessionRecord, entry: Entry) -> None:
    """Fold one more entry into the record. A snapshot that does not read changes nothing."""
    session_id, taken = record.session_id, read_recorded(entry)
    if taken is not None:
        rejection = record.take(taken).rejection
        if rejection is not None:
            _log.warning("event_ignored", session=session_id, entry=entry.submission_id, reason=rejection.reason)
        return
    if entry.event_type == _SNAPSHOT:
        record.pass_over(entry.submission_id)
        return
    if not entry.bodies or entry.bodies[0] is None:
        raise LedgerError("erased", f"session {session_id}: replay stops at {entry.submission_id}, which was erased")
    raise _make_damaged(session_id, entry, "it is no session event that this software reads")


def _make_damaged(session_id: str, entry: Entry, fault: str) -> LedgerError:
    return LedgerError(
        "damaged",
        f"session {session_id}: its journal breaks at {entry.submission_id} (sequence {entry.sequence}): {fault}. "
        "Run `hobus ledger verify`; if the record is whole, end the session and start another one",
    )
