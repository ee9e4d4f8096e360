"""A session's journal, followed by a command while a turn of it is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hobus.bus.errors import LedgerError, RuntimeFault
from hobus.bus.messages.ledger import Body, Entry, GetBody
from hobus.bus.port import Bus
from hobus.launch.cluster.client import connected
from hobus.launch.cluster.endpoints import Place
from hobus.launch.console.errors import CommandError
from hobus.launch.sessions.journal import FromLedger, end_of
from hobus.launch.sessions.notifications import Line, Noticed


async def follow(
    place: Place, session_id: str, input_id: str, noticed: Noticed, tell: Callable[[list[Line]], None]
) -> None:
    """Tells what is noticed, until it is cancelled; whatever is away comes back, or who waits for the turn says so."""
    interval_s = place.snapshot.config.launcher.journal_poll_ms / 1000
    is_caught_up, after = False, -1
    while True:
        await asyncio.sleep(interval_s)
        try:
            async with connected(place, "operator") as bus:
                if not is_caught_up:
                    entries = await newest(place, bus, session_id)
                    tell(noticed.catch_up(entries, input_id=input_id))
                    is_caught_up, after = bool(entries), entries[-1].sequence if entries else -1
                while is_caught_up:
                    async for entry in _journals(place, bus).behind(session_id, after):
                        tell(noticed.take(entry))
                        after = entry.sequence
                    await bus.sleep(interval_s)
        except (RuntimeFault, CommandError, OSError):
            continue


async def newest(place: Place, bus: Bus, session_id: str) -> list[Entry]:
    """The end of a journal in the running ledger; none before the session has begun."""
    return await end_of(_journals(place, bus), session_id)


def _journals(place: Place, bus: Bus) -> FromLedger:
    return FromLedger(bus, timeout_s=place.client_timeout_s)


async def body_text(bus: Bus, ref: str, *, timeout_s: float) -> str | None:
    """The text behind a ref; None where it was erased or is none."""
    try:
        body = await bus.request("ledger", GetBody(ref=ref), expect=Body, timeout_s=timeout_s)
        return body.data.decode()
    except UnicodeDecodeError:
        return None
    except LedgerError as fault:
        if fault.code != "not_found":
            raise
        return None
