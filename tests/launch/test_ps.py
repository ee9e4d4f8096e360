"""One line of `hobus ps`: the launcher's word on a process, and the broker's where that is worse."""

import pytest

from bus.messages.control import PeerRow
from launch.commands.ps import actor_row
from launch.supervision import Member


def row(launcher, broker, *, note="", reason=""):
    """The line of an executor of which the two say this; broker None: it does not know the process."""
    child = Member(actor="ho1/1", role="ho1", state=launcher, instance="ho1/1@a", note=note, started_at=90.0).row()
    peer = broker and PeerRow(
        instance="ho1/1@a", role="ho1", offers=["ho1"], state=broker, reason=reason, slots=4, in_flight=2, keys=0,
        last_beat_ms=7, connected_ms=0,
    )  # fmt: skip
    return actor_row(child, {"ho1/1@a": peer} if peer else {}, 100.0)


@pytest.mark.parametrize(
    ("launcher", "broker", "shown"),
    [
        ("ready", "ready", "ready"),
        ("ready", "degraded", "degraded"),
        ("ready", "draining", "draining"),
        ("degraded", "draining", "draining"),
        ("ready", "lost", "lost"),
        ("degraded", "ready", "degraded"),
        ("ready", "starting", "ready"),
        ("starting", "ready", "starting"),
        ("draining", "ready", "draining"),
        ("failed", "lost", "failed"),
        ("backoff", "lost", "backoff"),
        ("ready", None, "ready"),
    ],
)
def test_the_worse_of_two_words_is_shown(launcher, broker, shown):
    """What the broker will not send work to is not ready, whatever the launcher saw last."""
    assert row(launcher, broker).state == shown


def test_a_drained_worker_says_why_it_gets_no_work():
    """The launcher has no reason for it: an operator's word to the broker is the reason."""
    assert row("ready", "draining").note == "takes no new work (broker.drain)"
    assert row("ready", "degraded", reason="no ledger").note == "no ledger"
    assert row("ready", "ready").note == ""


@pytest.mark.parametrize("broker", [None, "lost"])
def test_a_process_that_is_not_on_the_bus_is_named(broker):
    """Alive for the kernel, absent for everybody else; an earlier note stays, and no beat is shown."""
    found = row("ready", broker)
    assert "alive, but not on the bus" in found.note and found.last_beat_ms is None
    assert row("ready", broker, note="no beat for 9 s; killed").note == "no beat for 9 s; killed"
    assert row("starting", broker).note == ""


def test_without_the_broker_the_launchers_word_stands():
    """Its figures are missing, its word is not guessed."""
    child = Member(actor="ho1/1", role="ho1", state="ready", instance="ho1/1@a").row()
    alone = actor_row(child, None, 1.0)
    assert (alone.state, alone.note, alone.in_flight) == ("ready", "", None)
