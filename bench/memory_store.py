"""P16: what a read of memory and a durable signal cost beside LangGraph's SqliteStore: `python -m bench.memory_store`.

Store against store, no bus on either side. Ours holds so many artifacts and source events of 2,000 signals, logged over a year; a
hundred of the signals are alive, the others went quiet one after another. A read is what a turn asks (read_active_biases, then
`weigh` for two labels within the shipped budget), as of the head; a write is one signal, durable in the ledger (its chain,
its sync), counted, its gate judged. The peer holds as many items, searches by two labels for twenty and puts one; both sides
take turns. What the memory process would hold is its growth (RSS) while it was filled.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil

from bench.builders import shipped_snapshot
from bench.memory_eval.worlds import DAY_US
from bench.peers.environment import LinePeer, python_or_exit
from bench.report import Goal, arguments, goals_table, machine, markdown, percentile, rows_table, told
from bench.turn import LANGGRAPH
from hobus.actors.ho2_supervisor.turn.recall import weigh
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
VOCABULARY = shipped_snapshot().config.classify_labels
SIGNALS, ALIVE = 2000, 100
DAYS = 350
_HABIT_DAYS = 60
READS, WRITES = 20, 100
_WRITES_PER_SESSION = 40
_FIRST_NEW_SESSION = 1_000_000
GOALS = (
    Goal("P16", "read_active_biases, times as fast", "at least", 5.0, "reads", "x"),
    Goal("P16", "log_signal, times as fast", "at least", 1.5, "writes", "x"),
    Goal("P16", "the process grew by", "at most", 150, "held", " MB"),
)
OURS, PEER = "ours", "LangGraph"


name_of = "tool:t{}".format
session_of = "00000000-0000-5000-8000-{:012d}".format


def event_id_of(name: str, session_id: str, run: int) -> str:
    return f"EVT-{session_id}-{run}-{name}"


def labels_of(number: int, other: int) -> Labels:
    """One label of each kind."""
    domain, task = VOCABULARY.domain, VOCABULARY.task
    return Labels(domain=[domain[number % len(domain)]], task=[task[other % len(task)]])


def artifact_of(number: int, event_ids: Sequence[str], at_us: int) -> Artifact:
    name, at = name_of(number), format_timestamp(at_us)
    gate = {"count": 5, "session_count": 3, "already_consolidated": False, "reason": "crossed"}
    return Artifact(
        artifact_id=derive_artifact_id(LOCAL, [name], at_us, model="m", prompt_pack_version="1"), principal=LOCAL, artifact_type="task_pattern",
        labels=labels_of(number, number // len(VOCABULARY.domain)),
        weight=(number % 100 + 1) / 100, scope="agent", created_at_event_ts=at, consolidation_event_ts=at,
        expires_at_event_ts=format_timestamp(at_us + 90 * DAY_US), window_start=format_timestamp(at_us - 1), window_end=at,
        context_line=f"User habit {number}: often inspects part {number % 977} of the package structure.",
        source_signal_ids=[name], source_event_ids=list(event_ids),
        gate_snapshot=GateResult(signal_id=name, crossed=True, **gate),
    )  # fmt: skip


class Ours:
    def __init__(self, ledger: LedgerService, directory: Path) -> None:
        config = shipped_snapshot().config
        self._budget = config.budget.ho3_bias_budget, config.attention.chars_per_token
        self._ledger = ledger
        self._call = Call("ho3/1@bench", "ho3", "m", 1, "", "", None, "ledger")
        self.memory = AgentMemory(AGENT, config.ho3, Databases(RealDisk(directory / "memory")).open())
        self._seq = 0
        self._now_us = DAYS * DAY_US

    def fill(self, artifacts: int, events: int) -> None:
        """Every signal is a habit of sixty days, three events a session; those of a hundred go on to the end."""
        for number in range(SIGNALS):
            name = name_of(number)
            quiet_after = _HABIT_DAYS + number * (DAYS - _HABIT_DAYS - 30) // SIGNALS
            life_us = DAY_US * (DAYS if number < ALIVE else quiet_after)
            per_signal = events // SIGNALS
            begin_us = life_us - _HABIT_DAYS * DAY_US
            times = [begin_us + (life_us - begin_us) * (place + 1) // per_signal for place in range(per_signal)]
            ids: list[str] = []
            for place, at_us in enumerate(times):
                session_id = session_of(place // EVENTS_PER_SESSION)
                ids.append(event_id_of(name, session_id, place % EVENTS_PER_SESSION + 1))
                self._apply("signal", f"HO3_SIGNAL:{AGENT}/{ids[-1]}", at_us, name, session_id)
            per_signal = artifacts // SIGNALS
            for place in range(per_signal):
                at_us = begin_us + (life_us - begin_us) * (place + 1) // per_signal
                made = artifact_of(number, ids[:5], at_us)
                self._apply("overlay", f"HO3_OVERLAY:{made.artifact_id}", at_us, made.artifact_id, artifact=made)

    def _apply(self, kind: Any, name: str, at_us: int, about: str, session_id: str = "", **more: Any) -> None:
        assert self.memory.apply(Fact(kind, self._seq, AGENT, name, at_us, about, session_id, principal=LOCAL, **more))
        self._seq += 1

    def read(self, number: int) -> tuple[float, int]:
        """Milliseconds, and how many lines were in force."""
        labels = labels_of(number, number)
        began = time.perf_counter()
        moment = PointInTime(self._now_us, self._seq)
        found = list(self.memory.list_active_biases(moment, principal=LOCAL, session_id=None))
        weigh(found, labels, *self._budget, format_timestamp(self._now_us))
        return 1000 * (time.perf_counter() - began), len(found)

    async def write(self, number: int) -> float:
        """Milliseconds until a new event of a living signal is durable and counts."""
        self._now_us += 60_000_000
        name = name_of(number % ALIVE)
        session_id = session_of(_FIRST_NEW_SESSION + number // _WRITES_PER_SESSION)
        signal = Signal(
            event_id=event_id_of(name, session_id, number % _WRITES_PER_SESSION + 1), signal_id=name, principal=LOCAL,
            session_id=session_id, at=format_timestamp(self._now_us),
        )  # fmt: skip
        began = time.perf_counter()
        entry = make_signal_entry(AGENT, signal, trace="", at_us=self._now_us)
        fact = make_signal_fact(AGENT, signal)
        # As the ledger's client makes it, of an entry that was checked when it was made.
        await self._ledger.on_write(Write(entries=[entry], urgent=True, parts=[]), self._call)
        self._seq += 1
        assert self.memory.apply(fact.at(self._seq))
        self.memory.gate(name, LOCAL, PointInTime(self._now_us, self._seq))
        return 1000 * (time.perf_counter() - began)


async def measure(artifacts: int, events: int, rounds: int, python: Path | None, directory: Path) -> dict[str, Any]:
    """Both sides filled, then measured in turns: milliseconds of each read and write, and what ours holds."""
    ledger = LedgerService(RealDisk(directory / "ledger"), shipped_snapshot().config.ledger)
    clock = SystemClock()
    ours_of = {"clock": clock, "now": clock.now, "new_id": clock.new_id, "sleep": asyncio.sleep}
    await ledger.start(SimpleNamespace(instance="ledger/1@bench", **ours_of))  # as much of a bus as it needs
    ours, own = Ours(ledger, directory), psutil.Process()
    empty_bytes, began = own.memory_info().rss, time.perf_counter()
    ours.fill(artifacts, events)
    held = {
        "artifacts": artifacts, "events": events, "the process grew by MB (RSS)": round((own.memory_info().rss - empty_bytes) / 1e6),
        "file MB": round(ours.memory.size_bytes / 1e6), "filled in s": round(time.perf_counter() - began, 1),
    }  # fmt: skip
    collector.settle()  # as the memory's process does once it is ready
    sides = [OURS] if python is None else [OURS, PEER]
    times = {side: {"reads": list[float](), "writes": list[float]()} for side in sides}
    with ExitStack() as stack:
        peer = None
        if python is not None:
            labels = {"domain": VOCABULARY.domain, "task": VOCABULARY.task}
            given = {"path": str(directory / "store.db"), "items": artifacts, **labels}
            peer = stack.enter_context(LinePeer(python, "langgraph_store.py", given))
            peer.ask({"reads": 1, "writes": 1})
        for number in range(rounds):
            for place in range(READS):
                took_ms, held["lines in force"] = ours.read(place)
                times[OURS]["reads"].append(took_ms)
            times[OURS]["writes"] += [await ours.write(number * WRITES + place) for place in range(WRITES)]
            for name, taken in peer.ask({"reads": READS, "writes": WRITES}).items() if peer is not None else ():
                times[PEER][name] += taken
    await ledger.drain()
    return {"held": held, "times": times}


def ratios(times: dict[str, dict[str, list[float]]]) -> dict[str, float]:
    """The peer's median over ours; empty without it."""
    if PEER not in times:
        return {}
    return {
        name: round(statistics.median(times[PEER][name]) / statistics.median(one), 1)
        for name, one in times[OURS].items()
    }


def table(found: dict[str, Any]) -> str:
    rows = [
        (name, *(round(percentile(values, percent), 3) for values in of.values() for percent in (50, 99)))
        for name, of in found["times"].items()
    ]
    reached = ratios(found["times"]) | {"held": found["held"]["the process grew by MB (RSS)"]}
    sides = markdown(("", "read p50 ms", "p99", "write p50 ms", "p99"), rows)
    return "\n\n".join((rows_table([found["held"]]), sides, goals_table(GOALS, reached)))


def main() -> None:
    parser = arguments(__doc__, json=True, no_peer=True, artifacts=100_000, events=1_000_000, rounds=5)
    given = parser.parse_args()
    python = None if given.no_peer else python_or_exit("langgraph", LANGGRAPH)
    before = machine()
    with tempfile.TemporaryDirectory(prefix="hobus-bench-") as directory:
        found = asyncio.run(measure(given.artifacts, given.events, given.rounds, python, Path(directory)))
    told(given, before, found | {"ratios": ratios(found["times"])}, table(found))


if __name__ == "__main__":
    main()
