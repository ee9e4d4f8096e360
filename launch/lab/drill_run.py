"""One crash drill, carried out: a cluster of its own, one turn, one SIGKILL at an exact frame, and what came of it.

Rules stand in `drill_moments.py`, what is told of it in `drill_story.py`.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import shutil
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hobus.bus.broker.tap_record import TapRecord
from hobus.bus.clock import SystemClock
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.bus.port import Bus
from hobus.launch.cluster import identity, run_file
from hobus.launch.cluster.addresses import http_address
from hobus.launch.cluster.client import connected, place_of
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home, holder
from hobus.launch.cluster.run_file import ChildRow, RunFile
from hobus.launch.cluster.running import running
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError
from hobus.launch.http import keys as http_keys
from hobus.launch.lab.drill_moments import QUESTION, Moment, Victim
from hobus.launch.lab.drill_story import Counts, Evidence, Restart, Strike, counts_of, judged, orders_in, timeline
from hobus.launch.lab.recent_frames import ring_of
from hobus.launch.lab.temporary_cluster import left_of
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.starting import start_detached
from hobus.launch.launcher.stop import stop
from hobus.launch.process.failpoint import VARIABLE
from hobus.launch.process.orphan import hard_limit_s
from hobus.launch.sessions.turns import process_turn
from hobus.ledger_service.reader import read_entries
from hobus.ledger_service.verify import verify_directory

_LOOK_INTERVAL_S = 0.002
_RING_S = 600.0
_INPUT_ID = "drill-1"
_PRINCIPAL = "drill"
ANY_PORT = "127.0.0.1:0"
"""Where the HTTP door of a drill is, if it is to be hit."""

_Ask = Callable[[], Awaitable[TurnResult]]
"""The drill's question, under its one input id."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be done, and with what."""

    victim: Victim
    moment: Moment
    config: Path | None
    """A directory of governed files that replace shipped ones; None: the shipped ones."""
    scale: tuple[str, ...] = ()
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it."""

    strike: Strike
    result: TurnResult
    answered_after_ms: int
    """From the kill to the client's answer."""
    timeline: list[tuple[int, str]]
    counts: Counts
    checks: list[tuple[str, bool]]

    @property
    def holds(self) -> bool:
        """Whether every guarantee held."""
        return all(is_so for _what, is_so in self.checks)


@dataclass(slots=True)
class _Notes:
    """What is found on the way."""

    strike: Strike | None = None
    taps: list[TapRecord] = field(default_factory=list[TapRecord])
    restarts: list[Restart] = field(default_factory=list[Restart])
    runs: list[RunFile] = field(default_factory=list[RunFile])
    result: TurnResult | None = None
    answered_at: float = 0.0
    again: TurnResult | None = None


def carry_out(home: Home, wanted: Wanted, tell: Callable[[str], None]) -> Outcome:
    """The drill in this empty home; its cluster is down when this returns. Raises CommandError when it was none."""
    if wanted.config is not None:
        shutil.copytree(wanted.config, home.config, copy_function=shutil.copyfile)
    notes = _Notes()
    with _armed(wanted.moment):
        _up(home, wanted.scale, http=http_of(wanted.victim))
    run = running(home)
    _check_there(run, wanted.victim)
    tell(f"{len(run.children)} processes are ready: {', '.join(row.actor for row in run.children)}")
    asyncio.run(_turn_with_kill(home, wanted, notes, tell))
    if wanted.victim.role == "launcher":
        _ended_by_itself(home, notes)
        _up(home, wanted.scale)
        asyncio.run(_asked_again(home, notes))
    notes.runs.append(running(home))
    stop(home, quiet=True)
    return _outcome(home, notes)


