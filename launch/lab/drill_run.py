"""One crash drill, carried out: a cluster of its own, one turn, one SIGKILL at an exact frame, and what came of it.

Rules stand in `drill_moments.py`, what is told of it in `story.py`.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import shutil
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from hobus.bus.broker.tap_record import TapRecord
from hobus.bus.clock import SystemClock
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.bus.port import Bus
from hobus.launch.cluster import identity, run_file
from hobus.launch.cluster.client import connect_bus, place_of
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home, find_holder
from hobus.launch.cluster.run_file import ChildRow, RunFile, RunningProcess, find_running
from hobus.launch.console.errors import CommandError, UsageFault
from hobus.launch.http import keys as http_keys
from hobus.launch.lab.drill_moments import AGENT, QUESTION, DrillMoment, Victim
from hobus.launch.lab.story import Checks, Kill, TurnEvidence, judge, list_orders
from hobus.launch.lab.temporary_cluster import list_left, read_ring
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.starting import bring_up
from hobus.launch.launcher.stop import stop
from hobus.launch.process.failpoint import VARIABLE
from hobus.launch.process.liveness import compute_hard_limit_s
from hobus.launch.sessions.turns import process_turn
from hobus.ledger_service.reader import read_entries
from hobus.ledger_service.verify import verify_directory

_LOOK_INTERVAL_S = 0.002
_READ_LAST_S = 1.0
"""So long a client may take over an answer that left before its cluster ended."""
_RING_S = 600.0
_INPUT_ID = "drill-1"
_PRINCIPAL = "drill"
ANY_PORT = "127.0.0.1:0"
"""Where the HTTP door of a drill is, if it is to be hit."""

_Ask = Callable[[], Awaitable[TurnResult]]
"""The drill's question, under its one input id."""


def make_options(victim: Victim, scale: tuple[str, ...]) -> StartOptions:
    """Return how a cluster for this victim is started: with an HTTP door if that is the one to be hit."""
    return StartOptions(scale=scale, http=ANY_PORT if victim.role == "http" else None)


