"""Silence, probes, and a broker that stood still itself."""

from __future__ import annotations

import pytest

from hobus.bus.broker.events import Tick
from hobus.bus.envelope import Kind


def beats(rig, connection):
    """Beats that this connection got since the last look."""
    return [got for got in rig.inbox.get(connection, []) if got.header.kind == Kind.BEAT]


def test_a_peer_silent_for_the_time_out_is_lost_and_its_work_moves(rig):
    ho2 = rig.client("ho2/1@a")
    first = rig.worker("ho1/1@a")
    rig.order(ho2, "WO-1")
    second = rig.worker("ho1/2@a")
    rig.advance(0.25)
    rig.silent.add(first)
    rig.advance(0.7)
    assert rig.requests(second) == []
    rig.advance(0.2)
    assert rig.requests(second) == ["WO-1"]
    assert rig.core.peers == ["ho2/1@a", "ho1/2@a"]


def test_a_killed_worker_with_work_is_found_by_the_next_probe(rig):
    """The probe cannot be sent, which is reported within a probe interval; nobody waits for silence."""
    ho2 = rig.client("ho2/1@a")
    ho1 = rig.worker("ho1/1@a")
    rig.order(ho2, "WO-1", to="ho1/1@a")
    rig.advance(1.0)
    rig.unreachable.add(ho1)
    rig.advance(0.1)
    assert rig.answers(ho2) == [("WO-1", "peer_lost")]


def test_only_silent_peers_with_work_are_probed(rig):
    ho2 = rig.client("ho2/1@a")
    idle, busy = rig.worker("ho1/1@a"), rig.worker("ho1/2@a")
    rig.order(ho2, "WO-1", to="ho1/2@a")
    rig.silent |= {idle, busy}
    rig.inbox.clear()
    rig.advance(0.5)
    assert beats(rig, idle) == []
    assert 10 <= len(beats(rig, busy)) <= 13  # each probe interval of 40 ms


def test_every_beat_is_answered(rig):
    """A peer knows that the broker lives by the same means."""
    peer = rig.client("ho2/1@a")
    rig.inbox.clear()
    rig.advance(1.0)
    assert len(beats(rig, peer)) >= 9


def test_nobody_is_blamed_for_a_standstill_of_the_broker(rig):
    """The broker wakes 5 s late with unread frames: peers that speak now are not lost, the dead one is, later."""
    rig.client("ho2/1@a")
    dead = rig.worker("ho1/1@a")
    rig.advance(0.5)
    rig.silent.add(dead)
    rig.now += 5.0
    rig.step(Tick())
    assert len(rig.core.peers) == 2
    rig._next_beat = rig.now
    rig.advance(1.0)
    assert rig.core.peers == ["ho2/1@a"]
    assert rig.core.counts["stood_still"] == 1


def test_the_next_wake_up_is_in_time_and_never_in_the_past_for_long(rig):
    rig.client("ho2/1@a")
    rig.advance(0.05)
    assert rig.core.next_wakeup() - rig.now == pytest.approx(0.75, abs=0.1)
    rig.order(b"ho2/1@a", "WO-1", deadline_ms=100)
    assert rig.core.next_wakeup() - rig.now == pytest.approx(0.1, abs=0.001)
    rig.advance(0.2)
    assert rig.core.next_wakeup() > rig.now