@contextmanager
def _armed(moment: Moment) -> Generator[None]:
    """Processes that are started meanwhile, and their successors, carry the drill's point."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(moment.point())
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def http_of(victim: Victim) -> str | None:
    """Where a cluster for this victim has an HTTP door; None for nowhere but where its configuration says."""
    return ANY_PORT if victim.role == "http" else None


def _up(home: Home, scale: tuple[str, ...], *, http: str | None = None) -> None:
    code = start_detached(home, StartOptions(scale=scale, http=http), wait=True, quiet=True, ends_with_us=True)
    if code != exit_codes.OK:
        raise CommandError("the cluster did not become ready", exit_code=code)


async def _turn_with_kill(home: Home, wanted: Wanted, notes: _Notes, tell: Callable[[str], None]) -> None:
    """The turn is asked, held at its moment, goes on without the victim, and is answered."""
    run = running(home)
    notes.runs.append(run)
    place = place_of(home, run)
    async with connected(place, "door") as door, _asker(door, place, wanted) as ask:
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(_timed(ask))
            notes.strike = await _strike(door, place, wanted, asking, notes)
            tell(_said(notes.strike))
        notes.result, notes.answered_at = asking.result()
        if wanted.victim.role == "launcher":
            return
        await _whole_again(door, place, notes)
        notes.taps += await ring_of(place, since_s=_RING_S)
        notes.again = await ask()


@asynccontextmanager
async def _asker(door: Bus, place: Place, wanted: Wanted) -> AsyncGenerator[_Ask]:
    """How the drill asks: over the bus, or through the HTTP door where that is the one to be hit."""
    if wanted.victim.role != "http":
        yield lambda: _asked(door, place, wanted.timeout_s)
        return
    clock = SystemClock()
    key = http_keys.create(
        place.home, _PRINCIPAL, new_id=clock.new_id, now_us=round(clock.now() * 1_000_000), ttl_s=None
    )
    timeout_s = wanted.timeout_s or place.snapshot.config.host.turn_timeout_ms / 1000
    # By name: its HTTP library comes with the extra `http`, which this cluster has by now.
    client = importlib.import_module("hobus.launch.sessions.http_client").AsyncClient(
        f"http://{http_address(place.home)}", key, timeout_s=timeout_s
    )
    async with client:
        yield lambda: client.ask(QUESTION, input_id=_INPUT_ID)


async def _timed(ask: _Ask) -> tuple[TurnResult, float]:
    """The answer, and when it came."""
    result = await ask()
    return result, SystemClock().now()


async def _asked(door: Bus, place: Place, timeout_s: float | None) -> TurnResult:
    """The answer to the drill's question, over the bus."""
    host = place.snapshot.config.host
    turn = ProcessTurn(session_id=None, input_id=_INPUT_ID, text=QUESTION)
    return await process_turn(
        door, turn, timeout_s=timeout_s or host.turn_timeout_ms / 1000, retry_interval_s=host.retry_interval_ms / 1000
    )


async def _strike(
    door: Bus, place: Place, wanted: Wanted, asking: asyncio.Task[tuple[TurnResult, float]], notes: _Notes
) -> Strike:
    """Waits until the turn stands still at its moment, kills, and lets it go on."""
    run = notes.runs[0]
    holder_row = await _held(door, place, run, wanted.moment, asking)
    notes.taps += await ring_of(place, since_s=_RING_S)
    actor, instance, pid, mark = _target(run, wanted.victim, holder_row)
    at = SystemClock().now()
    is_struck = identity.end(pid, mark, signal.SIGKILL)
    if pid != holder_row.pid:
        identity.end(holder_row.pid, holder_row.mark, signal.SIGCONT)
    if not is_struck:
        raise CommandError(f"{actor} (pid {pid}) was gone before it could be killed")
    return Strike(actor, instance, pid, at, holder_row.actor)


async def _held(
    door: Bus, place: Place, run: RunFile, moment: Moment, asking: asyncio.Task[tuple[TurnResult, float]]
) -> ChildRow:
    """The process that stands still at the moment's frame. Raises CommandError if the turn never comes to it."""
    mark = moment.point().mark_in(place.home.run)
    while True:
        pid = _number_in(mark)
        row = next((row for row in run.children if row.pid == pid), None)
        if row is not None and identity.is_stopped(row.pid):
            return row
        if asking.done():
            raise CommandError(
                f"the turn was over before it came to {moment.point()}: with this configuration it has no such moment"
            )
        await door.sleep(_LOOK_INTERVAL_S)


def _number_in(mark: Path) -> int | None:
    try:
        text = mark.read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    return int(text) if text.isdigit() else None


