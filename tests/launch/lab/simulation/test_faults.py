"""Faults by name, with units: what is understood, what is refused, and that the words lead back to the same values."""

from __future__ import annotations

import pytest

from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError
from hobus.launch.lab.simulation.faults import FAULTS, parse
from hobus.launch.lab.simulation.plan import make_plan


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("none", {}),
        ("loss=0.02,crash=2", {"loss": 0.02, "crash": 2}),
        ("loss=2%", {"loss": 0.02}),
        ("delay=3ms,clock-jump=2h", {"delay": 0.003, "clock-jump": 7200}),
        ("torn-disk", {"torn-disk": 1}),
    ],
)
def test_faults_are_named_with_values_in_their_units(text: str, values: dict[str, float]) -> None:
    """Shares as numbers or percents, times with a unit, counts whole; a bare name has its own value."""
    assert parse(text).values == pytest.approx(values)


@pytest.mark.parametrize(
    "text", ["rain", "loss=2", "loss=ms", "delay=3", "crash=1.5", "crash=2ms", "loss,loss", "crash=99", "loss=-1"]
)
def test_what_is_no_fault_is_a_usage_error(text: str) -> None:
    """An unknown name, a value out of bounds, a missing or foreign unit, a name given twice."""
    with pytest.raises(CommandError) as told:
        parse(text)
    assert told.value.exit_code == exit_codes.USAGE


def test_a_plan_follows_from_its_seed_alone() -> None:
    """The same twice, and another one for another seed; every kind of strike comes up."""
    plans = [make_plan(seed, turns=3, sessions=None, faults=parse("all")) for seed in range(300)]
    assert plans[:20] == [make_plan(seed, turns=3, sessions=None, faults=parse("all")) for seed in range(20)]
    assert len({str(plan) for plan in plans}) == len(plans)
    kinds = {strike.kind for plan in plans for strike in plan.strikes}
    assert kinds == {"crash", "torn-disk", "freeze", "partition", "disk-full", "sync-error", "clock-jump"}
    assert {name for plan in plans for name in plan.faults} == {name for name, one in FAULTS.items() if one.drawn}
