"""Storms (R1b): two and three faults at once, on a real cluster with eight people, and nobody is left unanswered or charged twice.

usage: python -m bench.storms [--pairs all|sample] [--rounds 1] [--seed 1] [--only TEXT] [--minutes N] [--resume] [--write]

In each storm eight people ask question after question, each in a session of their own; every one makes a tool charge a card outside
(bench/outside_tools), half of them with our key, half without. A ninth asks and takes the request back, the first one
sends a follow-up: nobody waits for those two. Then processes are killed (SIGKILL) or frozen (SIGSTOP; they go on or are
killed later): every pair of roles at once, every pair within a second, every one killed with every other frozen,
triples, and each one in the middle of `scale`, `restart`, `drain`, the begin of a segment, and snapshots. The cluster has
two executors, two supervisors, one of everything else, zygote and launcher; where the launcher is killed the cluster ends, is
started again, and asked again. It shares its row of storms with others; the record is checked at the end of the row.

`--pairs sample`: as few storms as hit each role once in every kind. `--only`: storms whose name contains the text.
`--minutes`: begin no row after that. `--resume`: what the results hold under the same seed is not done again. `--write` puts the
table into bench/results/drills.md and the figures into bench/results/storms.json, after every row.
tests/process/test_storms.py does a few.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import structlog

from bench.charges import charges_of
from bench.cluster import temporary
from bench.report import arguments, machine, put_between, rows_table, write_json
from bench.storms.plan import Plan, plans
from bench.storms.running import DEADLINE_S, PEOPLE, THINKING_MS, Seen, Weather
from bench.storms.verdict import Row, grown, storm_of

ROW = 12
RESULTS = Path("bench/results/storms.json")


def run_row(directory: Path, wanted: Sequence[Plan], *, seed: int) -> Row:
    """These storms in one cluster; everything that it started has ended when this returns."""
    weather = Weather(directory, seed=seed)
    seen: list[Seen] = []
    try:
        weather.up()
        for plan in wanted:
            one = asyncio.run(weather.storm(plan))
            seen.append(one)
            print(_line(one), file=sys.stderr, flush=True)
        outlived = weather.down()
        entries = weather.cluster.entries()
        storms = [storm_of(one, entries, weather.outside) for one in seen]
        known = {entry.submission_id for entry in entries}
        return Row(
            storms=storms,
            record=weather.cluster.record_verdict(),
            entries=len(entries),
            shown=len(weather.shown),
            shown_and_lost=sorted(weather.shown - known),
            wrongly_charged=charges_of(entries, weather.outside)[1],
            outlived=outlived,
            grown=grown(storms),
        )
    finally:
        weather.outside.release()
        weather.cluster.end()


def _line(seen: Seen) -> str:
    waits = sorted(one.answered_at - max(seen.struck_at, one.asked_at) for one in seen.asked)
    again = [one.first_told for one in seen.asked if one.first_told]
    return (
        f"{seen.plan.name}: {len(waits)} questions, slowest {waits[-1]:.1f} s, {len(again)} not at first {again[:1] or ''}, whole after {seen.whole_after_s:.1f} s, "
        f"open {seen.undriven or f'nothing after {seen.left_after_s:.1f} s'}"
    )


def table(storms: Sequence[dict[str, Any]]) -> str:
    """By kind: sums of what is counted, the most of what is timed."""
    kinds = dict.fromkeys(storm["kind"] for storm in storms)
    return rows_table([_of_kind(kind, [storm for storm in storms if storm["kind"] == kind]) for kind in kinds])


def _of_kind(kind: str, storms: Sequence[dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": kind, "storms": len(storms)}
    for name, value in storms[0].items():
        if isinstance(value, float):
            row[name] = max(one[name] for one in storms)
        elif isinstance(value, int):
            row[name] = sum(one[name] for one in storms)
        elif isinstance(value, list):
            row[name] = sum(len(one[name]) for one in storms)
    return row | {"outcomes": dict(sum((Counter(one["outcomes"]) for one in storms), Counter()))}


def main() -> None:
    """One round after the other."""
    parser = arguments(__doc__, write=True)
    parser.add_argument("--pairs", choices=("all", "sample"), default="all")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="storms whose name contains this")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no row of storms after that")
    parser.add_argument("--resume", action="store_true", help="go on with what the results hold")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))  # of the clients here
    until = time.monotonic() + given.minutes * 60
    held: dict[str, Any] = json.loads(RESULTS.read_text()) if given.resume and RESULTS.exists() else {}
    rows: list[dict[str, Any]] = held.get("rows", [])
    for seed in range(given.seed, given.seed + given.rounds):
        done = {storm["name"] for row in rows if row["seed"] == seed for storm in row["storms"]}
        round_plans = plans(is_all=given.pairs == "all", seed=seed)
        wanted = [plan for plan in round_plans if given.only in plan.name and plan.name not in done]
        while wanted and time.monotonic() < until:
            with temporary("storms") as directory:
                row = run_row(directory, wanted[:ROW], seed=seed)
            wanted = wanted[ROW:]
            rows.append({"seed": seed, "faults": row.faults, **asdict(row)})
            print(*row.faults, sep="\n", flush=True)
            if given.write:
                _write(rows)
    print(table([storm for row in rows for storm in row["storms"]]))
    wrong = [fault for row in rows for fault in row["faults"]]
    print(f"{len(wrong)} faults", *wrong, sep="\n")
    sys.exit(1 if wrong else 0)


def _write(rows: Sequence[dict[str, Any]]) -> None:
    found = {**machine(), "thinking_ms": THINKING_MS, "faults": sum(len(row["faults"]) for row in rows), "rows": rows}
    write_json(RESULTS, found)
    how = f"each model call thinks {THINKING_MS} ms; {PEOPLE} people, who wait {DEADLINE_S:g} s"
    put_between("storms", how, table([storm for row in rows for storm in row["storms"]]))


if __name__ == "__main__":
    main()
