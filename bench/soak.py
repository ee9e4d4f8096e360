"""Soak (R12): an hour at half of what the cluster can, with kills and joins: memory stays, latency stays, no turn is lost.

usage: python -m bench.soak [--minutes 60] [--rate TURNS_PER_S] [--sessions 32] [--every 20] [--write]

32 sessions ask at even distances, at half the rate that they reach when each asks again at once (or at `--rate`). Every
`--every` seconds something happens, in turns: a worker joins over TCP, the second executor is killed, the worker is killed,
a worker joins, the second supervisor is killed, the worker is told to end. Everybody else lives through all of it: the
memory of those is compared (what each alone has written; pages of files are whose nobody else maps, and change hands as
others come and go), medians of a warm tenth and of the last one. Latency is counted from when a question was due. Warm is
the first tenth after twenty minutes, or the sixth: what is remembered for two minutes (`limits.DEDUPE_WINDOW_S`) is full
and has made room often, and every session has more turns than its history shows.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import signal
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.cluster import Cluster, cluster, eventually, temporary
from bench.far_worker import FarWorker, token_of, workers
from bench.report import arguments, concluded, markdown, measured_on, percentile
from bench.report import machine as this_machine
from bench.throughput import SESSIONS, measure
from bench.turn import QUESTION
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.session import ProcessTurn
from hobus.bus.port import Bus
from hobus.launch.cluster.client import connect_bus
from hobus.launch.sessions.turns import process_turn

SETTINGS = {
    "gateway.providers.offline.latency_ms": 50,
    "launcher.crash_budget": 1_000_000,
    "launcher.restart_backoff_max_ms": 500,
}
MORTAL = ("ho1/2", "ho2/2")
TENTHS = 10
DEADLINE_S = 30.0
GROWTH_MAX, SLOWER_MAX = 1.05, 1.5
WARM_S = 1200


@dataclass(slots=True)
class Soak:
    rate: float
    seconds: float
    began: float
    outcomes: Counter[str] = field(default_factory=Counter[str])
    happened: Counter[str] = field(default_factory=Counter[str])
    late_ms: list[list[float]] = field(default_factory=lambda: [[] for _ in range(TENTHS)])
    memory_mb: dict[str, list[list[float]]] = field(default_factory=dict[str, list[list[float]]])

    @property
    def tenth(self) -> int:
        return min(TENTHS - 1, int((time.monotonic() - self.began) / self.seconds * TENTHS))

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self.began >= self.seconds

    @property
    def warm(self) -> int:
        return min(TENTHS // 2, max(1, math.ceil(WARM_S / self.seconds * TENTHS)))

    def sample(self, found: Cluster) -> None:
        run, tenth = found.run(), self.tenth
        pids = {row.actor: row.pid for row in run.children if row.actor not in MORTAL} | {"launcher": run.launcher_pid}
        for actor, pid in pids.items():
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            (kb,) = [line.split()[1] for line in lines if line.startswith("Private_Dirty:")]
            self.memory_mb.setdefault(actor, [[] for _ in range(TENTHS)])[tenth].append(int(kb) * 1024 / 1e6)

    def describe(self) -> str:
        """Return one line on the present tenth."""
        late, memory = self.late_ms[self.tenth], {name: mb[self.tenth][-1] for name, mb in self.memory_mb.items()}
        took = f"{statistics.median(late):.0f} ms" if late else "-"
        minutes = (time.monotonic() - self.began) / 60
        return f"{minutes:.0f} min: {took}; MB: {', '.join(f'{name} {mb:.1f}' for name, mb in memory.items())}"

    def growth(self) -> dict[str, float]:
        return {
            actor: round(statistics.median(by_tenth[-1]) / statistics.median(by_tenth[self.warm]), 3)
            for actor, by_tenth in self.memory_mb.items()
        }

    def faults(self) -> list[str]:
        found = [f"{actor} has {ratio} of its memory" for actor, ratio in self.growth().items() if ratio > GROWTH_MAX]
        if (slower := statistics.median(self.late_ms[-1]) / statistics.median(self.late_ms[self.warm])) > SLOWER_MAX:
            found.append(f"a turn takes {slower:.2f} of what it took")
        lost = self.outcomes.total() - self.outcomes["success"]
        return [*found, f"{lost} turns not right: {dict(self.outcomes)}"] if lost else found

    def table(self) -> str:
        rows = [
            ["p50 / p99 ms", *(f"{percentile(one, 50):.0f} / {percentile(one, 99):.0f}" for one in self.late_ms), ""]
        ]
        for actor, by_tenth in self.memory_mb.items():
            rows.append([f"{actor}, MB", *(f"{statistics.median(one):.1f}" for one in by_tenth), self.growth()[actor]])
        return markdown(["", *(f"{number}." for number in range(1, TENTHS + 1)), f"last / {self.warm + 1}."], rows)


async def _person(soak: Soak, door: Bus, number: int, people: int) -> None:
    session_id, period_s = None, people / soak.rate
    for count in itertools.count():
        due = soak.began + (count + number / people) * period_s
        if due >= soak.began + soak.seconds:
            return
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        tenth = soak.tenth
        turn = ProcessTurn(session_id=session_id, input_id=door.new_id(), text=QUESTION)
        try:
            result = await process_turn(door, turn, timeout_s=DEADLINE_S)
        except RuntimeFault as fault:
            soak.outcomes[fault.code] += 1
            continue
        session_id = result.session_id
        soak.outcomes[result.outcome] += 1
        soak.late_ms[tenth].append((time.monotonic() - due) * 1000)


async def _events(soak: Soak, found: Cluster, directory: Path, far: list[FarWorker], every_s: float) -> None:
    def join() -> None:
        far.append(FarWorker(directory / str(len(far)), ["join", token_of(found), "--slots", "4"]).works())

    def end(number: signal.Signals) -> None:
        far[-1].signal(number)
        far[-1].ended()

    def strike(actor: str) -> None:
        eventually(lambda: found.is_up(actor))
        found.kill(actor)

    happenings = (
        ("joined", join), ("executor killed", lambda: strike("ho1/2")),
        ("worker killed", lambda: end(signal.SIGKILL)), ("joined", join),
        ("supervisor killed", lambda: strike("ho2/2")), ("worker drained", lambda: end(signal.SIGTERM)),
    )  # fmt: skip
    for name, happen in itertools.cycle(happenings):
        await asyncio.sleep(every_s)
        if soak.is_over:
            return
        await asyncio.to_thread(happen)
        soak.happened[name] += 1


async def soaked(found: Cluster, directory: Path, far: list[FarWorker], given: Any) -> Soak:
    rate = given.rate or (await measure(found, 10))["turns_per_s"] / 2

    async def watch() -> None:
        while not soak.is_over:
            await asyncio.to_thread(soak.sample, found)
            print(soak.describe(), file=sys.stderr, flush=True)
            await asyncio.sleep(soak.seconds / TENTHS / 6)

    async with connect_bus(found.place, "door") as door:
        soak = Soak(rate, given.minutes * 60, time.monotonic())
        async with asyncio.TaskGroup() as group:
            group.create_task(_events(soak, found, directory, far, given.every))
            group.create_task(watch())
            for number in range(given.sessions):
                group.create_task(_person(soak, door, number, given.sessions))
    return soak


def main() -> int:
    of = {"minutes": 60.0, "sessions": (SESSIONS, "who asks"), "every": (20.0, "seconds between two happenings")}
    rate = (0.0, "turns a second; 0: half of what is reached")
    given = arguments(__doc__, write=True, rate=rate, **of).parse_args()
    before = this_machine()
    words = ("--listen", "127.0.0.1:0", "--scale", "ho1=2", "--scale", "ho2=2")
    with temporary("soak") as directory, cluster(SETTINGS, *words) as found, workers(directory / "far") as far:
        soak = asyncio.run(soaked(found, directory / "far", far, given))
        faults = soak.faults() + found.defects()
        verdict = found.record_verdict()
    faults += [] if verdict == "ok" else [f"the record: {verdict}"]
    what = ", ".join(f"{count} times {name}" for name, count in soak.happened.items())
    how = f"{given.minutes:g} minutes, {soak.rate:.1f} turns/s, {dict(soak.outcomes)}; {what}; the record: {verdict}"
    print(how)
    figures = {
        "machine": measured_on(before), "faults": faults, "how": how, "growth": soak.growth(), "table": soak.table(),
    }  # fmt: skip
    return concluded(given, soak.table(), faults, figures=figures, name="soak", how=how)


if __name__ == "__main__":
    sys.exit(main())
