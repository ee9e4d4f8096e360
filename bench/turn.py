"""P1: a durable, audited turn over the whole cluster of real processes, beside LangGraph with SqliteSaver in the same run.

usage: python -m bench.turn [--rounds 10] [--no-peer] [--json FILE]

Both sides do the same duty: two model calls that take no time and one tool call, with the same texts, every step durable
before the next one acts on it; ten turns of history, then ten measured ones, round after round in a new session (thread),
the two sides taking turns. The first row is measured with `ho2.classify` and `ho3.enabled` off, since a classification is a
third model call that the peer does not make, and it has no memory of habits to read and log; the second row is the turn as
shipped, three calls and memory against the peer's two calls.

Then, per turn: ledger commits (= syncs), entries and bytes by event, and CPU by process. LangGraph gets an environment of its own in a cache directory (`bench/peers`), and
runs in one process without a bus, supervision, budgets or an audit record: that is what it is, not a handicap.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.cluster import Cluster, cluster, ledger_stats
from bench.peers.environment import python_or_exit
from bench.report import arguments, machine, measured_on, percentile, say_machine, write_json
from hobus.bus.messages.ids import is_call
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.bus.port import Bus
from hobus.launch.cluster.client import connect_bus
from hobus.ledger_service.reader import EntryFilter, read_entries

QUESTION = "what packages are installed?"
HISTORY, MEASURED = 10, 10
GOAL = 1.5
LANGGRAPH = ("langgraph==1.2.22", "langgraph-checkpoint-sqlite==3.1.2")
ROWS = (
    (
        "2 model calls + 1 tool (ho2.classify, ho3.enabled and projection.mode off)",
        {"ho2.classify": False, "ho3.enabled": False, "projection.mode": "off"},
    ),
    ("as shipped: memory, classify, 2 model calls, 1 tool", {}),
)


# --- the peer ---------------------------------------------------------------------------------------------------------


class Peer:
    """LangGraph in a process of its own, one round at a time."""

    threads = 0

    def __init__(self, python: Path, texts: dict[str, str], directory: Path) -> None:
        script = Path(__file__).parent / "peers" / "langgraph_turn.py"
        given = json.dumps({**texts, "directory": str(directory)})
        self._process = subprocess.Popen(
            [str(python), "-E", str(script), given], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._line()

    def round(self) -> list[float]:
        """A new thread, its history taken turn by turn."""
        self.threads += 1
        return self.turns(f"round-{self.threads}", taken=HISTORY, measured=MEASURED)[0]

    def turns(self, thread: str, *, written: int = 0, taken: int = 0, measured: int) -> tuple[list[float], int]:
        """Milliseconds of the measured turns, and bytes that each added; a new thread gets its history first."""
        self._ask({"thread": thread, "written": written, "taken": taken, "measured": measured})
        answer = json.loads(self._line())
        return answer["times"], answer["bytes_per_turn"]

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self, threads: Sequence[str], turns: int) -> None:
        """It takes so many turns of each of these threads, all asking at once; `waited` is the answer."""
        self._ask({"threads": threads, "turns": turns})

    def note_wait(self) -> list[float]:
        """Milliseconds that each turn was waited for, once the last one is answered."""
        return json.loads(self._line())

    def _ask(self, asked: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the peer ended; its own words stand above")
        return line

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


# --- ours -------------------------------------------------------------------------------------------------------------


async def ask(door: Bus, session_id: str | None) -> tuple[TurnResult, float]:
    turn = ProcessTurn(session_id=session_id, input_id=door.new_id(), text=QUESTION)
    started = time.perf_counter()
    result = await door.request("host", turn, expect=TurnResult, timeout_s=30)
    elapsed = time.perf_counter() - started
    if result.outcome != "success":
        raise SystemExit(f"a turn failed: {result.code}")
    return result, elapsed * 1000


async def our_round(door: Bus) -> tuple[str, list[float]]:
    first, _ = await ask(door, None)
    for _ in range(HISTORY - 1):
        await ask(door, first.session_id)
    return first.session_id, [(await ask(door, first.session_id))[1] for _ in range(MEASURED)]


# --- one row ----------------------------------------------------------------------------------------------------------


async def measure(found: Cluster, rounds: int, python: Path | None, directory: Path) -> dict[str, Any]:
    async with connect_bus(found.place, "door") as door, connect_bus(found.place, "operator") as operator:
        session_id, _ = await our_round(door)  # everything is loaded, every cache warm
        texts = texts_of(found, session_id)
        peer = None if python is None else await asyncio.to_thread(Peer, python, texts, directory)
        if peer is not None:
            await asyncio.to_thread(peer.round)
        ours: list[list[float]] = []
        theirs: list[list[float]] = []
        cpu: dict[str, float] = dict.fromkeys(found.processes, 0.0)
        before = await ledger_stats(operator)
        for _ in range(rounds):
            cpu_before = found.cpu_s()
            session_id, times = await our_round(door)
            cpu_after = found.cpu_s()
            cpu = {actor: cpu[actor] + cpu_after[actor] - cpu_before[actor] for actor in cpu}
            ours.append(times)
            if peer is not None:
                theirs.append(await asyncio.to_thread(peer.round))
        after = await ledger_stats(operator)
        if peer is not None:
            peer.close()
    turns = rounds * (HISTORY + MEASURED)
    entries = turns_of(list(read_entries(found.home.ledger, EntryFilter(session=session_id))))[
        HISTORY : HISTORY + MEASURED
    ]
    by_process = {actor: round(seconds / turns * 1000, 1) for actor, seconds in cpu.items()}
    return {
        **percentiles("", ours),
        **(percentiles("peer_", theirs) | {"peer_ratio": ratio(theirs, ours)} if theirs else {}),
        "commits_per_turn": round((after.commits - before.commits) / turns, 1),
        "syncs_per_turn": round((after.syncs - before.syncs) / turns, 1),
        "entries_per_turn": round((after.entries - before.entries) / turns, 1),
        "bytes_per_turn": round((after.bytes_written - before.bytes_written) / turns),
        "cpu_ms_per_turn": round(sum(by_process.values()), 1),
        "cpu_ms_by_process": by_process,
        "body_bytes_by_event": bytes_by_event(entries),
        "texts_bytes": {name: len(text.encode()) for name, text in texts.items()},
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


def turns_of(entries: Sequence[Entry]) -> list[list[Entry]]:
    """The entries of each turn of a session, in the order of the ledger."""
    turns: list[list[Entry]] = []
    for entry in entries:
        if entry.event_type == "RunRequested":
            turns.append([])
        if turns:
            turns[-1].append(entry)
    return turns


def bytes_by_event(turns: Sequence[Sequence[Entry]]) -> dict[str, str]:
    """`count x mean bytes of their bodies` of each event type in one turn, largest first."""
    found: dict[str, list[int]] = {}
    for turn in turns:
        for entry in turn:
            found.setdefault(entry.event_type, []).append(sum(entry.body_lengths))
    rows = sorted(found.items(), key=lambda item: -sum(item[1]))
    return {name: f"{len(sizes) / len(turns):.1f} x {statistics.mean(sizes):.0f} B" for name, sizes in rows}


# --- one run ----------------------------------------------------------------------------------------------------------


def run(rounds: int, python: Path | None) -> dict[str, Any]:
    rows = []
    before = machine()
    for name, changes in ROWS:
        with cluster(changes) as found, tempfile.TemporaryDirectory(prefix="hobus-bench-") as directory:
            row = asyncio.run(measure(found, rounds, python, Path(directory)))
        rows.append({"row": name, **row})
    return {"measured_on": measured_on(before), "rounds": rounds, "goal": GOAL, "rows": rows}


def show(result: dict[str, Any]) -> None:
    print(f"a turn, every step durable, {HISTORY} turns of history ({result['rounds']} rounds of {MEASURED} turns)")
    say_machine(result["measured_on"])
    for row in result["rows"]:
        print(f"\n{row['row']}")
        if "peer_ratio" in row:
            verdict = "met" if row["peer_ratio"] >= GOAL else "missed"
            print(f"    {row['peer_ratio']} x as fast as LangGraph + SqliteSaver sync (goal {GOAL}: {verdict})")
        for name, value in row.items():
            if isinstance(value, dict):
                print(f"    {name}:")
                for key, part in value.items():
                    print(f"        {key:56} {part}")
            elif name != "row":
                print(f"    {name:28} {value}")


def main() -> None:
    parser = arguments(__doc__, json=True, no_peer=True)
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    python = None if given.no_peer else python_or_exit("langgraph", LANGGRAPH)
    result = run(given.rounds, python)
    show(result)
    write_json(given.json, result)


if __name__ == "__main__":
    main()
