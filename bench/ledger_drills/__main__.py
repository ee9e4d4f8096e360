"""The record harmed in every way that R4 names: `python -m bench.ledger_drills [--full] [--write]`.

A small record is torn at every byte, each of its bits is flipped, each call to the file system fails or is the last one, the
disk is full, lies or is read-only, clocks leap, processes open it together, segments are swapped, ids come again. After each
case the record is opened again: what was acknowledged must be there, byte for byte, or the start (for what a start does not
read: `verify`) must refuse, as docs/ledger.md says for the case. Goal: 0 lost, 0 wrong. Without `--full` a sample of each.
`--write` puts the table into bench/results/drills.md and the figures into bench/results/ledger_drills.json.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path

from bench.ledger_drills import around, calls, stored
from bench.ledger_drills.rig import Row
from bench.report import arguments, concluded, markdown

RESULTS = Path("bench/results/ledger_drills.json")
_COLUMNS = ("drill", "index file", "cases", "refused", "told by `verify`", "set aside", "whole", "lost", "wrong")
_OUTCOMES = ("refused", "told", "repaired", "whole")


def rows(folder: Path, *, full: bool, jobs: int, said: Callable[[Row], None] = lambda _row: None) -> list[Row]:
    """Every drill, so many at a time, each in a process of its own."""
    done: list[Row] = []
    with ProcessPoolExecutor(jobs) as pool:
        for running in [pool.submit(drill, full=full) for drill in _drills(folder)]:
            said(running.result())
            done.append(running.result())
    return done


def _drills(folder: Path) -> list[Callable[..., Row]]:
    return [
        stored.torn_without_index, partial(stored.torn_with_index, folder / "torn"), stored.flips_without_index,
        partial(stored.flips_with_index, folder / "flips"), partial(stored.flips_of_index, folder / "index"),
        partial(stored.segments, folder / "segments", with_index=True),
        partial(stored.segments, folder / "segments-alone", with_index=False),
        *(partial(calls.failed, fault) for fault in calls.FAULTS), calls.lying,
        partial(calls.killed, folder / "killed"), partial(calls.limited, folder / "limited"),
        partial(around.clocks, folder / "clocks"), partial(around.openers, folder / "openers"),
        partial(around.duplicates, folder / "duplicates"),
    ]  # fmt: skip


def _cells(row: Row) -> list[object]:
    return [row.drill, row.index, row.cases, *(row.outcomes.get(name, 0) for name in _OUTCOMES), row.lost, row.wrong]


def _say(row: Row) -> None:
    print(f"{row.cases:7} cases, {row.lost} lost, {row.wrong} wrong: {row.drill} (index: {row.index})", flush=True)
    print(*row.examples, sep="\n", end="\n" if row.examples else "")


def main() -> None:
    parser = arguments(__doc__, write=True)
    parser.add_argument("--full", action="store_true", help="every byte, bit and call, not a sample")
    parser.add_argument("--directory", type=Path, default=None, help="where real files are written; a temporary one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="drills at a time")
    given = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="ledger-drills-", dir=given.directory) as folder:
        done = rows(Path(folder), full=given.full, jobs=given.jobs, said=_say)
    seconds = round(time.perf_counter() - began)
    lost, wrong = sum(row.lost for row in done), sum(row.wrong for row in done)
    counted = f"{sum(row.cases for row in done)} cases in {seconds} s: {lost} lost, {wrong} wrong"
    figures = {"full": given.full, "seconds": seconds, "rows": [asdict(row) for row in done]}
    faults = [counted] if lost or wrong else []
    shown = markdown(_COLUMNS, map(_cells, done))
    code = concluded(given, shown, faults, results=RESULTS, figures=figures, name="ledger drills", how=f"{seconds} s")
    print(counted)
    sys.exit(code)


if __name__ == "__main__":
    main()
