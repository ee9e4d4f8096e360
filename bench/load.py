"""P1b: turns per second of 32 sessions at once on all cores, and what a turn costs then, beside LangGraph with SqliteSaver.

The like-for-like turn of `bench.turn`, and the turn as shipped. In each round every session is new, takes ten turns,
and then, when all have theirs, twenty measured ones, each asked as soon as the former is answered. LangGraph does the
same for as many threads, divided among one process per core, then among two per core, each with a database of its own;
the better of the two counts. The sides take turns, in reversed order every other round; ratios are medians over the
rounds. CPU is that of every process of the cluster; that of the client, this process, is said and not added. Entries,
syncs and bytes are what the ledger counted; the other counts are those of one turn in the simulated cluster
(`bench/counts.py`), the same in each run.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from bench.cluster import Cluster, cluster, cpu_s_of, ledger_stats
from bench.counts import Counts, counted
from bench.peers.environment import python_or_exit
from bench.report import Goal, arguments, goals_table, machine, percentile, rows_table, told
from bench.turn import HISTORY, LANGGRAPH, RECORDED, ROWS, Peer, ask, talk, texts_of
from hobus.bus.port import Bus
from hobus.launch.cluster.client import connect_bus

SESSIONS, MEASURED = 32, 20
WARM_TURNS = 2
LIKE, SHIPPED = "like for like", "as shipped"
OURS = dict(zip((LIKE, SHIPPED), (changes for _, changes in ROWS), strict=True))
PEERS = {"LangGraph, one process per core": 1, "LangGraph, two per core": 2}
CLIENT = "client"
GOALS = (
    Goal("P1b", "turns/s / the better peer", "at least", 2.0, "ratio", "x"),
    Goal("P1b", "CPU of a like-for-like turn", "at most", 9.5, "cpu_like_ms", " ms"),
    Goal("P1b", "CPU of a turn as shipped", "at most", 15.0, "cpu_shipped_ms", " ms"),
)

Rounds = list[dict[str, float]]  # figures by name, of each round


@dataclass(slots=True)
class Figures:
    """Of one side: rates; CPU milliseconds per turn, by process; and per turn what the ledger counted."""

    rates: Rounds = field(default_factory=Rounds)
    cpu_ms: Rounds = field(default_factory=Rounds)
    record: Rounds = field(default_factory=Rounds)

    def add(self, times: Sequence[float], took_s: float, cpu_s: dict[str, float], record: dict[str, float]) -> None:
        p50, p99 = (round(percentile(times, percent), 1) for percent in (50, 99))
        self.rates.append({"turns/s": round(len(times) / took_s, 1), "p50 ms": p50, "p99 ms": p99})
        self.cpu_ms.append({name: round(used_s * 1000 / len(times), 3) for name, used_s in cpu_s.items()})
        self.record.append({name: round(count / len(times), 2) for name, count in record.items()})

    @property
    def cpu(self) -> float:
        """Milliseconds per turn of all processes but the client."""
        return round(statistics.median(sum(one.values()) - one.get(CLIENT, 0.0) for one in self.cpu_ms), 1)


def medians(rounds: Rounds) -> dict[str, float]:
    return {name: round(statistics.median(one[name] for one in rounds), 1) for name in rounds[0]}


def used_s(found: Cluster) -> dict[str, float]:
    """CPU so far of members with what they started (tools), of the launcher with what forks members, and of the client."""
    members, launcher = found.cpu_s(), psutil.Process(found.run().launcher_pid)
    rest_s = cpu_s_of([launcher]) - sum(members.values())
    return {**members, "launcher": rest_s, CLIENT: cpu_s_of([psutil.Process()])}


async def ours(found: Cluster, door: Bus, operator: Bus, sessions: int, turns: int) -> Any:
    """New sessions, each with its history; then all measured turns: milliseconds, seconds, CPU, the ledger's counters."""
    ids = [session_id for session_id, _ in await asyncio.gather(*(talk(door, None, HISTORY) for _ in range(sessions)))]
    counts_before, cpu_before, began = await ledger_stats(operator), used_s(found), time.perf_counter()
    talked = await asyncio.gather(*(talk(door, session_id, turns) for session_id in ids))
    took_s, used, counts = time.perf_counter() - began, used_s(found), await ledger_stats(operator)
    cpu_s = {name: used[name] - before_s for name, before_s in cpu_before.items()}
    record = {name: getattr(counts, name) - getattr(counts_before, name) for name in RECORDED}
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
        """New threads, divided among the processes."""
        self._rounds += 1
        names = [f"round-{self._rounds}-{number}" for number in range(sessions)]
        await asyncio.to_thread(self._take, names, HISTORY)
        processes = [psutil.Process(one.process.pid) for one in self._peers]
        before_s, began = cpu_s_of(processes), time.perf_counter()
        times = await asyncio.to_thread(self._take, names, turns)
        return times, time.perf_counter() - began, {"peers": cpu_s_of(processes) - before_s}, {}

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
        sides: dict[str, Any] = {}
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
            rates = {name: figures.rates[-1]["turns/s"] for name, figures in found_of.items()}
            print(f"round {number + 1}: turns/s {rates}", file=sys.stderr, flush=True)
        return found_of


def goals(found: dict[str, Figures]) -> dict[str, float]:
    """Each goal's figure; the ratio, of turns per second, only beside a peer: the better one."""
    reached = {"cpu_like_ms": found[LIKE].cpu, "cpu_shipped_ms": found[SHIPPED].cpu}
    if peers := [found[name].rates for name in PEERS if name in found]:
        pairs = zip(found[LIKE].rates, max(peers, key=lambda rates: medians(rates)["turns/s"]), strict=True)
        reached["ratio"] = round(statistics.median(mine["turns/s"] / theirs["turns/s"] for mine, theirs in pairs), 2)
    return reached


def table(found: dict[str, Figures], counts: dict[str, Counts]) -> str:
    """Sides, CPU by process, what the ledger counted, counts, goals."""
    ours = {name: found[name] for name in OURS}
    return "\n\n".join((
        rows_table([{"": name, **medians(one.rates), "CPU ms": one.cpu} for name, one in found.items()]),
        rows_table([{"CPU ms per turn": name, **medians(one.cpu_ms)} for name, one in ours.items()]),
        rows_table([{"per turn": name, **medians(one.record)} for name, one in ours.items()]),
        rows_table([{"counted": name, **asdict(one)} for name, one in counts.items()]),
        goals_table(GOALS, goals(found)),
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
        "goals": goals(found), "counts": {name: asdict(one) for name, one in counts.items()},
        "sides": {name: asdict(one) for name, one in found.items()},
    }  # fmt: skip
    told(given, before, figures, table(found, counts), name="load", how=how)


if __name__ == "__main__":
    main()
