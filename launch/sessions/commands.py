"""A command to a session from a client's side: sent under one id until there is a verdict or the time is over."""

from __future__ import annotations

from dataclasses import dataclass

from hobus.bus import limits
from hobus.bus.clock import SystemClock
from hobus.bus.errors import BusError, RuntimeFault
from hobus.bus.messages.base import Message
from hobus.bus.messages.ids import RunId, format_iso
from hobus.bus.messages.session import Command, CommandVerdict, HostCommand, ReadSession, SessionCommand, SessionView
from hobus.launch.cluster.client import connect_bus
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.run_file import find_gone
from hobus.launch.console.errors import UNREACHABLE_CODES, CommandError, UnreachableFault, format_next_here
from hobus.launch.sessions.turns import R, ask_owner
from hobus.launch.sessions.which import make_no_such

_MAY_FIX = UNREACHABLE_CODES | {"moved"}


@dataclass(frozen=True, slots=True)
class Fences:
    """What must be so for a command to apply; None: it does not matter."""

    run: int | None = None
    epoch: int | None = None


def draw_id(program: str) -> str:
    return f"{program}-{SystemClock().new_id()}"


def make_host_command(session_id: str, command: Command, fences: Fences, command_id: str) -> HostCommand:
    """Return the command as it travels. Raises ValueError for an invalid command id."""
    target = None if fences.run is None else RunId(session_id=session_id, run_seq=fences.run)
    return HostCommand(
        command_id=command_id,
        target_run_id=target,
        expected_session_epoch=fences.epoch,
        issued_at=format_iso(SystemClock().now()),
        command=command,
    ).checked()


async def send_command(  # noqa: PLR0913 - what bounds a command, each by its name
    place: Place, session_id: str, command: HostCommand, *, timeout_s: float, role: str = "operator", person: str = ""
) -> CommandVerdict:
    """Return what became of the command, durably.

    Send it again under its id while the session moves or somebody is away.

    Raises CommandError: unknown session, or (UnreachableFault) nobody reached in time.
    """
    question = SessionCommand(session_id=session_id, command=command, person=person)
    try:
        return await ask_owner_at(place, session_id, question, CommandVerdict, timeout_s=timeout_s, role=role)
    except CommandError:
        raise
    except RuntimeFault as fault:
        if fault.code not in _MAY_FIX:
            raise
        raise UnreachableFault(f"no verdict within {timeout_s:g} s: {fault}", hint=format_next_here("ps")) from fault


async def read_view(place: Place, session_id: str, *, timeout_s: float) -> SessionView:
    """Return what the session's owner knows of it. Raises RuntimeFault, CommandError."""
    return await ask_owner_at(place, session_id, ReadSession(session_id=session_id), SessionView, timeout_s=timeout_s)


async def ask_owner_at(  # noqa: PLR0913 - what bounds a question, each by its name
    place: Place, session_id: str, question: Message, expect: type[R], *, timeout_s: float, role: str = "operator"
) -> R:
    """Ask whoever owns the session. Raises the last fault, CommandError for a cluster that is gone."""
    clock = SystemClock()
    deadline = clock.monotonic() + timeout_s
    pause_s = limits.RETRY_INTERVAL_MS / 1000
    while True:
        left_s = deadline - clock.monotonic()
        if left_s <= 0:
            raise BusError("expired", f"session {session_id} was not reached within {timeout_s:g} s")
        try:
            async with connect_bus(place, role, timeout_s=left_s) as bus:
                return await ask_owner(bus, session_id, question, expect, timeout_s=deadline - clock.monotonic())
        except RuntimeFault as fault:
            if fault.code == "not_found":
                raise make_no_such(session_id, called="SESSION") from fault
            if fault.code not in _MAY_FIX or clock.monotonic() + pause_s >= deadline:
                raise
            if (gone := find_gone(place.home)) is not None:
                raise gone from fault
