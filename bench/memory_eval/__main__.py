"""P17: how well memory's gate tells habits from noise, in worlds whose habits are known: as shipped, beside the plain contract.

Worlds (`worlds.py`) of ten kinds, made from seeds that no tuning saw. Memory is the product's own code under the settings of each
row, read at the beginning of each session, by `select_biases` within the shipped budget (`scores.py`). Exit code 1: a goal is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.builders import shipped_snapshot
from bench.memory_eval.scores import Memory, figures_of, labels_of, measured
from bench.memory_eval.worlds import DAY_US, KINDS, Session, Turn, world
from bench.report import Goal, arguments, goals_table, machine, rows_table, told
from hobus.config.sections.record import Ho3Config

DOCUMENT = Path("bench/results/memory.md")
RESULTS = Path("bench/results/memory_eval.json")
GOALS = (
    Goal("P17", "F1 on held-out worlds", "at least", 0.85, "f1"),
    Goal("P17", "tokens per turn", "at most", 60.0, "tokens"),
    Goal("P17", "days to forget (p50)", "at most", 7.0, "forget_days_p50"),
)
HELD_OUT_FROM = 1000
"""Seeds of the worlds that are reported begin here; those of the training worlds end long before."""
CONTRACT: Mapping[str, Any] = {
    "gate_mode": "counting", "gate_count_threshold": 5, "gate_session_threshold": 3,
    "decay_half_life_hours": 336, "bias_decay_floor": 0.05,
}  # fmt: skip
VISITS_MAX = 12


def visits_needed(settings: Ho3Config, turns: int) -> int | None:
    """After so many sessions of so many turns, eight hours apart, one signal is in force; None: not after twelve."""
    learner = Memory(settings)
    for visit in range(1, VISITS_MAX + 1):
        begin_us = visit * DAY_US // 3
        made = tuple(Turn(begin_us + number * 60_000_000, ("tool:pushed",)) for number in range(turns))
        session = Session(f"00000000-0000-5000-8000-{visit:012d}", made, is_own=False)
        for turn in made:
            learner.observe(session, turn)
        if learner.shown(made[-1].at_us, labels_of("tool:pushed"))[0]:
            return visit
    return None


def evaluated(seeds: Sequence[int]) -> dict[str, Any]:
    """Everybody who is measured, in every held-out world."""
    shipped = shipped_snapshot().config.ho3
    assert shipped is not None
    sides: dict[str, Any] = {}
    for name, one in {"counting": shipped.model_copy(update=CONTRACT), "shipped": shipped}.items():
        by_kind = {kind: measured(lambda one=one: Memory(one), (world(kind, seed) for seed in seeds)) for kind in KINDS}
        sides[name] = {
            "all": figures_of(*by_kind.values()),
            "kinds": {kind: figures_of(score) for kind, score in by_kind.items()},
            "visits": [visits_needed(one, turns) for turns in (1, 5)],
        }
        print(f"{name}: F1 {sides[name]['all']['f1']}", file=sys.stderr, flush=True)
    return {"held_out_seeds": list(seeds), "sides": sides}


def table(sides: Mapping[str, Any]) -> str:
    """Everybody, the goals, and the shipped row by kind of world."""
    visits = "visits of 1 / 5 turns that teach"
    kinds = sides["shipped"]["kinds"]
    return "\n\n".join((
        rows_table([{"memory": name, **side["all"], visits: side["visits"]} for name, side in sides.items()]),
        goals_table(GOALS, sides["shipped"]["all"]),
        rows_table([{"as shipped": kind, "world": made.what, **kinds[kind]} for kind, made in KINDS.items()]),
    ))  # fmt: skip


def main() -> int:
    given = arguments(__doc__, write=True, json=True, worlds=(5, "of each kind")).parse_args()
    before, figures = machine(), evaluated(range(HELD_OUT_FROM, HELD_OUT_FROM + given.worlds))
    how = f"{given.worlds} held-out worlds of each of {len(KINDS)} kinds"
    to = {"results": RESULTS, "name": "memory evaluation", "how": how, "document": DOCUMENT}
    shown = table(figures["sides"])
    told(given, before, figures, shown, **to)
    return int("**missed" in shown)


if __name__ == "__main__":
    raise SystemExit(main())
