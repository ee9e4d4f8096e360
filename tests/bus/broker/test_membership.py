"""Hello, names, fencing, reconnecting, re-announcing after a broker's restart."""

from __future__ import annotations

import pytest

from hobus.bus.broker.events import Connected
from hobus.bus.codec import decode
from hobus.bus.envelope import HEADER_VERSION, Kind, make_header
from hobus.bus.messages.control import Beat, Drain, Hello, InstanceLost, Refused, Rehello, Welcome
from tests.bus.broker.rig import BIG, Rig


def test_a_hello_is_welcomed_with_the_brokers_epoch_and_beat(rig):
    peer = rig.hello("ho1/1@a")
    (got,) = rig.got(peer)
    welcome = decode(Welcome, got.body, BIG)
    assert (got.header.kind, welcome.epoch) == (Kind.WELCOME, "e1")
    assert (welcome.beat_interval_ms, welcome.peer_timeout_ms) == (200, 800)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"protocol": HEADER_VERSION + 1}, "bad_protocol"),
        ({"instance": "nonsense"}, "malformed"),
        ({"instance": "ho1/1@a b"}, "malformed"),
        ({"role": "ho2"}, "role_mismatch"),
        ({"instance": "broker/1@a", "role": "broker"}, "role_mismatch"),
        ({"instance": "ghost/1@a", "role": "ghost"}, "role_mismatch"),
        ({"offers": ["ledger"]}, "role_mismatch"),
        ({"offers": ["ho1", "ledger"]}, "role_mismatch"),
        ({"instance": "operator/1@a", "role": "operator", "offers": ["operator"]}, "role_mismatch"),
    ],
)
def test_a_hello_against_the_rules_is_refused_and_binds_nothing(rig, fields, code):
    base = {"instance": "ho1/1@a", "role": "ho1", "token": "", "slots": 1, "version": "", "protocol": HEADER_VERSION}
    rig.control(b"c", Kind.HELLO, Hello.model_validate(base | fields))
    assert rig.refusal(b"c").code == code
    assert rig.core.peers == []
    rig.order(b"c", "WO-1")
    assert rig.got(b"c")[-1].header.type == Rehello.TYPE


def test_a_refused_token_is_counted_tapped_without_the_token_and_harmless():
    right, wrong = "t", "stolen-secret"
    rig = Rig(authenticate=lambda hello: None if hello.token == right else Refused(code="bad_token", detail="no"))
    rig.hello("ho1/1@a", token=wrong)
    assert rig.refusal(b"ho1/1@a").code == "bad_token"
    assert rig.core.counts["refused_bad_token"] == 1
    assert all(b"stolen-secret" not in tap.body for tap in rig.taps)
    rig.hello("ho1/1@a")
    assert rig.core.peers == ["ho1/1@a"]
    assert all(b"token" not in tap.body for tap in rig.taps)


def test_a_hello_that_is_no_hello_is_refused_as_malformed(rig):
    rig.frame(b"c", make_header(Kind.HELLO, "", type="bus.hello"), b"\xc1garbage")
    assert rig.refusal(b"c").code == "malformed"


@pytest.mark.parametrize("kind", [Kind.REQUEST, Kind.REPLY, Kind.BEAT, Kind.READY, Kind.CANCEL, Kind.BYE])
def test_every_frame_of_an_unbound_connection_is_answered_with_rehello(rig, kind):
    """It is dropped; the peer knows what to do."""
    rig.frame(b"c", make_header(kind, "m", type="wo.execute", destination="ho1"))
    (got,) = rig.got(b"c")
    assert (got.header.kind, got.header.type) == (Kind.WELCOME, Rehello.TYPE)


def test_garbage_of_an_unbound_connection_is_not_answered(rig):
    rig.garbage(b"c")
    assert rig.got(b"c") == []
    assert rig.core.counts["malformed"] == 1


