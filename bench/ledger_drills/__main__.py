"""The record harmed in every way that R4 names: `python -m bench.ledger_drills [--full]`; a sample of each without.

A small record is torn at every byte, each of its bits is flipped, each call to the file system fails or is the last one, the
disk is full, lies or is read-only, clocks leap, processes open it together, segments are swapped, ids come again. After each
case the record is opened again: what was acknowledged must be there, byte for byte, or the start (for what a start does not
read: `verify`) must refuse, as docs/ledger.md says for the case. Goal: 0 lost, 0 wrong.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from bench.cluster import temporary
from bench.ledger_drills import around, calls, stored
from bench.ledger_drills.rig import Row
from bench.report import arguments, judged


def rows(folder: Path, *, full: bool, jobs: int) -> list[Row]:
    """Every drill, so many at a time, each in a process of its own."""
    done: list[Row] = []
    with ProcessPoolExecutor(jobs) as pool:
        for running in [pool.submit(drill, full=full) for drill in _drills(folder)]:
            done.append(running.result())
            print(done[-1], file=sys.stderr, flush=True)
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


def main() -> None:
    full, jobs = (False, "every byte, bit and call, not a sample"), (os.cpu_count() or 1, "drills at a time")
    given = arguments(__doc__, write=True, full=full, jobs=jobs).parse_args()
    began = time.perf_counter()
    with temporary("ledger-drills") as folder:
        done = rows(folder, full=given.full, jobs=given.jobs)
    seconds = round(time.perf_counter() - began)
    lost, wrong = sum(row.lost for row in done), sum(row.wrong for row in done)
    how = f"{sum(row.cases for row in done)} cases in {seconds} s: {lost} lost, {wrong} wrong"
    code = judged(given, done, name="ledger drills", how=how)
    print(how)
    sys.exit(code)


if __name__ == "__main__":
    main()
