"""How long an executor takes it that there is no gateway."""

from __future__ import annotations

from hobus.actors.ho1_executor.model_step import Outage


def test_an_outage_is_over_long_enough_at_its_border() -> None:
    """From the first request that found nobody, over all orders of this worker."""
    outage = Outage(5.0)
    assert [outage.saw("no_route", now) for now in (10.0, 13.0, 14.9, 15.0, 16.0)] == [False, False, False, True, True]


def test_an_answer_or_another_fault_ends_it() -> None:
    outage = Outage(5.0)
    outage.saw("no_route", 10.0)
    outage.saw("", 11.0)
    assert not outage.saw("no_route", 15.0)
    outage.saw("busy", 16.0)
    assert not outage.saw("peer_lost", 20.0)


def test_an_outage_that_nobody_met_for_a_while_is_another_one() -> None:
    """One of an hour ago does not shorten the patience with today's."""
    outage = Outage(5.0)
    outage.saw("no_route", 10.0)
    assert not outage.saw("no_route", 3600.0)
    assert outage.saw("no_route", 3605.0)
