"""P18 and P19: a cluster's start, one restart per role, `hobus --help` and quick commands, an idle cluster's memory.

Beside the start stands its limit from the same run: as many bare Python processes started one by one (each has said a word
before the next one starts). A restart is measured from SIGKILL to the moment at which the run file shows another incarnation
as ready, looked at every half millisecond. Memory is the kernel's PSS (a shared page counts once), of launcher, zygote, every
process and every tool process.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from typing import Any

from bench.builders import write_config
from bench.cluster import Cluster, cluster_in, temporary
from bench.report import arguments, machine, told
from hobus.launch.launcher.children import make_environment
from hobus.launch.logs.lines import read_line

GOALS = {"ready_s": 0.5, "restart_ms": 100.0, "help_s": 0.1, "command_cpu_s": 0.4, "pss_mb": 150.0}
SETTLE_S = 3.0
LOOK_S = 0.0005
PATIENCE_S = 30.0


def command(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "hobus", *words]


def timed(argv: list[str]) -> float:
    began_at = time.perf_counter()
    subprocess.run(argv, check=True, capture_output=True, env=make_environment())
    return time.perf_counter() - began_at


def cpu_of(argv: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    timed(argv)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(after[:2]) - sum(before[:2])  # user and system time


def one_by_one(count: int) -> float:
    """Seconds until the last of so many bare Python processes has said a word, each started after the other's."""
    code = "print('up', flush=True)\ninput()"
    processes: list[subprocess.Popen[bytes]] = []
    began_at = time.perf_counter()
    for _ in range(count):
        process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdout.readline()
        processes.append(process)
    took = time.perf_counter() - began_at
    for process in processes:
        process.communicate(b"\n")
    return took


QUICK = ("ps", "session list", "budget", "tap --count 1 --since 10m", "ledger show --limit 20", "ask hello")
"""Commands that people type many times a day, each with one question to a running cluster."""
SETTINGS = (("launcher.healthy_after_ms", 1), ("launcher.crash_budget", 1_000_000))
"""Every kill of the bench is a healthy process's first."""


def ready_after(cluster: Cluster) -> float:
    """Seconds from the launcher's start to the last process's first readiness, by its own log."""
    log = cluster.home.log("launcher").read_text()
    lines = [read_line(text, actor="launcher", earlier_at=0.0) for text in log.splitlines()]
    ready = {line.record["member"]: line.at for line in reversed(lines) if line.record.get("now") == "ready"}
    return max(ready.values()) - cluster.run().started_at


def restart(cluster: Cluster, actor: str) -> float:
    """Milliseconds from SIGKILL to ready again."""
    began_at = time.perf_counter()
    before = cluster.kill(actor)
    while time.perf_counter() - began_at < PATIENCE_S:
        if cluster.is_up(actor, other_than=before.instance):
            return (time.perf_counter() - began_at) * 1000
        time.sleep(LOOK_S)
    raise SystemExit(f"{actor} did not come back")


def spread(values: list[float], digits: int = 3) -> str:
    middle, least, most = (round(value, digits) for value in (statistics.median(values), min(values), max(values)))
    return f"p50 {middle}, {least} to {most}"


def measure(rounds: int) -> dict[str, Any]:
    walls, inside, bare = (list[float]() for _ in range(3))
    restarts: dict[str, list[float]] = {}
    with temporary("bench") as directory:
        config = write_config(directory / "config.json", *SETTINGS)
        for number in range(rounds):
            cluster = cluster_in(directory / f"home{number}")
            home = ("--home", str(cluster.home.root))
            walls.append(timed(command("up", "--wait", *home, "--config", str(config))))
            inside.append(ready_after(cluster))
            count = len(cluster.run().children)
            time.sleep(SETTLE_S if number == 0 else 0.5)
            if number == 0:
                pss_kb = cluster.pss_kb()
                timed(command("ask", "hello", *home))  # so that there is something to list
                quick = {one: [cpu_of(command(*one.split(), *home)) for _ in range(rounds)] for one in QUICK}
            for row in cluster.run().children:
                restarts.setdefault(row.role, []).append(restart(cluster, row.actor))
                time.sleep(0.3)
            timed(command("down", *home))
            bare.append(one_by_one(count))
    helps = [timed(command("--help")) for _ in range(rounds * 3)]
    return {
        f"{count} processes ready, from the launcher's start, s": spread(inside),
        "`hobus up --wait` as a whole, s": spread(walls),
        f"limit: {count} bare processes one by one, s": spread(bare),
        "restart, ms": {role: spread(values, 1) for role, values in restarts.items()},
        "`hobus --help`, s": spread(helps),
        "processor time, s": {f"hobus {one}": spread(values) for one, values in quick.items()},
        "PSS of all processes, MB": round(pss_kb / 1024, 1),
        "goals": GOALS,
    }


def main() -> None:
    given = arguments(__doc__, json=True, rounds=7).parse_args()
    told(given, machine(), measure(given.rounds))


if __name__ == "__main__":
    main()