def test_a_bound_connection_cannot_become_somebody_else(rig):
    peer = rig.client("ho1/1@a")
    rig.hello("ho2/1@a", peer)
    assert rig.refusal(peer).code == "name_taken"
    assert rig.core.peers == ["ho1/1@a"]


def test_the_same_incarnation_on_a_new_connection_has_reconnected(rig):
    """Its work stays with it if it says so; answers leave by the new connection, the old one is unbound."""
    ho2 = rig.client("ho2/1@a")
    ho1 = rig.worker("ho1/1@a")
    rig.order(ho2, "WO-1")
    again = rig.worker("ho1/1@a", b"again", in_progress=["WO-1"])
    assert rig.core.peers == ["ho2/1@a", "ho1/1@a"]
    rig.reply(ho1, "WO-1", b"old connection")
    assert rig.got(ho1)[-1].header.type == Rehello.TYPE
    rig.reply(again, "WO-1", b"new connection")
    assert [got.body for got in rig.got(ho2)] == [b"new connection"]


def test_a_reconnected_requester_gets_its_answers_on_the_new_connection(rig):
    rig.client("ho2/1@a")
    ho1 = rig.worker("ho1/1@a")
    rig.order(b"ho2/1@a", "WO-1")
    again = rig.client("ho2/1@a", b"again")
    rig.reply(ho1, "WO-1")
    assert rig.answers(again) == [("WO-1", "")]


def test_work_that_a_reconnected_worker_does_not_know_is_delivered_again(rig):
    """The frame was lost with the old connection: another attempt, not an endless wait."""
    ho2 = rig.client("ho2/1@a")
    rig.worker("ho1/1@a")
    rig.order(ho2, "WO-1")
    again = rig.worker("ho1/1@a", b"again", state="starting")
    rig.ready(again)
    (got,) = [got for got in rig.got(again) if got.header.kind == Kind.REQUEST]
    assert (got.header.message_id, got.header.attempt) == ("WO-1", 2)


def test_work_that_a_reconnected_worker_has_answered_is_asked_for_again_there(rig):
    """The answer was lost with the old connection; the worker's window has it."""
    ho2 = rig.client("ho2/1@a")
    rig.worker("ho1/1@a")
    rig.worker("ho1/2@a")
    rig.order(ho2, "WO-1", to="ho1")
    holder, other = (1, 2) if rig.requests(b"ho1/1@a") else (2, 1)
    again = rig.hello(f"ho1/{holder}@a", b"again", offers=["ho1"], answered=["WO-1"])
    (got,) = [got for got in rig.got(again) if got.header.kind == Kind.REQUEST]
    assert (got.header.message_id, got.header.attempt) == ("WO-1", 1)
    rig.reply(again, "WO-1")
    assert rig.answers(ho2) == [("WO-1", "")]
    assert rig.requests(f"ho1/{other}@a".encode()) == []


def test_a_newer_incarnation_fences_the_older_one_for_good(rig):
    """The older one's work moves, its connection is unbound, and its hello is refused from then on."""
    ho2 = rig.client("ho2/1@a")
    old = rig.worker("ho1/1@a")
    rig.order(ho2, "WO-1")
    new = rig.worker("ho1/1@b", b"new", state="starting")
    rig.ready(new)
    assert rig.requests(new) == ["WO-1"]
    rig.reply(old, "WO-1", b"old")
    assert rig.got(old)[-1].header.type == Rehello.TYPE
    rig.hello("ho1/1@a", old)
    assert rig.refusal(old).code == "name_taken"
    rig.reply(new, "WO-1", b"new")
    assert [got.body for got in rig.got(ho2)] == [b"new"]


def test_two_clients_of_one_role_with_different_numbers_live_side_by_side(rig):
    """Only the very name is exclusive."""
    rig.client("operator/1@a")
    rig.client("operator/2@a")
    assert rig.core.peers == ["operator/1@a", "operator/2@a"]


