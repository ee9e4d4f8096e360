"""`hobus demo`: a whole cluster in a temporary home, three turns, one kill, one verification; nothing is left."""

from __future__ import annotations

import asyncio
import json
import signal
import tempfile
from pathlib import Path

import click

from hobus.bus import limits
from hobus.bus.clock import SystemClock
from hobus.bus.ledger_client import read_pages
from hobus.bus.messages.ledger import Entries, Entry, Read, Tail, name_session_stream
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.bus.paging import read_peers
from hobus.bus.port import Bus
from hobus.bus.record.ends import ENDS
from hobus.launch.cli.turn_view import moment_lines
from hobus.launch.cluster import identity, run_file
from hobus.launch.cluster.client import connect_bus, place_of
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home, find_holder, make_home
from hobus.launch.cluster.run_file import find_running
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UsageFault, format_next_command, make_os_fault
from hobus.launch.console.output import format_count, format_duration, say, say_prose, style
from hobus.launch.console.view import print_all
from hobus.launch.lab.story import Kill, TurnEvidence, Unproved, list_orders, list_outcome, make_timeline
from hobus.launch.lab.temporary_cluster import TemporaryHome, list_left, read_ring, spend
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.starting import bring_up
from hobus.launch.launcher.stop import stop
from hobus.launch.sessions.evidence import short
from hobus.launch.sessions.turns import process_turn
from hobus.ledger_service.verify import verify_directory

QUESTIONS = ("what packages are installed?", "what did this session cost?", "is the ledger intact?")
"""The last one is the one in which a process dies."""

THINKING_MS = 250
"""The embedded model answers at once; it is told to think a little, so that there is a middle of a turn to kill in."""

_PAGE = 1000
_STREAM_MAX = 10_000
_STEPS = 6
_INDENT = "      "
_RING_S = 60.0
_OF_THE_TURN = frozenset({"RunRequested", *ENDS})
"""What of the last turn is told beside the order whose executor was killed."""


@click.command()
@click.option("--home", "home_path", metavar="DIR", help="Use this directory and keep it, instead of a temporary one.")
@click.option("--debug", "_debug", is_flag=True, help="Show tracebacks and the command's own log.")
def demo(*, home_path: str | None, _debug: bool) -> int:
    """Start a cluster, ask three questions, SIGKILL a process during the last one, verify the record, stop."""
    started_at = SystemClock().monotonic()
    home = make_home(Path(home_path or tempfile.mkdtemp(prefix="hobus-demo-")))
    if find_holder(home) is not None or home.config.exists() or home.ledger.exists():
        raise UsageFault(f"{home.root} is in use: the demo needs a home of its own")
    code = spend(TemporaryHome(home, "the demo", is_temporary=home_path is None), lambda: _run(home))
    if code != exit_codes.OK:
        return code
    say()
    say(f"Done in {format_duration(SystemClock().monotonic() - started_at)}. Nothing runs any more, nothing is left.")
    if home_path is not None:
        say(f"its record: {format_next_command('ledger show', home.root)}")
    say("Your own cluster: hobus up --wait   then: hobus chat   and beside it: hobus tap")
    return exit_codes.OK


def _run(home: Home) -> int:
    clock = SystemClock()
    told = "hobus runs an agent as small processes that record each step before it counts."
    say_prose("", f"{told} Watch one of them die.")
    _print_step(1, f"Starting a cluster in {home.root}")
    config_file = write_config(home)
    began_at = clock.monotonic()
    run = bring_up(home, StartOptions(config_file=config_file))
    names = ", ".join(row.actor for row in run.children)
    _print_fact(
        f"{len(run.children)} processes are ready after {format_duration(clock.monotonic() - began_at)}: {names}"
    )
    _print_fact("The embedded model follows rules, needs no key and no network, and is slowed down for this demo.")
    place = place_of(home, run)
    asyncio.run(_run_turns(place))
    _print_step(6, "Stopping it, then checking every byte of the record")
    stop(home, quiet=True)
    report = verify_directory(home.ledger)
    if report.fault is not None:
        raise CommandError(f"the record is damaged: {report.fault.file}, byte {report.fault.byte}: {report.fault.what}")
    say(
        _INDENT,
        style("OK", "green"),
        f": {format_count(report.entries, 'entry', 'entries')} in one chain, head #{report.head} {report.chain[:16]}…",
    )
    _print_fact("Changing, removing or reordering an entry breaks the chain from there on.")
    if left := list_left(run):
        raise CommandError(f"still running: {', '.join(left)}")
    return exit_codes.OK


def write_config(home: Home) -> Path:
    """Write that the embedded model thinks for a moment, where no later `up` looks for it."""
    config = {"gateway": {"providers": {"offline": {"latency_ms": THINKING_MS}}}}
    path = home.root / "demo_config.json"
    try:
        home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        run_file.write_whole(path, json.dumps(config, indent=1))
    except OSError as error:
        raise make_os_fault(error, doing="the demo cannot be started") from error
    return path


