"""P17: how well memory's gate tells habits from noise, in worlds whose habits are known: as shipped, beside the plain contract.

Worlds (`worlds.py`) of ten kinds, made from seeds that no tuning saw. Memory is the product's own code under the settings of each
row, read at the beginning of each session, by `weigh` within the shipped budget (`scores.py`). Exit code 1: a goal is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bench.builders import shipped_snapshot
from bench.memory_eval.scores import Memory, figures_of, measured
from bench.memory_eval.worlds import KINDS, world
from bench.report import Goal, arguments, goals_table, machine, rows_table, told

GOALS = (
    Goal("P17", "F1 on held-out worlds", "at least", 0.85, "f1"),
    Goal("P17", "tokens per turn", "at most", 60.0, "tokens"),
    Goal("P17", "days to forget (p50)", "at most", 7.0, "forget_days_p50"),
)
HELD_OUT_FROM = 1000  # seeds of the worlds that are reported begin here; those of the training worlds end long before
CONTRACT: Mapping[str, Any] = {
    "gate_mode": "counting", "gate_count_threshold": 5, "gate_session_threshold": 3,
    "decay_half_life_hours": 336, "bias_decay_floor": 0.05,
}  # fmt: skip


def evaluated(seeds: Sequence[int]) -> dict[str, Any]:
    """Everybody who is measured, in every held-out world."""
    shipped = shipped_snapshot().config.ho3
    sides: dict[str, Any] = {}
    for name, one in {"counting": shipped.model_copy(update=CONTRACT), "shipped": shipped}.items():
        by_kind = {kind: measured(lambda one=one: Memory(one), (world(kind, seed) for seed in seeds)) for kind in KINDS}
        sides[name] = {
            "all": figures_of(*by_kind.values()),
            "kinds": {kind: figures_of(score) for kind, score in by_kind.items()},
        }
        print(f"{name}: F1 {sides[name]['all']['f1']}", file=sys.stderr, flush=True)
    return {"held_out_seeds": list(seeds), "sides": sides}


def table(sides: Mapping[str, Any]) -> str:
    """Everybody, the goals, and the shipped row by kind of world."""
    kinds = sides["shipped"]["kinds"]
    return "\n\n".join((
        rows_table([{"memory": name, **side["all"]} for name, side in sides.items()]),
        goals_table(GOALS, sides["shipped"]["all"]),
        rows_table([{"as shipped": kind, "world": made.what, **kinds[kind]} for kind, made in KINDS.items()]),
    ))  # fmt: skip


def main() -> int:
    given = arguments(__doc__, write=True, json=True, worlds=(5, "of each kind")).parse_args()
    before, figures = machine(), evaluated(range(HELD_OUT_FROM, HELD_OUT_FROM + given.worlds))
    how = f"{given.worlds} held-out worlds of each of {len(KINDS)} kinds"
    shown = table(figures["sides"])
    told(given, before, figures, shown, name="memory evaluation", how=how)
    return int("**missed" in shown)


if __name__ == "__main__":
    raise SystemExit(main())
