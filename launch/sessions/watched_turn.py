"""A turn from a command: through a door of its own, watched, and given up when nobody is left who could answer."""

from __future__ import annotations

from collections.abc import Callable

from hobus.bus.clock import SystemClock
from hobus.bus.errors import BusError
from hobus.bus.messages.base import Message
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.launch.cluster import run_file
from hobus.launch.cluster.client import connect_bus
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home, find_holder
from hobus.launch.cluster.run_file import find_gone
from hobus.launch.console.output import note
from hobus.launch.sessions.turns import process_turn

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
    """Return the one answer, of a busy cluster too, until the time is over. Raises RuntimeFault, CommandError."""
    clock = SystemClock()
    deadline = clock.monotonic() + timeout_s
    is_connected = False
    while True:
        try:
            async with connect_bus(place, ROLE, timeout_s=deadline - clock.monotonic()) as bus:
                is_connected = True
                return await process_turn(
                    bus,
                    turn,
                    timeout_s=max(0.0, deadline - clock.monotonic()),
                    is_hopeless=lambda: not _may_answer(place.home),
                    find_gone=lambda: find_gone(place.home),
                    on_stream=on_stream,
                    waits_for_its_turn=waits_for_its_turn,
                    when_busy=lambda s: note(f"the cluster is busy: asked again in {s:.0f} s (Ctrl-C gives up)"),
                )
        except BusError as fault:
            # A broker that is away comes back, unless its launcher is gone or has given it or the host up.
            if is_connected or fault.code != "no_route" or clock.monotonic() >= deadline:
                raise
            if (gone := find_gone(place.home)) is not None:
                raise gone from fault
            if not _may_answer(place.home):
                raise


def _may_answer(home: Home) -> bool:
    """Return whether the launcher lives and has given neither the broker nor the host up."""
    run = run_file.read(home.run_file) if find_holder(home) is not None else None
    hopeful = {row.role for row in run.children if row.state != "failed"} if run is not None else set[str]()
    return {"broker", "host"} <= hopeful
