"""The evaluation of memory's gate: its worlds, its judgement, who is measured, and that what is shipped is what won."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.memory_eval import __main__ as evaluation
from bench.memory_eval import tuning
from bench.memory_eval.learners import BASELINES, Everything, Frequent, Memory, Nothing, Recent, Window, labels_of
from bench.memory_eval.scores import Read, Score, add, figures_of, measured, reads_of
from bench.memory_eval.worlds import DAY_US, KINDS, NAMES, Habit, Planted, Session, Turn, World, world
from tests.actors.ho3_memory.builders import config

ROOT = Path(__file__).parents[2]
has_results = pytest.mark.skipif(not (ROOT / evaluation.RESULTS).exists(), reason="no run is committed yet")
KNOWN = A, B, C = "tool:a", "tool:b", "tool:c"
COUNTING = config(gate_mode="counting", gate_count_threshold=5, gate_session_threshold=3)
BISTABLE = config(
    gate_mode="bistable", gate_high=4.0, gate_low=2.0, evidence_half_life_hours=48.0, evidence_cap_per_session=2.0,
    gate_session_threshold=3,
)  # fmt: skip


def session(number: int, day: float, *turns: tuple[str, ...], is_own: bool = True) -> Session:
    """A session of turns a minute apart."""
    begin_us = round(day * DAY_US)
    made = tuple(Turn(begin_us + place * 60_000_000, signals) for place, signals in enumerate(turns))
    return Session(f"00000000-0000-5000-8000-{number:012d}", made, is_own)


def read(day: float, turns: int, *lines: str) -> Read:
    """What had lines on a day."""
    return Read(round(day * DAY_US), turns, frozenset(lines), 15 * len(lines), 10 * len(lines))


def judged(*reads: Read, habits: tuple[Habit, ...] = (), planted: tuple[Planted, ...] = ()) -> Score:
    """One world's score."""
    score = Score()
    add(score, World("test", (), habits, planted), reads)
    return score


