"""What a session's owner keeps in memory no longer, found in the ledger by the ids and keys that follow from it.

An ordinary new input costs no question: RunRequested's own id follows from the input, so that the ledger itself refuses
an old one, and only then, or before a refusal, anybody looks.
"""

from __future__ import annotations

from dataclasses import replace

from hobus.actors.ho2_supervisor.admission import Admission, Refused
from hobus.actors.ho2_supervisor.ownership.owner import OwnedSession
from hobus.actors.ho2_supervisor.session import journal
from hobus.actors.ho2_supervisor.session.record import KnownInput, SessionRecord, known_input, settle
from hobus.bus.messages.ids import delivered_key, requested_id, turn_key
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import RunRequested, SessionEventKind, TurnDegraded
from hobus.bus.record.ends import End, end_in
from hobus.bus.record.journal import recorded


def is_needed(record: SessionRecord, input_id: str, decision: Admission) -> bool:
    """Whether this decision may rest on an input that was let go.

    A run of one that was requested before is refused by the ledger; of one that only the host answered it would not be.
    """
    if input_id in record.inputs:
        return False
    return record.unrequested_forgotten or (record.inputs_forgotten and isinstance(decision, Refused))


async def input_of(session: OwnedSession, input_id: str) -> KnownInput | None:
    """The input as the whole journal has it; None: it never came."""
    about = session.session_id, input_id
    requested, answered, delivered = await session.entries(
        [requested_id(*about)], once=[turn_key(*about), delivered_key(*about)]
    )
    known = _requested(requested)
    end = delivered or answered
    if end is None and known is not None and known.run_seq is not None:
        end = await session.end_of(known.run_seq)
    if known is None:
        ended = _event_of(end)
        if not isinstance(ended, TurnDegraded):
            return None
        known = KnownInput(input_id, None, ended.input_ref, None)
        known.digest = await digest_of(session, known)
    settle(known, _end_in(end))  # the input of an active run is always in memory, so this one's is over
    return known


def as_delivered(known: KnownInput, delivered: Entry | None) -> KnownInput:
    """The input as a client was told of it meanwhile, if one was; the fold meets that entry with the next append."""
    if delivered is None:
        return known
    told = replace(known)
    settle(told, _end_in(delivered))
    return told


def reason_in(degraded: Entry | None) -> str:
    """Why the host answered, as this TurnDegraded says; empty: it does not."""
    end = _end_in(degraded)
    return "" if end is None else end.reason


def _requested(entry: Entry | None) -> KnownInput | None:
    event = _event_of(entry)
    if entry is None or not isinstance(event, RunRequested):
        return None
    return known_input(event, entry.provenance.run_seq)


def _end_in(entry: Entry | None) -> End | None:
    event = _event_of(entry)
    return None if entry is None or event is None else end_in(event, entry)


def _event_of(entry: Entry | None) -> SessionEventKind | None:
    taken = None if entry is None else recorded(entry)
    return None if taken is None else taken.event.event


async def digest_of(session: OwnedSession, known: KnownInput) -> str | None:
    """Of an input that only the host recorded it follows from the text; an erased text matches any."""
    text = await session.text_or_none(known.input_ref)
    return None if text is None else journal.input_digest(known.input_id, text)
