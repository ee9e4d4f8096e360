"""A session's journal, followed while somebody waits for a turn of it; and tasks that go on beside a waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, TypeVar

from hobus.bus.errors import LedgerError, RuntimeFault
from hobus.bus.messages.ledger import Body, Entries, Entry, GetBody, Read, session_stream
from hobus.bus.port import Bus
from hobus.launch.cluster.client import connected
from hobus.launch.cluster.endpoints import Place
from hobus.launch.console.errors import CommandError
from hobus.launch.sessions.journal import PAGE, FromLedger, end_of
from hobus.launch.sessions.notifications import Line, Noticed

T = TypeVar("T")


async def beside(waited_for: Coroutine[Any, Any, T], *others: Coroutine[Any, Any, None]) -> T:
    """What the first one gives; the others go on until then. Raises its RuntimeFault, CommandError."""

    async def wait() -> T | RuntimeFault | CommandError:
        try:
            return await waited_for
        except (RuntimeFault, CommandError) as fault:
            return fault  # as a value: a task group would wrap it
        finally:
            for task in companions:
                task.cancel()

    async with asyncio.TaskGroup() as group:
        companions = [group.create_task(other) for other in others]
        waiting = group.create_task(wait())
    result = waiting.result()
    if isinstance(result, RuntimeFault | CommandError):
        raise result
    return result


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
                    async for entry in _further(place, bus, session_id, after):
                        tell(noticed.take(entry))
                        after = entry.sequence
                    await bus.sleep(interval_s)
        except (RuntimeFault, CommandError, OSError):
            continue


async def newest(place: Place, bus: Bus, session_id: str) -> list[Entry]:
    """The end of a journal in the running ledger; none before the session has begun."""
    return await end_of(FromLedger(bus, timeout_s=place.snapshot.config.launcher.client_timeout_ms / 1000), session_id)


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


async def _further(place: Place, bus: Bus, session_id: str, after: int) -> AsyncGenerator[Entry]:
    timeout_s = place.snapshot.config.launcher.client_timeout_ms / 1000
    is_more = True
    while is_more:
        question = Read(stream=session_stream(session_id), after=after, limit=PAGE, with_bodies=True)
        found = await bus.request("ledger", question, expect=Entries, timeout_s=timeout_s)
        for entry in found.entries:
            yield entry
        is_more = found.more and bool(found.entries)
        after = found.entries[-1].sequence if found.entries else after
