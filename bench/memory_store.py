"""P16: what a read of memory and a durable signal cost beside LangGraph's SqliteStore: `python -m bench.memory_store`.

usage: python -m bench.memory_store [--artifacts 100000] [--events 1000000] [--rounds 5] [--no-peer] [--json FILE]

Store against store, no bus on either side. Ours holds so many artifacts and source events of 2,000 signals, logged over a year; a
hundred of the signals are alive, the others went quiet one after another. A read is what a turn asks (read_active_biases, then
`select_biases` for two labels within the shipped budget), as of the head; a write is one signal, durable in the ledger (its chain,
its sync), counted, its gate judged. The peer holds as many items, searches by two labels for twenty and puts one; both sides
take turns. What the memory process would hold is its growth (RSS) while it was filled.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench.builders import shipped_snapshot
from bench.memory_eval.worlds import DAY_US
from bench.peers.environment import python_or_exit
from bench.report import arguments, goal_row, machine, markdown, measured_on, percentile, say_machine, write_json
from bench.turn import LANGGRAPH
from hobus.actors.ho2_supervisor.turn.recall import TokenBudget, select_biases
from hobus.actors.ho3_memory.agent_memory import AgentMemory
from hobus.actors.ho3_memory.database import Databases
from hobus.actors.ho3_memory.event_time import PointInTime, format_timestamp
from hobus.actors.ho3_memory.records import Fact, make_signal_entry, make_signal_fact
from hobus.bus import collector
from hobus.bus.clock import SystemClock
from hobus.bus.disk import RealDisk
from hobus.bus.dispatch import Call
from hobus.bus.messages.ids import LOCAL, derive_artifact_id
from hobus.bus.messages.ledger import Write
from hobus.bus.messages.memory import Artifact, GateResult, Labels, Signal
from hobus.ledger_service.service import LedgerService

AGENT = "ADMIN"
EVENTS_PER_SESSION = 3
_SESSION = "00000000-0000-5000-8000-{:012d}"
VOCABULARY = shipped_snapshot().config.classify_labels
SIGNALS, ALIVE = 2000, 100
DAYS = 350
_HABIT_DAYS = 60
READS, WRITES = 20, 100
_WRITES_PER_SESSION = 40
_FIRST_NEW_SESSION = 1_000_000
GOALS = {"read": 5.0, "write": 1.5, "held_mb": 150}
OURS, PEER = "ours", "LangGraph"


# --- what a memory is filled with


def name_of(number: int) -> str:
    """The signal of a habit."""
    return f"tool:t{number}"


def session_of(number: int) -> str:
    return _SESSION.format(number)


def event_id_of(name: str, session_id: str, run: int) -> str:
    return f"EVT-{session_id}-{run}-{name}"


def event_ids_of(name: str, count: int) -> list[str]:
    """So many events of a habit, a few in each session."""
    return [
        event_id_of(name, session_of(place // EVENTS_PER_SESSION), place % EVENTS_PER_SESSION + 1)
        for place in range(count)
    ]


def signal_of(name: str, session_id: str, run: int, at_us: int) -> Signal:
    """One event."""
    return Signal(
        event_id=event_id_of(name, session_id, run), signal_id=name, principal=LOCAL, session_id=session_id,
        at=format_timestamp(at_us),
    )  # fmt: skip


def labels_of(number: int) -> Labels:
    """What a turn is about that asks for this one's: one label of each kind."""
    domain, task = VOCABULARY.domain, VOCABULARY.task
    return Labels(domain=[domain[number % len(domain)]], task=[task[number % len(task)]])


