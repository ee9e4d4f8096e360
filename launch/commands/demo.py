"""`hobus demo`: a whole cluster in a temporary home, two turns, one kill, one verification; nothing is left."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import tempfile
from pathlib import Path

import click

from bus.clock import SystemClock
from bus.errors import RuntimeFault
from bus.messages.control import PeerRow, Peers, ReadPeers
from bus.messages.ids import shown_session
from bus.messages.ledger import Entries, Entry, Read, Tail, session_stream
from bus.messages.session import ProcessTurn, TurnResult
from bus.port import Bus
from config.snapshot import load_snapshot
from launch import exit_codes, identity, run_file
from launch.client import connected, place_of
from launch.commands.down import stop
from launch.commands.options import running
from launch.commands.up import start_detached
from launch.endpoints import Place
from launch.errors import CommandError, next_command, of_os_error
from launch.faults import as_command_error
from launch.home import Home, holder, home_of
from launch.output import duration, say, styled
from launch.turns import process_turn
from ledger_service.verify import verify_directory

FIRST = "what packages are installed?"
SECOND = "is the ledger intact?"
THINKING_MS = 250
"""The embedded model answers at once; it is told to think a little, so that there is a middle of a turn to kill in."""

_PAGE = 1000


@click.command()
@click.option("--home", "home_path", metavar="DIR", help="Use and keep this directory instead of a temporary one.")
@click.option("--debug", "_debug", is_flag=True, help="Show tracebacks.")
def demo(*, home_path: str | None, _debug: bool) -> int:
    """Start a cluster, hold two turns, kill an executor with SIGKILL in the middle of the second, verify, stop."""
    started_at = SystemClock().monotonic()
    home = home_of(Path(home_path or tempfile.mkdtemp(prefix="hobus-demo-")))
    if holder(home) is not None or home.config.exists() or home.ledger.exists():
        raise CommandError(f"{home.root} is in use: the demo wants a home of its own", exit_code=exit_codes.USAGE)
    is_over = False
    try:
        _run(home)
        is_over = True
    except RuntimeFault as fault:
        known = as_command_error(fault)
        raise CommandError(f"the demo failed: {fault}", hint=f"look into {home.root}") from known
    except CommandError as error:
        hint = error.hint or f"look into {home.root}"
        raise CommandError(f"the demo failed: {error.message}", hint=hint) from error
    finally:
        if holder(home) is not None:
            stop(home, quiet=True)
        if is_over and home_path is None:
            shutil.rmtree(home.root, ignore_errors=True)
    say(f"done in {duration(SystemClock().monotonic() - started_at)}; nothing runs any more.")
    if home_path is not None:
        say(f"its record: {next_command('ledger show', home.root)}")
    say("next: hobus up --wait && hobus ask TEXT && hobus tap")
    return exit_codes.OK


def _run(home: Home) -> None:
    clock = SystemClock()
    _step(1, f"starting a cluster in {home.root}")
    config_file = write_config(home)
    began_at = clock.monotonic()
    if start_detached(home, config_file=config_file, scale=(), wait=True, quiet=True) != exit_codes.OK:
        raise CommandError("the cluster did not become ready")
    run = running(home)
    names = ", ".join(row.actor for row in run.children)
    _fact(f"{len(run.children)} processes ready in {duration(clock.monotonic() - began_at)}: {names}")
    place = place_of(home, run)
    session_id, killed_at = asyncio.run(_turns(place))
    _step(4, "what happened, by the record")
    asyncio.run(_account(place, session_id, killed_at))
    _step(5, "stopping, then verifying every byte of the record")
    stop(home, quiet=True)
    report = verify_directory(home.ledger)
    if report.fault is not None:
        raise CommandError(f"the record is damaged: {report.fault.file}, byte {report.fault.byte}: {report.fault.what}")
    _fact(f"{styled('OK', 'green')}: {report.entries} entries, one chain, head #{report.head} {report.chain[:16]}…")
    left = [row.actor for row in run.children if identity.is_alive(row.pid, row.mark)]
    if left:
        raise CommandError(f"still running: {', '.join(left)}")


def write_config(home: Home) -> Path:
    """The shipped configuration with a model that thinks for a moment, where a later `up` does not look for one."""
    config = load_snapshot().config.model_dump(mode="json")
    for provider in config["gateway"]["providers"].values():
        provider["latency_ms"] = THINKING_MS
    path = home.root / "demo_config.json"
    try:
        home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        run_file.write_whole(path, json.dumps(config, indent=1))
    except OSError as error:
        raise of_os_error(error, doing="the demo cannot be started") from error
    return path


async def _turns(place: Place) -> tuple[str, int]:
    """Session of both turns, and the number of the last entry before the kill."""
    async with connected(place, "door") as door, connected(place, "operator") as operator:
        _step(2, f"asking: {FIRST}")
        first = await _ask(door, place, FIRST, None)
        _show(first)
        _step(3, f"asking: {SECOND}   and killing the executor in the middle of it")
        async with asyncio.TaskGroup() as group:
            turn = group.create_task(_ask(door, place, SECOND, first.session_id))
            killed_at = await _kill_in_the_middle(operator, place, first.session_id, turn)
        _show(turn.result())
    if turn.result().outcome != "success":
        raise CommandError(f"the second turn ended as {turn.result().outcome} ({turn.result().code})")
    return first.session_id, killed_at


async def _ask(door: Bus, place: Place, text: str, session_id: str | None) -> TurnResult:
    host = place.snapshot.config.host
    turn = ProcessTurn(session_id=session_id, input_id=door.new_id(), text=text)
    return await process_turn(
        door, turn, timeout_s=host.turn_timeout_ms / 1000, retry_interval_s=host.retry_interval_ms / 1000
    )


async def _kill_in_the_middle(bus: Bus, place: Place, session_id: str, turn: asyncio.Task[TurnResult]) -> int:
    """SIGKILL to the executor while the model thinks for it: its prompt is sent, its answer is not there yet."""
    timeout_s = place.snapshot.config.launcher.client_timeout_ms / 1000
    head = (await bus.request("ledger", Tail(after=-1, limit=1), expect=Entries, timeout_s=timeout_s)).head
    while True:
        page = await bus.request(
            "ledger", Tail(after=head, limit=_PAGE, wait_ms=round(timeout_s * 500)), expect=Entries, timeout_s=timeout_s
        )
        sent = [e for e in page.entries if e.event_type == "PROMPT_SENT" and e.provenance.session_id == session_id]
        if sent:
            break
        head = page.entries[-1].sequence if page.entries else head
        if turn.done():
            raise CommandError("the turn was over before its first prompt was seen")
    peers = await bus.request("broker", ReadPeers(), expect=Peers, timeout_s=timeout_s)
    victim = _busy_executor(peers)
    row = next(row for row in running(place.home).children if row.instance == victim.instance)
    if turn.done() or not identity.end(row.pid, row.mark, signal.SIGKILL):
        raise CommandError(f"{row.actor} could not be killed inside the turn")
    at_work = sent[-1].provenance.work_order_id
    _fact(f"{styled('SIGKILL', 'red')} to {row.actor} (pid {row.pid}) while it executed {at_work}")
    return sent[-1].sequence


def _busy_executor(peers: Peers) -> PeerRow:
    busy = [row for row in peers.peers if row.role == "ho1" and row.in_flight]
    if not busy:
        raise CommandError("no executor was at work at the moment of the kill")
    return busy[0]


async def _account(place: Place, session_id: str, killed_at: int) -> None:
    """Facts from the record: orders, ends, calls; and who is running again."""
    timeout_s = place.snapshot.config.launcher.client_timeout_ms / 1000
    async with connected(place, "operator") as bus:
        journal = await _stream(bus, session_stream(session_id), timeout_s)
        prompts = await _stream(bus, "prompts", timeout_s)
        work = await _stream(bus, "ho1m", timeout_s)
    answers = [entry for entry in journal if entry.event_type == "RunCompleted"]
    sent = [e for e in prompts if e.event_type == "PROMPT_SENT" and e.provenance.session_id == session_id]
    at_kill = next(entry.provenance.work_order_id for entry in sent if entry.sequence == killed_at)
    ends = [e for e in work if e.provenance.work_order_id == at_kill and e.event_type == "WO_COMPLETED"]
    calls = [entry for entry in sent if entry.provenance.work_order_id == at_kill]
    if len(answers) != 2 or len(ends) != 1:  # noqa: PLR2004 - one answer per question
        raise CommandError(f"{len(answers)} answers to 2 questions, {len(ends)} ends of {at_kill}")
    _fact(f"{shown_session(session_id)}: 2 questions, 2 answers, {len(journal)} entries in its journal")
    times = "once" if len(calls) == 1 else f"{len(calls)} times"
    _fact(f"{at_kill}: ended once, by {ends[0].origin}; the model was called {times} for it")
    run = run_file.read(place.home.run_file)
    for row in run.children if run is not None else ():
        if row.restarts:
            _fact(f"{row.actor} was restarted: now {row.instance}, {row.state}")


async def _stream(bus: Bus, stream: str, timeout_s: float) -> list[Entry]:
    page = await bus.request("ledger", Read(stream=stream, limit=_PAGE), expect=Entries, timeout_s=timeout_s)
    return page.entries


def _step(number: int, text: str) -> None:
    say(styled(f"[{number}/5] {text}", None, bold=True))


def _fact(text: str) -> None:
    say(f"      {text}")


def _show(result: TurnResult) -> None:
    for line in result.response.splitlines():
        say(f"    > {line}")
    cost = result.cost
    _fact(f"{result.outcome} in {result.elapsed_ms} ms, {cost.llm_calls} model calls, {cost.tool_calls} tool calls")
