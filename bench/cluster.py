"""A real cluster in a directory of its own, driven through the command line as a user drives it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench.builders import write_config
from hobus.bus.clock import SystemClock
from hobus.bus.messages.ledger import Entries, Entry, LedgerStats, ReadLedgerStats, Tail
from hobus.bus.messages.session import Cancel, CommandVerdict, ProcessTurn, SessionCommand, SessionConfig, TurnResult
from hobus.bus.port import Bus
from hobus.launch.cluster import identity, run_file
from hobus.launch.cluster.client import place_of
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home, find_holder, make_home
from hobus.launch.cluster.run_file import ChildRow, RunFile
from hobus.launch.lab.simulation.record import check_record
from hobus.launch.launcher.children import make_environment
from hobus.launch.sessions.commands import Fences, make_host_command
from hobus.launch.sessions.turns import process_turn
from hobus.launch.sessions.watched_turn import answer_of
from hobus.ledger_service.reader import read_entries
from hobus.ledger_service.segment import DIRECTORY
from hobus.ledger_service.verify import VerifyReport, verify_directory

COMMAND_TIMEOUT_S = 120.0
LOOK_INTERVAL_S = 0.01
BROKER_DEFECTS = ('"broker_step_failed"', '"tap_failed"')


@dataclass(slots=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def begun(*words: str | bytes, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[bytes]:
    """`hobus WORDS`, beside this process; what it prints comes by pipes, unless the options say otherwise."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "hobus", *words], env=make_environment() | (env or {}), **streams
    )


FORGE: list[Any] = []
"""Where commands are forked, if somebody keeps such a process (tests/process/commands.py); else each loads what it needs."""


