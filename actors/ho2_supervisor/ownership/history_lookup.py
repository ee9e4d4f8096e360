"""What a session's owner keeps in memory no longer, found in the ledger by the ids and keys that follow from it.

An ordinary new input costs no question: RunRequested's own id follows from the input, so that the ledger itself refuses
an old one, and only then, or before a refusal, anybody looks. An input whose run is over has the same answer for
everybody who asks again; a turn of another session is found by its run, without owning that session.
"""

from __future__ import annotations

from msgspec.structs import replace

from hobus.actors.ho2_supervisor.admission import Admission
from hobus.actors.ho2_supervisor.ownership.owner import OwnedSession
from hobus.actors.ho2_supervisor.session import journal
from hobus.actors.ho2_supervisor.session.record import KnownInput, SessionRecord, make_known_input, settle, with_reply
from hobus.actors.ho2_supervisor.turn.history import DeliveredTurn
from hobus.actors.ho2_supervisor.turn.verdicts import is_verdict, make_verdict_result
from hobus.bus.errors import LedgerError, SessionFault, WorkOrderFault
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.ids import (
    RunId,
    derive_candidates_key,
    derive_completed_id,
    derive_delivered_key,
    derive_requested_id,
    derive_turn_key,
)
from hobus.bus.messages.ledger import Entry, Query, name_session_stream
from hobus.bus.messages.session import TurnResult
from hobus.bus.record.ends import End, end_in, read_result
from hobus.bus.record.journal import Recorded, answer_in, find_own_text, read_recorded
from hobus.bus.record.session_facts import RunRequested, SessionFact, TurnDegraded


def is_needed(record: SessionRecord, input_id: str, decision: Admission) -> bool:
    """Return whether this decision may rest on an input that memory no longer holds.

    The ledger itself refuses a run that was requested before, but not one of an input that only the host answered.
    """
    if input_id in record.inputs:
        return False
    return record.unrequested_forgotten or (record.inputs_forgotten and isinstance(decision, SessionFault))


async def find_input(client: LedgerClient, session: OwnedSession, input_id: str) -> KnownInput | None:
    """Return the input as the whole journal has it; None: it never came."""
    about = session.session_id, input_id
    requested, answered, delivered = await session.entries(
        [derive_requested_id(*about)], once=[derive_turn_key(*about), derive_delivered_key(*about)]
    )
    asked, known = _read_event(requested), None
    if requested is not None and isinstance(asked, RunRequested):
        known = make_known_input(asked, requested.provenance.run_seq)
    end = delivered or answered
    if end is None and known is not None and known.run_seq is not None:
        run_id = RunId(session_id=session.session_id, run_seq=known.run_seq)
        end = await _find_in_run(client, run_id, "RunFailed", "RunCancelled")
    if known is None:
        ended = _read_event(end)
        if not isinstance(ended, TurnDegraded):
            return None
        known = KnownInput(input_id, None, ended.input_ref, None)
        known.digest = await find_digest(session, known)
    settle(known, _end_in(end))  # the input of an active run is always in memory, so this one's is over
    return known


def _end_in(entry: Entry | None) -> End | None:
    taken = read_recorded(entry)
    return None if taken is None else end_in(taken.event.event, taken)


def _read_event(entry: Entry | None) -> SessionFact | None:
    taken = read_recorded(entry)
    return None if taken is None else taken.event.event


async def find_digest(session: OwnedSession, known: KnownInput) -> str | None:
    """Return the digest of an input that only the host recorded; None where its text is erased and so matches any."""
    text = await session.find_text(known.input_ref)
    return None if text is None else journal.digest_input(known.input_id, text)


async def answer_of(session: OwnedSession, known: KnownInput) -> TurnResult:
    """Return the recorded result: RunCompleted's, a verdict's, or what the host delivered. Raises a failed run's fault.

    What the host delivered while the record was away may stand behind the run's own end.
    """
    about = session.session_id, known.input_id
    keys = [derive_candidates_key(*about), derive_delivered_key(*about), derive_turn_key(*about)]
    due, delivered, decided = await session.entries((), once=keys)
    if delivered is not None:  # as a client was told of it meanwhile; the fold meets that entry with the next append
        known = replace(known)
        settle(known, _end_in(delivered))
    run_id = None if known.run_seq is None else RunId(session_id=session.session_id, run_seq=known.run_seq)
    if known.became == "degraded":
        end = _end_in(delivered or decided)
        return TurnResult(
            response=await session.text(known.result_ref),
            outcome="degraded",
            session_id=session.session_id,
            run_id=run_id,
            input_id=known.input_id,
            code="degraded",
            reason="" if end is None else end.reason,
        )
    if known.became == "failed" and not is_verdict(known.code):
        over = f"run {run_id} of input {known.input_id} has failed; it is not run again"
        why = await session.find_text(known.result_ref) if known.result_ref else None
        raise WorkOrderFault(known.code, why or over)
    if not known.result_ref:
        return make_verdict_result(known.code, session_id=session.session_id, run_id=run_id, input_id=known.input_id)
    body = await session.body(known.result_ref)
    try:
        return answer_in(body, due)
    except ValueError as fault:
        raise LedgerError("damaged", f"the answer behind {known.result_ref} does not read") from fault


async def read_turn_of_run(client: LedgerClient, run_id: RunId, provider: str) -> DeliveredTurn | None:
    """Return what a run was asked, and what it answered if it did; None where the question is erased or not found.

    None also where request or session named another provider than this one.
    """
    [entry] = await client.lookup([derive_completed_id(run_id)], with_bodies=True)
    completed = read_recorded(entry)
    end = None if completed is None else end_in(completed.event.event, completed)
    if completed is None or end is None:
        return _read_asked(read_recorded(await _find_in_run(client, run_id, "RunRequested")), provider)
    [entry] = await client.lookup([derive_requested_id(run_id.session_id, end.input_id)], with_bodies=True)
    asked = _read_asked(read_recorded(entry), provider)
    return asked and with_reply(asked, completed, end, read_result(completed, end.result_ref))


async def _find_in_run(client: LedgerClient, run_id: RunId, *event_types: str) -> Entry | None:
    """Return the first entry of one of these types in a run, from the index."""
    for event_type in event_types:
        where = {"stream": name_session_stream(run_id.session_id), "event_type": event_type, "run_seq": run_id.run_seq}
        found = await client.page(Query(where=where, limit=1, with_bodies=True))
        if found.entries:
            return found.entries[0]
    return None


def _read_asked(requested: Recorded | None, provider: str) -> DeliveredTurn | None:
    if requested is None or not isinstance(requested.event.event, RunRequested):
        return None
    asked = requested.event.event
    if asked.model and asked.model.named_by in ("request", "session") and asked.model.provider != provider:
        return None
    text = find_own_text(requested, asked.input_ref)
    return None if text is None else DeliveredTurn(asked.input_id, asked.input_ref, "", text, None)
