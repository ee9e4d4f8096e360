"""P1 to P4: a durable, audited turn over the whole cluster of real processes, beside LangGraph with SqliteSaver in the same run.

Both sides do the same duty: two model calls that take no time and one tool call, with the same texts, every step
durable before the next one acts on it. `ho2.classify` and `ho3.enabled` are off, since the peer makes no third model
call and has no memory of habits. Long histories (`--longest`: 1000 turns, and so many) are made before anything is
measured, the peer's (at most 1000) at once. Then rounds: ten turns each in a new session (thread) of ten turns and in
the long ones, side after side. Bytes are those of the ledger's files (both directions of every prompt are in them), and
for the peer the growth of its database file. It runs in one process without a bus, supervision, budgets or an audit
record: that is what it is, not a handicap.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.cluster import Cluster, cluster, ledger_stats
from bench.peers.environment import LinePeer, python_or_exit
from bench.report import arguments, machine, percentile, told
from hobus.bus.messages.ids import is_call
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.bus.port import Bus
from hobus.launch.cluster.client import connect_bus
from hobus.ledger_service.reader import EntryFilter, read_entries

QUESTION = "what packages are installed?"
HISTORY, MEASURED, PEER_LONG = 10, 10, 1000
GOALS = {"P1 ratio": 1.3, "P2 ratio": 25.0, "P3 1000/10": 1.15, "P3 10000/10": 1.3, "P4 bytes": 12_000}
LANGGRAPH = ("langgraph==1.2.22", "langgraph-checkpoint-sqlite==3.1.2")
ROWS = (
    ("2 model calls + 1 tool", {"ho2.classify": False, "ho3.enabled": False, "projection.mode": "off"}),
    ("as shipped: memory, classify, 2 model calls, 1 tool", {}),
)
RECORDED = ("commits", "syncs", "entries", "bytes_written")


class Peer(LinePeer):
    """LangGraph in a process of its own."""

    def __init__(self, python: Path, texts: dict[str, str], directory: Path) -> None:
        super().__init__(python, "langgraph_turn.py", {**texts, "directory": str(directory)})
        self.heard()

    def turns(self, thread: str, history: int) -> tuple[list[float], int]:
        """Milliseconds of the measured turns, and bytes that each added; a new thread gets its history first."""
        answer = self.ask({"thread": thread, "history": history, "measured": MEASURED})
        return answer["times"], answer["bytes_per_turn"]


async def ask(door: Bus, session_id: str | None) -> tuple[TurnResult, float]:
    turn = ProcessTurn(session_id=session_id, input_id=door.new_id(), text=QUESTION)
    started = time.perf_counter()
    result = await door.request("host", turn, expect=TurnResult, timeout_s=30)
    elapsed = time.perf_counter() - started
    if result.outcome != "success":
        raise SystemExit(f"a turn failed: {result.code}")
    return result, elapsed * 1000


async def talk(door: Bus, session_id: str | None, turns: int) -> tuple[str, list[float]]:
    """One turn after the other; the session, and the milliseconds of each."""
    times: list[float] = []
    for _ in range(turns):
        result, elapsed_ms = await ask(door, session_id)
        session_id = result.session_id
        times.append(elapsed_ms)
    return session_id, times


@dataclass(slots=True)
class Measured:
    """Of one side at one length, a value per round: milliseconds of each turn, and what a turn cost."""

    times: list[list[float]] = field(default_factory=list[list[float]])
    costs: list[dict[str, float]] = field(default_factory=list[dict[str, float]])

    def row(self) -> dict[str, float]:
        times = [time for one in self.times for time in one]
        costs = {name: round(statistics.median(one[name] for one in self.costs), 1) for name in self.costs[0]}
        return {"p50_ms": round(statistics.median(times), 2), "p99_ms": round(percentile(times, 99), 2), **costs}


async def taken(found: Cluster, door: Bus, operator: Bus, session_id: str, measured: Measured) -> None:
    """A round of this session: what the ledger counted and what each process used, per turn."""
    cpu, stats = found.cpu_s(), await ledger_stats(operator)
    measured.times.append((await talk(door, session_id, MEASURED))[1])
    await asyncio.sleep(0.05)  # what nobody waited for is in the record too
    cpu_after, after = found.cpu_s(), await ledger_stats(operator)
    cpu_ms = {f"CPU ms, {name}": (cpu_after[name] - cpu[name]) / MEASURED * 1000 for name in cpu}
    recorded = {name: (getattr(after, name) - getattr(stats, name)) / MEASURED for name in RECORDED}
    measured.costs.append({**recorded, "CPU ms": sum(cpu_ms.values()), **cpu_ms})


async def measure(found: Cluster, rounds: int, longest: int, python: Path | None, directory: Path) -> dict[str, Any]:
    lengths = [HISTORY, *sorted({min(PEER_LONG, longest), longest} - {HISTORY})]
    ours = {length: Measured() for length in lengths}
    theirs = {length: Measured() for length in lengths if python is not None and length <= PEER_LONG}
    async with AsyncExitStack() as stack:
        door = await stack.enter_async_context(connect_bus(found.place, "door"))
        operator = await stack.enter_async_context(connect_bus(found.place, "operator"))
        sample, _ = await talk(door, None, HISTORY + MEASURED)  # everything is loaded, every cache warm
        long = {length: (await talk(door, None, length))[0] for length in lengths[1:]}
        if python is not None:
            peer = stack.enter_context(await asyncio.to_thread(Peer, python, texts_of(found, sample), directory))
            for length in theirs:
                await asyncio.to_thread(peer.turns, f"history-{length}", length)
        for number in range(rounds):
            for length, measured in ours.items():
                session_id = long.get(length) or (await talk(door, None, length))[0]
                await taken(found, door, operator, session_id, measured)
            for length, measured in theirs.items():
                thread = f"round-{number}" if length == HISTORY else f"history-{length}"
                times, grown = await asyncio.to_thread(peer.turns, thread, length)
                measured.times.append(times)
                measured.costs.append({"bytes_written": grown})
    return {
        "ours, per turn": {str(length): one.row() for length, one in ours.items()},
        "peer, per turn": {str(length): one.row() for length, one in theirs.items()},
        "growth": {f"{one}/{HISTORY}": ratio(ours[one].times, ours[HISTORY].times) for one in lengths[1:]},
        "as fast as the peer": {str(one): ratio(theirs[one].times, ours[one].times) for one in theirs},
    }


def ratio(theirs: Sequence[Sequence[float]], ours: Sequence[Sequence[float]]) -> float:
    """How many times faster, median over the rounds: a machine that is slow for a while is slow for both."""
    pairs = zip(theirs, ours, strict=True)
    return round(statistics.median(statistics.median(t) / statistics.median(o) for t, o in pairs), 2)


def texts_of(found: Cluster, session_id: str) -> dict[str, str]:
    """What our model and tool said in the last turn, for the other side to say too."""
    entries = list(read_entries(found.home.ledger, EntryFilter(session=session_id), with_bodies=True))
    ends = [e for e in entries if e.event_type == "OrderEnded" and is_call(e.provenance.work_order_id)]
    outputs = [e.bodies[1] for e in ends if len(e.bodies) > 1]
    answers = [e.bodies[1] for e in entries if e.event_type == "PROMPT_RECEIVED" and e.bodies[1]]
    agent = found.place.snapshot.agents[found.place.snapshot.config.host.agent_id]
    tool_output, answer = (outputs[-1] or b"").decode(), (answers[-1] or b"").decode()
    return {"question": QUESTION, "tool_output": tool_output, "answer": answer, "system": agent.system_prompt}


def main() -> None:
    given = arguments(
        __doc__, json=True, no_peer=True, rounds=10, longest=(HISTORY, "turns of the longest history")
    ).parse_args()
    python = None if given.no_peer else python_or_exit("langgraph", LANGGRAPH)
    before = machine()
    with cluster(ROWS[0][1]) as found, tempfile.TemporaryDirectory(prefix="hobus-bench-") as directory:
        measured = asyncio.run(measure(found, given.rounds, given.longest, python, Path(directory)))
    print(f"a turn by the length of its session's history ({given.rounds} rounds of {MEASURED} turns)")
    told(given, before, {"goals": GOALS, **measured})


if __name__ == "__main__":
    main()