async def _run_turns(place: Place) -> None:
    async with connect_bus(place, "door") as door, connect_bus(place, "operator") as operator:
        session_id: str | None = None
        for number, question in enumerate(QUESTIONS[:-1], 2):
            _print_step(number, f"You ask: {question}")
            result = await _ask(door, place, question, session_id)
            session_id = result.session_id
            _show(result)
        assert session_id is not None  # noqa: S101 - a turn has been held
        _print_step(4, f"You ask: {QUESTIONS[-1]}   and meanwhile a process is killed")
        async with asyncio.TaskGroup() as group:
            turn = group.create_task(_ask(door, place, QUESTIONS[-1], session_id))
            kill, wo_id = await _kill_in_the_middle(operator, place, session_id, turn)
        evidence = TurnEvidence(kill=kill, result=turn.result(), answered_at=operator.now())
        _show(evidence.result)
        if evidence.result.outcome != "success":
            raise CommandError(f"the last turn ended as {evidence.result.outcome} ({evidence.result.code})")
        _print_step(5, "What happened, by the record and by the broker's tap")
        await _tell_account(operator, place, evidence, wo_id)


async def _ask(door: Bus, place: Place, text: str, session_id: str | None) -> TurnResult:
    host = place.snapshot.config.host
    turn = ProcessTurn(session_id=session_id, input_id=door.new_id(), text=text)
    return await process_turn(door, turn, timeout_s=host.turn_timeout_ms / 1000)


async def _kill_in_the_middle(
    bus: Bus, place: Place, session_id: str, turn: asyncio.Task[TurnResult]
) -> tuple[Kill, str]:
    """Kill the executor between its prompt and the model's answer; return the kill and its order."""
    timeout_s = place.client_timeout_s
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
    peers = await read_peers(bus, timeout_s=timeout_s)
    [victim] = [row for row in peers.peers if row.role == "ho1"]  # a cluster begins with one
    row = next(row for row in find_running(place.home).children if row.instance == victim.instance)
    await bus.sleep(2 * limits.LANE_FRAMES_MS / 1000)  # until its lane has told the tap of the order's first delivery
    killed_at = bus.now()
    if turn.done() or not identity.end(row.pid, row.mark, signal.SIGKILL):
        raise CommandError(f"{row.actor} could not be killed inside the turn")
    wo_id = sent[-1].provenance.work_order_id
    at_work = f"at work order {short(wo_id)}"
    _print_fact(f"SIGKILL to {row.actor} (pid {row.pid}), {at_work}: the model has the prompt and thinks", "red")
    return Kill(row.actor, row.instance, row.pid, killed_at), wo_id


async def _tell_account(bus: Bus, place: Place, evidence: TurnEvidence, wo_id: str) -> None:
    """Tell the last turn, moment by moment, and what follows. Raises CommandError when it is not as promised."""
    timeout_s = place.client_timeout_s
    await bus.sleep(2 * place.snapshot.config.ledger.lazy_commit_ms / 1000)  # then what nobody waits for is there, too
    session_id = evidence.result.session_id
    found: list[Entry] = []
    for stream in (name_session_stream(session_id), "prompts", "ho1m"):
        question = Read(stream=stream, limit=_STREAM_MAX, with_bodies=True)
        found += (await read_pages(bus, question, timeout_s=timeout_s))[0]
    of_run = [
        one for one in found if one.provenance.session_id == session_id and one.provenance.run_seq == len(QUESTIONS)
    ]
    about = [one for one in of_run if one.provenance.work_order_id == wo_id or one.event_type in _OF_THE_TURN]
    evidence.entries = sorted(about, key=lambda one: one.sequence)
    orders = list_orders(await read_ring(place, since_s=_RING_S))
    evidence.deliveries = [one for one in orders if one.message_id.startswith(wo_id)]
    print_all(moment_lines(make_timeline(evidence), _INDENT))
    try:
        for text in list_outcome(wo_id, evidence):
            _print_fact(f"=> {text}")
    except Unproved as error:
        raise CommandError(f"the record does not show it: {error}") from error
    run = run_file.read(place.home.run_file)
    for row in run.children if run is not None else ():
        if row.restarts:
            _print_fact(
                f"=> {row.actor} is {row.state} again as {row.instance}, ready {row.ready_after_ms} ms after its start"
            )


def _print_step(number: int, text: str) -> None:
    say()
    say_prose(style(f"[{number}/{_STEPS}] ", None, bold=True), text, bold=True)


def _print_fact(text: str, colour: str | None = None) -> None:
    say_prose(_INDENT, text, colour)


def _show(result: TurnResult) -> None:
    for line in result.response.splitlines():
        say_prose("    > ", line)
    cost = result.cost
    calls = f"{format_count(cost.llm_calls, 'model call')}, {format_count(cost.tool_calls, 'tool call')}"
    _print_fact(f"{result.outcome} in {result.elapsed_ms} ms, {calls}")
