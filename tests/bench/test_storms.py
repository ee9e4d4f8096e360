"""Which storms there are, what one must not leave, and that the committed table is the committed figures."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.report import DOCUMENT
from bench.storms.__main__ import RESULTS, table
from bench.storms.left import Left
from bench.storms.plan import DURING, ROLES, plans
from bench.storms.verdict import Row, Storm, grown

ROOT = Path(__file__).parents[2]
GOOD = Storm(
    name="killed at once: ho1+ho2", kind="killed at once", struck=["ho1/1", "ho2/1"], apart_s=0.0, moment="drain",
    outcomes={"success": 8}, p50_s=1.0, slowest_s=2.0, asked_again=0, asked_anew=0, first_told=[], whole_after_s=1.0,
    left_after_s=0.1, model_calls=16, model_calls_lost=0, in_doubt=0,
)  # fmt: skip
WHOLE = Row(
    storms=[GOOD], record="ok", entries=1, shown=1, shown_and_lost=[], wrongly_charged=[], outlived=[], grown=[]
)


def test_a_whole_round_has_every_pair_and_a_sample_every_role():
    """Each pair at once, within a second, and each one killed with each other frozen; the same seed, the same storms."""
    whole, sample = plans(is_all=True, seed=1), plans(is_all=False, seed=1)
    assert whole == plans(is_all=True, seed=1) != plans(is_all=True, seed=2)
    for kind in ("killed at once", "killed within a second"):
        hit = {frozenset(plan.killed) for plan in whole if plan.kind == kind}
        assert hit >= {frozenset(pair) for pair in combinations(ROLES, 2)} | {frozenset({"ho1"}), frozenset({"ho2"})}
    frozen = {(*plan.killed, *plan.frozen) for plan in whole if plan.kind == "killed and frozen"}
    assert frozen >= {(one, other) for one in ROLES for other in ROLES if one != other}
    assert {plan.during for plan in whole if plan.during} == set(DURING)
    assert len({plan.name for plan in whole if not plan.kind.startswith("three")}) == 76 + 74 + 45
    assert len(sample) < 50
    assert {role for plan in sample if plan.kind == "killed at once" for role in plan.killed} == set(ROLES)


@pytest.mark.parametrize(
    "change",
    [
        {"lost": ["storm-1-1-0 (nothing)"]},
        {"twice": ["storm-1-1-0"]},
        {"told_otherwise": ["storm-1-1-0"]},
        {"not_in_the_record": ["storm-1-1-0"]},
        {"wrongly_charged": ["storm-1-1-0 by charge_keyed: 2 effects"]},
        {"undriven": ["s/storm-1-left"]},
        {"late": ["storm-1-1-0 after 12.0 s"]},
        {"asked_again": 1},
        {"whole_after_s": -1.0},
    ],
)
def test_whatever_a_storm_must_not_leave_is_a_fault(change: dict[str, Any]):
    """One that left nothing has none."""
    assert GOOD.faults == [] and WHOLE.faults == []
    assert len(replace(GOOD, **change).faults) == len(replace(WHOLE, storms=[replace(GOOD, **change)]).faults) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"record": "a fenced owner wrote"},
        {"shown_and_lost": ["RunCompleted:s-1"]},
        {"wrongly_charged": ["WO-1 by charge_keyed: 2 effects"]},
        {"outlived": ["4711"]},
        {"grown": ["launcher by 20 MB and 0 descriptors"]},
    ],
)
def test_whatever_a_row_must_not_leave_is_a_fault(change: dict[str, Any]):
    """The record, the charges outside, processes, memory."""
    assert len(replace(WHOLE, **change).faults) == 1


def test_a_leak_shows_between_the_first_and_the_last_storm():
    """Of memory and of descriptors; what differs between two ways to start is none."""
    first = replace(GOOD, weights={"ho2": (20 << 20, 30)})
    for last, roles in (((40 << 20, 34), 0), ((90 << 20, 30), 1), ((20 << 20, 60), 1)):
        assert len(grown([first, first, replace(GOOD, weights={"ho2": last})])) == roles


def entry(event_type: str, about: str, run_seq: int = 1) -> Any:
    """The head of a journal's entry."""
    provenance = SimpleNamespace(session_id="s", run_seq=run_seq)
    return SimpleNamespace(event_type=event_type, submission_id=f"{event_type}:{about}", provenance=provenance)


@pytest.mark.parametrize(
    "end", [entry("RunCompleted", "s-1"), entry("RunFailed", "s/1.9"), entry("TurnDegraded", "s/in")]
)
def test_a_run_is_open_until_the_record_ends_it(end: Any):
    """Another run's end changes nothing."""
    left = Left()
    left.take(entry("RunRequested", "s/in"))
    left.take(entry("RunCompleted", "s-2", 2))
    assert left.open() == ["s/in"]
    left.take(end)
    assert left.open() == []


def test_a_follow_up_is_open_until_its_run_is_over():
    """Received and not begun, begun, over; a rejected one never was."""
    left = Left()
    left.take(entry("HostCommandReceived", "s/f1"))
    left.take(entry("HostCommandReceived", "s/f2"))
    left.take(entry("HostCommandRejected", "s/f2"))
    assert left.open() == ["s/followup:f1 (not begun)"]
    left.take(entry("RunRequested", "s/followup:f1", 2))
    assert left.open() == ["s/followup:f1"]
    left.take(entry("RunCompleted", "s-2", 2))
    assert left.open() == []


def test_the_table_is_that_of_the_figures():
    """Whoever changes one of them by hand is found."""
    found = json.loads((ROOT / RESULTS).read_text())
    storms = [storm for row in found["rows"] for storm in row["storms"]]
    assert table(storms) in (ROOT / DOCUMENT).read_text()
    assert found["faults"] == sum(len(row["faults"]) for row in found["rows"])
