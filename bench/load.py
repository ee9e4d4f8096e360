"""P1b: turns per second of 32 sessions at once on all cores, and what a turn costs then, beside LangGraph with SqliteSaver.

The like-for-like turn of `bench.turn` (two model calls that take no time, one tool call, every step durable before the next
one acts on it), and the turn as shipped. In each round every session is new, takes ten turns, and then, when all have theirs,
twenty measured ones, each asked as soon as the former is answered. LangGraph does the same for as many threads, divided among
one process per core, then among two per core, each process with a database of its own; the better of the two counts. The
sides take turns, in reversed order every other round; ratios are medians over the rounds.

CPU is that of every process of the cluster, from /proc, user and system time apart; that of the client, this process, is
said and not added. Entries, syncs and bytes are what the ledger counted under this load; the other counts are those of one
turn in the simulated cluster (`bench/counts.py`), where they are the same in each run.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from bench.cluster import Cluster, cluster, ledger_stats
from bench.counts import Counts, counted
from bench.peers.environment import python_or_exit
from bench.report import Goal, arguments, goals_table, machine, markdown, percentile, told
from bench.turn import HISTORY, LANGGRAPH, ROWS, Peer, ask, talk, texts_of
from hobus.bus.port import Bus
from hobus.launch.cluster.client import connect_bus

SESSIONS, MEASURED = 32, 20
WARM_TURNS = 2
DOCUMENT = Path("bench/results/speed.md")
RESULTS = Path("bench/results/load.json")
LIKE, SHIPPED = "like for like", "as shipped"
OURS = dict(zip((LIKE, SHIPPED), (changes for _, changes in ROWS), strict=True))
PEERS = {"LangGraph, one process per core": 1, "LangGraph, two per core": 2}
CLIENT = "client"
GOALS = (
    Goal("P1b", "turns/s / the better peer", "at least", 2.0, "ratio", "x"),
    Goal("P1b", "CPU of a like-for-like turn", "at most", 9.5, "cpu_like_ms", " ms"),
    Goal("P1b", "CPU of a turn as shipped", "at most", 15.0, "cpu_shipped_ms", " ms"),
    Goal("P1b", "ledger writes of a like-for-like turn", "at most", 8, "ledger_writes"),
    Goal("P1b", "frames that the broker receives, like for like", "at most", 12, "frames"),
)

Cpu = dict[str, tuple[float, float]]
"""Process -> user and system time of it and of what it started."""
Side = Callable[[int, int], Awaitable[tuple[list[float], float, Cpu, dict[str, float]]]]
"""(sessions, turns) -> of the measured turns: milliseconds, seconds of them all, CPU seconds, the ledger's counters."""


@dataclass(slots=True)
class Figures:
    """Of one side, a value per round."""

    turns_per_s: list[float] = field(default_factory=list[float])
    p50_ms: list[float] = field(default_factory=list[float])
    p99_ms: list[float] = field(default_factory=list[float])
    cpu_ms: list[Cpu] = field(default_factory=list[Cpu])  # per turn
    record: list[dict[str, float]] = field(default_factory=list[dict[str, float]])  # per turn, of the ledger's counters

    def add(self, times: Sequence[float], took_s: float, cpu_s: Cpu, record: dict[str, float]) -> None:
        self.turns_per_s.append(round(len(times) / took_s, 1))
        self.p50_ms.append(round(statistics.median(times), 1))
        self.p99_ms.append(round(percentile(times, 99), 1))
        ms = 1000 / len(times)
        self.cpu_ms.append(
            {name: (round(user * ms, 3), round(system * ms, 3)) for name, (user, system) in cpu_s.items()}
        )
        self.record.append({name: round(count / len(times), 2) for name, count in record.items()})

    def cpu_of(self, *names: str) -> list[float]:
        """User and system milliseconds per turn of these processes, and both together."""
        sums = [[sum(one[name][which] for name in names) for which in (0, 1)] for one in self.cpu_ms]
        return [statistics.median(values) for values in (*zip(*sums, strict=True), [sum(one) for one in sums])]

    @property
    def cpu(self) -> list[float]:
        """Of all processes but the client."""
        return self.cpu_of(*(name for name in self.cpu_ms[0] if name != CLIENT))


