"""`python -m hobus.launch.process.main ROLE ...`: one process of one role, from its secret to its orderly end."""

from __future__ import annotations

import argparse
import asyncio
import functools
import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import structlog

from hobus.bus import collector
from hobus.bus.clock import SystemClock
from hobus.bus.dispatch import Actor, handled_by
from hobus.bus.errors import RuntimeFault
from hobus.bus.peer import Peer
from hobus.bus.zeromq.context import ZeroMQ
from hobus.config.snapshot import Snapshot
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import home_of
from hobus.launch.cluster.kernel import keep_memory_private, return_big_memory, set_title
from hobus.launch.cluster.version import software_version
from hobus.launch.console import exit_codes
from hobus.launch.logs import writing
from hobus.launch.process import broker, liveness, wiring
from hobus.launch.process.liveness import FINISH
from hobus.launch.process.roles import Made

Ending = Literal["told", "orphaned", "failed", "damaged"]

_log = structlog.get_logger()

_EXIT = {"told": exit_codes.OK, "orphaned": exit_codes.OK, "failed": exit_codes.FAILED, "damaged": exit_codes.INTEGRITY}


def main(argv: Sequence[str] | None = None) -> None:
    """Ends by SystemExit: 0 after an orderly end, 1 after a fault that the log names, 3 if another start cannot help.

    `argv`: of a process that the zygote forked; else the command line.
    """
    options = _parser().parse_args(argv)
    actor = options.instance.rpartition("@")[0]
    os.set_inheritable(options.liveness_fd, False)  # noqa: FBT003 - positional only; a tool process must not hold it
    set_title(f"hobus {actor}")
    return_big_memory()
    lines = writing.configure(actor, options.instance)
    try:
        home = home_of(options.home)
        place = Place(home=home, sockets=options.sockets, snapshot=_snapshot_of(home.snapshot.read_bytes()))
        lines.limit(home.log(actor), place.snapshot.config.launcher.log_max_bytes)
        sys.exit(_EXIT[_live(place, options.role, options.instance, options.liveness_fd)])
    except liveness.LauncherGone:
        sys.exit(exit_codes.OK)
    except RuntimeFault as fault:
        _log.error("process_failed", code=fault.code, detail=fault.detail)
        sys.exit(_EXIT[_ending_of(fault)])
    except OSError as error:
        _log.error("process_failed", code="os_error", detail=str(error))
        sys.exit(exit_codes.FAILED)


def warm(argv: Sequence[str]) -> None:
    """In the zygote, before a process with these arguments is forked: what it will read and work out is there already.

    Raises what `main` would, OSError or RuntimeFault.
    """
    options = _parser().parse_args([*argv, "--liveness-fd", "0"])
    software_version()
    snapshot = _snapshot_of(home_of(options.home).snapshot.read_bytes())
    for actor in Actor.__subclasses__():
        handled_by(actor)
    if options.role != "broker":
        role = importlib.import_module(f"hobus.launch.process.roles.{options.role}")
        if hasattr(role, "warm"):
            role.warm(snapshot)


@functools.lru_cache(maxsize=1)
def _snapshot_of(data: bytes) -> Snapshot:
    return Snapshot.from_bytes(data)


def _live(place: Place, role: str, instance: str, liveness_fd: int) -> Ending:
    if role == "broker":
        liveness.read_given(liveness_fd)  # it needs nothing, but its start is not complete before
        broker.run_until_told(place, instance, liveness_fd)
        return "told"
    # Before there is a loop or a socket, and before this process knows its secret: an executor forks its tool
    # processes now, and they are to know as little as possible.
    made = wiring.make_actor(place, role)
    given, secret = liveness.read_given(liveness_fd)
    made.give(given)
    if given:
        keep_memory_private()
    return asyncio.run(_Process(place, role, made).run(instance, secret, liveness_fd))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hobus-process")
    parser.add_argument("role", choices=sorted(liveness.STAGES))
    parser.add_argument("--instance", required=True)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--sockets", type=Path, required=True)
    parser.add_argument("--liveness-fd", type=int, required=True)
    return parser


