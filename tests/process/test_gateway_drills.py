"""The gateway's drills on real processes, each in a small version: budgets, audit, stops, secrets."""

from __future__ import annotations

import asyncio

import pytest

from bench.gateway import audit, budgets, secrets, stops

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("launchers_are_executed")]


def test_a_budget_that_fits_k_calls_never_pays_for_more():
    """Sixty-four at once, with faults, cancels and a killed gateway; nothing stays reserved, both sides have the same calls."""
    rounds, said = budgets.drill(8, 3, kill_every=4)
    assert budgets.faults_of(rounds, said) == []
    assert sum(one.worked for one in rounds) > 8 and sum(one.was_killed for one in rounds) == 2


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(point, marks=() if point in ("recorded", "answered") else pytest.mark.matrix)
        for point in audit.POINTS
        if point != "nobody"
    ],
)
def test_the_record_has_every_call_that_the_provider_counted(point: str):
    """Wherever in a call its gateway is killed; what nobody can know is said to be unknown."""
    row = audit.measure(point, 2)
    assert row.faults == [] and row.kills >= 2, row
    assert row.compared.unknown, "the kills met no call"


def test_a_cancel_reaches_the_provider():
    """Whatever it was about to say, and whoever takes it back; how fast, the benchmark says."""
    rows = asyncio.run(stops.measure_cancels(3, ("prompt", "turn")))
    assert [len(row.reached_ms) for row in rows] == [3] * len(rows) and not any(row.open for row in rows), rows


@pytest.mark.parametrize("last", [stops.CHAIN[-1], "whole"])
def test_a_chain_of_hanging_providers_ends_in_time(last: str):
    """With an honest answer; or with that of the model which has one, for the reserve that was kept for it."""
    (row,) = stops.measure_deadlines(3, "prompt", last, (1.0,))
    assert row.outcomes == ({"success": 3} if last == "whole" else {"timeout DEADLINE_EXCEEDED": 3}), row
    assert row.models == {"m1": 3, "m2": 3, "m3": 3}


def test_no_secret_is_anywhere_that_it_must_not_be():
    """Not in logs, records, errors, answers, tap, files, environments or command lines, whatever a provider gives back."""
    found = secrets.drill(("answer", "tool", "401", "stuck"))
    assert found.faults == []
    assert found.bodies, "no record holds the words of the prompts: they were not searched for as they stand"
