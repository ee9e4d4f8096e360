"""Random SIGKILLs under load (R2), on real processes: no turn lost or answered twice, no record lost, no effect doubled.

Eight people ask one question after the other, each in a session of their own, while processes of the cluster (two
executors, two supervisors, one of everything else, the zygote) are killed one after the other at random. Some questions
make a tool charge a card outside (bench/outside_tools). Afterwards answers, charges and record are compared
(`bench/people.py`, `looked_at`). The drill sets its own crash budget: the shipped one would give processes up that die
so often. tests/process/test_random_kills.py does a short one.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.cluster import Cluster, eventually, temporary
from bench.outside import asking_for, with_outside
from bench.people import Asked, Looked, ask_again, asking, looked_at
from bench.report import arguments, cell, concluded, markdown
from hobus.launch.cluster import identity

QUESTIONS = (
    "what packages are installed?", asking_for("charge_keyed"), "what did this session cost?",
    asking_for("charge_unkeyed"), "is the ledger intact?", "hello",
)  # fmt: skip
THINKING_MS = 100
ROLES = ("broker", "gateway", "ho1", "ho2", "ho3", "host", "ledger", "zygote")
SCALE = ("--scale", "ho1=2", "--scale", "ho2=2")
SETTINGS = {
    "gateway.providers.offline.latency_ms": THINKING_MS, "launcher.crash_budget": 1_000_000,
    "launcher.restart_backoff_max_ms": 500,
}  # fmt: skip


def run_storm(
    directory: Path, *, kills: int, sessions: int, pause_s: float, seed: int
) -> tuple[Looked, dict[str, Any]]:
    """One cluster, this many kills, what they left and what they were; all that it started has ended then."""
    outside, cluster = with_outside(directory, SETTINGS)
    answers, shown = list[Asked](), set[str]()
    try:
        cluster.up("--detach", *SCALE)
        began = time.monotonic()
        with asking(cluster, sessions, answers, questions=QUESTIONS, take=lambda entry: shown.add(entry.submission_id)):
            struck = _strike(cluster, random.Random(seed), kills, pause_s)
        seconds = round(time.monotonic() - began, 1)
        eventually(lambda: all(row.state == "ready" for row in cluster.run().children), within_s=30)
        ask_again(cluster, answers)
        assert cluster("down").code == 0
        found = {"sessions": sessions, "seconds": seconds, "kills": dict(sorted(struck.items())), "shown": len(shown)}
        return looked_at(cluster, outside, answers, shown=shown), found
    finally:
        cluster.end()


def _strike(cluster: Cluster, draw: random.Random, kills: int, pause_s: float) -> Counter[str]:
    """Kills one living process after the other, the pauses between them random around `pause_s`."""
    struck: Counter[str] = Counter()
    while struck.total() < kills:
        time.sleep(draw.random() * 2 * pause_s)
        living = {one: one.actor.partition("/")[0] for one in cluster.run().processes()}
        if victims := [one for one, role in living.items() if role in ROLES]:
            victim = draw.choice(victims)
            struck[living[victim]] += identity.end(victim.pid, victim.mark, signal.SIGKILL)
    return struck


def main() -> None:
    given = arguments(
        __doc__, write=True, kills=1000, sessions=(8, "people who ask at the same time"),
        pause=(0.3, "mean seconds between two kills"), seed=1,
    ).parse_args()  # fmt: skip
    how_many = {"kills": given.kills, "sessions": given.sessions, "pause_s": given.pause}
    with temporary("random-kills") as directory:
        looked, found = run_storm(directory, **how_many, seed=given.seed)
    figures = found | asdict(looked)
    shown = markdown(("", ""), [(name.replace("_", " "), cell(value)) for name, value in figures.items()])
    how = f"each model call thinks {THINKING_MS} ms"
    sys.exit(concluded(given, shown, looked.faults, figures=figures, name="random kills", how=how))


if __name__ == "__main__":
    main()
