"""One client floods, a polite one asks on: what the polite one notices, by kind.

usage: python -m bench.hostile floods [--kind NAME ...] [--seconds 8] [--rounds 1] [--write]

Each kind has a cluster of its own: the polite client asks one question after the other, first alone, then while another
process (`bench/hostile/greedy_client.py`) keeps a thousand requests of that kind open and asks again at once whatever it is
told; one row is a control, where that process burns a core and asks nothing. Then: p50 and p99 alone and under the flood
and their ratio, turns of the polite one that were lost or degraded,
what the flood was answered, and the memory of four processes before, at its highest, and after, at most a minute later.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Self

import psutil

from bench.cluster import Cluster, cluster
from bench.hostile.greedy_client import CONTROL, KINDS
from bench.report import machine, markdown, percentile, put_between
from bench.turn import QUESTION
from hobus.bus.errors import RuntimeFault
from hobus.bus.limits import RETRY_INTERVAL_MS
from hobus.bus.messages.session import ProcessTurn
from hobus.bus.port import Bus
from hobus.launch.cluster.client import connected
from hobus.launch.sessions.turns import process_turn

RESULTS = Path("bench/results/floods.json")
GOAL = 3.0
DEADLINE_S = 60.0
WARM_S = 1.0
AFTER_S = 60.0
WATCHED = ("broker", "ledger", "ho2", "gateway")
GIVEN_BACK = 1.5
"""Times its memory before the flood, and this many bytes more: what a process may have kept."""
KEPT_BYTES = 48 << 20


class Asked:
    """What one polite client was answered."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.outcomes: Counter[str] = Counter()

    def __iadd__(self, other: Asked) -> Self:
        self.times += other.times
        self.outcomes += other.outcomes
        return self

    def figures(self) -> dict[str, Any]:
        """Times in ms, and turns by outcome."""
        times = self.times or [float("nan")]
        return {
            "turns": len(self.times),
            "p50_ms": round(statistics.median(times), 1),
            "p99_ms": round(percentile(times, 99), 1),
            "outcomes": dict(self.outcomes),
        }


async def ask_on(door: Bus, *, until: float, found: Cluster, turns_max: int = sys.maxsize) -> Asked:
    """One question after the other, as `hobus ask` does; the one that is on its way at the end is waited for."""
    asked, session_id = Asked(), None
    pause_s = RETRY_INTERVAL_MS / 1000
    while time.perf_counter() < until and len(asked.times) < turns_max:
        turn = ProcessTurn(session_id=session_id, input_id=door.new_id(), text=QUESTION)
        started = time.perf_counter()
        try:
            result = await process_turn(door, turn, timeout_s=DEADLINE_S, retry_interval_s=pause_s)
            session_id = result.session_id
            asked.outcomes[result.outcome if result.outcome != "error" else f"error {result.code}"] += 1
        except RuntimeFault as fault:
            asked.outcomes[f"lost {fault.code}"] += 1
        asked.times.append((time.perf_counter() - started) * 1000)
    return asked


class Memory:
    """Resident bytes of the watched processes: before, highest, now."""

    def __init__(self, found: Cluster) -> None:
        self._processes = {role: found.processes[name] for role in WATCHED if (name := _named(found, role))}
        self.before = self.now()
        self.highest = dict(self.before)

    def now(self) -> dict[str, int]:
        """Resident bytes by role; 0 for one that is gone."""
        return {role: _resident(process) for role, process in self._processes.items()}

    def look(self) -> dict[str, int]:
        """Resident bytes by role, remembered where they are higher than ever."""
        now = self.now()
        for role, size in now.items():
            self.highest[role] = max(self.highest[role], size)
        return now

    def is_given_back(self) -> bool:
        """Whether all have returned what the flood took."""
        return all(size <= self.before[role] * GIVEN_BACK + KEPT_BYTES for role, size in self.look().items())

    async def watch(self) -> None:
        """Looks until it is cancelled."""
        while True:
            self.look()
            await asyncio.sleep(0.1)


def _named(found: Cluster, role: str) -> str:
    return next((name for name in found.processes if name.partition("/")[0] == role), "")


