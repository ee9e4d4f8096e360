"""`python -m hobus.launch.process.main ROLE ...`: one process of one role, from its secret to its orderly end."""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import structlog
import uvloop

from hobus.bus import collector
from hobus.bus.clock import SystemClock
from hobus.bus.dispatch import Actor, map_handled
from hobus.bus.errors import RuntimeFault
from hobus.bus.limits import DRAIN_MS
from hobus.bus.peer import Peer
from hobus.bus.zeromq.broker_loop import run_broker
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.key_book import KeyFiles
from hobus.bus.zeromq.tokens import TokenDirectory
from hobus.config.snapshot import Snapshot
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import make_home
from hobus.launch.cluster.kernel import (
    keep_memory_private,
    return_big_memory,
    return_free_memory,
    schedule_as_batch,
    set_title,
)
from hobus.launch.cluster.run_file import write_whole
from hobus.launch.cluster.version import __version__
from hobus.launch.console import exit_codes
from hobus.launch.limits import DRAIN_SHARE, RETURN_MEMORY_S
from hobus.launch.logs import writing
from hobus.launch.process import liveness, wiring
from hobus.launch.process.liveness import FINISH
from hobus.launch.process.options import ProcessOptions, parse_command_line
from hobus.launch.process.roles import Made

Ending = Literal["told", "orphaned", "failed", "damaged"]

_log = structlog.get_logger()

_EXIT = {"told": exit_codes.OK, "orphaned": exit_codes.OK, "failed": exit_codes.FAILED, "damaged": exit_codes.INTEGRITY}


def main() -> None:
    """Run as the command line says; end as `run`."""
    run(*parse_command_line())


def run(options: ProcessOptions, liveness_fd: int, listening_fd: int | None = None) -> None:
    """Run, and end by SystemExit: 0 in order, 1 after a fault that the log names, 3 if no other start can help."""
    actor = options.instance.rpartition("@")[0]
    for descriptor in (liveness_fd, *(() if listening_fd is None else (listening_fd,))):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - positional only; a tool process must not hold it
    set_title(f"hobus {actor}")
    return_big_memory()
    schedule_as_batch()  # threads of libraries begin later, and inherit it
    lines = writing.configure(actor, options.instance)
    try:
        home = make_home(Path(options.home))
        snapshot = _read_snapshot(home.snapshot.read_bytes())
        place = Place(home=home, sockets=Path(options.sockets), snapshot=snapshot, listening=listening_fd)
        lines.limit(home.log(actor), place.snapshot.config.launcher.log_max_bytes)
        sys.exit(_EXIT[_live(place, options.role, options.instance, liveness_fd)])
    except liveness.LauncherGone:
        sys.exit(exit_codes.OK)
    except RuntimeFault as fault:
        _log.error("process_failed", code=fault.code, detail=fault.detail)
        sys.exit(_EXIT[_choose_ending(fault)])
    except OSError as error:
        _log.error("process_failed", code="os_error", detail=str(error))
        sys.exit(exit_codes.FAILED)


def warm(options: ProcessOptions) -> None:
    """Do in the zygote, before the fork, what this process will read and work out.

    Raises what `run` would, OSError or RuntimeFault.
    """
    warm_snapshot(make_home(Path(options.home)).snapshot.read_bytes(), [options.role])


def warm_snapshot(data: bytes, roles: Iterable[str]) -> Snapshot:
    """Return the snapshot behind these bytes, as forked processes of these roles find it as well."""
    snapshot = _read_snapshot(data)
    for actor in Actor.__subclasses__():
        map_handled(actor)
    for role in roles:
        if role != "broker":
            module = importlib.import_module(f"hobus.launch.process.roles.{role}")
            if hasattr(module, "warm"):
                module.warm(snapshot)
    return snapshot


@functools.lru_cache(maxsize=1)
def _read_snapshot(data: bytes) -> Snapshot:
    return Snapshot.from_bytes(data)


