"""The launcher process: starts the members of a cluster, watches them, restarts them, and takes them down in order.

Rules are in `supervision.py`; here are the processes, the timers and the words to the broker.
Source: spec page "Launching, scaling, tapping, watching", Launcher.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import structlog

from bus.errors import RuntimeFault
from bus.messages.base import Message
from bus.messages.control import InstanceLost, PeerRow, Peers, ReadPeers, ServiceGivenUp
from bus.port import Bus, Clock
from bus.zeromq import tokens
from launch import log_tail, stale
from launch.board import Board
from launch.children import Child
from launch.client import Client
from launch.endpoints import Place
from launch.governance import record_snapshot
from launch.home import Home, HomeLock, holder, prepare, remove_run, sockets_directory, sweep
from launch.nursery import Nursery
from launch.plan import Plan
from launch.progress import Progress, Started, already_up
from launch.states import RUNNING
from launch.supervision import (
    STOP_ORDER,
    Born,
    DrainAsked,
    Effect,
    Exited,
    Happening,
    Member,
    RetryDue,
    Seen,
    Spawned,
    SpawnFailed,
    apply,
    given_up_services,
)
from launch.supervision import (
    plan as members_of,
)
from launch.zygote import Newborn, end_unused

_FOR_EVER_S = 1e9
"""The launcher supervises whether the broker answers or not; it stays a client that waits."""


class Launcher:
    """One run of one cluster; `run` returns when it is down."""

    def __init__(
        self,
        *,
        home: Home,
        plan: Plan,
        clock: Clock,
        report: Callable[[Progress], None],
        zygote: Newborn | None = None,
    ) -> None:
        """`zygote` was forked before there was an event loop; without one the launcher starts one, if it may."""
        self._home = home
        self._plan = plan
        self._config = plan.snapshot.config.launcher
        self._clock = clock
        self._log = structlog.get_logger()
        self._members: dict[str, Member] = {member.actor: member for member in members_of(plan.counts)}
        self._first_zygote = zygote
        self._nursery: Nursery | None = None
        self._children: dict[str, Child] = {}
        self._rows: dict[str, PeerRow] = {}
        self._words: asyncio.Queue[Message] = asyncio.Queue()
        self._is_news = asyncio.Event()
        self._stop = asyncio.Event()
        self._kill_now = asyncio.Event()
        self._sockets = home.run
        self._board = Board(home=home, plan=plan, started_at=clock.now(), report=report)

    async def run(self) -> None:
        """Holds the home from start to end. Raises CommandError if the home is held already, and OSError."""
        try:
            prepare(self._home)
            lock = HomeLock.take(self._home)
            if lock is None:
                raise already_up(self._home.root, holder(self._home) or 0)
            try:
                await self._run()
            finally:
                sweep(self._home, self._sockets)
                remove_run(self._home)
                lock.release()
        finally:
            if self._nursery is None and self._first_zygote is not None:
                end_unused(self._first_zygote)

    async def _run(self) -> None:
        ended = await stale.clean_up(self._home)
        if ended:
            self._log.warning("orphans_ended", orphans=ended)
        self._sockets = self._board.sockets = sockets_directory(self._home)
        self._home.snapshot.write_bytes(self._plan.snapshot.to_bytes())
        self._board.write(self._members.values(), "starting")
        self._nursery = Nursery(self._config, self._clock, log=self._home.log("zygote"), first=self._first_zygote)
        self._take_signals()
        try:
            for actor in self._members:
                self._spawn(actor)
            self._board.report(Started(pid=os.getpid()))
            await self._serve()
        finally:
            self._kill_all()
            await self._all_gone()
            await self._nursery.close()

    def _take_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._asked_to_stop)
        loop.add_signal_handler(signal.SIGCHLD, self._reap_strangers)

    def _reap_strangers(self) -> None:
        assert self._nursery is not None  # noqa: S101 - made before the signals are taken
        self._nursery.reap_strangers(child.pid for child in self._children.values() if not child.has_ended)

    def _asked_to_stop(self) -> None:
        """The first word drains, the second one kills."""
        (self._kill_now if self._stop.is_set() else self._stop).set()

    async def _serve(self) -> None:
        """Supervises until it is told to stop, then drains; its own connection outlives everybody else's."""
        place = Place(home=self._home, sockets=self._sockets, snapshot=self._plan.snapshot)
        client = Client.open(place, "launcher", clock=self._clock)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(client.peer.start(timeout_s=_FOR_EVER_S)),
                    group.create_task(self._watch(client.peer)),
                    group.create_task(self._tell(client.peer)),
                    group.create_task(self._record_snapshot(client.peer)),
                ]
                await self._stop.wait()
                tasks.pop(1).cancel()
                await self._drain()
                for task in tasks:
                    task.cancel()
        finally:
            await client.close()

    # --- events and effects -------------------------------------------------------------------------------------

    def _happened(self, actor: str, event: Happening) -> None:
        before = self._members[actor]
        member, effects = apply(before, event, self._config)
        self._members[actor] = member
        if member.state != before.state:
            self._log.info("state_changed", member=actor, was=before.state, now=member.state, note=member.note)
            self._is_news.set()
        for effect in effects:
            self._carry_out(actor, effect)
        if not isinstance(event, Seen):
            self._board.write(self._members.values())

    def _carry_out(self, actor: str, effect: Effect) -> None:
        match effect.kind:
            case "spawn":
                self._spawn(actor)
            case "retry":
                delay_s = max(0.0, effect.at - self._clock.now())
                asyncio.get_running_loop().call_later(delay_s, self._happened, actor, RetryDue())
            case "kill":
                self._log.warning("stuck_process_killed", member=actor, reason=effect.detail)
                self._children[actor].kill_group()
            case "lost":
                self._words.put_nowait(InstanceLost(instance=effect.instance, exit=effect.detail))
            case "gave_up":
                for service in given_up_services(self._members.values()):
                    self._words.put_nowait(ServiceGivenUp(service=service, given_up=True))
            case "drain":
                self._children[actor].signal(signal.SIGTERM)

    def _spawn(self, actor: str) -> None:
        """A new incarnation under a new epoch and a new secret."""
        member = self._members[actor]
        instance = f"{actor}@{self._clock.new_id()[:8]}"
        argv = [member.role, "--instance", instance, "--home", str(self._home.root), "--sockets", str(self._sockets)]
        log = self._home.log(actor)
        begins_at = log_tail.size(log)
        self._board.logs_begin_at.setdefault(actor, begins_at)

        def born(child: Child) -> None:
            self._happened(actor, Born(instance, child.pid, child.mark))
            try:
                child.say_secret(tokens.mint(self._home.run, instance, member.role, child.pid))
            except OSError as error:
                self._log.warning("no_token", member=actor, reason=error.strerror)
                child.kill_group()

        def gone(how: str) -> None:
            tokens.revoke(self._home.run, instance)
            # Who was killed has no last words of its own; who left by itself says why in its log.
            said = log_tail.reason(log, start=begins_at) if how.startswith("exit") else ""
            self._happened(actor, Exited(instance, how, self._clock.now(), self._clock.random(), said))

        assert self._nursery is not None  # noqa: S101 - made before anything is started
        self._happened(actor, Spawned(instance, self._clock.now()))
        try:
            self._children[actor] = self._nursery.start(argv, log=log, on_born=born, on_exit=gone)
        except OSError as error:
            self._happened(actor, SpawnFailed(error.strerror or "", self._clock.now(), self._clock.random()))

    # --- what the broker says -----------------------------------------------------------------------------------

    async def _watch(self, bus: Bus) -> None:
        """Asks the broker how everybody is, for ever."""
        assert self._nursery is not None  # noqa: S101 - made before anything is started
        while True:
            await self._look(bus)
            self._board.zygote = (self._nursery.zygote_pid, self._nursery.zygote_mark)
            self._board.write(self._members.values())
            self._board.report_readiness(self._members.values(), self._clock.now())
            is_starting = any(member.state == "starting" for member in self._members.values())
            is_starting = is_starting or not self._board.has_reported
            interval_ms = self._config.ready_poll_ms if is_starting else self._config.watch_interval_ms
            self._is_news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(interval_ms / 1000):
                    await self._is_news.wait()

    async def _look(self, bus: Bus) -> None:
        try:
            peers = await bus.request(
                "broker", ReadPeers(), expect=Peers, timeout_s=self._config.client_timeout_ms / 1000
            )
        except RuntimeFault as fault:
            # Without the broker's word only the broker itself can be judged.
            self._log.info("broker_did_not_answer", code=fault.code)
            self._happened("broker/1", Seen(None, self._clock.now()))
            return
        self._rows = {row.instance: row for row in peers.peers}
        now = self._clock.now()
        for actor, member in list(self._members.items()):
            row = self._broker_row(member, peers) if member.role == "broker" else self._rows.get(member.instance)
            self._happened(actor, Seen(row, now))

    def _broker_row(self, member: Member, peers: Peers) -> PeerRow | None:
        """The broker is no peer of itself: its answer is its sign of life."""
        if member.instance.rpartition("@")[2] != peers.epoch:
            return None
        return PeerRow(
            instance=member.instance, role="broker", offers=["broker"], state="ready", slots=0, in_flight=0, keys=0,
            last_beat_ms=0, connected_ms=0,
        )  # fmt: skip

    async def _tell(self, bus: Bus) -> None:
        """Posts leave in the order of what happened; one that cannot leave is harmless: the broker finds out."""
        while True:
            word = await self._words.get()
            try:
                await bus.post("broker", word)
            except RuntimeFault as fault:
                self._log.info("post_not_sent", type=word.TYPE, code=fault.code)

    async def _record_snapshot(self, bus: Bus) -> None:
        """CONFIG_SNAPSHOT:<digest> stands in the record; a repeat adds nothing."""
        while True:
            try:
                await record_snapshot(bus, self._plan.snapshot)
            except RuntimeFault as fault:
                self._log.warning("snapshot_not_recorded", code=fault.code, detail=fault.detail)
                await bus.sleep(self._config.watch_interval_ms / 1000)
            else:
                return

    # --- the end ------------------------------------------------------------------------------------------------

    async def _drain(self) -> None:
        """Stage by stage, edges first; a process over its deadline is named and killed."""
        self._board.write(self._members.values(), "draining")
        for role in STOP_ORDER:
            actors = [actor for actor, member in self._members.items() if member.role == role]
            for actor in actors:
                self._happened(actor, DrainAsked())
            async with asyncio.TaskGroup() as group:
                for actor in actors:
                    if self._members[actor].state in RUNNING:
                        group.create_task(self._end(actor))

    async def _end(self, actor: str) -> None:
        child = self._children[actor]
        try:
            async with asyncio.timeout(self._config.drain_ms / 1000), asyncio.TaskGroup() as group:
                impatience = group.create_task(self._kill_when_asked(child))
                await child.wait()
                impatience.cancel()
        except TimeoutError:
            row = self._rows.get(self._members[actor].instance)
            held = f", {row.in_flight} requests in flight" if row is not None and row.in_flight else ""
            note = f"did not end within {self._config.drain_ms / 1000:g} s{held}: killed (launcher.drain_ms)"
            self._log.warning("drain_blocked", member=actor, note=note)
            self._blocked(actor, note)
            child.kill_group()
            await child.wait()

    def _blocked(self, actor: str, note: str) -> None:
        """Named in the run file while `down` looks at it."""
        self._members[actor] = replace(self._members[actor], note=note)
        self._board.write(self._members.values())

    async def _kill_when_asked(self, child: Child) -> None:
        await self._kill_now.wait()
        child.kill_group()

    def _kill_all(self) -> None:
        for child in self._children.values():
            child.kill_group()

    async def _all_gone(self) -> None:
        for child in self._children.values():
            await child.wait()
