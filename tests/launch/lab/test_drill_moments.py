"""Whom and when a drill hits: names that are understood, frames that exist, and who is meant by a role."""

from __future__ import annotations

import pytest

from hobus.bus.catalog import ROWS
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError
from hobus.launch.lab.drill_moments import MOMENTS, ROLES, Victim, stands_at, victim_of
from hobus.launch.process.liveness import STAGES

ACTORS = ["broker/1", "ledger/1", "ho1/1", "ho2/1", "ho2/2"]


def test_every_moment_is_a_frame_that_the_catalog_knows():
    """A renamed message would make a drill wait for ever."""
    known = {row.cls.TYPE for row in ROWS} | {row.reply.TYPE for row in ROWS if row.reply is not None}
    for moment in MOMENTS.values():
        assert moment.point().type in known, moment.word
        assert moment.holder in STAGES


def test_every_role_of_the_cluster_can_be_hit():
    """And the two processes that are no actors."""
    assert set(ROLES) == set(STAGES) | {"zygote", "launcher"}


@pytest.mark.parametrize(
    ("who", "role", "number"), [("ho2", "ho2", None), ("ho2/3", "ho2", 3), ("zygote", "zygote", None)]
)
def test_a_role_or_one_process_of_it_is_named(who, role, number):
    """It is said back as it was typed."""
    assert victim_of(who) == Victim(role, number) and str(victim_of(who)) == who


@pytest.mark.parametrize("who", ["", "ho4", "ho2/0", "ho2/", "launcher/1", "HO2", "ho2/1/1", "ho2 "])
def test_anybody_else_is_a_usage_error_that_names_who_can_be_hit(who):
    """Exit code 2 and the list."""
    with pytest.raises(CommandError, match="broker, ledger") as refused:
        victim_of(who)
    assert refused.value.exit_code == exit_codes.USAGE


def test_of_a_role_the_one_at_which_the_turn_stands_is_meant():
    """A number names one process whoever holds the turn; one that is not there is nobody."""
    assert Victim("ho2").among(ACTORS, "ho2/2") == "ho2/2"
    assert Victim("ho2").among(ACTORS, "ho1/1") == "ho2/1"
    assert Victim("ho2", 1).among(ACTORS, "ho2/2") == "ho2/1"
    assert Victim("ho2", 3).among(ACTORS, "ho2/2") is None
    assert Victim("ho3").among(ACTORS, "ho2/2") is None


def test_who_has_no_frame_at_a_moment_is_told_so():
    """Its own frame, or the one in which the turn is held."""
    assert "itself held" in stands_at(Victim("ho2"), MOMENTS["reply"])
    assert "no frame of its own" in stands_at(Victim("broker"), MOMENTS["reply"])