def test_bye_gives_work_back_at_once(rig):
    ho2 = rig.client("ho2/1@a")
    first = rig.worker("ho1/1@a")
    rig.order(ho2, "WO-1")
    second = rig.worker("ho1/2@a")
    rig.say_bye(first)
    assert rig.requests(second) == ["WO-1"]
    assert (rig.core.counts["peers_left"], rig.core.counts.get("peers_lost", 0)) == (1, 0)


def test_the_launchers_word_ends_a_peer_at_once_and_for_good(rig):
    launcher, ho2 = rig.client("launcher/1@a"), rig.client("ho2/1@a")
    ho1 = rig.worker("ho1/1@a")
    rig.order(ho2, "WO-1", to="ho1/1@a")
    rig.post(launcher, InstanceLost(instance="ho1/1@a", exit="signal 9"))
    assert rig.answers(ho2) == [("WO-1", "peer_lost")]
    rig.hello("ho1/1@a", ho1)
    assert rig.refusal(ho1).code == "name_taken"
    rig.post(launcher, InstanceLost(instance="ho1/5@a", exit="signal 9"))
    rig.order(ho2, "WO-2", to="ho1/5@a")
    assert rig.answers(ho2) == [("WO-2", "no_route")]


def test_a_peer_declared_lost_is_told_to_say_hello_and_may_come_back(rig):
    """Lost by silence or a failed send is not for good: the same incarnation may return, with its late work noted."""
    ho2 = rig.client("ho2/1@a")
    ho1 = rig.worker("ho1/1@a", slots=1)
    rig.order(ho2, "WO-1")
    second = rig.worker("ho1/2@a", slots=1)
    rig.lost(ho1)
    rig.reply(ho1, "WO-1")
    assert rig.got(ho1)[-1].header.type == Rehello.TYPE
    rig.worker("ho1/1@a", ho1, in_progress=["WO-1"], slots=1)
    rig.reply(second, "WO-1")
    assert rig.answers(ho2) == [("WO-1", "")]
    rig.order(ho2, "WO-2")
    rig.order(ho2, "WO-3")
    assert rig.requests(ho1) == []  # its only slot is taken by the old work until it says so
    rig.reply(ho1, "WO-1")
    assert rig.requests(ho1) == ["WO-3"]


