"""P1: a durable, audited turn over the whole cluster of real processes, beside LangGraph with SqliteSaver in the same run.

usage: python -m bench.turn [--rounds 10] [--no-peer] [--json FILE]

Both sides do the same duty: two model calls that take no time and one tool call, with the same texts, every step durable
before the next one acts on it; ten turns of history, then ten measured ones, round after round in a new session (thread),
the two sides taking turns. The first row is measured with `ho2.classify` and `ho3.enabled` off, since a classification is a
third model call that the peer does not make, and it has no memory of habits to read and log; the second row is the turn as
shipped, three calls and memory against the peer's two calls.

Then, per turn: ledger commits (= syncs), entries and bytes, and CPU by process. LangGraph gets an environment of its own in a
cache directory (`bench/peers`), and runs in one process without a bus, supervision, budgets or an audit record: that is what it
is, not a handicap.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from bench.cluster import Cluster, cluster, ledger_stats
from bench.peers.environment import LinePeer, python_or_exit
from bench.report import arguments, machine, measured_on, percentile, say, write_json
from hobus.bus.messages.ids import is_call
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.bus.port import Bus
from hobus.launch.cluster.client import connect_bus
from hobus.ledger_service.reader import EntryFilter, read_entries

QUESTION = "what packages are installed?"
HISTORY, MEASURED = 10, 10
GOAL = 1.3
LANGGRAPH = ("langgraph==1.2.22", "langgraph-checkpoint-sqlite==3.1.2")
ROWS = (
    (
        "2 model calls + 1 tool (ho2.classify, ho3.enabled and projection.mode off)",
        {"ho2.classify": False, "ho3.enabled": False, "projection.mode": "off"},
    ),
    ("as shipped: memory, classify, 2 model calls, 1 tool", {}),
)


class Peer(LinePeer):
    """LangGraph in a process of its own."""

    threads = 0

    def __init__(self, python: Path, texts: dict[str, str], directory: Path) -> None:
        super().__init__(python, "langgraph_turn.py", {**texts, "directory": str(directory)})
        self.heard()

    def round(self) -> list[float]:
        """A new thread, its history taken turn by turn."""
        self.threads += 1
        return self.turns(f"round-{self.threads}", taken=HISTORY, measured=MEASURED)[0]

    def turns(self, thread: str, *, written: int = 0, taken: int = 0, measured: int) -> tuple[list[float], int]:
        """Milliseconds of the measured turns, and bytes that each added; a new thread gets its history first."""
        answer = self.ask({"thread": thread, "written": written, "taken": taken, "measured": measured})
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
    assert session_id is not None
    return session_id, times


async def our_round(door: Bus) -> tuple[str, list[float]]:
    session_id, _ = await talk(door, None, HISTORY)
    return await talk(door, session_id, MEASURED)


async def measure(found: Cluster, rounds: int, python: Path | None, directory: Path) -> dict[str, Any]:
    async with AsyncExitStack() as stack:
        door = await stack.enter_async_context(connect_bus(found.place, "door"))
        operator = await stack.enter_async_context(connect_bus(found.place, "operator"))
        session_id, _ = await our_round(door)  # everything is loaded, every cache warm
        peer = None
        if python is not None:
            peer = stack.enter_context(await asyncio.to_thread(Peer, python, texts_of(found, session_id), directory))
            await asyncio.to_thread(peer.round)
        ours: list[list[float]] = []
        theirs: list[list[float]] = []
        cpu: dict[str, float] = dict.fromkeys(found.processes, 0.0)
        before = await ledger_stats(operator)
        for _ in range(rounds):
            cpu_before = found.cpu_s()
            ours.append((await our_round(door))[1])
            cpu_after = found.cpu_s()
            cpu = {actor: cpu[actor] + cpu_after[actor] - cpu_before[actor] for actor in cpu}
            if peer is not None:
                theirs.append(await asyncio.to_thread(peer.round))
        after = await ledger_stats(operator)
    turns = rounds * (HISTORY + MEASURED)
    by_process = {actor: round(seconds / turns * 1000, 1) for actor, seconds in cpu.items()}
    counted = ("commits", "syncs", "entries", "bytes_written")
    return {
        **percentiles("", ours),
        **(percentiles("peer_", theirs) | {"peer_ratio": ratio(theirs, ours)} if theirs else {}),
        **{f"{name}_per_turn": round((getattr(after, name) - getattr(before, name)) / turns, 1) for name in counted},
        "cpu_ms_per_turn": round(sum(by_process.values()), 1),
        "cpu_ms_by_process": by_process,
    }


def percentiles(prefix: str, rounds: Sequence[Sequence[float]]) -> dict[str, float]:
    times = [time for one in rounds for time in one]
    return {
        f"{prefix}p50_ms": round(statistics.median(times), 2),
        f"{prefix}p99_ms": round(percentile(times, 99), 2),
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
    parser = arguments(__doc__, json=True, no_peer=True)
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    python = None if given.no_peer else python_or_exit("langgraph", LANGGRAPH)
    before, rows = machine(), dict[str, Any]()
    for name, changes in ROWS:
        with cluster(changes) as found, tempfile.TemporaryDirectory(prefix="hobus-bench-") as directory:
            rows[name] = asyncio.run(measure(found, given.rounds, python, Path(directory)))
    print(f"a turn, every step durable, {HISTORY} turns of history ({given.rounds} rounds of {MEASURED} turns)")
    result = {"measured_on": measured_on(before), "goal of peer_ratio": GOAL, **rows}
    say(result)
    write_json(given.json, result)


if __name__ == "__main__":
    main()
