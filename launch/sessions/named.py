"""The session that somebody names by a prefix of its id, looked up in the running ledger."""

from __future__ import annotations

from hobus.bus.ledger_client import read_pages
from hobus.bus.messages.ledger import Query
from hobus.bus.port import Bus
from hobus.launch.cluster.endpoints import Place

STARTS_MAX = 10_000

BEGINNINGS = ("SESSION_START", "TurnDegraded")
"""What a session may begin with: the host answers also where no supervisor has begun one."""


async def list_begun_sessions(bus: Bus, *, timeout_s: float) -> list[str]:
    """Return the ids of the last sessions; one that both a supervisor and the host began stands twice."""
    known: list[str] = []
    for event_type in BEGINNINGS:
        question = Query(where={"event_type": event_type}, limit=STARTS_MAX, newest_first=True)
        found, _ = await read_pages(bus, question, timeout_s=timeout_s)
        known += [entry.provenance.session_id for entry in found]
    return known


async def find_named_session(place: Place, given: str, *, called: str = "--session") -> str:
    """Return the full id; a prefix is looked up as `session list` finds it, in the record's files. Raises CommandError.

    What they hold the ledger's index learns some tenths of a second later.
    """
    from hobus.launch.sessions import journal_files  # noqa: PLC0415 - reads segments

    return journal_files.find_session(place.home.ledger, given, called=called)
