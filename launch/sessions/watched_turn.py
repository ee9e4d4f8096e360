"""A turn from a command: through a door of its own, watched, and given up when nobody is left who could answer.

Meanwhile its session's journal may be followed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hobus.bus.clock import SystemClock
from hobus.bus.errors import BusError, LedgerError, RuntimeFault
from hobus.bus.messages.base import Message
from hobus.bus.messages.ledger import Body, Entry, GetBody
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.bus.port import Bus
from hobus.launch.cluster import run_file
from hobus.launch.cluster.client import connected
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home, holder
from hobus.launch.cluster.run_file import cluster_gone
from hobus.launch.console.errors import CommandError
from hobus.launch.sessions.journal import FromLedger, end_of
from hobus.launch.sessions.notifications import Line, Noticed
from hobus.launch.sessions.turns import Watch, process_turn, session_of
from hobus.launch.sessions.which import full_session_id

ROLE = "door"
"""The role under which clients ask; the session of a first turn follows from it."""


async def answer_of(
    place: Place,
    turn: ProcessTurn,
    *,
    timeout_s: float,
    on_stream: Callable[[Message], None] | None = None,
    waits_for_its_turn: bool = False,
) -> TurnResult:
    """The turn's one answer, asked for until the time is over. Raises RuntimeFault, CommandError."""
    config, clock = place.snapshot.config, SystemClock()
    deadline = clock.monotonic() + timeout_s
    is_connected = False
    while True:
        try:
            async with connected(place, ROLE, timeout_s=deadline - clock.monotonic()) as bus:
                is_connected = True
                return await process_turn(
                    bus,
                    turn,
                    timeout_s=max(0.0, deadline - clock.monotonic()),
                    retry_interval_s=config.host.retry_interval_ms / 1000,
                    is_hopeless=lambda: not _may_answer(place.home),
                    watch=Watch(lambda: cluster_gone(place.home), config.launcher.journal_poll_ms / 1000),
                    on_stream=on_stream,
                    waits_for_its_turn=waits_for_its_turn,
                )
        except BusError as fault:
            # A broker that is away comes back, unless its launcher is gone or has given it or the host up.
            if is_connected or fault.code != "no_route" or clock.monotonic() >= deadline:
                raise
            if (gone := cluster_gone(place.home)) is not None:
                raise gone from fault
            if not _may_answer(place.home):
                raise


async def named_session(place: Place, given: str, *, called: str = "--session") -> str:
    """The full id; a prefix is looked up in the record, which a door may not read. Raises CommandError."""
    session_id = full_session_id(given)
    if session_id is not None:
        return session_id
    async with connected(place, "operator") as bus:
        return await session_of(bus, given, timeout_s=place.client_timeout_s, called=called)


def _may_answer(home: Home) -> bool:
    """Whether the launcher lives and has given neither the broker nor the host up."""
    run = run_file.read(home.run_file) if holder(home) is not None else None
    hopeful = {row.role for row in run.children if row.state != "failed"} if run is not None else set[str]()
    return {"broker", "host"} <= hopeful


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