def habit(signal: str, start_day: float, end_day: float) -> Habit:
    """A habit of these days."""
    return Habit(signal, round(start_day * DAY_US), round(end_day * DAY_US), 0.3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_world_follows_from_kind_and_seed(kind):
    """The same again; another seed, another world. Sessions in order, habits and planted signals apart."""
    made = world(kind, 3)
    assert made == world(kind, 3) and made != world(kind, 4)
    times = [one.turns[0].at_us for one in made.sessions]
    assert times == sorted(times) and all(one.start_us < one.end_us for one in made.habits)
    assert {one.signal for one in made.habits} <= {*NAMES, KINDS[kind].script} and not {
        one.signal for one in made.planted
    } & set(NAMES)
    assert all(len(set(turn.signals)) == len(turn.signals) for one in made.sessions for turn in one.turns)


def test_no_world_is_both_tuned_on_and_reported():
    """Seeds for training end where others begin."""
    assert all(max(seeds) < evaluation.HELD_OUT_FROM for seeds in tuning.TRAINING.values())


def test_precision_recall_and_tokens_are_counted_per_read():
    """Of two reads: two right, one wrong, one missed."""
    score = judged(read(1, 0, A), read(2, 8, A, C), habits=(habit(A, 0, 3), habit(B, 1.5, 3)))
    found = figures_of(score)
    assert (found.precision, found.recall, found.f1) == (0.667, 0.667, 0.667)
    assert (found.lines, found.tokens, found.labelled_tokens) == (1.5, 22.5, 15.0)


def test_a_world_counts_as_much_as_any_other():
    """One read that is right against four that are wrong: half of the lines."""
    right = judged(read(1, 0, A), read(1.1, 0, A), habits=(habit(A, 0, 3),))
    wrong = judged(*(read(day, 0, B) for day in range(1, 5)))
    assert figures_of(right, wrong).precision == 0.5


def test_learning_is_counted_in_turns_and_forgetting_in_days():
    """Known 16 turns after its first chance, and still two days after its end; never known: never learned."""
    reads = [read(0, 0), read(1, 8), read(2, 16, A), read(3.5, 24, A), read(5, 32, A), read(7, 40)]
    found = figures_of(judged(*reads, habits=(habit(A, 0, 3), habit(B, 0, 3))))
    assert (found.learn_turns_p50, found.never_learned, found.forget_days_p50) == (16, 0.5, 2.0)


def test_what_begins_anew_is_not_called_unforgotten():
    """A season's forgetting ends where the next season begins."""
    reads = [read(0, 0, A), read(2, 8, A), read(3, 16), read(11, 24, A), read(13, 32)]
    found = figures_of(judged(*reads, habits=(habit(A, 0, 1), habit(A, 10, 12))))
    assert found.forget_days_p50 == 0.5 and found.never_learned == 0.0  # two days, and none


@pytest.mark.parametrize(("day", "is_resisted"), [(0.5, True), (1, False), (16, False), (16.1, True)])
def test_what_is_planted_is_resisted_if_it_is_never_in_force_until_two_weeks_after(day, is_resisted):
    """From its first event on, both borders included."""
    planted = Planted("burst", C, DAY_US, 2 * DAY_US)
    found = figures_of(judged(read(0, 0), read(day, 8, C), planted=(planted,)))
    assert found.resisted == {"burst": float(is_resisted)}


def test_memory_is_the_product_with_its_settings():
    """Counting: five turns of three sessions, and for weeks on; bistable: it is gone when the evidence is."""
    lived = (*(session(number, number / 10, (A,), (A,)) for number in range(3)), session(3, 1, ()), session(4, 20, ()))
    for settings, expected in ((COUNTING, [{A}, {A}]), (BISTABLE, [{A}, set()])):
        reads = reads_of(World("test", lived, (), ()), Memory(settings))
        assert [set(one.lines) for one in reads] == [set(), set(), set(), *expected]


def test_one_session_teaches_neither_mode_anything():
    """A hundred turns with the same signal."""
    burst = session(0, 0, *[(A,)] * 100, is_own=False)
    after = session(1, 0.5, ())
    for settings in (COUNTING, BISTABLE):
        [seen] = reads_of(World("test", (burst, after), (), ()), Memory(settings))
        assert (seen.lines, seen.turns) == (frozenset(), 0)


def test_baselines_name_what_their_names_say():
    """Three sessions, then what each would show."""
    sessions = (session(0, 0, (A,), (A,)), session(1, 1, (A, B)), session(2, 2, (C,)), session(3, 3, (A,), (A,)))
    expected = {Nothing: set(), Everything: {A, B, C}, Frequent: {A, B, C}, Recent: {A, C}, Window: {A}}
    for rule, named in expected.items():
        learner = rule()
        for one in sessions:
            for turn in one.turns:
                learner.observe(one, turn)
        assert {name for one in KNOWN for name, _ in learner.shown(3 * DAY_US, labels_of(one))[0]} == named, rule
    assert set(BASELINES.values()) == set(expected)


def test_how_many_visits_of_a_stranger_teach_is_counted():
    """Contract: five visits of one turn, three of five; nobody learns: none."""
    assert [evaluation.visits_needed(lambda: Memory(COUNTING), turns) for turns in (1, 5)] == [5, 3]
    assert evaluation.visits_needed(Nothing, 5) is None


def test_the_tuner_takes_the_best_of_its_choices_and_no_other_way(monkeypatch):
    """Twice the same; a threshold that nothing reaches loses against one that habits reach, and one that forgets nothing."""
    monkeypatch.setattr(tuning, "CHOICES", {"bistable": [{"gate_high": (500.0, 4.0)}, {"gate_low": (0.001, 2.0)}]})
    days = [session(number, number / 3, *[(A,) if number < 60 else ()] * 2) for number in range(120)]
    small = [World("test", tuple(days), (habit(A, 0, 20),), ())]
    found = tuning.tuned("bistable", BISTABLE, small)
    assert found == tuning.tuned("bistable", BISTABLE, small)
    assert found[0] == {"gate_high": 4.0, "gate_low": 2.0} and found[1].f1 > 0.8


def test_goals_go_before_f1_and_resistance_between_what_is_as_good():
    """Within the goals, whatever the F1; then F1 to a hundredth; then what was resisted."""
    none = figures_of(measured(Nothing, [world("few sessions", 0)]))
    assert tuning.rank(none) > tuning.rank(replace(none, tokens=61.0, f1=0.9))
    weak, strong, better = (
        replace(none, f1=f1, resisted={"slow poisoning": share})
        for f1, share in ((0.852, 0.1), (0.847, 0.6), (0.86, 0.0))
    )
    assert tuning.rank(weak) < tuning.rank(strong) < tuning.rank(better)


# --- what is committed ------------------------------------------------------------------------------------------------


@has_results
def test_what_is_shipped_is_what_won_on_held_out_worlds():
    """The configuration is a row of the committed results, the tuned one, and no other row has a higher F1."""
    figures = json.loads((ROOT / evaluation.RESULTS).read_text())
    tuned = json.loads((ROOT / evaluation.TUNED).read_text())["numbers"]
    named = [name for name in evaluation.settings(tuned) if "(shipped)" in name]
    assert named == [figures["shipped"]]
    best = max(figures["sides"], key=lambda name: figures["sides"][name]["all"]["f1"])
    assert best == figures["shipped"]


@has_results
def test_the_document_shows_the_committed_evaluation():
    """The table is that of the figures."""
    figures = json.loads((ROOT / evaluation.RESULTS).read_text())
    assert evaluation.table(figures) in (ROOT / evaluation.DOCUMENT).read_text()