def _resident(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:
        return 0


async def under(found: Cluster, kind: str, seconds: float, rounds: int) -> dict[str, Any]:
    """One kind of flood beside a polite client: alone and flooded by turns, so that a slower hour of the machine is in both."""
    alone, flooded = Asked(), Asked()
    answered: Counter[str] = Counter()
    async with connected(found.place, "door") as door:
        await ask_on(door, until=time.perf_counter() + WARM_S, found=found)
        memory = Memory(found)
        for _ in range(rounds):
            alone += await ask_on(door, until=time.perf_counter() + seconds / rounds, found=found)
            watching = asyncio.ensure_future(memory.watch())
            try:
                during, said = await _flooded(door, found, kind, seconds / rounds)
            finally:
                watching.cancel()
            flooded += during
            answered += said
            await asyncio.sleep(2 * WARM_S)
        ended = time.perf_counter()
        while not memory.is_given_back() and time.perf_counter() < ended + AFTER_S:
            await asyncio.sleep(1.0)
        after_s = time.perf_counter() - ended
        afterwards = await ask_on(door, until=time.perf_counter() + DEADLINE_S, found=found, turns_max=3)
    before, during = alone.figures(), flooded.figures()
    return {
        "kind": kind,
        "alone": before,
        "flooded": during,
        "afterwards": afterwards.figures(),
        "ratio_p50": round(during["p50_ms"] / before["p50_ms"], 2),
        "ratio_p99": round(during["p99_ms"] / before["p99_ms"], 2),
        "flood": dict(answered),
        "memory_mb": {
            role: [size >> 20 for size in (memory.before[role], memory.highest[role], memory.now()[role])]
            for role in memory.before
        },
        "given_back_after_s": round(after_s, 1) if memory.is_given_back() else None,
    }


async def _flooded(door: Bus, found: Cluster, kind: str, seconds: float) -> tuple[Asked, Counter[str]]:
    """What the polite client was answered meanwhile, and what the flood was."""
    words = [sys.executable, "-m", "bench.hostile.greedy_client", str(found.home.root), kind, str(seconds + 2 * WARM_S)]
    flooding = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        await asyncio.sleep(2 * WARM_S)
        asked = await ask_on(door, until=time.perf_counter() + seconds, found=found)
        said, _ = await asyncio.to_thread(flooding.communicate, timeout=DEADLINE_S)
    finally:
        flooding.kill()
    answered = json.loads(said.splitlines()[-1] if said else "{}")  # its log may stand before it
    return asked, Counter(answered)


def row_of(row: dict[str, Any]) -> list[object]:
    """One line of the table."""
    bad = {name: count for name, count in row["flooded"]["outcomes"].items() if name != "success"}
    return [
        row["kind"],
        f"{row['alone']['p50_ms']} / {row['alone']['p99_ms']}",
        f"{row['flooded']['p50_ms']} / {row['flooded']['p99_ms']}",
        f"{row['ratio_p99']}",
        ", ".join(f"{count} {name}" for name, count in bad.items()) or "0",
        ", ".join(f"{count} {name}" for name, count in row["flood"].items()),
        *(" → ".join(map(str, row["memory_mb"].get(role, ["-"]))) for role in WATCHED),
        "-" if row["given_back_after_s"] is None else row["given_back_after_s"],
    ]


COLUMNS = (
    "flood", "alone p50 / p99 ms", "flooded p50 / p99 ms", "ratio p99", "lost or degraded", "the flood was answered",
    *(f"{role} MB" for role in WATCHED), "given back after s",
)  # fmt: skip


def write(result: dict[str, Any]) -> None:
    """Into the document and beside the other results."""
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    seconds, rounds = result["seconds"], result["rounds"]
    table = markdown(COLUMNS, map(row_of, result["rows"]))
    said = f"{seconds:g} s alone and {seconds:g} s under each flood, in {rounds} rounds; MB before → highest → after"
    put_between("floods", said, table)


def faults_of(result: dict[str, Any]) -> list[str]:
    """What must not be."""
    faults = [
        f"{row['kind']}: p99 {row['ratio_p99']} times its value alone"
        for row in result["rows"]
        if row["ratio_p99"] > GOAL and row["kind"] != CONTROL
    ]
    for row in result["rows"]:
        outcomes = row["flooded"]["outcomes"].items()
        faults += [f"{row['kind']}: {count} turns {outcome}" for outcome, count in outcomes if outcome != "success"]
    faults += [
        f"{row['kind']}: memory is not given back" for row in result["rows"] if row["given_back_after_s"] is None
    ]
    return faults


def add_options(parser: argparse.ArgumentParser) -> None:
    """What floods, for how long, and where it goes."""
    parser.add_argument("--kind", action="append", choices=KINDS, help="only this one; may be repeated")
    parser.add_argument("--seconds", type=float, default=8.0, help="alone, and again under the flood")
    parser.add_argument("--rounds", type=int, default=1, help="by which alone and flooded take turns")
    parser.add_argument("--write", action="store_true", help=f"into bench/results/drills.md and {RESULTS}")


def run(options: argparse.Namespace) -> int:
    """1 if the polite client was harmed."""
    rows: list[dict[str, Any]] = []
    for kind in options.kind or KINDS:
        with cluster({}) as found:
            rows.append(asyncio.run(under(found, kind, options.seconds, options.rounds)))
        print(json.dumps(rows[-1]), flush=True)
    result = {
        "measured_on": machine(),
        "seconds": options.seconds,
        "rounds": options.rounds,
        "rows": rows,
    }
    if options.write:
        write(result)
    faults = faults_of(result)
    print("\n".join(faults) or "nobody but the flood noticed it")
    return bool(faults)
