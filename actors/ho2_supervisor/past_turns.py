"""One turn of any session as its journal has it, found by its run, without owning that session.

Source: spec page "Session host and HO2 supervisor", section Consolidation (excerpts of the turns behind the events).
"""

from __future__ import annotations

from dataclasses import replace

from actors.ho2_supervisor.history import DeliveredTurn
from actors.ho2_supervisor.session.record import reply_in, result_in
from bus.ledger_client import LedgerClient
from bus.messages.ids import RunId, completed_id, requested_id
from bus.messages.ledger import Entry, session_stream
from bus.messages.session import RunCompleted, RunRequested
from bus.record.journal import Recorded, own_text, recorded


async def turn_of_run(client: LedgerClient, run_id: RunId) -> DeliveredTurn | None:
    """What was asked, and what was answered if it was; None where what was asked is erased or not to be found."""
    [entry] = await client.lookup([completed_id(run_id)], with_bodies=True)
    completed = _taken(entry)
    if completed is None or not isinstance(completed.event.event, RunCompleted):
        return _asked(await _requested_by_run(client, run_id), None)
    [asked] = await client.lookup([requested_id(run_id.session_id, completed.event.event.input_id)], with_bodies=True)
    return _asked(_taken(asked), completed)


async def _requested_by_run(client: LedgerClient, run_id: RunId) -> Recorded | None:
    """A run that was never completed, from the index: its request names its input, not its run."""
    where = {
        "stream": session_stream(run_id.session_id), "event_type": "RunRequested", "run_seq": run_id.run_seq,
    }  # fmt: skip
    found = (await client.query(where, limit=1, with_bodies=True)).entries
    return _taken(found[0]) if found else None


def _taken(entry: Entry | None) -> Recorded | None:
    return None if entry is None else recorded(entry)


def _asked(requested: Recorded | None, completed: Recorded | None) -> DeliveredTurn | None:
    if requested is None or not isinstance(requested.event.event, RunRequested):
        return None
    asked = requested.event.event
    text = own_text(requested, asked.input_ref)
    if text is None:
        return None
    answer = completed.event.event if completed is not None else None
    turn = DeliveredTurn(
        input_id=asked.input_id, input_ref=asked.input_ref, reply_ref="", input_text=text, reply_text=None
    )
    if completed is None or not isinstance(answer, RunCompleted):
        return turn
    result = result_in(completed, answer.result_ref)
    return replace(
        turn,
        reply_ref=answer.reply_ref,
        reply_text=reply_in(completed, answer, result),
        tool_ids=() if result is None else tuple(dict.fromkeys(call.tool_id for call in result.tool_calls)),
    )
