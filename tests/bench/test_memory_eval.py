"""The evaluation of memory's gate: its worlds, what a learner is shown, and that what is shipped is what won."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.memory_eval import __main__ as evaluation
from bench.memory_eval import tuning
from bench.memory_eval.learners import BASELINES
from bench.memory_eval.scores import figures_of, measured
from bench.memory_eval.worlds import KINDS, NAMES, world

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_world_follows_from_kind_and_seed(kind):
    """The same again; another seed, another world. Sessions in order, habits and planted signals apart."""
    made = world(kind, 3)
    assert made == world(kind, 3) and made != world(kind, 4)
    times = [one.turns[0].at_us for one in made.sessions]
    assert times == sorted(times) and all(one.start_us < one.end_us for one in made.habits)
    assert {one.signal for one in made.habits} <= {*NAMES, KINDS[kind].script}
    assert not {one.signal for one in made.planted} & set(NAMES)


def test_every_baseline_is_measured_and_no_world_is_both_tuned_on_and_reported():
    """One small world; the seeds for training end where others begin."""
    small = [world("few sessions", 0)]
    assert all(0.0 <= figures_of(measured(rule, small)).f1 <= 1.0 for rule in BASELINES.values())
    assert all(max(seeds) < evaluation.HELD_OUT_FROM for seeds in tuning.TRAINING.values())


def test_what_is_shipped_is_what_won_on_held_out_worlds():
    """The configuration is a row of the committed results, the tuned one, and no other row has a higher F1."""
    figures = json.loads((ROOT / evaluation.RESULTS).read_text())
    tuned = json.loads((ROOT / evaluation.TUNED).read_text())["numbers"]
    named = [name for name in evaluation.settings(tuned) if "(shipped)" in name]
    assert named == [figures["shipped"]]
    best = max(figures["sides"], key=lambda name: figures["sides"][name]["all"]["f1"])
    assert best == figures["shipped"]