def hobus(
    *words: str, stdin: bytes = b"", env: dict[str, str] | None = None, cwd: Path | None = None,
    timeout_s: float = COMMAND_TIMEOUT_S,
) -> Answer:  # fmt: skip
    given = make_environment() | (env or {})
    if FORGE and not stdin and FORGE[0].takes(words, env or {}):
        code, out, err = FORGE[0].run(words, env=given, cwd=cwd, timeout_s=timeout_s)
        return Answer(code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))
    command = [sys.executable, "-P", "-m", "hobus", *words]
    done = subprocess.run(command, input=stdin, capture_output=True, env=given, cwd=cwd, timeout=timeout_s, check=False)
    return Answer(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def eventually(what: Callable[[], Any], *, within_s: float = 60.0) -> Any:
    """The first true value of `what`; fails when there is none in time. What takes long is looked at less often."""
    deadline = time.monotonic() + within_s
    while (began := time.monotonic()) < deadline:
        value = what()
        if value:
            return value
        time.sleep(max(LOOK_INTERVAL_S, time.monotonic() - began))  # else it is this look that it would wait for
    raise AssertionError(f"not within {within_s} s")


@dataclass(slots=True)
class Cluster:
    home: Home
    env: dict[str, str] = field(default_factory=dict)
    asked: list[subprocess.Popen[bytes]] = field(default_factory=list)  # turns that a test has begun beside it
    timeout_s: float = COMMAND_TIMEOUT_S  # of each of its commands

    def __call__(self, command: str, *words: str, stdin: bytes = b"") -> Answer:
        """`hobus COMMAND --home <home> WORDS`; a family's subcommand is written `ledger verify`."""
        return hobus(
            *command.split(), "--home", str(self.home.root), *words, stdin=stdin, env=self.env, timeout_s=self.timeout_s
        )

    def begin(self, command: str, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        """A command on this home beside this process; see `begun`."""
        return begun(*command.split(), "--home", str(self.home.root), *words, env=self.env, **options)

    def up(self, *words: str, settings: Mapping[str, Any] | None = None) -> Answer:
        """Up, and every process ready, with the shipped configuration and these settings (dotted path -> value)."""
        config = self.home.root.with_name(f"{self.home.root.name}.json")
        given = ("--config", str(write_config(config, *settings.items()))) if settings else ()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that `end` has its say
        answer = self("up", "--wait", *words, *given)
        assert answer.code == 0, answer.out + answer.err
        return answer

    def run(self) -> RunFile:
        run = run_file.read(self.home.run_file)
        assert run is not None
        return run

    def row(self, actor: str) -> ChildRow:
        return next(row for row in self.run().children if row.actor == actor)

    def is_up(self, actor: str, *, other_than: str = "") -> bool:
        """Whether this actor is ready, in another incarnation than the given one."""
        row = self.row(actor)
        return row.state == "ready" and row.instance != other_than

    def ask(self, text: str, *words: str) -> dict[str, Any]:
        answer = self("ask", "--json", *words, text)
        assert answer.out, answer.err
        return answer.json

    def start_ask(self, text: str, *words: str) -> subprocess.Popen[bytes]:
        """A turn that runs while the test does something else."""
        self.asked.append(self.begin("ask", "--json", *words, text))
        return self.asked[-1]

    async def turn(self, text: str, *, timeout_s: float, **config: Any) -> TurnResult:
        """A turn of this process's own, beside others; `config`: what its run does in another way."""
        overrides = SessionConfig(**config) if config else None
        turn = ProcessTurn(input_id=SystemClock().new_id(), text=text, run_overrides=overrides)
        return await answer_of(self.place, turn, timeout_s=timeout_s)

    def kill(self, actor: str) -> ChildRow:
        """SIGKILL to this actor's process; its row as it was."""
        row = self.row(actor)
        assert identity.end(row.pid, row.mark, signal.SIGKILL)
        return row

    def entries(self, *event_types: str) -> list[Entry]:
        """The record with its bodies, oldest entry first; only these types, if any are given."""
        if not (self.home.ledger / DIRECTORY).is_dir():
            return []
        found = read_entries(self.home.ledger, with_bodies=True)
        return [entry for entry in found if not event_types or entry.event_type in event_types]

    def verify(self) -> VerifyReport:
        """What the verifier says; fails if the record is damaged."""
        report = verify_directory(self.home.ledger)
        assert report.fault is None, report
        return report

    def record_verdict(self) -> str:
        """`ok`, or what is wrong with the record by its invariants or the verifier."""
        try:
            check_record(self.entries())
            self.verify()
        except AssertionError as wrong:
            return str(wrong) or "broken"
        return "ok"

    @property
    def place(self) -> Place:
        return place_of(self.home, self.run())

    @property
    def processes(self) -> dict[str, psutil.Process]:
        return {row.actor: psutil.Process(row.pid) for row in self.run().children if row.pid}

    def cpu_s(self) -> dict[str, float]:
        """Seconds of CPU that each process and what it started have used so far."""
        return {actor: cpu_s_of([process]) for actor, process in self.processes.items()}

    def pss_kb(self) -> int:
        """Of all its processes, each page by the share that they have in it."""
        found = 0
        for process in family_in(self.home):
            with suppress(psutil.Error):
                found += process.memory_full_info().pss // 1024
        return found

    def living(self) -> list[str]:
        return [row.actor for row in self.run().children if identity.is_alive(row.pid, row.mark)]

    def defects(self) -> list[str]:
        """What the broker met and nobody has foreseen, as it logged it: never, whatever a test does to a cluster."""
        logs = self.home.logs.glob("broker-*") if self.home.logs.is_dir() else ()
        lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
        return [line for line in lines if any(event in line for event in BROKER_DEFECTS)]

    def end(self) -> None:
        """Down, if it is up; whatever is left is killed, so that a failing test leaves nothing, and fails no other."""
        for asked in self.asked:
            asked.kill()
            with asked:  # its pipes are closed, and it is waited for
                pass
        self.asked.clear()
        run = run_file.read(self.home.run_file) if self.home.run_file.exists() else None
        if run is None:
            return
        self("down")
        for pid, mark in [(run.launcher_pid, run.launcher_mark), *((row.pid, row.mark) for row in run.children)]:
            identity.end(pid, mark, signal.SIGKILL)


def cpu_s_of(processes: Iterable[psutil.Process]) -> float:
    """Seconds of CPU of these and of what they started, threads that have ended among them."""
    every = (one for process in processes for one in (process, *process.children(recursive=True)))
    return sum(sum(one.cpu_times()[:2]) for one in every)


def family_in(home: Home) -> list[psutil.Process]:
    """The launcher that holds this home, and everything that descends from it; none if nobody does."""
    with suppress(psutil.NoSuchProcess):
        if pid := find_holder(home):
            launcher = psutil.Process(pid)
            return [launcher, *launcher.children(recursive=True)]
    return []


def alive(processes: Sequence[psutil.Process]) -> list[int]:
    """Pids of those that still run; a zombie does not."""
    living: list[int] = []
    for one in processes:
        with suppress(psutil.NoSuchProcess):  # it ended between the two questions
            if one.is_running() and one.status() != psutil.STATUS_ZOMBIE:
                living.append(one.pid)
    return living


def cluster_in(directory: Path, env: dict[str, str] | None = None) -> Cluster:
    """A cluster that is not up yet; its home is `directory`."""
    return Cluster(make_home(directory), env or {})


@contextmanager
def temporary(name: str) -> Iterator[Path]:
    """A directory of its own, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix=f"hobus-{name}-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@contextmanager
def cluster(changes: Mapping[str, Any], *words: str, agents: Sequence[Mapping[str, Any]] = ()) -> Iterator[Cluster]:
    """Up with the shipped configuration and these settings (dotted path -> value); down and gone afterwards.

    `agents`: further ones of its home, as their files say.
    """
    with temporary("bench") as directory:
        made = cluster_in(directory / "home")
        for agent in agents:
            path = made.home.config / "agents" / f"{agent['agent_id']}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(agent))
        try:
            made.up(*words, settings=changes)
            yield made
        finally:
            made.end()


async def ledger_stats(operator: Bus) -> LedgerStats:
    return await operator.request("ledger", ReadLedgerStats(), expect=LedgerStats, timeout_s=5)


async def head_of(operator: Bus) -> int:
    return (await operator.request("ledger", Tail(after=-1, limit=1), expect=Entries, timeout_s=5)).head


async def next_entry(operator: Bus, after: int, event_type: str) -> Entry:
    """The first entry of this type behind that sequence, as soon as it is durable."""
    while True:
        tail = Tail(after=after, limit=500, wait_ms=1000)
        page = await operator.request("ledger", tail, expect=Entries, timeout_s=5)
        for entry in page.entries:
            after = entry.sequence
            if entry.event_type == event_type:
                return entry


async def answered(
    door: Bus, text: str, *, input_id: str, session_id: str | None = None, timeout_s: float, stream: bool = False
) -> TurnResult:
    """One turn, asked again under its input id while that may help. Raises RuntimeFault."""
    turn = ProcessTurn(session_id=session_id, input_id=input_id, text=text, stream=stream)
    return await process_turn(door, turn, timeout_s=timeout_s)


async def cancelled(operator: Bus, session_id: str, name: str) -> None:
    """The run of this session is cancelled by its operator; fails if that is rejected."""
    command = make_host_command(session_id, Cancel(reason="enough"), Fences(), f"cancel-{name}")
    question = SessionCommand(session_id=session_id, command=command)
    verdict = await operator.request("ho2", question, expect=CommandVerdict, timeout_s=20, key=session_id)
    assert verdict.outcome == "applied", f"the cancel was rejected: {verdict.reason}"
