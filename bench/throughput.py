"""P5: what four executors bring 32 sessions whose model takes 50 ms: `python -m bench.throughput`; `bench.load` has the zero-latency model.

The turn of `bench.turn`. Every session asks again as soon as it is answered; the first seconds are not counted. A row per
cluster: one executor and four, once as shipped (`ho1.orders_max` orders at a time each) and once with one order at a time,
where the executors alone are the limit and not the cores of this machine. Beside each: the cores that all processes used.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from bench.cluster import Cluster, cluster
from bench.report import arguments, machine, percentile, told
from bench.turn import ROWS, ask
from hobus.launch.cluster.client import connect_bus

SESSIONS, MODEL_MS, GOAL = 32, 50, 3.6
SLOW = {"gateway.providers.offline.latency_ms": MODEL_MS}
ONE_SLOT = SLOW | {"ho1.orders_max": 1}
CLUSTERS: dict[str, dict[str, Any]] = {
    "1 executor": SLOW,
    "4 executors": SLOW | {"ho1.count": 4},
    "1 executor of 1 slot": ONE_SLOT,
    "4 executors of 1 slot": ONE_SLOT | {"ho1.count": 4},
}


async def measure(found: Cluster, seconds: float) -> dict[str, Any]:
    answered: list[tuple[float, float]] = []

    async def talk() -> None:
        session_id: str | None = None
        while time.perf_counter() < until:
            result, elapsed = await ask(door, session_id)
            session_id = result.session_id
            answered.append((time.perf_counter(), elapsed))

    async with connect_bus(found.place, "door") as door:
        until = time.perf_counter() + seconds * 1.25
        async with asyncio.TaskGroup() as group:
            for _ in range(SESSIONS):
                group.create_task(talk())
            await asyncio.sleep(seconds * 0.25)
            cpu_before, counted_from = sum(found.cpu_s().values()), time.perf_counter()
            await asyncio.sleep(seconds)
            cpu_s, counted_to = sum(found.cpu_s().values()) - cpu_before, time.perf_counter()
    times = [elapsed for at, elapsed in answered if counted_from <= at < counted_to]
    if not times:
        raise SystemExit(f"no turn was answered in the {seconds:g} counted seconds: give more of them with --seconds")
    took = counted_to - counted_from
    return {
        "turns_per_s": round(len(times) / took, 1), "p50_ms": round(percentile(times, 50), 1),
        "p99_ms": round(percentile(times, 99), 1), "cpu_ms_per_turn": round(cpu_s / len(times) * 1000, 1),
        "cores_used": round(cpu_s / took, 2),
    }  # fmt: skip


def main() -> None:
    given = arguments(__doc__, json=True, seconds=(8.0, "counted seconds of each row")).parse_args()
    before, rows = machine(), dict[str, dict[str, Any]]()
    for name, changes in CLUSTERS.items():
        with cluster({**ROWS[0][1], **changes}) as found:
            rows[name] = asyncio.run(measure(found, given.seconds))
    rate = [row["turns_per_s"] for row in rows.values()]
    scaling = {"as shipped": round(rate[1] / rate[0], 2), "one slot each": round(rate[3] / rate[2], 2), "goal": GOAL}
    print(f"{SESSIONS} sessions on one host, each asking again at once, a model of {MODEL_MS} ms")
    told(given, before, {**rows, "1 -> 4 executors": scaling})


if __name__ == "__main__":
    main()