def _live(place: Place, role: str, instance: str, liveness_fd: int) -> Ending:
    if role == "broker":
        liveness.read_given(liveness_fd)  # it needs nothing, but its start is not complete before
        run_until_told(place, instance, liveness_fd)
        return "told"
    # Before there is a loop or a socket, and before this process knows its secret: an executor forks its tool
    # processes now, and they are to know as little as possible.
    made = wiring.make_actor(place, role)
    given, secret = liveness.read_given(liveness_fd)
    made.give(given)
    if given:
        keep_memory_private()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_Process(place, role, made).run(instance, secret, liveness_fd))


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
        """Run, and return why it ended; nothing is left open. The secret came through the liveness pipe."""
        loop = asyncio.get_running_loop()
        self._ending = loop.create_future()
        loop.add_signal_handler(signal.SIGTERM, self._end, "told")
        loop.add_signal_handler(signal.SIGINT, self._end, "told")
        loop.add_signal_handler(FINISH, self._is_to_rest.set)
        liveness.watch(
            liveness_fd,
            on_gone=lambda: _call_in_loop(loop, self._end),
            hard_limit_s=liveness.compute_hard_limit_s(self._config),
        )
        zeromq = ZeroMQ(self._config.bus)
        peer, present = wiring.wire(zeromq, self._place, self._made, instance, secret, clock=self._clock)
        try:
            return await self._run_live(peer, present, self._ending)
        finally:
            peer.close()
            zeromq.close()
            await self._made.close()

    def _end(self, why: Ending) -> None:
        if self._ending is not None and not self._ending.done():
            self._ending.set_result(why)

    async def _run_live(self, peer: Peer, present: wiring.Presence, until: asyncio.Future[Ending]) -> Ending:
        async with asyncio.TaskGroup() as group:
            work = group.create_task(self._work(peer))
            rest = group.create_task(self._finish())
            memory = group.create_task(_return_memory())
            ending = await asyncio.shield(until)
            for task in (work, rest, memory):
                task.cancel()
        _log.info("process_ending", why=ending)
        if ending == "orphaned" and peer.is_open:  # else nobody has sent it anything
            patience_s = await liveness.wait_until_not_needed(
                self._role, present, clock=self._clock, sleep=asyncio.sleep, config=self._config
            )
            await peer.stop(patience_s)
        elif ending == "told":
            await peer.stop(DRAIN_SHARE * self._config.launcher.drain_ms / 1000)
        return ending

    async def _finish(self) -> None:
        """Finish when told to: end when nothing is left, or by whatever comes first."""
        await self._is_to_rest.wait()
        _log.info("process_resting")
        await self._made.actor.rest()
        self._end("told")

    def _on_actor_failure(self, failure: asyncio.Future[BaseException]) -> None:
        if not failure.cancelled():
            self._log_failure(failure.result())

    def _log_failure(self, reason: BaseException) -> None:
        """Log the end; a traceback belongs into the log for what nobody expected."""
        unexpected = None if isinstance(reason, RuntimeFault) else reason
        _log.error("process_failed", reason=str(reason), type=type(reason).__name__, exc_info=unexpected)
        self._end(_choose_ending(reason))

    async def _work(self, peer: Peer) -> None:
        """Start the actor; return only when this incarnation cannot go on."""
        try:
            await peer.start(timeout_s=self._config.launcher.ready_timeout_ms / 1000)
            await asyncio.sleep(0)  # its word on readiness, or what it asks for that, leaves before what can wait
            self._made.begin(peer.announce)
            collector.settle()
            _log.info("process_started", role=self._role)
            failure: asyncio.Future[BaseException] | None = getattr(self._made.actor, "failed", None)
            if failure is not None:
                failure.add_done_callback(self._on_actor_failure)
            reason = await peer.failed()
        except RuntimeFault as fault:
            reason = fault
        self._log_failure(reason)


async def _return_memory() -> None:
    while True:
        await asyncio.sleep(RETURN_MEMORY_S)
        return_free_memory()


def _call_in_loop(loop: asyncio.AbstractEventLoop, end: Callable[[Ending], None]) -> None:
    """Call from the liveness thread into the loop; a loop that has just closed is ending already."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(end, "orphaned")


def _choose_ending(reason: BaseException) -> Ending:
    is_for_good = isinstance(reason, RuntimeFault) and reason.code in ("damaged", "other_format")
    return "damaged" if is_for_good else "failed"


# --- the broker's process: no asyncio, no actor -----------------------------------------------------------------------


def run_until_told(place: Place, instance: str, liveness_fd: int) -> None:
    """Run until told to end, or until launcher and users are gone. Raises ConfigError when it cannot start."""
    config, clock = place.snapshot.config, SystemClock()
    told_fd = _open_signal_descriptor()
    orphaned_at: float | None = None
    alone_at: float | None = None

    def nobody_needs_it(instances: list[str]) -> bool:
        """Return whether nobody needs the broker, asked again and again once the launcher is gone.

        Whoever asked for a turn gets time to read the answer and to leave: ZeroMQ forgets what a client has not read
        when the broker's end closes.
        """
        nonlocal orphaned_at, alone_at
        now = clock.monotonic()
        orphaned_at = now if orphaned_at is None else orphaned_at
        roles = [name.partition("/")[0] for name in instances]
        if liveness.needed_by("broker", roles):
            return now - orphaned_at > liveness.compute_patience_s("broker", config)
        alone_at = now if alone_at is None else alone_at
        return "door" not in roles or now - alone_at > DRAIN_MS / 1000

    # For the case that this loop is stuck when the launcher dies; otherwise the descriptor below speaks first.
    liveness.watch(liveness_fd, on_gone=lambda: None, hard_limit_s=liveness.compute_hard_limit_s(config))
    remote = _find_remote(place)
    tokens = TokenDirectory(place.home.run)
    run_broker(
        settings=config.bus,
        endpoint=place.broker,
        tap_endpoint=place.tap,
        epoch=instance.rpartition("@")[2],
        tokens=tokens,
        # Workers of other hosts hold no token here and reconnect in their own time: with them the whole grace counts.
        expected=None if remote is not None else [name for name in tokens.living() if name != instance],
        clock=clock,
        stops={told_fd: lambda _instances: True, liveness_fd: nobody_needs_it},
        on_ready=lambda: _log_start(place, remote),
        remote=remote,
        config_digest=place.snapshot.digest,
    )
    _log.info("process_ending", why="told" if orphaned_at is None else "orphaned")


def _find_remote(place: Place) -> tuple[str, KeyFiles] | None:
    """Return where other hosts connect, and their keys; port 0: the port that an earlier broker of this run had."""
    settings = place.snapshot.config.bus
    address = settings.listen
    if not address:
        return None
    keys = KeyFiles(place.home.keys, version=__version__, config_digest=place.snapshot.digest)
    if address.endswith(":0") and place.home.listening.exists():
        address = place.home.listening.read_text(encoding="ascii").strip()
    return address, keys


def _log_start(place: Place, remote: tuple[str, KeyFiles] | None) -> None:
    if remote is not None:
        write_whole(place.home.listening, f"{remote[1].listens}\n")
        _log.info("listening_for_workers", address=remote[1].listens)
    _log.info("process_started", role="broker")


def _open_signal_descriptor() -> int:
    """Return a descriptor that is readable as soon as SIGTERM or SIGINT came."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    signal.set_wakeup_fd(write_fd)
    return read_fd


if __name__ == "__main__":
    main()
