"""P17: how well memory's gate tells habits from noise, in worlds whose habits are known: as shipped, beside the plain contract.

usage: python -m bench.memory_eval [--worlds 5] [--write]

Worlds (`worlds.py`) of eight kinds, made from seeds that no tuning saw. Memory is the product's own code under the settings of each
row (`learners.py`); read at the beginning of each session, by `select_biases` within the shipped budget (`scores.py`).
`--write` puts the tables into bench/results/memory.md and the figures into bench/results/memory_eval.json. Exit code 1: a goal is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.builders import shipped_snapshot
from bench.memory_eval.learners import Memory, labels_of
from bench.memory_eval.scores import Score, figures_of, measured
from bench.memory_eval.worlds import DAY_US, KINDS, Session, Turn, world
from bench.report import arguments, goal_row, markdown, put_between, rows_table, write_json
from hobus.config.sections.record import Ho3Config

DOCUMENT = Path("bench/results/memory.md")
RESULTS = Path("bench/results/memory_eval.json")
GOALS = {"f1": 0.85, "tokens": 60.0, "forget_days_p50": 7.0}
HELD_OUT_FROM = 1000
"""Seeds of the worlds that are reported begin here; those of the training worlds end long before."""
CONTRACT: Mapping[str, Any] = {
    "gate_mode": "counting", "gate_count_threshold": 5, "gate_session_threshold": 3,
    "decay_half_life_hours": 336, "bias_decay_floor": 0.05,
}  # fmt: skip
VISITS_MAX = 12
Makers = Mapping[str, Callable[[], Memory]]


def shipped() -> Ho3Config:
    """Section ho3 of the shipped configuration."""
    found = shipped_snapshot().config.ho3
    assert found is not None
    return found


def makers() -> Makers:
    """Everybody who is measured."""
    plain = shipped().model_copy(update=CONTRACT)
    memories = {"counting, the plain contract": plain, "**bistable (shipped)**": shipped()}
    return {name: lambda one=one: Memory(one) for name, one in memories.items()}


def scores_of(make: Callable[[], Memory], seeds: Sequence[int]) -> dict[str, Score]:
    """By kind of world."""
    return {kind: measured(make, (world(kind, seed) for seed in seeds)) for kind in KINDS}


def visits_needed(make: Callable[[], Memory], turns: int) -> int | None:
    """After so many sessions of so many turns, eight hours apart, one signal is in force; None: not after twelve."""
    learner = make()
    for visit in range(1, VISITS_MAX + 1):
        begin_us = visit * DAY_US // 3
        made = tuple(Turn(begin_us + number * 60_000_000, ("tool:pushed",)) for number in range(turns))
        session = Session(f"00000000-0000-5000-8000-{visit:012d}", made, is_own=False)
        for turn in made:
            learner.observe(session, turn)
        if learner.shown(made[-1].at_us, labels_of("tool:pushed"))[0]:
            return visit
    return None


# --- the tables -------------------------------------------------------------------------------------------------------


def table(figures: Mapping[str, Any]) -> str:
    """Of a run's figures, as they stand in its results."""
    return "\n\n".join((_sides(figures["sides"]), _goals(figures), _kinds(figures)))


def _sides(sides: Mapping[str, Any]) -> str:
    rows = [
        {"memory": name, **side["all"], "visits of 1 / 5 turns that teach": side["visits"]}
        for name, side in sides.items()
    ]
    return rows_table(rows)


def _kinds(figures: Mapping[str, Any]) -> str:
    """The shipped row by kind of world."""
    kinds = figures["sides"][figures["shipped"]]["kinds"]
    return rows_table([{"as shipped": kind, "world": made.what, **kinds[kind]} for kind, made in KINDS.items()])


def _goals(figures: Mapping[str, Any]) -> str:
    found = figures["sides"][figures["shipped"]]["all"]
    rows = [
        *goal_row("P17", "F1 on held-out worlds", "at least", GOALS["f1"], found["f1"], ""),
        *goal_row("P17", "tokens per turn", "at most", GOALS["tokens"], found["tokens"], ""),
        *goal_row("P17", "days to forget (p50)", "at most", GOALS["forget_days_p50"], found["forget_days_p50"], ""),
    ]
    return markdown(("", "what", "goal", "reached"), rows)


def is_reached(found: Mapping[str, Any]) -> bool:
    """All three goals."""
    is_within = all(found[name] <= GOALS[name] for name in ("tokens", "forget_days_p50"))
    return is_within and found["f1"] >= GOALS["f1"]


# --- one run ----------------------------------------------------------------------------------------------------------


def evaluated(compared: Makers, seeds: Sequence[int]) -> dict[str, Any]:
    """Everybody in every held-out world."""
    sides: dict[str, Any] = {}
    for name, make in compared.items():
        by_kind = scores_of(make, seeds)
        sides[name] = {
            "all": asdict(figures_of(*by_kind.values())),
            "kinds": {kind: asdict(figures_of(score)) for kind, score in by_kind.items()},
            "visits": [visits_needed(make, turns) for turns in (1, 5)],
        }
        print(f"{name}: F1 {sides[name]['all']['f1']}", file=sys.stderr, flush=True)
    return {
        "held_out_seeds": list(seeds),
        "shipped": next(name for name in sides if "(shipped)" in name),
        "sides": sides,
    }


def main() -> int:
    parser = arguments(__doc__, write=True, json=True)
    parser.add_argument("--worlds", type=int, default=5, help="of each kind")
    given = parser.parse_args()
    figures = evaluated(makers(), range(HELD_OUT_FROM, HELD_OUT_FROM + given.worlds))
    told = table(figures)
    print(told)
    for path in ([given.json] if given.json else []) + ([RESULTS] if given.write else []):
        write_json(path, figures)
    if given.write:
        put_between(
            "memory evaluation", f"{given.worlds} held-out worlds of each of {len(KINDS)} kinds", told, DOCUMENT
        )
    return 0 if is_reached(figures["sides"][figures["shipped"]]["all"]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