def artifact_of(number: int, event_ids: Sequence[str], at_us: int) -> Artifact:
    """What was learned of a habit then."""
    name, at = name_of(number), format_timestamp(at_us)
    domain, task = VOCABULARY.domain, VOCABULARY.task
    return Artifact(
        artifact_id=derive_artifact_id(LOCAL, [name], at_us, model="m", prompt_pack_version="1"), principal=LOCAL, artifact_type="task_pattern",
        labels=Labels(domain=[domain[number % len(domain)]], task=[task[number // len(domain) % len(task)]]),
        weight=(number % 100 + 1) / 100, scope="agent", created_at_event_ts=at, consolidation_event_ts=at,
        expires_at_event_ts=format_timestamp(at_us + 90 * DAY_US), window_start=format_timestamp(at_us - 1), window_end=at,
        context_line=f"User habit {number}: often inspects part {number % 977} of the package structure.",
        source_signal_ids=[name], source_event_ids=list(event_ids),
        gate_snapshot=GateResult(
            signal_id=name, crossed=True, count=5, session_count=3, already_consolidated=False, reason="crossed"
        ),
    )  # fmt: skip


# --- the two sides


class _Bus:
    """The ledger's view of a process without a transport."""

    instance = "ledger/1@bench"

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.now = self.clock.now
        self.new_id = self.clock.new_id

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Ours:
    """One agent's memory, and a ledger that it logs to."""

    def __init__(self, ledger: LedgerService, directory: Path) -> None:
        config = shipped_snapshot().config
        assert config.ho3 is not None
        self._budget = shipped_budget()
        self._ledger = ledger
        self._call = Call("ho3/1@bench", "ho3", "m", 1, "", "", None, "ledger")
        self.memory = AgentMemory(AGENT, config.ho3, Databases(RealDisk(directory / "memory")).open())
        self._seq = 0
        self._now_us = DAYS * DAY_US

    def fill(self, artifacts: int, events: int) -> None:
        """Every signal is a habit of sixty days, three events a session; those of a hundred go on to the end."""
        for number in range(SIGNALS):
            name = name_of(number)
            life_us = (
                DAYS * DAY_US
                if number < ALIVE
                else DAY_US * (_HABIT_DAYS + number * (DAYS - _HABIT_DAYS - 30) // SIGNALS)
            )
            per_signal = events // SIGNALS
            begin_us = life_us - _HABIT_DAYS * DAY_US
            times = [begin_us + (life_us - begin_us) * (place + 1) // per_signal for place in range(per_signal)]
            ids = event_ids_of(name, per_signal)
            for place, (event_id, at_us) in enumerate(zip(ids, times, strict=True)):
                session_id = session_of(place // EVENTS_PER_SESSION)
                self._apply("signal", f"HO3_SIGNAL:{AGENT}/{event_id}", at_us, name, session_id)
            per_signal = artifacts // SIGNALS
            for place in range(per_signal):
                self._learn(number, ids[:5], begin_us + (life_us - begin_us) * (place + 1) // per_signal)

    def _learn(self, number: int, event_ids: Sequence[str], at_us: int) -> None:
        made = artifact_of(number, event_ids, at_us)
        self._apply("overlay", f"HO3_OVERLAY:{made.artifact_id}", at_us, made.artifact_id, artifact=made)

    def _apply(self, kind: Any, name: str, at_us: int, about: str, session_id: str = "", **more: Any) -> None:
        assert self.memory.apply(Fact(kind, self._seq, AGENT, name, at_us, about, session_id, principal=LOCAL, **more))
        self._seq += 1

    def read(self, number: int) -> tuple[float, int]:
        """Milliseconds, and how many lines were in force."""
        labels = labels_of(number)
        began = time.perf_counter()
        moment = PointInTime(self._now_us, self._seq)
        found = list(self.memory.list_active_biases(moment, principal=LOCAL, session_id=None))
        select_biases(found, labels, self._budget, format_timestamp(self._now_us))
        return 1000 * (time.perf_counter() - began), len(found)

    async def write(self, number: int) -> float:
        """Milliseconds until a new event of a living signal is durable and counts."""
        self._now_us += 60_000_000
        name = name_of(number % ALIVE)
        session_id = session_of(_FIRST_NEW_SESSION + number // _WRITES_PER_SESSION)
        signal = signal_of(name, session_id, number % _WRITES_PER_SESSION + 1, self._now_us)
        began = time.perf_counter()
        entry = make_signal_entry(AGENT, signal, trace="", at_us=self._now_us)
        fact = make_signal_fact(AGENT, signal)
        # As the ledger's client makes it, of an entry that was checked when it was made.
        await self._ledger.on_write(Write(entries=[entry], urgent=True, parts=[]), self._call)
        self._seq += 1
        assert self.memory.apply(fact.at(self._seq))
        self.memory.gate(name, LOCAL, PointInTime(self._now_us, self._seq))
        return 1000 * (time.perf_counter() - began)


@dataclass(slots=True)
class Held:
    """What one agent's memory holds."""

    artifacts: int
    events: int
    fill_s: float
    rss_mb: int
    file_mb: int


def filled(ours: Ours, artifacts: int, events: int) -> Held:
    """From nothing on."""
    own = psutil.Process()
    empty_bytes, began = own.memory_info().rss, time.perf_counter()
    ours.fill(artifacts, events)
    took_s, bytes_now = time.perf_counter() - began, own.memory_info().rss
    return Held(
        artifacts, events, round(took_s, 1), round((bytes_now - empty_bytes) / 1e6), round(ours.memory.size_bytes / 1e6)
    )


class Peer:
    """LangGraph's store in its own process."""

    def __init__(self, python: Path, directory: Path, items: int) -> None:
        given = {
            "path": str(directory / "store.db"), "items": items, "domain": VOCABULARY.domain, "task": VOCABULARY.task,
        }  # fmt: skip
        script = Path(__file__).parent / "peers/langgraph_store.py"
        self._process = subprocess.Popen(
            [str(python), str(script), json.dumps(given)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def take(self, reads: int, writes: int) -> dict[str, list[float]]:
        """Milliseconds of each."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"reads": reads, "writes": writes}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@dataclass(slots=True)
class Times:
    """Of one side, milliseconds."""

    reads: list[float] = field(default_factory=list[float])
    writes: list[float] = field(default_factory=list[float])


async def measure(artifacts: int, events: int, rounds: int, python: Path | None, directory: Path) -> dict[str, Any]:
    """Both sides filled, then measured in turns."""
    ledger = LedgerService(RealDisk(directory / "ledger"), shipped_snapshot().config.ledger)
    await ledger.start(_Bus())  # pyright: ignore[reportArgumentType]
    ours = Ours(ledger, directory)
    held = filled(ours, artifacts, events)
    collector.settle()  # as the memory's process does once it is ready
    in_force = 0
    times = {OURS: Times()} | ({} if python is None else {PEER: Times()})
    with ExitStack() as stack:
        peer = None if python is None else Peer(python, directory, artifacts)
        if peer is not None:
            stack.callback(peer.close)
            peer.take(1, 1)
        for number in range(rounds):
            for place in range(READS):
                took_ms, in_force = ours.read(place)
                times[OURS].reads.append(took_ms)
            times[OURS].writes += [await ours.write(number * WRITES + place) for place in range(WRITES)]
            if peer is not None:
                taken = peer.take(READS, WRITES)
                times[PEER].reads += taken["reads"]
                times[PEER].writes += taken["writes"]
    await ledger.drain()
    return {"in_force": in_force, "held": held, "times": times}


def shipped_budget() -> TokenBudget:
    config = shipped_snapshot().config
    return TokenBudget(config.budget.ho3_bias_budget, config.attention.chars_per_token)


def p50(values: Sequence[float]) -> float:
    return round(statistics.median(values), 3)


def table(found: dict[str, Any]) -> str:
    """Sides, and the goals."""
    times: dict[str, Times] = found["times"]
    rows = [
        (
            name,
            *(value for values in (one.reads, one.writes) for value in (p50(values), round(percentile(values, 99), 3))),
        )
        for name, one in times.items()
    ]
    sides = markdown(("", "read p50 ms", "p99", "write p50 ms", "p99"), rows)
    reached = ratios(times)
    goals = [
        *goal_row("P16", "read_active_biases, times as fast", "at least", GOALS["read"], reached.get("read"), "x"),
        *goal_row("P16", "log_signal, times as fast", "at least", GOALS["write"], reached.get("write"), "x"),
        *goal_row("P16", "the process grew by", "at most", GOALS["held_mb"], found["held"].rss_mb, " MB"),
    ]
    return f"{sides}\n\n{markdown(('', 'what', 'goal', 'reached'), goals)}"


def held_table(one: Held) -> str:
    """What was held."""
    return markdown(
        ("artifacts", "events", "the process grew by MB (RSS)", "file MB", "filled in s"),
        [(f"{one.artifacts:,}", f"{one.events:,}", one.rss_mb, one.file_mb, one.fill_s)],
    )


def ratios(times: dict[str, Times]) -> dict[str, float]:
    """The peer's median over ours; empty without it."""
    peer = times.get(PEER)
    if peer is None:
        return {}
    ours = times[OURS]
    pairs = {"read": (peer.reads, ours.reads), "write": (peer.writes, ours.writes)}
    return {
        name: round(statistics.median(theirs) / statistics.median(mine), 1) for name, (theirs, mine) in pairs.items()
    }


def main() -> None:
    parser = arguments(__doc__, json=True, no_peer=True)
    parser.add_argument("--artifacts", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    python = None if given.no_peer else python_or_exit("langgraph", LANGGRAPH)
    before = machine()
    with tempfile.TemporaryDirectory(prefix="hobus-bench-") as directory:
        found = asyncio.run(measure(given.artifacts, given.events, given.rounds, python, Path(directory)))
    measured = measured_on(before)
    say_machine(measured)
    print(f"{found['in_force']:,} lines in force\n\n{held_table(found['held'])}\n\n{table(found)}")
    sides = {name: {"reads": one.reads, "writes": one.writes} for name, one in found["times"].items()}
    write_json(
        given.json,
        {
            **found,
            "held": asdict(found["held"]),
            "times": sides,
            "ratios": ratios(found["times"]),
            "measured_on": measured,
        },
    )


if __name__ == "__main__":
    sys.exit(main())
