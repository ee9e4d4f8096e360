"""Storms (R1b): two and three faults at once, and nobody is left unanswered or charged twice: `python -m bench.storms`.

In each storm eight people ask question after question, each in a session of their own; every one makes a tool charge a
card outside (bench/outside_tools), half of them with our key. A ninth asks and takes the request back, the first one
sends a follow-up: nobody waits for those two. Then processes are killed (SIGKILL) or frozen (SIGSTOP; they go on or are
killed later): every pair of roles at once, every pair within a second, every one killed with every other frozen,
triples, and each one in the middle of `scale`, `restart`, `drain`, the begin of a segment, and snapshots. There are two
executors, two supervisors, one of everything else, zygote and launcher; where the launcher is killed the cluster is
started again. A row of storms shares a cluster, whose record is checked at its end.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import structlog

from bench.cluster import temporary
from bench.people import DEADLINE_S
from bench.report import arguments, concluded, rows_table
from bench.storms.plan import plans
from bench.storms.running import PEOPLE, THINKING_MS, run_row

ROW = 12


def table(storms: Sequence[dict[str, Any]]) -> str:
    """By kind: sums of what is counted, the most of what is timed."""
    rows: list[dict[str, Any]] = []
    for kind in dict.fromkeys(storm["kind"] for storm in storms):
        of_kind = [storm for storm in storms if storm["kind"] == kind]
        numbers = {
            name: max if isinstance(value, float) else sum
            for name, value in of_kind[0].items()
            if isinstance(value, int | float)
        }
        row = {name: how(one[name] for one in of_kind) for name, how in numbers.items()}
        outcomes = sum((Counter(one["outcomes"]) for one in of_kind), Counter[str]())
        rows.append({"kind": kind, "storms": len(of_kind), **row, "outcomes": outcomes})
    return rows_table(rows)


def main() -> None:
    only = ("", "storms whose name contains this")
    given = arguments(__doc__, write=True, seed=1, only=only).parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))  # of the clients here
    wanted = [plan for plan in plans(given.seed) if given.only in plan.name]
    storms, faults, code = list[dict[str, Any]](), list[str](), 0
    how = f"each model call thinks {THINKING_MS} ms; {PEOPLE} people, who wait {DEADLINE_S} s"
    for first in range(0, len(wanted), ROW):
        with temporary("storms") as directory:
            row = run_row(directory, wanted[first : first + ROW], seed=given.seed)
        storms += row.figures
        faults += row.broken + row.of_each("slow")
        figures = {"thinking_ms": THINKING_MS, "seed": given.seed, "storms": storms}
        code = concluded(given, table(storms), faults, figures=figures, name="storms", how=how)
    sys.exit(code)


if __name__ == "__main__":
    main()
