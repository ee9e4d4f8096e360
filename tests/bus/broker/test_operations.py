"""What the broker answers itself."""

from __future__ import annotations

import pytest

from hobus.bus.codec import decode
from hobus.bus.envelope import Kind
from hobus.bus.messages.control import (
    Done,
    Drain,
    PeerRow,
    Peers,
    Probe,
    Probed,
    Queues,
    ReadPeer,
    ReadPeers,
    ReadQueues,
)
from tests.bus.broker.rig import BIG, Rig


def answer(got, cls):
    """The typed reply; anything else fails."""
    assert got.header.type == cls.TYPE
    return decode(cls, got.body, BIG)


def test_read_peers_shows_everybody_and_the_broker_itself(rig):
    operator, host = rig.client("operator/1@a"), rig.client("host/1@a")
    ho2 = rig.worker("ho2/1@a", state="starting")
    rig.worker("ho1/1@a", slots=4, state="degraded", tools=["cluster.peers"], version="0.1")
    rig.ready(ho2)
    rig.order(ho2, "WO-1", key="cluster.peers")
    rig.ask(host, "t", "ho2", "ho2.turn", key="session")
    peers = answer(rig.call(operator, "q", ReadPeers()), Peers)
    rows = {row.instance: row for row in peers.peers}
    assert list(rows) == ["broker/1@e1", "ho1/1@a", "ho2/1@a", "host/1@a", "operator/1@a"]
    assert rows["ho2/1@a"].keys == 1
    row = rows["ho1/1@a"]
    assert (row.state, row.slots, row.in_flight, row.keys, row.offers) == ("degraded", 4, 1, 0, ["ho1"])
    assert row.tools == ["cluster.peers"]
    assert rows["broker/1@e1"].offers == ["broker"]


def test_read_peer_tells_the_living_from_the_lost_and_the_unknown(rig):
    ho2, ho1 = rig.client("ho2/1@a"), rig.worker("ho1/1@a")
    assert answer(rig.call(ho2, "q1", ReadPeer(instance="ho1/1@a")), PeerRow).state == "ready"
    rig.say_bye(ho1)
    assert answer(rig.call(ho2, "q2", ReadPeer(instance="ho1/1@a")), PeerRow).state == "lost"
    assert rig.call(ho2, "q3", ReadPeer(instance="ho1/9@a")).failure.code == "not_found"


def test_questions_about_peers_wait_until_a_restarted_broker_has_heard_who_is_there():
    """Right after its start the broker cannot know who is gone, so it does not say so."""
    rig = Rig(reannounce_grace_ms=300)
    ho2 = rig.client("ho2/1@a")
    rig.ask(ho2, "q", "broker", ReadPeer.TYPE, body=b"\x81\xa8instance\xa7ho1/1@a")
    rig.advance(0.2)
    assert rig.got(ho2) == []
    rig.worker("ho1/1@a")
    rig.advance(0.2)
    (got,) = rig.got(ho2)
    assert answer(got, PeerRow).instance == "ho1/1@a"


def test_read_queues_counts_what_waits_runs_and_failed(rig):
    operator, ho2 = rig.client("operator/1@a"), rig.client("ho2/1@a")
    ho1 = rig.worker("ho1/1@a", slots=1)
    rig.order(ho2, "WO-1")
    rig.order(ho2, "WO-2")
    rig.order(ho2, "WO-3")
    rig.cancel(ho2, "WO-3")
    queues = {row.service: row for row in answer(rig.call(operator, "q", ReadQueues()), Queues).queues}
    row = queues["ho1"]
    assert (row.queued, row.in_flight, row.delivered, row.failed) == (1, 1, 1, {"cancelled": 1})
    rig.reply(ho1, "WO-1")
    rig.reply(ho1, "WO-2")
    queues = {row.service: row for row in answer(rig.call(operator, "q2", ReadQueues()), Queues).queues}
    assert (queues["ho1"].queued, queues["ho1"].in_flight, queues["ho1"].delivered) == (0, 0, 2)


def test_a_drained_instance_gets_nothing_new_and_finishes_what_it_has(rig):
    operator, ho2 = rig.client("operator/1@a"), rig.client("ho2/1@a")
    ho1 = rig.worker("ho1/1@a", slots=2)
    rig.order(ho2, "WO-1")
    assert answer(rig.call(operator, "q", Drain(instance="ho1/1@a")), Done) == Done()
    rig.order(ho2, "WO-2")
    rig.advance(8.0)
    assert rig.requests(ho1) == ["WO-1"]
    rig.reply(ho1, "WO-1")
    rig.say_bye(ho1)
    rig.advance(2.9)
    assert rig.answers(ho2) == [("WO-1", "")], "the grace begins when it is gone: its successor may be on its way"
    rig.advance(0.2)
    assert rig.answers(ho2) == [("WO-2", "no_route")]
    assert rig.call(operator, "q2", Drain(instance="ho1/9@a")).failure.code == "not_found"


@pytest.mark.parametrize("beats", [[{}], [{"at_work": 0}], [{"at_work": 1}, {"at_work": 0}], [{"at_work": 2}]])
def test_who_has_a_lane_counts_as_busy_from_its_drain_to_its_next_beat(rig, beats):
    """What its lane brought since its last beat, the broker does not know; the launcher ends only whoever is idle."""
    operator = rig.client("operator/1@a")
    ho1 = rig.worker("ho1/1@a", slots=2)

    def in_flight(number: int) -> int:
        return answer(rig.call(operator, f"q{number}", ReadPeer(instance="ho1/1@a")), PeerRow).in_flight

    rig.beat(ho1, at_work=0)
    assert in_flight(0) == 0
    rig.call(operator, "drain", Drain(instance="ho1/1@a"))
    assert in_flight(1) == 1
    for number, counters in enumerate(beats, 2):
        rig.beat(ho1, **counters)
        assert in_flight(number) == counters.get("at_work", 0)


def test_a_malformed_question_is_answered_as_malformed(rig):
    operator = rig.client("operator/1@a")
    rig.ask(operator, "q", "broker", ReadPeer.TYPE, body=b"\x81\xa8instance\x01")
    assert rig.answers(operator) == [("q", "malformed")]


def test_the_broker_can_be_addressed_by_its_instance_and_probed(rig):
    ho1 = rig.client("ho1/1@a")
    assert answer(rig.call(ho1, "q", Probe(), to="broker/1@e1"), Probed).state == "ready"


def test_answers_of_the_broker_are_stamped_with_its_instance(rig):
    operator = rig.client("operator/1@a")
    got = rig.call(operator, "q", ReadQueues())
    assert (got.header.kind, got.header.sender) == (Kind.REPLY, "broker/1@e1")
