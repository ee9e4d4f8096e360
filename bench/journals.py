"""Journals made at random, folded again: the invariants of a session, and the same bytes at every replay.

usage: python -m bench.journals [--count 1000] [--seed 1] [--write]

Each journal is the life of one session: events of every kind, legal or not, drawn from a seed; what the reducer takes is
recorded, what it rejects must leave the state as it was. After each event every invariant of the state is checked. Then
the journal is folded twice from its bytes, and once from each of its snapshots and the entries after it: all must give
what the live fold gave, to the byte. `--write` puts the result into bench/results/journals.json.
tests/bench/test_journals.py does a few; tests/actors/ho2_supervisor/session/test_invariants.py looks for counterexamples.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.lives import FORWARD, MOVES, OPENING, Life, differences
from bench.report import arguments, concluded, machine, pairs

RESULTS = Path("bench/results/journals.json")
STRETCHES = 60
"""Runs of events per life."""


@dataclass(slots=True)
class Tally:
    """What came of all lives together."""

    journals: int = 0
    events: int = 0
    rejected: int = 0
    entries: int = 0
    longest: int = 0
    snapshots: int = 0
    folds: int = 0
    seconds: float = 0.0
    lifecycles: dict[str, int] = field(default_factory=dict[str, int])  # events that found the session there
    kinds: dict[str, int] = field(default_factory=dict[str, int])  # entries by event type
    broken: list[str] = field(default_factory=list[str])  # invariants, with the seed that shows it
    doubled: list[str] = field(default_factory=list[str])
    different: list[str] = field(default_factory=list[str])

    @property
    def faults(self) -> list[str]:
        """Everything that must not be."""
        return [*self.broken, *self.doubled, *self.different]


def live(seed: int, tally: Tally) -> Life:
    """One session's life, counted."""
    rng = random.Random(seed)
    life = Life(rng.choice)
    names = list(OPENING)
    for _ in range(STRETCHES):
        names += rng.choice(FORWARD) if rng.random() < 0.85 else [rng.choice(sorted(MOVES))]
    found = Counter(tally.lifecycles)
    for name in names:
        if name == "end" and rng.random() < 0.9:
            continue
        found[life.state.lifecycle] += 1
        wrong = life.move(name, astray=rng.random() < 0.05)
        tally.broken += [f"seed {seed}, {name}: {statement}" for statement in wrong]
        tally.events += 1
    tally.lifecycles = dict(found)
    return life


def run(count: int, first_seed: int) -> Tally:
    """That many lives."""
    tally, began = Tally(), time.perf_counter()
    kinds: Counter[str] = Counter()
    for seed in range(first_seed, first_seed + count):
        life = live(seed, tally)
        snapshots = sum(entry.event_type == "STATE_SNAPSHOT" for entry in life.entries)
        tally.journals += 1
        tally.rejected += life.rejections
        tally.entries += len(life.entries)
        tally.longest = max(tally.longest, len(life.entries))
        tally.snapshots += snapshots
        tally.folds += 2 + snapshots
        tally.doubled += [f"seed {seed}: {one} was given twice" for one in life.doubled()]
        tally.different += [f"seed {seed}: {one}" for one in differences(life.entries, life.record)]
        kinds.update(entry.event_type for entry in life.entries)
    tally.kinds = dict(kinds.most_common())
    tally.seconds = round(time.perf_counter() - began, 1)
    return tally


def told(tally: Tally) -> str:
    """The tally as people read it."""
    rows = (
        (
            "journals",
            f"{tally.journals}, of {tally.entries} entries (the longest {tally.longest}) in {tally.seconds} s",
        ),
        ("events", f"{tally.events}, {tally.rejected} of them rejected, the state unchanged"),
        ("found in", ", ".join(f"{name} {number}" for name, number in sorted(tally.lifecycles.items()))),
        ("folded again", f"{2 * tally.journals} times whole, {tally.snapshots} times from a snapshot on"),
        ("invariants broken", str(len(tally.broken))),
        ("ids given twice", str(len(tally.doubled))),
        ("folds with other bytes", str(len(tally.different))),
    )
    return pairs(rows)


def main() -> None:
    parser = arguments(__doc__, write=True)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="of the first journal; the next ones follow")
    given = parser.parse_args()
    tally = run(given.count, given.seed)
    sys.exit(
        concluded(given, told(tally), tally.faults, results=RESULTS, figures={"machine": machine(), **asdict(tally)})
    )


if __name__ == "__main__":
    main()