class TestRestart:
    """A new broker collects hellos for bus.reannounce_grace_ms before it routes."""

    def test_nothing_is_routed_before_the_grace_and_all_afterwards(self):
        """Requests wait, also for a worker that is ready, since its owner may not have spoken yet."""
        rig = Rig(reannounce_grace_ms=300)
        ho2, ho1 = rig.client("ho2/1@a"), rig.worker("ho1/1@a")
        rig.order(ho2, "WO-1")
        rig.advance(0.29)
        assert rig.requests(ho1) == []
        rig.advance(0.02)
        assert rig.requests(ho1) == ["WO-1"]

    def test_the_last_of_those_expected_ends_the_grace(self):
        """Whoever holds a token may come back; when all have, or are told to be gone, nobody is waited for."""
        rig = Rig(reannounce_grace_ms=300, expected=["ho2/1@a", "ho1/1@a", "ho1/2@a", "launcher/1@a"])
        ho2, ho1 = rig.client("ho2/1@a"), rig.worker("ho1/1@a")
        rig.order(ho2, "WO-1")
        rig.advance(0.05)
        rig.post(rig.client("launcher/1@a"), InstanceLost(instance="ho1/9@a", exit="signal 9"))
        rig.advance(0.05)
        assert rig.requests(ho1) == []
        rig.post(b"launcher/1@a", InstanceLost(instance="ho1/2@a", exit="signal 9"), message_id="p2")
        rig.advance(0.0)
        assert rig.requests(ho1) == ["WO-1"]

    def test_whoever_is_expected_and_never_comes_is_waited_for_no_longer_than_the_grace(self):
        rig = Rig(reannounce_grace_ms=300, expected=["ho1/1@a", "ho1/2@a"])
        ho2, ho1 = rig.client("ho2/1@a"), rig.worker("ho1/1@a")
        rig.order(ho2, "WO-1")
        rig.advance(0.29)
        assert rig.requests(ho1) == []
        rig.advance(0.02)
        assert rig.requests(ho1) == ["WO-1"]
        alone = Rig(reannounce_grace_ms=300, expected=[])
        ho2, ho1 = alone.client("ho2/1@a"), alone.worker("ho1/1@a")
        alone.order(ho2, "WO-1")
        alone.advance(0.0)
        assert alone.requests(ho1) == ["WO-1"]

    @pytest.mark.parametrize("first", ["hello", "request"])
    def test_a_resent_request_is_attached_to_the_worker_that_announced_it(self, first):
        """Whichever comes first: nobody else gets it, the worker is told that it is asked again, its reply reaches the requester."""
        rig = Rig(reannounce_grace_ms=300)
        ho2, other = rig.client("ho2/1@a"), rig.worker("ho1/2@a")
        if first == "request":
            rig.order(ho2, "WO-1")
        ho1 = rig.worker("ho1/1@a", in_progress=["WO-1"], slots=1)
        if first == "hello":
            rig.order(ho2, "WO-1")
        rig.advance(0.5)
        told = [] if first == "request" else ["WO-1"]  # else with its welcome
        assert (rig.requests(ho1), rig.requests(other)) == (told, [])
        rig.reply(ho1, "WO-1")
        assert rig.answers(ho2) == [("WO-1", "")]

    @pytest.mark.parametrize("first", ["hello", "cancel"])
    def test_a_cancel_reaches_the_worker_that_announced_the_request(self, first):
        rig = Rig(reannounce_grace_ms=300)
        ho2 = rig.client("ho2/1@a")
        if first == "cancel":
            rig.cancel(ho2, "WO-1", "ho1")
        ho1 = rig.hello("ho1/1@a", offers=["ho1"], in_progress=["WO-1"], slots=1)
        if first == "hello":
            rig.cancel(ho2, "WO-1", "ho1")
        stop = rig.got(ho1)[-1].header
        assert (stop.kind, stop.correlation_id, stop.sender) == (Kind.CANCEL, "WO-1", "ho2/1@a")

    def test_a_role_that_may_not_ask_a_service_cannot_cancel_what_it_announced(self):
        """The policy holds for cancels of requests that this broker has not seen, and so do other roles' names."""
        rig = Rig(reannounce_grace_ms=300)
        ho1 = rig.hello("ho1/1@a", offers=["ho1"], in_progress=["WO-1", "ho2/1@a:7"], slots=2)
        rig.got(ho1)
        rig.cancel(rig.client("host/1@a"), "WO-1", "ho1")
        rig.cancel(rig.client("host/1@a"), "ho2/1@a:7", "ho1")
        assert rig.got(ho1) == []

    def test_a_client_cannot_cancel_what_another_client_asked_of_an_earlier_broker(self):
        """Clients of one role are different people: each may stop what is counted under its own name."""
        rig = Rig(reannounce_grace_ms=300)
        host = rig.hello("host/1@a", offers=["host"], in_progress=["door/1@a:7"], slots=1)
        rig.got(host)
        rig.cancel(rig.client("door/2@a"), "door/1@a:7", "host")
        assert rig.got(host) == []
        rig.cancel(rig.client("door/1@a"), "door/1@a:7", "host")
        assert [got.header.kind for got in rig.got(host)] == [Kind.CANCEL]

    def test_a_request_asked_again_before_its_worker_is_back_is_not_stopped(self):
        """The cancel was of the earlier asking."""
        rig = Rig(reannounce_grace_ms=300)
        ho2 = rig.client("ho2/1@a")
        rig.cancel(ho2, "WO-1", "ho1")
        rig.order(ho2, "WO-1")
        ho1 = rig.hello("ho1/1@a", offers=["ho1"], in_progress=["WO-1"], slots=1)
        assert Kind.CANCEL not in [got.header.kind for got in rig.got(ho1)]

    def test_a_new_connection_is_asked_for_a_hello_and_a_bound_one_is_not(self):
        """A peer that believes itself bound, from before a restart, learns at once that it is not."""
        rig = Rig()
        rig.step(Connected(b"new"))
        assert [got.header.type for got in rig.got(b"new")] == [Rehello.TYPE]
        bound = rig.client("ho2/1@a")
        rig.step(Connected(bound))
        assert rig.got(bound) == []

    def test_an_attached_request_takes_its_slot(self):
        """Credit counts work that was already there."""
        rig = Rig(reannounce_grace_ms=300)
        ho2 = rig.client("ho2/1@a")
        ho1 = rig.worker("ho1/1@a", in_progress=["WO-1"], slots=1)
        rig.order(ho2, "WO-1")
        rig.order(ho2, "WO-2")
        rig.advance(0.5)
        assert rig.requests(ho1) == ["WO-1"]
        rig.reply(ho1, "WO-1")
        assert rig.requests(ho1) == ["WO-2"]

    @pytest.mark.parametrize("first", ["hello", "request"])
    def test_an_answered_id_is_forwarded_to_the_one_that_answered(self, first):
        """Its window answers again; nobody else works on it."""
        rig = Rig(reannounce_grace_ms=300)
        ho2, other = rig.client("ho2/1@a"), rig.worker("ho1/2@a")
        if first == "request":
            rig.order(ho2, "WO-1")
        ho1 = rig.hello("ho1/1@a", offers=["ho1"], answered=["WO-1"])
        if first == "hello":
            rig.order(ho2, "WO-1")
        rig.advance(0.5)
        assert rig.requests(ho1) == ["WO-1"]
        assert rig.requests(other) == []
        rig.reply(ho1, "WO-1")
        assert rig.answers(ho2) == [("WO-1", "")]

    def test_an_answer_that_came_before_its_request_was_sent_again_is_asked_for_again(self):
        """Announced as in progress, answered meanwhile: the window has it."""
        rig = Rig(reannounce_grace_ms=300)
        ho2 = rig.client("ho2/1@a")
        ho1 = rig.worker("ho1/1@a", in_progress=["WO-1"])
        rig.reply(ho1, "WO-1")
        rig.order(ho2, "WO-1")
        assert rig.requests(ho1) == ["WO-1"]
        rig.reply(ho1, "WO-1")
        assert rig.answers(ho2) == [("WO-1", "")]

    def test_announced_keys_keep_their_owner(self):
        """The hash is not asked for a key that somebody holds."""
        rig = Rig(reannounce_grace_ms=300)
        host = rig.client("host/1@a")
        workers = [rig.worker(f"ho2/{n}@a", keys=[f"s{k}" for k in range(10) if k % 2 == n]) for n in range(2)]
        for key in range(10):
            rig.ask(host, f"t{key}", "ho2", "ho2.turn", key=f"s{key}")
        rig.advance(0.5)
        assert rig.requests(workers[0]) == ["t0", "t2", "t4", "t6", "t8"]
        assert rig.requests(workers[1]) == ["t1", "t3", "t5", "t7", "t9"]

    def test_nobody_can_announce_work_of_a_service_that_it_does_not_offer(self):
        rig = Rig(reannounce_grace_ms=300)
        ho2 = rig.client("ho2/1@a", in_progress=["WO-1"], answered=["WO-1"])
        ledger = rig.worker("ledger/1@a", in_progress=["WO-1"])
        ho1 = rig.worker("ho1/1@a")
        rig.order(ho2, "WO-1")
        rig.advance(0.5)
        assert rig.requests(ho1) == ["WO-1"]
        assert rig.requests(ledger) == []


