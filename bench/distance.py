"""Turns a second against distance and workers: 32 sessions, each asking again at once, a model of 50 ms.

usage: python -m bench.distance [--seconds 6] [--workers 1 2 4]

First the cluster's own executor over its local socket, then workers of 8 slots over CURVE alone, each on another host
(`bench/hosts/wire.py`), at 0, 10 and 50 ms each way. Needs root.
"""

from __future__ import annotations

import asyncio
import sys

from bench.cluster import cluster, temporary
from bench.hosts.site import site
from bench.hosts.wire import why_not
from bench.report import arguments, machine, markdown, measured_on, say_machine
from bench.throughput import LATENCY, MODEL_MS, measure
from bench.turn import ROWS

CHANGES = {**ROWS[0][1], LATENCY: MODEL_MS, "launcher.crash_budget": 1, "ho1.orders_max": 8}
DELAYS_MS = (0, 10, 50)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=6.0, help="counted seconds of each figure")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    given = parser.parse_args()
    if words := why_not():
        sys.exit(words)
    before = machine()
    with cluster(CHANGES) as found:
        rows: list[list[object]] = [["own executor", asyncio.run(measure(found, given.seconds))["turns_per_s"], "", ""]]
    for count in given.workers:
        with temporary("distance") as directory, site(directory, count + 1, CHANGES, slots=8) as at:
            at.cluster.kill("ho1/1")  # for good: its crash budget is 1
            reached: list[object] = []
            for delay_ms in DELAYS_MS:
                at.hosts.links(delay_ms=delay_ms)
                reached.append(asyncio.run(measure(at.cluster, given.seconds))["turns_per_s"])
            rows.append([count, *reached])
    say_machine(measured_on(before))
    print(markdown(["workers", *(f"{delay_ms} ms" for delay_ms in DELAYS_MS)], rows))


if __name__ == "__main__":
    main()
