"""R5: the cluster in virtual time under seeded faults, seed after seed; every invariant checked at every event.

usage: python -m bench.simulation [--count 20000] [--seed 0] [--jobs 2] [--seconds N] [--write]

The same as `hobus simulate --count`, with its table for docs/reliability.md and bench/results/simulation.json (`--write`).
With `--seconds` it ends when so many have passed, and says how many seeds that were. Exit code 1 if an invariant broke.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from bench.cluster import machine
from bench.documents import markdown, put_between
from launch.simulation.faults import parse
from launch.simulation.many import Tally, Wanted, run_seeds

RESULTS = Path("bench/results/simulation.json")
GOAL = 20_000
TURNS = 3


def run(first: int, count: int, *, jobs: int, seconds: float) -> Tally:
    """These seeds, or as many as the time allows."""
    tally, began = Tally(), time.perf_counter()
    wanted = Wanted(TURNS, None, parse("all"), None)
    with closing(run_seeds(range(first, first + count), wanted, jobs=jobs)) as verdicts:
        for verdict, cpu_s in verdicts:
            tally.add(verdict, cpu_s)
            if not verdict.holds:
                print(f"seed {verdict.seed}: {verdict.broken}", flush=True)
            if time.perf_counter() - began > seconds:
                break
    return tally


def table(tally: Tally, first: int) -> str:
    """The tally as people read it."""
    outcomes = ", ".join(f"{number} {name}" for name, number in sorted(tally.outcomes.items(), key=lambda one: -one[1]))
    rows = (
        ("seeds", f"{tally.seeds} from {first} on (goal: {GOAL})"),
        ("with a broken invariant", len(tally.failed)),
        ("turns answered", outcomes),
        ("events checked", f"{tally.events}, {tally.entries} of them entries"),
        ("strikes", f"{tally.strikes}, beside what happened to single frames"),
        ("virtual time", f"{tally.virtual_s:.0f} s"),
        ("CPU per seed", f"{tally.cpu_s / max(1, tally.seeds):.2f} s"),
    )
    return markdown(("", ""), rows)


def main() -> None:
    """Runs, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=GOAL)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so many")
    parser.add_argument("--write", action="store_true", help="into the results and the document")
    given = parser.parse_args()
    tally = run(given.seed, given.count, jobs=given.jobs, seconds=given.seconds)
    told = table(tally, given.seed)
    print(told)
    if given.write:
        broken = [{"seed": one.seed, "broken": one.broken} for one in tally.failed]
        figures = {name: value for name, value in asdict(tally).items() if name != "failed"} | {"broken": broken}
        RESULTS.write_text(json.dumps({"machine": machine(), **figures}, indent=2) + "\n", encoding="utf-8")
        put_between("simulation", f"`hobus simulate` with all faults, {TURNS} turns each, {given.jobs} at a time", told)
    sys.exit(1 if tally.failed else 0)


if __name__ == "__main__":
    main()