def used_s(processes: Mapping[str, Iterable[psutil.Process]], before: Cpu | None = None) -> Cpu:
    """So far, or since then; of ended children what their parents have waited for."""
    found: Cpu = {}
    for name, members in processes.items():
        times, (user, system) = [one.cpu_times() for one in members], (before or {}).get(name, (0.0, 0.0))
        found[name] = (
            sum(one.user + one.children_user for one in times) - user,
            sum(one.system + one.children_system for one in times) - system,
        )
    return found


def processes_of(found: Cluster) -> dict[str, list[psutil.Process]]:
    """Members with what they started (tools), the launcher with the processes that fork members, and the client."""
    named = {actor: [process, *process.children(recursive=True)] for actor, process in found.processes.items()}
    members = {one.pid for processes in named.values() for one in processes}
    launcher = psutil.Process(found.run().launcher_pid)
    own = [one for one in (launcher, *launcher.children(recursive=True)) if one.pid not in members]
    return {**named, "launcher": own, CLIENT: [psutil.Process()]}


async def ours(found: Cluster, door: Bus, operator: Bus, sessions: int, turns: int) -> Any:
    """New sessions, each with its history; then the measured turns of all of them."""
    ids = [session_id for session_id, _ in await asyncio.gather(*(talk(door, None, HISTORY) for _ in range(sessions)))]
    processes = processes_of(found)
    counts_before, cpu_before, began = await ledger_stats(operator), used_s(processes), time.perf_counter()
    talked = await asyncio.gather(*(talk(door, session_id, turns) for session_id in ids))
    took_s, cpu_s, counts = time.perf_counter() - began, used_s(processes, cpu_before), await ledger_stats(operator)
    record = {name: getattr(counts, name) - getattr(counts_before, name) for name in _RECORDED.values()}
    return [one for _, times in talked for one in times], took_s, cpu_s, record


class Together:
    """LangGraph in several processes."""

    def __init__(self, stack: AsyncExitStack, python: Path, texts: dict[str, str], directory: Path, count: int) -> None:
        self._rounds = 0
        self._peers: list[Peer] = []
        for number in range(count):
            own = directory / f"{count}-{number}"
            own.mkdir()
            self._peers.append(stack.enter_context(Peer(python, texts, own)))

    async def side(self, sessions: int, turns: int) -> Any:
        return await asyncio.to_thread(self._side, sessions, turns)

    def _side(self, sessions: int, turns: int) -> Any:
        """New threads, divided among the processes."""
        self._rounds += 1
        names = [f"round-{self._rounds}-{number}" for number in range(sessions)]
        self._take(names, HISTORY)
        processes = {f"peer/{number}": [psutil.Process(one.process.pid)] for number, one in enumerate(self._peers, 1)}
        cpu_before, began = used_s(processes), time.perf_counter()
        times = self._take(names, turns)
        return times, time.perf_counter() - began, used_s(processes, cpu_before), {}

    def _take(self, names: list[str], turns: int) -> list[float]:
        """Milliseconds that each turn was waited for, all threads asking at once."""
        count = len(self._peers)
        busy = [(peer, names[number::count]) for number, peer in enumerate(self._peers) if names[number::count]]
        for peer, own in busy:
            peer.tell({"threads": own, "turns": turns})
        return [waited_ms for peer, _ in busy for waited_ms in peer.heard()]


async def measure(
    clusters: dict[str, Cluster], given: Any, turns: int, python: Path | None, directory: Path
) -> dict[str, Figures]:
    """Every side in turn, round after round."""
    async with AsyncExitStack() as stack:
        sides: dict[str, Side] = {}
        for name, found in clusters.items():
            door = await stack.enter_async_context(connect_bus(found.place, "door"))
            operator = await stack.enter_async_context(connect_bus(found.place, "operator"))
            sides[name] = partial(ours, found, door, operator)
            sample, _ = await ask(door, None)
            if name == LIKE:
                texts = texts_of(found, sample.session_id)
        for name, per_core in PEERS.items() if python is not None else ():
            count = per_core * (os.cpu_count() or 1)
            peer = await asyncio.to_thread(Together, stack, python, texts, directory, count)
            sides[name] = peer.side
        for side in sides.values():
            await side(given.sessions, WARM_TURNS)
        found_of = {name: Figures() for name in sides}
        for number in range(given.rounds):
            for name in list(sides) if number % 2 == 0 else reversed(sides):
                found_of[name].add(*await sides[name](given.sessions, turns))
            rates = {name: figures.turns_per_s[-1] for name, figures in found_of.items()}
            print(f"round {number + 1}: turns/s {rates}", file=sys.stderr, flush=True)
        return found_of