# --- who is ready


def test_everybody_learns_at_once_when_a_role_gains_its_first_ready_peer_or_loses_its_last(rig):
    """A second one of a role is no news; a newcomer learns with its welcome."""
    client = rig.client("host/1@h")
    rig.words(client)
    one = rig.worker("ho1/1@a")
    assert rig.words(client) == [(["ho1"], True)]
    two = rig.worker("ho1/2@a")
    rig.lost(one)
    assert rig.words(client) == []
    assert rig.words(rig.hello("host/2@h")) == [(["ho1"], True)]
    rig.ready(two, "degraded")
    rig.ready(two, "ready")
    rig.lost(two)
    assert rig.words(client) == [([], True), (["ho1"], True), ([], True)]


def test_a_launcher_learns_at_once_of_every_peer_that_gets_ready_or_is_no_more(rig):
    """Of a role that somebody is ready of, too: it waits for the one that it has started."""
    launcher, client = rig.client("launcher/1@l"), rig.client("host/1@h")
    rig.worker("ho1/1@a")
    two = rig.worker("ho1/2@a")
    rig.words(launcher), rig.words(client)
    rig.lost(two)
    rig.worker("ho1/2@b")
    rig.ready(rig.worker("ho1/3@a"), "ready")
    assert rig.words(launcher) == [(["ho1"], True)] * 3
    assert rig.words(client) == []