@dataclass(slots=True, kw_only=True)
class CrashDrill:
    """One drill in an empty home; its cluster is down when `carry_out` returns, which may be called once."""

    home: Home
    victim: Victim
    moment: DrillMoment
    config: Path | None
    """A directory of governed files that replace shipped ones; None: the shipped ones."""
    packages: Path | None = None
    """Those that are installed, with their pointer; None: none."""
    scale: tuple[str, ...] = ()
    timeout_s: float | None = None
    tell: Callable[[str], None]
    _runs: list[RunFile] = field(default_factory=list[RunFile], init=False)
    _frames: list[TapRecord] = field(default_factory=list[TapRecord], init=False)

    def carry_out(self) -> tuple[TurnEvidence, Checks]:
        """Return what was seen, and each guarantee with whether it held. Raises CommandError when it was no drill."""
        for source, target in ((self.config, self.home.config), (self.packages, self.home.packages)):
            if source is not None:
                shutil.copytree(source, target, copy_function=shutil.copyfile)
        with _arm(self.moment):
            run = bring_up(self.home, make_options(self.victim, self.scale))
        self._check_there(run)
        self.tell(f"{len(run.children)} processes are ready: {', '.join(row.actor for row in run.children)}")
        found = asyncio.run(self._run_turn_with_kill(run))
        if self.victim.role == "launcher":
            self._wait_ended(run)
            again = asyncio.run(self._ask_again(bring_up(self.home, make_options(self.victim, self.scale))))
            if isinstance(found, Kill):
                found = TurnEvidence(kill=found, result=again, answered_at=SystemClock().now())
            found.again = again
        assert isinstance(found, TurnEvidence)  # noqa: S101 - a cluster with a launcher answers
        evidence = found
        self._runs += [run, find_running(self.home)]
        stop(self.home, quiet=True)
        fault = verify_directory(self.home.ledger).fault
        evidence.entries = list(read_entries(self.home.ledger, with_bodies=True))
        evidence.deliveries = list_orders(self._frames)
        left = sorted({name for run in self._runs for name in list_left(run)})
        record_fault = "" if fault is None else f"{fault.file}, byte {fault.byte}: {fault.what}"
        return evidence, judge(evidence, record_fault=record_fault, left=left)

    def _check_there(self, run: RunFile) -> None:
        """Raise CommandError for a victim that this cluster does not have, before any turn stands still for it."""
        if self.victim.choose_among([one.actor for one in run.processes()], "") is None:
            raise UsageFault(
                f"this cluster has no {self.victim}: it has {', '.join(row.actor for row in run.children)}",
                hint="more of a role: --scale ho2=2",
            )

    async def _run_turn_with_kill(self, run: RunFile) -> TurnEvidence | Kill:
        """Ask the turn, hold it at its moment, kill the victim, let the turn go on to its answer.

        The kill alone where the cluster ended behind its launcher before its client had read the answer.
        """
        place = place_of(self.home, run)
        async with connect_bus(place, "door") as door, self._open_asker(door, place) as ask:
            async with asyncio.TaskGroup() as group:
                asking = group.create_task(_time(ask))
                holder_process = await self._find_held(door, run, asking)
                self._frames += await read_ring(place, since_s=_RING_S)
                kill = self._strike(run, holder_process)
                if self.victim.role == "launcher":
                    await self._wait_answered_or_ended(door, run, asking)
            if asking.cancelled():
                return kill
            result, answered_at = asking.result()
            evidence = TurnEvidence(kill=kill, result=result, answered_at=answered_at)
            if self.victim.role != "launcher":
                evidence.restarts = await self._wait_whole_again(door, place, kill)
                self._frames += await read_ring(place, since_s=_RING_S)
                evidence.again = await ask()
            return evidence

    async def _wait_answered_or_ended(
        self, door: Bus, run: RunFile, asking: asyncio.Task[tuple[TurnResult, float]]
    ) -> None:
        """Wait for the answer, or until everybody has ended: the next cluster is asked under the same input id."""
        while list_left(run) and not asking.done():
            await door.sleep(_LOOK_INTERVAL_S)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asking), _READ_LAST_S)
        if not asking.done():
            self.tell("the cluster ended before its client had read the answer: the next one is asked for it")
            asking.cancel()

    @asynccontextmanager
    async def _open_asker(self, door: Bus, place: Place) -> AsyncGenerator[_Ask]:
        """Yield how the drill asks: over the bus, or through the HTTP door where that is the one to be hit."""
        timeout_s = self.timeout_s or place.snapshot.config.host.turn_timeout_ms / 1000
        if self.victim.role != "http":
            yield lambda: _ask(door, timeout_s)
            return
        clock = SystemClock()
        key = http_keys.create(
            place.home, _PRINCIPAL, new_id=clock.new_id, now_us=round(clock.now() * 1_000_000), ttl_s=None
        )
        # By name: its HTTP library comes with the extra `http`, which this cluster has by now.
        client = importlib.import_module("hobus.launch.sessions.http_client").AsyncClient(
            f"http://{place.home.bound(http=True)}", key, timeout_s=timeout_s
        )
        async with client:
            yield lambda: client.ask(QUESTION, input_id=_INPUT_ID)

    async def _find_held(
        self, door: Bus, run: RunFile, asking: asyncio.Task[tuple[TurnResult, float]]
    ) -> RunningProcess:
        """Return the process that stands still at the moment's frame. Raises CommandError if the turn never does."""
        point = self.moment.point()
        mark = point.mark_in(self.home.run)
        by_pid = {str(one.pid): one for one in run.processes()}
        while True:
            with suppress(FileNotFoundError):
                one = by_pid.get(mark.read_text(encoding="ascii"))
                if one is not None and identity.is_stopped(one.pid):
                    return one
            if asking.done():
                raise CommandError(
                    f"the turn was over before it came to {point}: with this configuration it has no such moment",
                    hint=f"another --during; the agent that is asked {QUESTION!r} needs the tool session_cost for it",
                )
            await door.sleep(_LOOK_INTERVAL_S)

    def _strike(self, run: RunFile, holder_process: RunningProcess) -> Kill:
        """Kill the victim and let the turn go on. Raises CommandError when it was gone before."""
        by_actor = {one.actor: one for one in run.processes()}
        victim = by_actor[self.victim.choose_among(list(by_actor), holder_process.actor) or ""]
        at = SystemClock().now()
        is_struck = identity.end(victim.pid, victim.mark, signal.SIGKILL)
        if victim != holder_process:
            identity.end(holder_process.pid, holder_process.mark, signal.SIGCONT)
        if not is_struck:
            raise CommandError(f"{victim.actor} (pid {victim.pid}) was gone before it could be killed")
        where = "its own frame" if victim == holder_process else f"a frame of {holder_process.actor}, which goes on"
        self.tell(f"SIGKILL to {victim.actor} (pid {victim.pid}), the turn standing still at {where}")
        return Kill(victim.actor, victim.instance, victim.pid, at, holder_process.actor)

    async def _wait_whole_again(self, door: Bus, place: Place, kill: Kill) -> list[ChildRow]:
        """Return who was restarted, once whoever was killed runs again. Raises CommandError if nobody does."""
        limit_s = place.snapshot.config.launcher.ready_timeout_ms / 1000
        deadline = door.clock.monotonic() + limit_s
        while not _is_whole(run := find_running(place.home), kill.actor):
            if door.clock.monotonic() > deadline:
                raise CommandError(f"{kill.actor} was not ready again within {limit_s:g} s")
            await door.sleep(_LOOK_INTERVAL_S)
        self._runs.append(run)
        return [row for row in run.children if row.restarts]

    def _wait_ended(self, run: RunFile) -> None:
        """Wait until everybody has ended after the launcher's death. Raises CommandError when somebody does not."""
        clock = SystemClock()
        deadline = clock.monotonic() + compute_hard_limit_s(place_of(self.home, run).snapshot.config) + 1
        while left := list_left(run):
            if clock.monotonic() > deadline:
                raise CommandError(f"still running long after the launcher's death: {', '.join(left)}")
            asyncio.run(asyncio.sleep(_LOOK_INTERVAL_S))
        if run_file.read(self.home.run_file) is not None and find_holder(self.home) is None:
            stop(self.home, quiet=True)

    async def _ask_again(self, run: RunFile) -> TurnResult:
        """Return the answer to the same input, asked again of a cluster that was started anew on the same record."""
        place = place_of(self.home, run)
        async with connect_bus(place, "door") as door:
            return await _ask(door, place.snapshot.config.host.turn_timeout_ms / 1000)


@contextmanager
def _arm(moment: DrillMoment) -> Generator[None]:
    """Give processes that are started meanwhile, and their successors, the drill's point."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(moment.point())
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


async def _time(ask: _Ask) -> tuple[TurnResult, float]:
    result = await ask()
    return result, SystemClock().now()


async def _ask(door: Bus, timeout_s: float) -> TurnResult:
    turn = ProcessTurn(session_id=None, agent_id=AGENT, input_id=_INPUT_ID, text=QUESTION)
    return await process_turn(door, turn, timeout_s=timeout_s)


def _is_whole(run: RunFile, killed: str) -> bool:
    if any(row.state not in ("ready", "degraded") for row in run.children):
        return False
    if killed == "zygote":
        return run.zygote_restarts > 0 and run.zygote_pid > 0
    return any(row.actor == killed and row.restarts > 0 for row in run.children)