class _Process:
    """An actor's process: runs until it is told to end, its launcher is gone, or it cannot go on."""

    def __init__(self, place: Place, role: str, made: Made) -> None:
        self._place = place
        self._role = role
        self._made = made
        self._config = place.snapshot.config
        self._clock = SystemClock()
        self._ending: asyncio.Future[Ending] | None = None
        self._is_to_rest = asyncio.Event()

    async def run(self, instance: str, secret: str, liveness_fd: int) -> Ending:
        """Why it ended; nothing is left open. The secret came through the liveness pipe."""
        loop = asyncio.get_running_loop()
        self._ending = loop.create_future()
        loop.add_signal_handler(signal.SIGTERM, self._end, "told")
        loop.add_signal_handler(signal.SIGINT, self._end, "told")
        loop.add_signal_handler(FINISH, self._is_to_rest.set)
        liveness.watch(
            liveness_fd,
            on_gone=lambda: _in_loop(loop, self._end),
            hard_limit_s=liveness.hard_limit_s(self._config),
        )
        zeromq = ZeroMQ(self._config.bus)
        peer, present = wiring.wire(zeromq, self._place, self._made, instance, secret, clock=self._clock)
        try:
            return await self._live(peer, present, self._ending)
        finally:
            peer.close()
            zeromq.close()
            await self._made.close()

    def _end(self, why: Ending) -> None:
        if self._ending is not None and not self._ending.done():
            self._ending.set_result(why)

    async def _live(self, peer: Peer, present: wiring.Presence, until: asyncio.Future[Ending]) -> Ending:
        async with asyncio.TaskGroup() as group:
            work = group.create_task(self._work(peer))
            rest = group.create_task(self._rest())
            ending = await asyncio.shield(until)
            work.cancel()
            rest.cancel()
        _log.info("process_ending", why=ending)
        if ending == "orphaned":
            patience_s = await liveness.wait_until_not_needed(
                self._role, present, clock=self._clock, sleep=asyncio.sleep, config=self._config
            )
            await peer.stop(patience_s)
        elif ending == "told":
            await peer.stop(self._config.launcher.drain_share * self._config.launcher.drain_ms / 1000)
        return ending

    async def _rest(self) -> None:
        """Once it is to finish by itself: ends when nothing is left, or by whatever comes first."""
        await self._is_to_rest.wait()
        _log.info("process_resting")
        await self._made.actor.rest()
        self._end("told")

    def _actor_failed(self, failure: asyncio.Future[BaseException]) -> None:
        if not failure.cancelled():
            self._failed(failure.result())

    def _failed(self, reason: BaseException) -> None:
        """A traceback belongs into the log for what nobody expected."""
        unexpected = None if isinstance(reason, RuntimeFault) else reason
        _log.error("process_failed", reason=str(reason), type=type(reason).__name__, exc_info=unexpected)
        self._end(_ending_of(reason))

    async def _work(self, peer: Peer) -> None:
        """Starts the actor; returns only when this incarnation cannot go on."""
        try:
            await peer.start(timeout_s=self._config.launcher.ready_timeout_ms / 1000)
            self._made.begin(peer.announce)
            collector.settle()
            _log.info("process_started", role=self._role)
            failure: asyncio.Future[BaseException] | None = getattr(self._made.actor, "failed", None)
            if failure is not None:
                failure.add_done_callback(self._actor_failed)
            reason = await peer.failed()
        except RuntimeFault as fault:
            reason = fault
        self._failed(reason)


def _in_loop(loop: asyncio.AbstractEventLoop, end: Callable[[Ending], None]) -> None:
    """From the liveness thread into the loop; a loop that has just closed is ending already."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(end, "orphaned")


def _ending_of(reason: BaseException) -> Ending:
    is_for_good = isinstance(reason, RuntimeFault) and reason.code in ("damaged", "other_format")
    return "damaged" if is_for_good else "failed"


if __name__ == "__main__":
    main()
