"""A cluster over 2 to 8 hosts, through what networks and machines do: nothing lost, nothing doubled, nobody silent for too long.

usage: python -m bench.hosts [--rows latency partition ...] [--people 6] [--seconds 10] [--asleep 60] [--write]

Each row is a new cluster on one host and a worker on each other one (`bench/hosts/wire.py`: network namespaces, and a wire in
user space). People ask on, each in a session of its own, while the row's fault comes and goes; two of three questions make
a tool charge a card outside. A model server counts what it is asked, and the tool writes a line for each charge. Needs root.

Not here: a suspended machine's clock stands still, a stopped process's does not. All hosts share one disk.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.charges import charges_of
from bench.cluster import temporary
from bench.hosts.site import Site, site
from bench.hosts.wire import why_not
from bench.outside import asking_for
from bench.random_kills import DEADLINE_S, ask_again, looked_at
from bench.report import arguments, concluded, markdown

QUESTIONS = ("tell me of {}", f"{asking_for('charge_keyed')} for {{}}", f"{asking_for('charge_unkeyed')} for {{}}")
THINK_S = 0.15
HOUR_S = 3600
CUT_S = 5.0
RESULTS = Path("bench/results/hosts.json")
COLUMNS = (
    "row", "hosts", "turns: asked, right", "asked again", "lost, twice", "model calls (doubled)", "orders done elsewhere",
    "charges: done, in doubt (wrong)", "s to an answer: p50, slowest", "s until the worker was back", "packets lost", "record",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Times:
    """How long things are."""

    span_s: float = 10.0
    asleep_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Row:
    """A fault: what it is, on how many hosts, and what is done while people ask."""

    words: str
    hosts: int
    fault: Callable[[Site, Times], None]
    clock_s: dict[int, int] = field(default_factory=dict[int, int])
    pause_s: float = 0.2


# --- faults -----------------------------------------------------------------------------------------------------------


def _wire(**links: float) -> Callable[[Site, Times], None]:
    def fault(at: Site, times: Times) -> None:
        at.hosts.links(**links)
        time.sleep(times.span_s)

    return fault


def _cut(a: int, b: int, *, one_way: bool) -> Callable[[Site, Times], None]:
    """Twice, while its worker has orders."""

    def fault(at: Site, times: Times) -> None:
        at.hosts.links(delay_ms=10)
        for _ in range(2):
            at.busy(max(a, b))
            at.hosts.partition(a, b, one_way=one_way)
            time.sleep(CUT_S)
            at.hosts.heal()
            at.back(max(a, b))
        time.sleep(times.span_s / 2)

    return fault


def _killed(at: Site, times: Times) -> None:
    at.busy(1)
    at.hosts.kill(1)
    at.gone(1)
    time.sleep(times.span_s)


def _asleep(at: Site, times: Times) -> None:
    at.busy(1)
    at.hosts.sleep(1)
    time.sleep(times.asleep_s)
    at.hosts.wake(1)
    at.back(1)
    time.sleep(times.span_s / 2)


def _revoked(at: Site, times: Times) -> None:
    at.hosts.links(delay_ms=50)
    at.busy(1)
    assert at.cluster("keys revoke", at.name(1)).code == 0
    assert at.workers[1].ended() == 5, at.workers[1].said
    time.sleep(times.span_s)


ROWS = {
    "quiet": Row("no fault", 3, _wire()),
    "latency": Row("50 ms each way", 3, _wire(delay_ms=50)),
    "loss": Row("50 ms, 2 % lost", 3, _wire(delay_ms=50, loss=0.02)),
    "eight": Row("50 ms, 2 % lost", 8, _wire(delay_ms=50, loss=0.02)),
    "slow": Row("20 kB/s", 3, _wire(delay_ms=20, bytes_per_s=20_000)),
    "partition": Row("cut for 5 s, twice", 3, _cut(0, 1, one_way=False)),
    "deaf": Row("cut to the worker alone", 3, _cut(0, 1, one_way=True)),
    "mute": Row("cut from the worker alone", 3, _cut(1, 0, one_way=True)),
    "killed": Row("a host without power", 3, _killed),
    "asleep": Row("a host asleep", 3, _asleep, pause_s=2.0),
    "revoked": Row("a key taken back in mid-order", 3, _revoked),
    "clock": Row("clocks an hour before and behind", 3, _wire(delay_ms=10), clock_s={1: HOUR_S, 2: -HOUR_S}),
}

# --- a row ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Seen:
    """What a row left."""

    cells: tuple[object, ...]
    faults: list[str]
    figures: dict[str, Any]


def seen(directory: Path, name: str, times: Times, *, people: int) -> Seen:
    """One cluster, one fault."""
    row = ROWS[name]
    with site(directory, row.hosts, {"ho2.classify": False}, think_s=THINK_S, clock_s=row.clock_s) as at:
        assert at.model is not None
        began = time.monotonic()
        with at.people(people, QUESTIONS, row.pause_s):
            row.fault(at, times)
        at.hosts.heal()
        with at.hosts.inside(0):
            model = at.model.stats()
        first = {asked.input_id: asked.result["outcome"] for asked in at.answers}
        told = asyncio.run(ask_again(at.cluster, at.answers))
        assert at.cluster("down").code == 0
        storm = looked_at(at.cluster, at.answers, Counter(), time.monotonic() - began, first)
        storm.errors = told
        charges, storm.wrongly_charged = charges_of(at.cluster.entries(), at.outside)
        faults = [*storm.faults, *at.cluster.defects()]
        if model["doubled"]:
            faults.append(f"the model was asked the same {model['doubled']} times too often")
        if storm.slowest_s > DEADLINE_S + 1:
            faults.append(f"somebody heard nothing for {storm.slowest_s} s, beyond the deadline of {DEADLINE_S} s")
        ends = at.cluster.entries("WO_COMPLETED")
        elsewhere = [entry for entry in ends if entry.origin.startswith("ho1/remote-")]
        off_s = {round((entry.at_us - entry.ledger_at_us) / 1e6 / HOUR_S) * HOUR_S for entry in elsewhere}
        if not elsewhere or not off_s.issuperset(row.clock_s.values()):
            faults.append(f"the row shows nothing: {len(elsewhere)} orders done elsewhere, by clocks {off_s} s off")
    done, in_doubt = (sum(getattr(one, what) for one in charges.values()) for what in ("completed", "in_doubt"))
    cells = (
        f"{name}: {row.words}",
        row.hosts,
        f"{len(at.answers)}, {sum(outcome == 'success' for outcome in first.values())}",
        storm.answered_when_asked_again,
        f"{len(storm.lost)}, {len(storm.answered_twice)}",
        f"{model['calls']} ({model['doubled']})",
        f"{len(elsewhere)} of {len(ends)}",
        f"{done}, {in_doubt} ({len(storm.wrongly_charged)})",
        f"{storm.p50_s}, {storm.slowest_s} of {DEADLINE_S}",
        ", ".join(map(str, at.back_s)) or "-",
        at.hosts.dropped(),
        storm.record,
    )
    return Seen(cells, [f"{name}: {one}" for one in faults], asdict(storm) | {"row": name})


def main() -> int:
    parser = arguments(__doc__, write=True)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--people", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=Times().span_s, help="how long people ask beside a fault")
    parser.add_argument("--asleep", type=float, default=Times().asleep_s, help="seconds for which a host sleeps")
    given = parser.parse_args()
    if words := why_not():
        raise SystemExit(words)
    times, rows = Times(given.seconds, given.asleep), list[Seen]()
    for name in given.rows:
        with temporary("hosts") as directory:
            rows.append(seen(directory, name, times, people=given.people))
        print(*rows[-1].cells, sep=" | ", flush=True)
    faults = [one for row in rows for one in row.faults]
    how = f"{given.people} people, a model that thinks {THINK_S} s, a host asleep for {given.asleep:.0f} s"
    figures = {"rows": [row.figures for row in rows]}
    table = markdown(COLUMNS, [row.cells for row in rows])
    return concluded(given, table, faults, results=RESULTS, figures=figures, name="hosts", how=how)


if __name__ == "__main__":
    sys.exit(main())