def better_peer(found: dict[str, Figures]) -> str | None:
    """The one with more turns per second, median over the rounds."""
    there = [name for name in PEERS if name in found]
    return max(there, key=lambda name: statistics.median(found[name].turns_per_s), default=None)


def goals(found: dict[str, Figures], counts: dict[str, Counts]) -> dict[str, float]:
    """Each goal's figure; only those whose sides were measured."""
    reached: dict[str, float] = {
        "cpu_like_ms": round(found[LIKE].cpu[2], 1), "cpu_shipped_ms": round(found[SHIPPED].cpu[2], 1),
        "ledger_writes": counts[LIKE].ledger_writes, "frames": counts[LIKE].frames_received,
    }  # fmt: skip
    if (peer := better_peer(found)) is not None:
        pairs = zip(found[LIKE].turns_per_s, found[peer].turns_per_s, strict=True)
        reached["ratio"] = round(statistics.median(mine / theirs for mine, theirs in pairs), 2)
    return reached


_COUNTED = {
    "frames through the broker, received": "frames_received", "frames through the broker, sent": "frames_sent",
    "ledger writes": "ledger_writes", "bytes of all frames, the ledger's included": "wire_bytes",
    "pydantic validations": "validations", "`model_copy`": "model_copies", "calls of functions": "function_calls",
}  # fmt: skip
_RECORDED = {"entries": "entries", "syncs": "syncs", "bytes in the record": "bytes_written"}


def table(found: dict[str, Figures], counts: dict[str, Counts]) -> str:
    """Sides, CPU by process, counts, goals."""

    def short(value: float) -> float:
        return round(value) if value >= 100 else round(value, 1)

    sides = [
        (name, *(short(statistics.median(values)) for values in (one.turns_per_s, one.p50_ms, one.p99_ms)),
         *(round(one.cpu[which], 1) for which in (2, 0, 1)))
        for name, one in found.items()
    ]  # fmt: skip
    names = list(dict.fromkeys(name for side in OURS for name in found[side].cpu_ms[0]))
    cpu: list[list[object]] = []
    for name in sorted(names, key=lambda name: name in ("launcher", CLIENT)):
        there = [found[side].cpu_of(name)[:2] if name in found[side].cpu_ms[0] else ["", ""] for side in OURS]
        said = f"{name} (not added)" if name == CLIENT else name
        cpu.append([said, *(value and round(float(value), 1) for pair in there for value in pair)])
    per_turn: list[list[object]] = [
        [f"{said}, under load", *(short(statistics.median(one[name] for one in found[side].record)) for side in OURS)]
        for said, name in _RECORDED.items()
    ]
    per_turn += [[said, *(getattr(counts[side], name) for side in OURS)] for said, name in _COUNTED.items()]
    return "\n\n".join((
        markdown(("", "turns/s", "p50 ms", "p99 ms", "CPU ms per turn", "user", "system"), sides),
        markdown(("CPU ms per turn", *(f"{side}: {part}" for side in OURS for part in ("user", "system"))), cpu),
        markdown(("per turn", *OURS), per_turn),
        goals_table(GOALS, goals(found, counts)),
    ))  # fmt: skip


def main() -> None:
    scale = (1.0, "measured turns, as a share of the usual number")
    parser = arguments(__doc__, write=True, json=True, no_peer=True, rounds=5, sessions=SESSIONS, scale=scale)
    given = parser.parse_args()
    turns = max(1, round(MEASURED * given.scale))
    before = machine()
    python = None if given.no_peer else python_or_exit("langgraph", LANGGRAPH)
    with ExitStack() as stack:
        clusters = {name: stack.enter_context(cluster(changes)) for name, changes in OURS.items()}
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="hobus-bench-"))
        found = asyncio.run(measure(clusters, given, turns, python, Path(directory)))
    counts = {name: counted(changes) for name, changes in OURS.items()}
    how = f"medians of {given.rounds} rounds, {given.sessions} sessions, {turns} turns each"
    print(f"{how}, behind {HISTORY} of history")
    figures = {
        "rounds": given.rounds, "sessions": given.sessions, "turns": turns,
        "goals": goals(found, counts), "counts": {name: asdict(one) for name, one in counts.items()},
        "sides": {name: asdict(one) for name, one in found.items()},
    }  # fmt: skip
    told(given, before, figures, table(found, counts), results=RESULTS, name="load", how=how, document=DOCUMENT)


if __name__ == "__main__":
    main()