def test_one_that_is_drained_or_has_reconnected_is_not_ready_until_it_says_so(rig):
    """The operator's word counts against its own; a new connection begins anew."""
    client = rig.client("operator/1@h")
    worker = rig.worker("ho1/1@a")
    rig.words(client)
    again = rig.hello("ho1/1@a", b"another connection", offers=["ho1"])
    rig.ready(again)
    assert rig.words(client) == [([], True), (["ho1"], True)]
    rig.call(client, "d", Drain(instance="ho1/1@a"))
    rig.hello("host/1@h")
    assert rig.words(b"host/1@h")[-1] == ([], True)
    assert worker in rig.peers


def test_a_broker_that_still_waits_for_old_peers_says_so():
    """What it does not know yet is no news of anybody's loss."""
    rig = Rig(reannounce_grace_ms=1000)
    client = rig.client("host/1@h")
    rig.worker("ho1/1@a")
    assert rig.words(client) == [(["ho1"], False)]
    rig.advance(1.1)
    assert (["ho1"], True) in rig.words(client)


def test_a_beat_is_answered_with_who_is_ready(rig):
    """A word that was lost is said again."""
    client = rig.client("host/1@h")
    rig.worker("ho2/1@a")
    rig.words(client)
    rig.control(client, Kind.BEAT, Beat())
    assert rig.words(client) == [(["ho2"], True)]


def test_a_beat_is_read_anew_where_it_says_something_else_and_one_without_a_body_is_none(rig):
    """An idle peer's beat is its last one again; whatever else comes is looked at, also before there was a first one."""
    client = rig.client("host/1@h")
    (peer,) = (one for one in rig.core._state.names.values() if one.instance == "host/1@h")
    for body, counters, refused in ((b"", {}, 1), (b"\xc1", {}, 2)):
        rig.frame(client, make_header(Kind.BEAT, "", type=Beat.TYPE), body)
        assert (peer.counters, rig.core.counts["malformed"]) == (counters, refused)
    for counters in ({"at_work": 1}, {"at_work": 1}, {"at_work": 2}, {}):
        rig.words(client)
        rig.control(client, Kind.BEAT, Beat(counters=counters))
        assert peer.counters == counters and len(rig.words(client)) == 1
    rig.frame(client, make_header(Kind.BEAT, "", type=Beat.TYPE), b"")
    assert (peer.counters, rig.core.counts["malformed"]) == ({}, 3)
