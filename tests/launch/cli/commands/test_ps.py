"""One line of `hobus ps`: the launcher's word on a process, and the broker's where that is worse."""

import pytest

from hobus.bus.messages.control import PeerRow, Peers, RefusedKey
from hobus.launch.cli.commands.doctor import find_bounds
from hobus.launch.cli.commands.ps import format_row, list_listening, make_actor_row, make_remote_row
from hobus.launch.launcher.supervision import Member


def row(launcher, broker, *, note="", reason="", counters=None, silent_since=0.0):
    """The line of an executor of which the two say this; broker None: it does not know the process."""
    child = Member(
        actor="ho1/1",
        role="ho1",
        state=launcher,
        instance="ho1/1@a",
        note=note,
        started_at=90.0,
        silent_since=silent_since,
    ).row()
    peer = broker and PeerRow(
        instance="ho1/1@a", role="ho1", offers=["ho1"], state=broker, reason=reason, slots=4, in_flight=2, keys=0,
        last_beat_ms=7, connected_ms=0, counters=counters or {},
    )  # fmt: skip
    return make_actor_row(child, {"ho1/1@a": peer} if peer else {}, 100.0, no_room="")


@pytest.mark.parametrize(
    ("launcher", "broker", "shown"),
    [
        ("ready", "ready", "ready"),
        ("ready", "degraded", "degraded"),
        ("ready", "draining", "draining"),
        ("degraded", "draining", "draining"),
        ("ready", "lost", "stalled"),
        ("degraded", "lost", "stalled"),
        ("degraded", "ready", "degraded"),
        ("ready", "starting", "ready"),
        ("starting", "ready", "starting"),
        ("draining", "ready", "draining"),
        ("failed", "lost", "failed"),
        ("backoff", "lost", "backoff"),
        ("ready", None, "stalled"),
    ],
)
def test_the_worse_of_two_words_is_shown(launcher, broker, shown):
    """What the broker will not send work to is not ready, whatever the launcher saw last."""
    assert row(launcher, broker).state == shown


@pytest.mark.parametrize(("role", "state", "expected"), [
    ("ledger", "ready", "degraded"), ("ledger", "failed", "failed"), ("ho1", "ready", "ready"),
])  # fmt: skip
def test_the_ledger_of_a_full_disk_is_not_ready(role, state, expected):
    """Whoever else would say so cannot write."""
    child = Member(actor=f"{role}/1", role=role, state=state, instance=f"{role}/1@a", started_at=90.0).row()
    shown = make_actor_row(child, None, 100.0, no_room="the disk is full")
    assert shown.state == expected and ("the disk is full" in shown.note) == (expected == "degraded")


@pytest.mark.parametrize("broker", [None, "lost"])
def test_a_process_that_is_not_on_the_bus_is_named(broker):
    """Alive for the kernel, absent for everybody else; an earlier note stays, and no beat is shown."""
    found = row("ready", broker)
    assert "alive, but not on the bus" in found.note and found.last_beat_ms is None
    assert row("ready", broker, note="no beat for 9 s; killed").note == "no beat for 9 s; killed"
    assert row("starting", broker).note == ""
    since = row("ready", broker, silent_since=95.5)
    assert (since.state, since.last_beat_ms) == (
        "stalled",
        4500,
    ) and since.note == "no beat for 4.5 s: frozen or cut off"
    assert format_row(since)[7] == "4.5 s"


def test_a_worker_elsewhere_is_shown_with_where_it_is_and_what_it_brings():
    """The broker's word alone: no process of this machine, host and address, slots, tools, version."""
    peer = PeerRow(
        instance="ho1/remote-1@a", role="ho1", offers=["ho1"], state="degraded", reason="gateway: no_route", slots=8,
        in_flight=2, keys=0, last_beat_ms=7, connected_ms=1500, tools=["list_tools"], version="1.2", host="box",
        address="10.0.0.9",
    )  # fmt: skip
    found = make_remote_row(peer)
    assert (found.actor, found.pid, found.host, found.slots) == ("ho1/remote-1", None, "box 10.0.0.9", 8)
    cells = format_row(found)
    assert cells[:4] == ("ho1/remote-1", "degraded", "-", "1.5 s")
    assert cells[-2:] == ("box 10.0.0.9", "8 slots, 1 tool, hobus 1.2  gateway: no_route")
    assert format_row(row("ready", "ready"))[-2:] == ("local", "")


def test_who_was_not_let_in_is_named_below_the_table():
    """Key, address and count; strangers without a key as a number; nothing where nothing listens."""
    broker = PeerRow(
        instance="broker/1@a", role="broker", offers=["broker"], state="ready", slots=0, in_flight=0, keys=0,
        last_beat_ms=0, connected_ms=0, counters={"handshakes_failed": 3},
    )  # fmt: skip
    refused = RefusedKey(key="key:01", address="10.0.0.66", count=2, last_ms=4000)
    peers = Peers(epoch="a", peers=[broker], listens="10.0.0.7:5570", refused_keys=[refused])
    lines = list_listening(peers)
    assert "10.0.0.7:5570" in lines[0]
    assert ("key:01" in lines[1], "10.0.0.66" in lines[1], "2 times" in lines[1]) == (True, True, True)
    assert lines[2].startswith("3 connections")
    assert list_listening(peers.model_copy(update={"listens": ""})) == []


@pytest.mark.parametrize(
    ("counters", "note"),
    [
        ({"breakers_open": 0, "breakers_half_open": 0}, ""),
        ({"runs_waiting": 1}, "1 turn waits to begin: no processor time is left"),
        ({"places_waiting": 7}, "7 calls wait for a provider that takes no more at once"),
        ({"lag_ms": 249}, ""),
        ({"lag_ms": 900}, "its loop is 900 ms behind: it gets no more work until it has caught up"),
        ({"breakers_open": 1}, "1 model not called (hobus breaker)"),
        ({"breakers_open": 2, "breakers_half_open": 1}, "2 models not called, 1 model tried again (hobus breaker)"),
    ],
)
def test_what_bounds_a_process_now_is_told_beside_it(counters, note):
    """By the counters of its beats: no further question. What else is to be said of it comes first."""
    assert row("ready", "ready", counters=counters).note == note
    assert row("ready", "degraded", reason="ledger: no_route", counters=counters).note == "ledger: no_route"


def test_the_doctor_names_what_bounds_the_cluster_now():
    """One warning for each place where something waits, and none where nothing does."""
    peer = PeerRow(
        instance="ho2/1@a", role="ho2", offers=["ho2"], state="ready", slots=0, in_flight=0, keys=0,
        last_beat_ms=0, connected_ms=0, counters={"runs_waiting": 3, "places_waiting": 1, "breakers_open": 1},
    )  # fmt: skip
    found = find_bounds([peer, peer.model_copy(update={"counters": {}})])
    assert [(one.check, one.verdict) for one in found] == [("ho2/1", "warn")] * 2
    assert [one.detail.partition(":")[0] for one in found] == [
        "3 turns wait to begin", "1 call waits for a provider that takes no more at once",
    ]  # fmt: skip
