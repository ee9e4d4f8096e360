"""Autoscaling by the files of deploy/, over what a real cluster's gauges and record told (`python -m bench.autoscaling`)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.autoscaling import RECORDING, Order, Rules, outcomes, played

SHIPPED = Rules.shipped()


@pytest.fixture(scope="module")
def recording() -> dict[str, Any]:
    """Six minutes of a real cluster."""
    found: dict[str, Any] = json.loads(RECORDING.read_text(encoding="utf-8"))
    return found


def test_no_busy_worker_is_cut_off_by_the_shipped_rules(recording: dict[str, Any]) -> None:
    """Of whoever is scaled away, the busiest each time, every order ends within its grace; by the queue alone many do not."""
    shipped, naive = outcomes(recording, scale=6.0, rounds=2).values()
    assert shipped.removed > 0 and shipped.cut == 0 and shipped.pods_most <= SHIPPED.most
    assert naive.cut > 0


def test_the_recorded_orders_make_the_recorded_gauges(recording: dict[str, Any]) -> None:
    """What is played is what was read: as many orders at work each second, give or take a tenth of them all."""
    orders = [Order(*one) for one in recording["orders"]]
    at_work = [sum(one.sent <= now < one.sent + one.took for one in orders) for now in range(recording["seconds"])]
    told = [queued + in_flight for queued, in_flight in recording["gauges"]]
    apart = sum(abs(one - other) for one, other in zip(at_work, told, strict=True))
    assert apart <= sum(told) / 10


def test_a_burst_is_followed_within_two_minutes_and_let_go_after_the_window() -> None:
    """From one worker to as many as it takes, in the steps that Kubernetes allows; back only after ten quiet minutes."""
    burst = played([Order(60.0, 300.0)] * 60, SHIPPED)
    assert burst.pods_most == 15 and burst.waited_most_s < 120 and burst.cut == 0
    assert len(burst.gauges) > 60 + 300 + SHIPPED.window_s
    assert burst.removed == 14


def test_a_worker_that_is_told_to_end_has_its_grace() -> None:
    """An order that lasts longer than that is cut off, and counted: what the window is there to make rare."""
    impatient = SHIPPED._replace(window_s=0)
    kept = played([Order(0.0, 40.0)] * 8 + [Order(50.0, 45.0)] * 4, impatient)
    assert kept.busy_removed and not kept.cut
    assert played([Order(0.0, 40.0)] * 8 + [Order(50.0, 400.0)] * 4, impatient).cut