def _target(run: RunFile, victim: Victim, holder_row: ChildRow) -> tuple[str, str, int, str]:
    """Actor, instance, pid and mark of who is meant."""
    if victim.role == "launcher":
        return "launcher", "launcher", run.launcher_pid, run.launcher_mark
    if victim.role == "zygote":
        return "zygote", "zygote", run.zygote_pid, run.zygote_mark
    actor = victim.among([row.actor for row in run.children], holder_row.actor)
    row = next(row for row in run.children if row.actor == actor)
    return row.actor, row.instance, row.pid, row.mark


def _check_there(run: RunFile, victim: Victim) -> None:
    """Raises CommandError for one that this cluster does not have, before any turn stands still for it."""
    actors = [row.actor for row in run.children]
    if victim.role not in ("launcher", "zygote") and victim.among(actors, "") is None:
        raise CommandError(
            f"this cluster has no {victim}: it has {', '.join(actors)}", hint="more of a role: --scale ho2=2",
            exit_code=exit_codes.USAGE,
        )  # fmt: skip


def _said(strike: Strike) -> str:
    where = "its own frame" if strike.actor == strike.holder else f"a frame of {strike.holder}, which goes on"
    return f"SIGKILL to {strike.actor} (pid {strike.pid}), the turn standing still at {where}"


async def _whole_again(door: Bus, place: Place, notes: _Notes) -> None:
    """Whoever was killed runs again; who was restarted, and when. Raises CommandError when that does not happen."""
    assert notes.strike is not None  # noqa: S101 - the turn is answered
    limit_s = place.snapshot.config.launcher.ready_timeout_ms / 1000
    deadline = door.clock.monotonic() + limit_s
    while not _is_whole(run := running(place.home), notes):
        if door.clock.monotonic() > deadline:
            raise CommandError(f"{notes.strike.actor} was not ready again within {limit_s:g} s")
        await door.sleep(_LOOK_INTERVAL_S)
    notes.runs.append(run)
    notes.restarts += [
        Restart(row.actor, row.instance, row.started_at, row.ready_after_ms) for row in run.children if row.restarts
    ]


def _is_whole(run: RunFile, notes: _Notes) -> bool:
    strike = notes.strike
    if any(row.state not in ("ready", "degraded") for row in run.children):
        return False
    if strike is None or strike.actor == "zygote":
        return run.zygote_restarts > 0 and run.zygote_pid > 0
    return any(row.actor == strike.actor and row.restarts > 0 for row in run.children)


def _ended_by_itself(home: Home, notes: _Notes) -> None:
    """After the launcher's death everybody finishes and ends. Raises CommandError when somebody does not."""
    run = notes.runs[0]
    clock = SystemClock()
    deadline = clock.monotonic() + hard_limit_s(place_of(home, run).snapshot.config) + 1
    while left := left_of(run):
        if clock.monotonic() > deadline:
            raise CommandError(f"still running long after the launcher's death: {', '.join(left)}")
        asyncio.run(asyncio.sleep(_LOOK_INTERVAL_S))
    if run_file.read(home.run_file) is not None and holder(home) is None:
        stop(home, quiet=True)


async def _asked_again(home: Home, notes: _Notes) -> None:
    """The same input once more, from a cluster that was started anew on the same record."""
    place = place_of(home, running(home))
    async with connected(place, "door") as door:
        notes.again = await _asked(door, place, None)


def _outcome(home: Home, notes: _Notes) -> Outcome:
    assert notes.strike is not None  # noqa: S101 - else an error was raised
    assert notes.result is not None  # noqa: S101 - the same
    fault = verify_directory(home.ledger).fault
    evidence = Evidence(
        entries=list(read_entries(home.ledger, with_bodies=True)),
        deliveries=orders_in(notes.taps),
        restarts=notes.restarts,
        result=notes.result,
        again=notes.again,
        answered_at=notes.answered_at,
    )
    left = sorted({name for run in notes.runs for name in left_of(run)})
    record_fault = "" if fault is None else f"{fault.file}, byte {fault.byte}: {fault.what}"
    return Outcome(
        strike=notes.strike,
        result=notes.result,
        answered_after_ms=round((notes.answered_at - notes.strike.at) * 1000),
        timeline=timeline(notes.strike, evidence),
        counts=counts_of(evidence),
        checks=judged(evidence, record_fault=record_fault, left=left),
    )
