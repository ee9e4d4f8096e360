"""A cluster in a home of its own that a command makes, shows something with, and leaves nothing of.

Whatever ends the command, its cluster ends too: in order where the command can still say so, by itself after a SIGKILL
(`launcher/starting.bring_up`).
"""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass

from hobus.bus.broker.tap_record import TapRecord
from hobus.bus.errors import RuntimeFault
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.tap import TapReader
from hobus.launch.cluster import identity
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home, find_holder
from hobus.launch.cluster.run_file import RunFile
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, as_command_error
from hobus.launch.console.interrupt import interrupt_at, keep_on
from hobus.launch.console.output import note
from hobus.launch.launcher.stop import stop


@dataclass(frozen=True, slots=True)
class TemporaryHome:
    """Who lives in a home for a while, and what becomes of it."""

    home: Home
    what: str
    """What its errors call it: `the demo`."""
    is_temporary: bool
    """Made for this: removed in the end unless something went wrong."""
    is_kept: bool = False
    """All the same."""


def spend(spent: TemporaryHome, body: Callable[[], int]) -> int:
    """Return the exit code of `body`, or of its interrupt; nothing runs in the home then. Raises CommandError."""
    ended_by: list[int] = []
    keeps = spent.is_kept or not spent.is_temporary
    code = exit_codes.FAILED
    interrupt_at(ended_by)
    try:
        code = body()
        keeps = keeps or code != exit_codes.OK
    except RuntimeFault as fault:
        keeps = True
        raise CommandError(f"{spent.what} failed: {fault}", hint=_look(spent)) from as_command_error(fault)
    except CommandError as error:
        keeps = keeps or error.exit_code != exit_codes.USAGE
        hint = error.hint or (_look(spent) if keeps else "")
        raise CommandError(
            f"{spent.what} failed: {error.message}", hint=hint, exit_code=error.exit_code, code=error.code
        ) from error
    except KeyboardInterrupt:
        ended_by.append(signal.SIGINT)
    finally:
        keep_on()
        keeps = keeps and not (ended_by and spent.is_temporary)
        _leave(spent.home, keeps=keeps)
    if ended_by:
        note("interrupted: the cluster is stopped" + ("" if keeps else ", and its home removed"))
        return 128 + ended_by[0]
    return code


def list_left(run: RunFile) -> list[str]:
    return [one.actor for one in run.processes() if identity.is_alive(one.pid, one.mark)]


async def read_ring(place: Place, *, since_s: float) -> list[TapRecord]:
    """Return the broker's records of the last `since_s` seconds. Raises CommandError when it does not answer."""
    zeromq = ZeroMQ(place.snapshot.config.bus)
    reader = TapReader(zeromq, place.tap, since_s=since_s)
    found: list[TapRecord] = []
    try:
        async with asyncio.timeout(place.client_timeout_s):
            async for batch in reader.batches():
                found += batch.records
                if batch.reaches_at is not None:
                    break
    except TimeoutError:
        raise CommandError("the broker's tap did not answer") from None
    finally:
        reader.close()
        zeromq.close()
    return found


def _look(spent: TemporaryHome) -> str:
    return f"look into {spent.home.root}, which was kept for that, then remove it"


def _leave(home: Home, *, keeps: bool) -> None:
    """Stop what runs in the home, and remove the home unless it is to be kept."""
    try:
        if find_holder(home) is not None:
            stop(home, quiet=True)
    finally:
        if not keeps:
            shutil.rmtree(home.root, ignore_errors=True)
