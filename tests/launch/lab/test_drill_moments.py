"""Whom and when a drill hits: names that are understood, frames that exist, and who is meant by a role."""

from __future__ import annotations

from hobus.bus.catalog import ROWS
from hobus.launch.lab.drill_moments import MOMENTS, Victim, stands_at
from hobus.launch.process.liveness import STAGES

ACTORS = ["broker/1", "ledger/1", "ho1/1", "ho2/1", "ho2/2"]


def test_every_moment_is_a_frame_that_the_catalog_knows():
    """A renamed message would make a drill wait for ever."""
    known = {row.cls.TYPE for row in ROWS} | {row.reply.TYPE for row in ROWS if row.reply is not None}
    for moment in MOMENTS.values():
        assert moment.point().type in known, moment.word
        assert moment.holder in STAGES


def test_of_a_role_the_one_at_which_the_turn_stands_is_meant():
    """A number names one process whoever holds the turn; one that is not there is nobody."""
    assert Victim("ho2").choose_among(ACTORS, "ho2/2") == "ho2/2"
    assert Victim("ho2").choose_among(ACTORS, "ho1/1") == "ho2/1"
    assert Victim("ho2", 1).choose_among(ACTORS, "ho2/2") == "ho2/1"
    assert Victim("ho2", 3).choose_among(ACTORS, "ho2/2") is None
    assert Victim("ho3").choose_among(ACTORS, "ho2/2") is None


def test_who_has_no_frame_at_a_moment_is_told_so():
    assert "itself held" in stands_at(Victim("ho2"), MOMENTS["reply"])
    assert "no frame of its own" in stands_at(Victim("broker"), MOMENTS["reply"])
