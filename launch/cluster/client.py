"""A command's (or the launcher's) own place on the bus: its own token, a connection, and nothing left afterwards."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from hobus.bus.clock import SystemClock
from hobus.bus.errors import BusError
from hobus.bus.limits import DRAIN_MS
from hobus.bus.log import configure_with
from hobus.bus.messages.base import Message
from hobus.bus.peer import Peer
from hobus.bus.port import Bus, Clock
from hobus.bus.zeromq import tokens
from hobus.bus.zeromq.context import ZeroMQ
from hobus.config.on_demand import read_on_demand
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home, find_holder
from hobus.launch.cluster.run_file import RunFile, find_running, make_not_reachable
from hobus.launch.cluster.version import __version__
from hobus.launch.console.errors import (
    CommandError,
    UnreachableFault,
    format_next_command,
    format_next_here,
    make_os_fault,
)

R = TypeVar("R", bound=Message)

_OPEN: dict[str, object] = {}
"""`<role>/<n>` of the connections that this process holds now -> whose it is."""


def place_of(home: Home, run: RunFile) -> Place:
    """Return the running cluster of this home, with the configuration that it runs under.

    Raises CommandError (not reachable) when what the run file names is gone, ConfigError, OSError.
    """
    try:
        snapshot = home.snapshot.read_bytes()
    except FileNotFoundError:  # it ended since the run file was read, or somebody removed what lay beside it
        raise make_not_reachable(home, find_holder(home)) from None
    return Place(home=home, sockets=Path(run.sockets), snapshot=read_on_demand(snapshot))


def find_cluster(home: Home) -> Place:
    """Return the cluster that runs in this home. Raises CommandError (not reachable) when there is none."""
    return place_of(home, find_running(home))


@asynccontextmanager
async def make_client(place: Place, role: str, *, clock: Clock) -> AsyncGenerator[Peer]:
    """Yield a peer that answers nothing, not connected yet: its `start` does that. Its instance is this process's.

    A name belongs to one connection at a time: further ones of this process get further numbers. Afterwards it has said
    goodbye, and its token is worth nothing any more. Raises OSError.
    """
    names = (f"{role}/{os.getpid()}{f'.{number}' if number else ''}" for number in count())
    mine = object()
    name = next(name for name in names if _OPEN.setdefault(name, mine) is mine)  # of two threads at once one has it
    instance, settings = f"{name}@{clock.new_id()[:8]}", place.snapshot.config.bus
    try:
        token = tokens.mint(place.home.run, instance, role, os.getpid())
        zeromq = ZeroMQ(settings)
    except BaseException:
        _OPEN.pop(name)
        raise
    peer = Peer(
        None,
        instance=instance,
        role=role,
        offers=(),
        slots=0,
        token=token,
        settings=settings,
        clock=clock,
        links=place.links(zeromq, ("ledger",)),
        config_digest=place.snapshot.digest,
        version=__version__,
    )
    try:
        yield peer
    finally:
        try:
            await peer.stop(DRAIN_MS / 1000)
        finally:
            zeromq.close()
            tokens.revoke(place.home.run, instance)
            _OPEN.pop(name)


def make_no_token(home: Home, error: OSError) -> CommandError:
    """Return the error of a command that cannot prove who it is, and what still works without that."""
    # What the system says of a write names no path: a token's directory is the one that is meant.
    named = OSError(error.errno, error.strerror, error.filename or str(home.run))
    known = make_os_fault(named, doing="no token for this command can be written")
    stop = f"the cluster can be stopped all the same: {format_next_command('down', home.root)}"
    return CommandError(known.message, hint="; ".join(part for part in (known.hint, stop) if part))


@asynccontextmanager
async def connect_bus(place: Place, role: str, *, timeout_s: float | None = None) -> AsyncGenerator[Bus]:
    """Connect to the bus in this role, within `launcher.client_timeout_ms` or less.

    Raises BusError when the broker does not answer, CommandError on a full disk or when the run directory is gone.
    """
    configure_with(_log_for_debug)
    if place.connect is not None:
        async with place.connect(role) as bus:
            yield bus
        return
    async with AsyncExitStack() as stack:
        try:
            peer = await stack.enter_async_context(make_client(place, role, clock=SystemClock()))
        except FileNotFoundError:
            raise make_not_reachable(place.home, find_holder(place.home)) from None
        except OSError as error:
            raise make_no_token(place.home, error) from error
        usual_s = place.client_timeout_s
        await peer.start(timeout_s=usual_s if timeout_s is None else min(usual_s, timeout_s))
        yield peer


async def ask_operator(place: Place, service: str, question: Message, expect: type[R]) -> R:
    """Return the answer to an operator's question, over a connection of its own. Raises RuntimeFault, CommandError."""
    async with connect_bus(place, "operator") as bus:
        try:
            return await bus.request(service, question, expect=expect, timeout_s=place.client_timeout_s)
        except BusError as fault:
            if fault.code != "no_route":
                raise
            hint = f"{format_next_here('ps')} shows why, then run the same command again"
            raise UnreachableFault(f"{service} is away: nobody else can answer", hint=hint, code=fault.code) from fault


def _log_for_debug() -> None:
    """Drop lines of a log unless --debug is given; a process with a log file keeps to that."""
    import structlog  # noqa: PLC0415

    from hobus.bus.clock import SystemClock  # noqa: PLC0415
    from hobus.launch.console.output import format_clock_time, note, style, wants_debug  # noqa: PLC0415
    from hobus.launch.logs.lines import LogLine, render_line  # noqa: PLC0415

    if structlog.is_configured():
        return

    def note_or_drop(_logger: object, _method: str, record: MutableMapping[str, Any]) -> NoReturn:
        if wants_debug():
            line = LogLine("hobus", SystemClock().now(), "", dict(record))
            note(render_line(line, format_clock_time, lambda text, colour: style(text, colour or None, to_stderr=True)))
        raise structlog.DropEvent

    processors = [structlog.processors.add_log_level, structlog.processors.format_exc_info, note_or_drop]
    structlog.configure(processors=processors)
