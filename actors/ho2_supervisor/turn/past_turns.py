"""One turn of any session as its journal has it, found by its run, without owning that session."""

from __future__ import annotations

from hobus.actors.ho2_supervisor.session.record import with_reply
from hobus.actors.ho2_supervisor.turn.history import DeliveredTurn
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.ids import RunId, completed_id, requested_id
from hobus.bus.messages.ledger import Entry, session_stream
from hobus.bus.messages.session import RunRequested
from hobus.bus.record.ends import end_in, result_in
from hobus.bus.record.journal import Recorded, own_text, recorded


async def turn_of_run(client: LedgerClient, run_id: RunId) -> DeliveredTurn | None:
    """What was asked, and what was answered if it was; None where what was asked is erased or not to be found."""
    [entry] = await client.lookup([completed_id(run_id)], with_bodies=True)
    completed = _taken(entry)
    end = None if completed is None else end_in(completed.event.event, completed)
    if completed is None or end is None:
        return _asked(await _requested_by_run(client, run_id))
    [entry] = await client.lookup([requested_id(run_id.session_id, end.input_id)], with_bodies=True)
    asked = _asked(_taken(entry))
    return asked and with_reply(asked, completed, end, result_in(completed, end.result_ref))


async def _requested_by_run(client: LedgerClient, run_id: RunId) -> Recorded | None:
    """A run that was never completed, from the index: its request names its input, not its run."""
    where = {
        "stream": session_stream(run_id.session_id), "event_type": "RunRequested", "run_seq": run_id.run_seq,
    }  # fmt: skip
    found = (await client.query(where, limit=1, with_bodies=True)).entries
    return _taken(found[0]) if found else None


def _taken(entry: Entry | None) -> Recorded | None:
    return None if entry is None else recorded(entry)


def _asked(requested: Recorded | None) -> DeliveredTurn | None:
    if requested is None or not isinstance(requested.event.event, RunRequested):
        return None
    asked = requested.event.event
    text = own_text(requested, asked.input_ref)
    return None if text is None else DeliveredTurn(asked.input_id, asked.input_ref, "", text, None)
