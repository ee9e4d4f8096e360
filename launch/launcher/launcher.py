"""The launcher process: starts the members of a cluster, watches them, restarts them, and takes them down in order.

Rules are in `supervision.py`; here are the processes, the timers and the words to the broker.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import structlog
from msgspec.structs import replace

from hobus.bus import collector
from hobus.bus.errors import BusError, RuntimeFault
from hobus.bus.messages.base import Message
from hobus.bus.messages.control import Beat, Done, Drain, PeerRow, Peers
from hobus.bus.messages.ids import LOCAL
from hobus.bus.paging import read_peers
from hobus.bus.port import Bus, Clock
from hobus.bus.record.payloads.governance import OperatorCommand
from hobus.bus.zeromq.key_book import forget_all
from hobus.launch import cells
from hobus.launch.cluster import run_file
from hobus.launch.cluster.client import make_client
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import (
    Home,
    HomeLock,
    choose_sockets_directory,
    claim,
    find_holder,
    keep_snapshot,
    prepare,
    remove_run,
    sweep,
)
from hobus.launch.launcher import control
from hobus.launch.launcher.children import Child
from hobus.launch.launcher.control import NOT_THIS_SOFTWARE, Command, CommandSender, ReloadCommand
from hobus.launch.launcher.listening import ConsoleSocket, DoorSocket
from hobus.launch.launcher.members import Crew
from hobus.launch.launcher.plan import Plan
from hobus.launch.launcher.progress import Progress, StartBegun, make_already_up
from hobus.launch.launcher.recording import ClusterRun, make_command_entry, make_snapshot_entry, record
from hobus.launch.launcher.spawner import ProcessNursery
from hobus.launch.launcher.status import Board
from hobus.launch.launcher.stop import clean_up
from hobus.launch.launcher.supervision import (
    RUNNING,
    STOP_ORDER,
    DrainAsked,
    Member,
    Reported,
    Unheard,
    count_anew,
)
from hobus.launch.launcher.supervision import make_members as members_of
from hobus.launch.launcher.zygote import Newborn, end_unused
from hobus.launch.limits import READY_POLL_MS, WATCH_INTERVAL_MS

if TYPE_CHECKING:
    from hobus.launch.launcher.rolling import Rolling

_CHANGING = ("starting", "draining")
"""States that are looked at more often."""

_FOR_EVER_S = 1e9
"""The launcher supervises whether the broker answers or not; it stays a client that waits."""


class Launcher:
    """One run of one cluster; `run` returns when it is down."""

    def __init__(  # noqa: PLR0913 - what one run rests on, each by its name
        self,
        *,
        home: Home,
        plan: Plan,
        clock: Clock,
        started_at: float,
        report: Callable[[Progress], None],
        zygote: Newborn | None = None,
        ends_with_reader_of: int | None = None,
        given: Mapping[str, Mapping[str, str]],
    ) -> None:
        """`zygote` was forked before there was an event loop; without one the launcher starts one, if it may.

        `started_at`: when this process began, seconds since 1970.
        `given`: role -> variables of the user's environment that its processes get; no other process gets them.
        `ends_with_reader_of`: the writing end of a pipe; when nobody reads it any more, that is a word to stop.
        """
        self._home = home
        self._plan = plan
        self._config = plan.snapshot.config.launcher
        self._clock = clock
        self._log = structlog.get_logger()
        self._first_zygote = zygote
        self._ends_with_reader_of = ends_with_reader_of
        self._run_under = ClusterRun(plan.snapshot, plan.origin, given)
        self._rows: dict[str, PeerRow] = {}
        self._words: asyncio.Queue[Message] = asyncio.Queue()
        self._to_record: asyncio.Queue[tuple[OperatorCommand, float]] = asyncio.Queue()
        self._peer: Bus | None = None
        self._server: asyncio.AbstractServer | None = None
        self._ready_count = 0
        """How many the broker holds for ready."""
        self._rolling: Rolling | None = None
        self._door = DoorSocket(home, plan.snapshot.config.http.listen)
        self._console = ConsoleSocket(home, plan.snapshot.config.http.listen)
        self._looked_at = started_at
        """When it was last judged how everybody is."""
        self._stop = asyncio.Event()
        self._kill_now = asyncio.Event()
        self._sockets = home.run
        self._is_replaced: Callable[[], bool] = bool
        self._board = Board(home=home, plan=plan, started_at=started_at, report=report)

    async def run(self) -> None:
        """Hold the home from start to end. Raises CommandError if the home is held already, and OSError."""
        try:
            lock = HomeLock.take(self._home)
            if lock is None:
                raise make_already_up(self._home.root, find_holder(self._home) or 0)
            self._is_replaced = self._board.is_replaced = partial(lock.is_replaced, self._home)
            try:
                # Not before: whoever had the lock until now removes its run directory as the last thing it does.
                prepare(self._home)
                await self._run()
            finally:
                if not self._is_replaced():
                    sweep(self._home, self._sockets)
                    remove_run(self._home)
                lock.release()
        finally:
            if self._first_zygote is not None:
                end_unused(self._first_zygote)

    async def _run(self) -> None:
        warnings = [*self._plan.warnings, *self._claim_home()]
        ended = await clean_up(self._home)
        if ended:
            self._log.warning("orphans_ended", orphans=ended)
        self._sockets = self._board.sockets = choose_sockets_directory(self._home)
        keep_snapshot(self._home, self._plan.snapshot.to_bytes())
        if self._plan.snapshot.config.http.listen:
            self._door.descriptor()
            self._console.listen()
        members = members_of(self._plan.counts)
        first, self._first_zygote = self._first_zygote, None
        nursery = ProcessNursery(self._config, log=self._home.log("zygote"), first=first)
        self._board.zygote = nursery.zygote
        crew = Crew(
            members, home=self._home, config=self._config, clock=self._clock, board=self._board, nursery=nursery,
            door=self._door, tell=self._words.put_nowait, given=lambda role: self._run_under.given.get(role, {}),
        )  # fmt: skip
        self._take_signals(nursery)
        await self._take_commands(crew)
        # The run file names this pid to whoever signals it: not before every signal has its handler.
        self._board.write(members, "starting")
        try:
            crew.begin(member.actor for member in members)
            actors = [member.actor for member in members]
            snapshot = self._plan.snapshot
            begun = StartBegun(
                pid=os.getpid(), config_origin=self._plan.origin, config_digest=snapshot.digest, actors=actors,
                warnings=warnings,
            )  # fmt: skip
            self._board.report(begun)
            await self._serve(crew)
        finally:
            if self._server is not None:
                self._server.close()
            crew.kill_all()
            await crew.wait_all_gone()
            await nursery.close()
            self._door.close()
            self._console.close()

    def _claim_home(self) -> list[str]:
        root, (lay_at, is_copy) = self._home.root, claim(self._home)
        if is_copy:
            forget_all(self._home.keys)
            cells.forget(root)
            its_own = "a cluster of its own from now on, no cell, which lets in none of the other's remote workers"
            return [f"{root} is a copy of {lay_at}: {its_own}"]
        if lay_at is not None:
            return [f"{root} lay at {lay_at}: it was moved or restored, and stays the same cluster"]
        if run_file.is_of_elsewhere(self._home.run_file):
            return [f"{root}: {run_file.OF_ELSEWHERE}; it was removed, and no process that it names was touched"]
        return []

    async def _take_commands(self, crew: Crew) -> None:
        """Listen for commands, also after the socket was removed. Raises OSError."""
        if self._server is not None:
            self._server.close()
        timeout_s = self._config.client_timeout_ms / 1000
        self._server = await control.serve(self._sockets, partial(self._take, crew), timeout_s=timeout_s)

    def _take(self, crew: Crew, command: Command, sender: CommandSender) -> None:
        """Begin what a command asks for, and record who asked. Raises BusError where it is refused."""
        if not isinstance(command, ReloadCommand):
            crew.take(command)
        elif self._peer is None:
            raise BusError("unavailable", "the cluster is still starting")
        else:
            if self._rolling is None:
                self._rolling = self._make_rolling(crew, self._peer)
            self._rolling.take(command)
        said = OperatorCommand(command.model_dump_json(), LOCAL, sender.user, f"control/{sender.pid}")
        self._to_record.put_nowait((said, self._clock.now()))

    def _make_rolling(self, crew: Crew, bus: Bus) -> Rolling:
        """Build a reload. Raises BusError where what lies on disk no longer fits what this process has loaded."""
        try:
            # By name: most clusters end under the configuration that they began with.
            rolling: type[Rolling] = importlib.import_module("hobus.launch.launcher.rolling").Rolling
            return rolling(
                home=self._home, run=self._run_under, crew=crew, board=self._board, bus=bus, clock=self._clock,
                use=self._use,
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001 - another software's module may raise anything
            self._log.warning("reload_not_loaded", reason=f"{type(error).__name__}: {error}")
            raise BusError("rejected", NOT_THIS_SOFTWARE) from None

    def _use(self) -> None:
        """Say and do everything of this run from now on by `_run_under`."""
        self._plan = replace(self._plan, snapshot=self._run_under.snapshot, origin=self._run_under.origin)
        self._board.use(self._plan)

    def _take_signals(self, nursery: ProcessNursery) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._on_stop)
        loop.add_signal_handler(signal.SIGCHLD, nursery.reap_strangers)
        if self._ends_with_reader_of is not None:
            # A pipe that nobody reads any more is in error, which wakes whoever waits for anything of it.
            loop.add_reader(self._ends_with_reader_of, self._on_maker_gone, self._ends_with_reader_of)

    def _on_maker_gone(self, pipe: int) -> None:
        asyncio.get_running_loop().remove_reader(pipe)
        self._log.warning("maker_gone")
        self._on_stop()

    def _on_stop(self) -> None:
        """Drain at the first word, kill at the second one."""
        (self._kill_now if self._stop.is_set() else self._stop).set()

    async def _serve(self, crew: Crew) -> None:
        """Supervise until told to stop, then drain; this connection outlives everybody else's."""
        place = Place(home=self._home, sockets=self._sockets, snapshot=self._plan.snapshot)
        async with make_client(place, "launcher", clock=self._clock) as peer, asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(peer.start(timeout_s=_FOR_EVER_S)),
                group.create_task(self._watch(peer, crew)),
                group.create_task(self._tell(peer)),
                group.create_task(self._record(peer)),
            ]
            self._peer, peer.on_word = peer, lambda word: self._heed(crew, word)
            await self._stop.wait()
            crew.close()
            if self._rolling is not None:
                await self._rolling.close()
            self._board.say("stopping: processes finish their work; Ctrl-C again kills them", self._clock.now())
            tasks.pop(1).cancel()
            if not self._is_replaced():  # else whoever finishes something writes into another home
                await self._drain(crew)
            for task in tasks:
                task.cancel()

    # --- what the broker says -----------------------------------------------------------------------------------

    async def _watch(self, bus: Bus, crew: Crew) -> None:
        """Ask the broker how everybody is, for ever."""
        has_settled = False
        while True:
            crew.is_news.clear()
            if self._is_replaced():
                self._log.error("home_replaced", said="another home lies where this one lay: its cluster ends")
                self._on_stop()
                return
            await self._look(bus, crew)
            crew.start_queued()
            self._board.write(crew)
            self._board.report_readiness(crew, self._clock.now())
            if self._board.has_reported and not has_settled:
                has_settled = True
                collector.settle()
            is_soon = not self._board.has_reported or any(member.state in _CHANGING for member in crew)
            interval_ms = READY_POLL_MS if is_soon else WATCH_INTERVAL_MS
            with suppress(TimeoutError):
                async with asyncio.timeout(interval_ms / 1000):
                    await crew.is_news.wait()

    def _heed(self, crew: Crew, word: Beat) -> None:
        """Take in that somebody more is ready; whoever is not any more is seen at the next look."""
        if word.ready_count > self._ready_count:
            crew.is_news.set()
        self._ready_count = word.ready_count

    async def _look(self, bus: Bus, crew: Crew) -> None:
        try:
            peers = await read_peers(bus, timeout_s=self._config.client_timeout_ms / 1000)
            self._count_anew_after_sleep(crew)
        except RuntimeFault as fault:
            self._count_anew_after_sleep(crew)
            # Without the broker's word only the broker itself can be judged, and who was told to end.
            self._log.info("broker_did_not_answer", code=fault.code)
            for member in crew:
                crew.happened(member.actor, Unheard(self._clock.now()))
            crew.happened("broker/1", Reported(None, self._clock.now()))
            return
        self._rows = {row.instance: row for row in peers.peers}
        now = self._clock.now()
        for member in crew:
            row = self._make_broker_row(member, peers) if member.role == "broker" else self._rows.get(member.instance)
            crew.happened(member.actor, Reported(row, now))

    def _count_anew_after_sleep(self, crew: Crew) -> None:
        """Count silences anew after a sleep: between two looks there is a pause, and the broker's time to answer."""
        now, config = self._clock.now(), self._config
        if (now - self._looked_at) * 1000 > 2 * WATCH_INTERVAL_MS + config.client_timeout_ms:
            self._log.warning("launcher_stood_still", for_s=round(now - self._looked_at, 1))
            crew.members = {member.actor: count_anew(member, now) for member in crew}
        self._looked_at = now

    def _make_broker_row(self, member: Member, peers: Peers) -> PeerRow | None:
        """Return the broker's row: it is no peer of itself, and its answer is its sign of life."""
        if member.instance.rpartition("@")[2] != peers.epoch:
            return None
        return PeerRow(
            instance=member.instance, role="broker", offers=["broker"], state="ready", slots=0, in_flight=0, keys=0,
            last_beat_ms=0, connected_ms=0,
        )  # fmt: skip

    async def _tell(self, bus: Bus) -> None:
        """Send posts in the order of what happened; one that cannot leave is harmless: the broker finds out."""
        while True:
            word = await self._words.get()
            try:
                if isinstance(word, Drain):
                    await bus.request("broker", word, expect=Done, timeout_s=self._config.client_timeout_ms / 1000)
                else:
                    await bus.post("broker", word)
            except RuntimeFault as fault:
                self._log.info("post_not_sent", type=word.TYPE, code=fault.code)

    async def _record(self, bus: Bus) -> None:
        """Record CONFIG_SNAPSHOT:<digest>, where a repeat adds nothing; then what is commanded, for ever.

        While the ledger is away, or restarted by such a command, it is tried again.
        """
        entry = make_snapshot_entry(self._run_under.snapshot, bus.now())
        for number in count(1):
            while True:
                try:
                    await record(bus, entry)
                    break
                except RuntimeFault as fault:
                    self._log.warning("not_recorded", entry=entry.submission_id, code=fault.code, detail=fault.detail)
                    await bus.sleep(WATCH_INTERVAL_MS / 1000)
            said, at_s = await self._to_record.get()
            entry = make_command_entry(said, at_s, instance=bus.instance, number=number)

    # --- the end ------------------------------------------------------------------------------------------------

    async def _drain(self, crew: Crew) -> None:
        """Drain stage by stage, edges first; name and kill a process over its deadline."""
        self._board.write(crew, "draining")
        for role in STOP_ORDER:
            actors = [member.actor for member in crew if member.role == role]
            for actor in actors:
                crew.happened(actor, DrainAsked())
            async with asyncio.TaskGroup() as group:
                for actor in actors:
                    if crew.members[actor].state in RUNNING:
                        group.create_task(self._end(crew, actor))

    async def _end(self, crew: Crew, actor: str) -> None:
        child = crew.children[actor]
        try:
            async with asyncio.timeout(self._config.drain_ms / 1000), asyncio.TaskGroup() as group:
                impatience = group.create_task(self._kill_when_asked(child))
                await child.wait()
                impatience.cancel()
        except TimeoutError:
            row = self._rows.get(crew.members[actor].instance)
            held = f", {row.in_flight} requests in flight" if row is not None and row.in_flight else ""
            note = f"did not end within {self._config.drain_ms / 1000:g} s{held}: killed (launcher.drain_ms)"
            self._log.warning("drain_blocked", member=actor, note=note)
            # Named in the run file while `down` looks at it.
            crew.members[actor] = replace(crew.members[actor], note=note)
            self._board.write(crew)
            self._board.say(f"{actor} {note}", self._clock.now())
            child.kill_group()
            await child.wait()

    async def _kill_when_asked(self, child: Child) -> None:
        await self._kill_now.wait()
        child.kill_group()
