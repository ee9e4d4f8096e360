"""Random SIGKILLs under load, on real processes: no turn lost or answered twice, no acknowledged record lost.

usage: python -m bench.random_kills [--kills 1000] [--pause 0.3] [--seed 1] [--write]

Three people ask one question after the other, each in a session of their own, while processes of the cluster (two
executors, two supervisors, one of everything else, the zygote) are killed one after the other at random. Afterwards
every answer that somebody was given is looked up in the record, the record's invariants are checked and the verifier
runs. The drill sets its own crash budget: the shipped one would give processes up that die so often. `--write` puts the
result into docs/reliability.md and bench/results/random_kills.json. tests/process/test_random_kills.py does a short one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from launch import identity
from tests.journals import answers_of, check_record
from tests.process.cluster import Cluster, cluster_in, eventually, write_config

QUESTIONS = ("what packages are installed?", "what did this session cost?", "is the ledger intact?", "hello")
PEOPLE = 3
DEADLINE_S = 30
THINKING_MS = 100
SCALE = ("ho1=2", "ho2=2")
SETTINGS = (
    ("gateway.providers.offline.latency_ms", THINKING_MS),
    ("launcher.crash_budget", 1_000_000),
    ("launcher.restart_backoff_max_ms", 500),
)
DOCUMENT, RESULTS = Path("docs/reliability.md"), Path("bench/results/random_kills.json")
BEGIN, END = "<!-- random kills: begin -->", "<!-- random kills: end -->"


@dataclass(slots=True)
class Storm:
    """What a storm of kills left."""

    seconds: float
    kills: dict[str, int]  # by role
    turns: dict[str, int]  # by outcome; `none`: the command brought no answer
    p50_s: float
    slowest_s: float
    answered_twice: list[str] = field(default_factory=list)
    not_in_the_record: list[str] = field(default_factory=list)  # what an answer names and the record lacks
    record: str = ""
    entries: int = 0

    @property
    def faults(self) -> list[str]:
        """What must not be."""
        found = [f"answered twice: {name}" for name in self.answered_twice]
        found += [f"not in the record: {name}" for name in self.not_in_the_record]
        found += [f"{count} turns: {what}" for what, count in self.turns.items() if what in ("none", "error")]
        return found if self.record == "ok" else [*found, f"the record: {self.record}"]


def run_storm(directory: Path, *, kills: int, pause_s: float, seed: int) -> Storm:
    """One cluster, this many kills; everything that it started has ended when this returns."""
    cluster = cluster_in(directory / "home")
    is_over = threading.Event()
    answers: list[tuple[float, dict[str, Any] | None, str]] = []
    people = [threading.Thread(target=_ask_on, args=(cluster, n, is_over, answers)) for n in range(PEOPLE)]
    try:
        scale = [word for one in SCALE for word in ("--scale", one)]
        cluster.up("--detach", "--config", str(write_config(directory / "config.json", *SETTINGS)), *scale)
        began = time.monotonic()
        for person in people:
            person.start()
        struck = _strike(cluster, random.Random(seed), kills, pause_s)
        is_over.set()
        for person in people:
            person.join()
        seconds = time.monotonic() - began
        eventually(lambda: all(row.state == "ready" for row in cluster.run().children), within_s=30)
        assert cluster("down").code == 0
        return _looked_at(cluster, answers, struck, seconds)
    finally:
        is_over.set()
        for person in people:
            if person.is_alive():
                person.join()
        cluster.end()


def _ask_on(
    cluster: Cluster, number: int, is_over: threading.Event, answers: list[tuple[float, dict[str, Any] | None, str]]
) -> None:
    """One person: question after question in one session, until the storm is over."""
    session: list[str] = []
    count = 0
    while not is_over.is_set():
        count += 1
        input_id, began = f"person-{number}-{count}", time.monotonic()
        words = ["--json", "--timeout", str(DEADLINE_S), "--input-id", input_id, *session]
        said = cluster("ask", *words, QUESTIONS[count % len(QUESTIONS)])
        result = json.loads(said.out) if said.out else None
        answers.append((time.monotonic() - began, result, input_id))
        if result is not None:
            session = ["--session", result["session_id"]]


def _strike(cluster: Cluster, draw: random.Random, kills: int, pause_s: float) -> Counter[str]:
    """Kills one living process after the other, the pauses between them random around `pause_s`."""
    struck: Counter[str] = Counter()
    while struck.total() < kills:
        time.sleep(draw.random() * 2 * pause_s)
        run = cluster.run()
        living = [(row.role, row.pid, row.mark) for row in run.children if row.pid]
        role, pid, mark = draw.choice([*living, ("zygote", run.zygote_pid, run.zygote_mark)])
        struck[role] += identity.end(pid, mark, signal.SIGKILL)
    return struck


def _looked_at(
    cluster: Cluster, answers: list[tuple[float, dict[str, Any] | None, str]], struck: Counter[str], seconds: float
) -> Storm:
    entries = cluster.entries()
    known = {entry.submission_id for entry in entries}
    times = sorted(elapsed_s for elapsed_s, *_ in answers)
    storm = Storm(
        seconds=round(seconds, 1),
        kills=dict(sorted(struck.items())),
        turns=dict(Counter("none" if result is None else result["outcome"] for _, result, _ in answers)),
        p50_s=round(statistics.median(times), 2),
        slowest_s=round(times[-1], 2),
        entries=len(entries),
    )
    for _, result, input_id in answers:
        count = len(answers_of(entries, input_id))
        if count > 1:
            storm.answered_twice.append(input_id)
        if result is None or result["outcome"] == "error":
            continue
        if not count:
            storm.not_in_the_record.append(f"the answer to {input_id}")
        storm.not_in_the_record += [name for name in result["exchange_entry_ids"] if name not in known]
    try:
        check_record(entries)
        cluster.verify()
        storm.record = "ok"
    except AssertionError as wrong:
        storm.record = str(wrong) or "broken"
    return storm


def told(storm: Storm) -> str:
    """The storm as people read it."""
    by_role = ", ".join(f"{role} {count}" for role, count in storm.kills.items())
    turns = ", ".join(f"{count} {outcome}" for outcome, count in sorted(storm.turns.items()))
    rows = (
        ("kills", f"{sum(storm.kills.values())} in {storm.seconds:.0f} s ({by_role})"),
        ("turns meanwhile", f"{sum(storm.turns.values())}: {turns}"),
        ("time of a turn as the client sees it", f"p50 {storm.p50_s} s, slowest {storm.slowest_s} s"),
        ("turns lost", str(storm.turns.get("none", 0) + storm.turns.get("error", 0))),
        ("turns answered twice", str(len(storm.answered_twice))),
        ("acknowledged records lost", str(len(storm.not_in_the_record))),
        ("the record", f"{storm.entries} entries, invariants and verifier: {storm.record}"),
    )
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--pause", type=float, default=0.3, help="mean seconds between two kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="into the document and the results")
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="hobus-random-kills-"))
    try:
        storm = run_storm(directory, kills=given.kills, pause_s=given.pause, seed=given.seed)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(told(storm))
    print(*storm.faults, sep="\n")
    if given.write:
        machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
        RESULTS.write_text(json.dumps({"machine": machine, **asdict(storm)}, indent=2) + "\n", encoding="utf-8")
        before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
        made = f"{BEGIN}\nMeasured on {machine}; each model call thinks {THINKING_MS} ms.\n\n{told(storm)}\n{END}"
        DOCUMENT.write_text(before + made + rest.partition(END)[2], encoding="utf-8")
    sys.exit(1 if storm.faults else 0)


if __name__ == "__main__":
    main()
