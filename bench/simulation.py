"""R5: the cluster in virtual time under seeded faults, seed after seed; every invariant checked at every event.

usage: python -m bench.simulation [--count 20000] [--seed 0] [--jobs 2] [--seconds N] [--resume] [--write]

The same as `hobus simulate --seeds`, with its table for bench/results/drills.md and bench/results/simulation.json (`--write`, after
every block of seeds). With `--seconds` it begins no block when so many have passed, and says how many seeds there were;
`--resume` goes on behind those that the results hold. Exit code 1 if an invariant broke.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from bench.report import DOCUMENT, arguments, machine, markdown, put_between, write_json
from hobus.config.files import SHIPPED_ALONE
from hobus.launch.lab.simulation.faults import parse
from hobus.launch.lab.simulation.many import SeedOptions, SeedTally, run_seeds

RESULTS = Path("bench/results/simulation.json")
GOAL = 20_000
TURNS = 3
BLOCK = 250
"""Seeds, between two looks at the clock and two tables."""


def run(seeds: Sequence[int], tally: SeedTally, *, jobs: int) -> None:
    """All of them, into the tally; says at once which ones broke something."""
    with closing(run_seeds(seeds, SeedOptions(TURNS, None, parse("all"), SHIPPED_ALONE), jobs=jobs)) as verdicts:
        for verdict, cpu_s in verdicts:
            tally.add(verdict, cpu_s)
            if not verdict.holds:
                print(f"seed {verdict.seed}: {verdict.broken}", flush=True)


def held() -> tuple[int, SeedTally, list[dict[str, Any]]]:
    """(first seed, tally, what broke) of the results."""
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    figures = {one.name: found[one.name] for one in fields(SeedTally) if one.name != "failed"}
    return found["first"], SeedTally(**figures), found["broken"]


def table(tally: SeedTally, first: int, broken: int) -> str:
    """The tally as people read it."""
    outcomes = ", ".join(f"{number} {name}" for name, number in sorted(tally.outcomes.items(), key=lambda one: -one[1]))
    rows = (
        ("seeds", f"{tally.seeds} from {first} on (goal: {GOAL})"),
        ("with a broken invariant", broken),
        ("turns answered", outcomes),
        ("events checked", f"{tally.events}, {tally.entries} of them entries"),
        ("strikes", f"{tally.strikes}, beside what happened to single frames"),
        ("virtual time", f"{tally.virtual_s:.0f} s"),
        ("CPU per seed", f"{tally.cpu_s / max(1, tally.seeds):.2f} s"),
    )
    return markdown(("", ""), rows)


def main() -> None:
    """Runs, prints, writes."""
    parser = arguments(__doc__, write=True)
    parser.add_argument("--count", type=int, default=GOAL)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no block of seeds after that")
    parser.add_argument("--resume", action="store_true", help="go on with what the results hold")
    given = parser.parse_args()
    began = time.perf_counter()
    first, tally, before = held() if given.resume else (given.seed, SeedTally(), [])
    told, broken = "nothing was to be done", before
    while tally.seeds < given.count and time.perf_counter() - began < given.seconds:
        block = range(first + tally.seeds, first + min(given.count, tally.seeds + BLOCK))
        run(block, tally, jobs=given.jobs)
        broken = before + [{"seed": one.seed, "broken": one.broken} for one in tally.failed]
        told = table(tally, first, len(broken))
        print(f"{tally.seeds} of {given.count} seeds, {len(broken)} with a broken invariant", flush=True)
        if given.write:
            figures = {name: value for name, value in asdict(tally).items() if name != "failed"}
            whole = {"machine": machine(), "first": first, **figures, "broken": broken}
            write_json(RESULTS, whole)
            how = f"`hobus simulate` with all faults, {TURNS} turns each, {given.jobs} at a time"
            put_between("simulation", how, told, DOCUMENT)
    print(told)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
