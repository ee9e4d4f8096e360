"""Requests, answers, posts, cancels: every outcome that bus.md's "Delivery, stated" names."""

from __future__ import annotations

import pytest

from hobus.bus import limits as bus_limits
from hobus.bus.catalog import Row
from hobus.bus.codec import encode
from hobus.bus.envelope import Kind, make_header
from hobus.bus.limits import BODY_MAX_BYTES
from hobus.bus.messages.control import ReadQueues, ServiceGivenUp
from hobus.bus.messages.failure import Failure
from tests.bus.broker.rig import BIG, Rig

POST_ROW = Row(ReadQueues, "ho2", None, frozenset({"host"}), redeliver=False)
"""A post between actors; the shipped catalog has posts to the broker only."""


def pair(rig, slots=2):
    return rig.client("ho2/1@a"), rig.worker("ho1/1@a", slots=slots)


def test_a_request_is_delivered_stamped_with_less_time_and_its_body_untouched(rig):
    """The worker sees the requester's bound name, whatever was claimed, the remaining time, and the very bytes."""
    ho2, ho1 = pair(rig)
    rig.order(ho2, "WO-1", body=b"\xffopaque", sender="operator/9@z", deadline_ms=5000, trace="t1", causation_id="c1")
    (got,) = rig.got(ho1)
    assert (got.header.sender, got.body, got.header.attempt) == ("ho2/1@a", b"\xffopaque", 1)
    assert got.header.deadline_ms == 5000
    assert (got.header.trace, got.header.causation_id, got.header.sensitive) == ("t1", "c1", True)


def test_the_time_spent_in_the_queue_is_taken_off_the_deadline(rig):
    ho2 = rig.client("ho2/1@a")
    rig.order(ho2, "WO-1", deadline_ms=5000)
    rig.advance(2.0)
    ho1 = rig.worker("ho1/1@a", state="starting")
    rig.ready(ho1)
    (got,) = [got for got in rig.got(ho1) if got.header.kind == Kind.REQUEST]
    assert got.header.deadline_ms == pytest.approx(3000, abs=2)


def test_a_reply_goes_to_the_requester_stamped_with_the_worker(rig):
    ho2, ho1 = pair(rig)
    rig.order(ho2, "WO-1")
    rig.reply(ho1, "WO-1", b"done")
    (got,) = rig.got(ho2)
    assert (got.header.kind, got.header.correlation_id, got.header.sender) == (Kind.REPLY, "WO-1", "ho1/1@a")
    assert (got.header.destination, got.body, got.header.type) == ("ho2/1@a", b"done", "wo.receipt")


def test_a_reply_of_another_type_than_the_catalogs_is_an_internal_failure(rig):
    """A worker cannot answer with something the requester did not ask for; its slot is free again."""
    ho2, ho1 = pair(rig, slots=1)
    rig.order(ho2, "WO-1")
    rig.order(ho2, "WO-2")
    rig.reply(ho1, "WO-1", type_name="ledger.written")
    assert rig.answers(ho2) == [("WO-1", "internal")]
    assert rig.requests(ho1) == ["WO-1", "WO-2"]


@pytest.mark.parametrize(
    ("role", "to", "type_name", "reason"),
    [
        ("ho1", "gateway", "ledger.write", "unknown_type"),
        ("ho2", "gateway", "gateway.prompt", "sender_not_allowed"),
        ("ho1", "ho3", "memory.log_signal", "sender_not_allowed"),
        ("ho2", "nowhere", "wo.execute", "unknown_type"),
        ("ho2", "", "wo.execute", "unknown_type"),
        ("ho1", "broker", "broker.drain", "sender_not_allowed"),
        ("launcher", "broker", "broker.instance_lost", "wrong_kind"),
    ],
)
def test_what_no_row_allows_is_denied_to_its_sender(rig, role, to, type_name, reason):
    for worker in ("gateway/1@a", "ho1/9@a"):
        rig.worker(worker)
    peer = rig.client(f"{role}/1@a")
    rig.ask(peer, "x1", to, type_name)
    assert rig.answers(peer) == [("x1", "denied")]
    assert rig.core.counts["denied"] == 1
    assert [tap.code for tap in rig.taps if tap.verdict == "denied"] == [reason]
    assert rig.requests(b"gateway/1@a") == rig.requests(b"ho1/9@a") == []


def test_a_post_against_the_policy_is_answered_too(rig):
    ho1 = rig.client("ho1/1@a")
    rig.frame(ho1, make_header(Kind.POST, "p1", type="broker.instance_lost", destination="broker"))
    assert rig.answers(ho1) == [("p1", "denied")]


def test_a_published_frame_is_denied_while_the_catalog_publishes_nothing(rig):
    """Nobody subscribes to anything yet, so a publish is refused rather than silently dropped."""
    ho1 = rig.client("ho1/1@a")
    rig.frame(ho1, make_header(Kind.PUBLISH, "p1", type="ledger.entry_committed"))
    assert [tap.code for tap in rig.taps if tap.verdict == "denied"] == ["unknown_type"]


def test_a_full_queue_is_busy_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bus_limits, "QUEUE_MAX", 2)
    rig = Rig()
    ho2, ho1 = pair(rig, slots=1)
    for number in range(4):
        rig.order(ho2, f"WO-{number}")
    assert rig.answers(ho2) == [("WO-3", "busy")]
    for number in range(3):
        rig.reply(ho1, f"WO-{number}")
    assert rig.answers(ho2) == [("WO-0", ""), ("WO-1", ""), ("WO-2", "")]


def test_an_expired_request_leaves_the_queue_unsent(rig):
    ho2, ho1 = pair(rig, slots=1)
    rig.order(ho2, "WO-1")
    rig.order(ho2, "WO-2", deadline_ms=1000)
    rig.advance(1.01)
    assert rig.answers(ho2) == [("WO-2", "expired")]
    rig.reply(ho1, "WO-1")
    assert rig.requests(ho1) == ["WO-1"]


def test_a_request_expires_at_its_worker_which_is_told_to_stop_and_keeps_its_slot(rig):
    """A slot is free when the worker says so, not when the caller's patience ends; the late answer is dropped."""
    ho2, ho1 = pair(rig, slots=1)
    rig.order(ho2, "WO-1", deadline_ms=1000)
    rig.order(ho2, "WO-2")
    rig.advance(1.01)
    assert rig.answers(ho2) == [("WO-1", "expired")]
    kinds = [got.header.kind for got in rig.got(ho1)]
    assert kinds == [Kind.REQUEST, Kind.CANCEL]
    rig.verdicts()
    rig.reply(ho1, "WO-1")
    assert rig.answers(ho2) == []
    assert "late" in rig.verdicts()
    assert rig.requests(ho1) == ["WO-2"]


@pytest.mark.parametrize("deadline_ms", [0, -1])
def test_a_request_without_time_left_is_expired_at_once(rig, deadline_ms):
    ho2, ho1 = pair(rig)
    rig.order(ho2, "WO-1", deadline_ms=deadline_ms)
    assert rig.answers(ho2) == [("WO-1", "expired")]
    assert rig.requests(ho1) == []


@pytest.mark.parametrize("fields", [{"message_id": ""}, {"message_id": "x" * 401}, {"key": "k" * 401}, {"attempt": 0}])
def test_a_header_beyond_its_bounds_is_malformed(rig, fields):
    """Ids, keys and attempts are bounded, so that no forwarded header can be too large for its receiver."""
    ho2, ho1 = pair(rig)
    head = make_header(Kind.REQUEST, "WO-1", type="wo.execute", destination="ho1", deadline_ms=1000)._replace(**fields)
    rig.frame(ho2, head)
    assert [code for _, code in rig.answers(ho2)] == ["malformed"]
    assert rig.requests(ho1) == []


def test_a_header_that_would_not_fit_after_stamping_is_malformed(rig):
    """What arrives just below the header limit has no room for the stamps."""
    ho2, ho1 = pair(rig)
    rig.order(ho2, "WO-1", causation_id="c" * 3600)
    assert rig.answers(ho2) == [("WO-1", "malformed")]
    assert rig.requests(ho1) == []


def test_a_body_above_the_limit_is_too_large():
    rig = Rig()
    ho2, ho1 = pair(rig)
    rig.order(ho2, "WO-1", body=b"x" * (BODY_MAX_BYTES + 1))
    (got,) = rig.got(ho2)
    assert got.failure.code == "too_large"
    assert str(BODY_MAX_BYTES) in got.failure.detail
    assert rig.requests(ho1) == []


def test_a_huge_deadline_is_only_a_long_one(rig):
    """The largest number that MessagePack carries neither overflows nor harms."""
    ho2, ho1 = pair(rig)
    rig.order(ho2, "WO-1", deadline_ms=2**64 - 1)
    assert rig.requests(ho1) == ["WO-1"]


def test_attempts_are_bounded_and_end_as_a_dead_letter():
    rig = Rig(attempts_max=3)
    ho2 = rig.client("ho2/1@a")
    rig.order(ho2, "WO-1")
    for number in range(3):
        worker = rig.worker(f"ho1/{number}@a", state="starting")
        rig.ready(worker)
        assert rig.requests(worker) == ["WO-1"]
        rig.lost(worker)
    assert rig.answers(ho2) == [("WO-1", "peer_lost")]
    assert rig.core.counts["dead_letters"] == 1
    assert "dead" in rig.verdicts()


def test_a_request_to_an_instance_goes_there_only_and_is_not_moved(rig):
    """Addressing an instance means that very process: lost means peer_lost, though another could do it."""
    ho2, first = pair(rig)
    rig.worker("ho1/2@a")
    rig.order(ho2, "WO-1", to="ho1/1@a")
    assert rig.requests(first) == ["WO-1"]
    rig.lost(first)
    assert rig.answers(ho2) == [("WO-1", "peer_lost")]
    assert rig.requests(b"ho1/2@a") == []


def test_a_request_waiting_for_an_instance_fails_when_that_is_lost(rig):
    ho2, first = pair(rig, slots=1)
    rig.order(ho2, "WO-1", to="ho1/1@a")
    rig.order(ho2, "WO-2", to="ho1/1@a")
    rig.lost(first)
    assert rig.answers(ho2) == [("WO-1", "peer_lost"), ("WO-2", "peer_lost")]


def test_a_request_to_an_unknown_instance_waits_the_grace_for_it(rig):
    ho2, ho1 = pair(rig)
    rig.order(ho2, "WO-1", to="ho1/7@a")
    rig.advance(2.9)
    assert rig.answers(ho2) == []
    rig.advance(0.2)
    assert rig.answers(ho2) == [("WO-1", "no_route")]
    rig.say_bye(ho1)
    rig.order(ho2, "WO-2", to="ho1/1@a")
    assert rig.answers(ho2) == [("WO-2", "no_route")]


def test_an_instance_that_comes_within_the_grace_gets_what_waits_for_it(rig):
    ho2 = rig.client("ho2/1@a")
    rig.order(ho2, "WO-1", to="ho1/7@a")
    rig.advance(1.0)
    late = rig.worker("ho1/7@a", state="starting")
    rig.ready(late)
    assert rig.requests(late) == ["WO-1"]


def test_a_cancel_follows_the_request_to_its_worker_whose_answer_counts(rig):
    ho2, ho1 = pair(rig)
    rig.order(ho2, "WO-1")
    rig.cancel(ho2, "WO-1")
    stop = rig.got(ho1)[-1].header
    assert (stop.kind, stop.correlation_id, stop.sender) == (Kind.CANCEL, "WO-1", "ho2/1@a")
    assert rig.answers(ho2) == []
    rig.reply(ho1, "WO-1")
    assert rig.answers(ho2) == [("WO-1", "")]


def test_a_cancelled_request_is_not_redelivered(rig):
    ho2, ho1 = pair(rig)
    second = rig.worker("ho1/2@a")
    rig.order(ho2, "WO-1")
    holder, other = (ho1, second) if rig.requests(ho1) else (second, ho1)
    rig.cancel(ho2, "WO-1")
    rig.lost(holder)
    assert rig.answers(ho2) == [("WO-1", "cancelled")]
    assert rig.requests(other) == []


def test_a_request_asked_again_while_it_is_being_cancelled_goes_to_its_worker_again(rig):
    """The new asker is not answered with the first one's cancellation, whether that comes or not."""
    ho2, ho1 = pair(rig)
    rig.order(ho2, "WO-1")
    rig.cancel(ho2, "WO-1")
    rig.got(ho1)
    rig.order(ho2, "WO-1")
    (again,) = rig.got(ho1)
    assert (again.header.kind, again.header.message_id, again.header.attempt) == (Kind.REQUEST, "WO-1", 2)
    stopped = encode(Failure(code="cancelled", retryable=False, detail=""), BIG)
    rig.frame(ho1, make_header(Kind.FAILURE, "f", correlation_id="WO-1", type=Failure.TYPE, attempt=1), stopped)
    assert rig.answers(ho2) == []
    rig.reply(ho1, "WO-1")
    assert rig.answers(ho2) == [("WO-1", "")]


def test_the_failure_of_the_run_that_was_asked_for_again_counts(rig):
    """Only what belongs to the stopped attempt is ignored."""
    ho2, ho1 = pair(rig)
    rig.order(ho2, "WO-1")
    rig.cancel(ho2, "WO-1")
    rig.order(ho2, "WO-1")
    failure = encode(Failure(code="internal", retryable=False, detail=""), BIG)
    rig.frame(ho1, make_header(Kind.FAILURE, "f", correlation_id="WO-1", type=Failure.TYPE, attempt=2), failure)
    assert rig.answers(ho2) == [("WO-1", "internal")]


@pytest.mark.parametrize("attempt", [1, 3])
def test_what_expired_at_its_worker_does_not_settle_a_new_asking(rig, attempt):
    """The worker's late failure of the first asking is nobody's; that of the second one is its outcome."""
    ho2, ho1 = pair(rig)
    rig.order(ho2, "WO-1", deadline_ms=1000, attempt=attempt)
    rig.advance(1.1)
    assert rig.answers(ho2) == [("WO-1", "expired")]
    rig.got(ho1)
    rig.order(ho2, "WO-1", attempt=attempt)
    (again,) = rig.got(ho1)
    assert (again.header.kind, again.header.attempt) == (Kind.REQUEST, attempt + 1)
    expired = encode(Failure(code="expired", retryable=True, detail=""), BIG)
    rig.frame(ho1, make_header(Kind.FAILURE, "f1", correlation_id="WO-1", type=Failure.TYPE, attempt=attempt), expired)
    assert rig.answers(ho2) == []
    rig.frame(
        ho1, make_header(Kind.FAILURE, "f2", correlation_id="WO-1", type=Failure.TYPE, attempt=attempt + 1), expired
    )
    assert rig.answers(ho2) == [("WO-1", "expired")]


def test_only_the_requester_may_cancel(rig):
    ho2, ho1 = pair(rig)
    stranger = rig.client("ho2/2@a")
    rig.order(ho2, "WO-1")
    rig.cancel(stranger, "WO-1")
    assert [got.header.kind for got in rig.got(ho1)] == [Kind.REQUEST]
    assert rig.core.counts["denied"] == 1


def test_an_answer_for_a_lost_requester_is_late_and_goes_nowhere(rig):
    """It is tapped as late; the request is over and its slot free."""
    ho2, ho1 = pair(rig, slots=1)
    rig.order(ho2, "WO-1")
    rig.lost(ho2)
    rig.verdicts()
    rig.reply(ho1, "WO-1")
    assert "late" in rig.verdicts()
    assert rig.got(ho2) == []


def test_a_resent_id_is_attached_and_everybody_who_asked_is_answered(rig):
    """Same id, type and destination by the same role: one piece of work, the latest deadline, an answer for each."""
    first, ho1 = pair(rig)
    second = rig.client("ho2/2@a")
    rig.order(first, "WO-1", deadline_ms=1000)
    rig.order(second, "WO-1", deadline_ms=9000)
    rig.advance(1.5)
    assert rig.requests(ho1) == ["WO-1", "WO-1"]
    rig.reply(ho1, "WO-1")
    assert rig.answers(first) == rig.answers(second) == [("WO-1", "")]


def test_an_owner_that_thaws_does_not_take_the_answer_from_its_successor(rig):
    """The old requester re-sends the id that its successor waits for: the successor still gets the one answer."""
    thawed, ho1 = pair(rig)
    successor = rig.client("ho2/2@a")
    rig.order(successor, "WO-1")
    rig.order(thawed, "WO-1", deadline_ms=500)
    rig.advance(1.0)
    rig.order(successor, "WO-1")  # asked once more: still one answer for each
    rig.reply(ho1, "WO-1")
    assert rig.answers(successor) == rig.answers(thawed) == [("WO-1", "")]


def test_everybody_who_asked_is_told_of_a_failure(rig):
    first, _ = pair(rig)
    second = rig.client("ho2/2@a")
    rig.order(first, "WO-1", deadline_ms=1000)
    rig.order(second, "WO-1", deadline_ms=1000)
    rig.advance(1.5)
    assert rig.answers(first) == rig.answers(second) == [("WO-1", "expired")]


def test_a_cancel_by_one_of_several_requesters_leaves_the_request_to_the_others(rig):
    """A fenced owner gives up what its successor still waits for; only the last one's cancel stops the worker."""
    first, ho1 = pair(rig)
    second = rig.client("ho2/2@a")
    rig.order(first, "WO-1")
    rig.order(second, "WO-1")
    rig.got(ho1)
    rig.cancel(second, "WO-1")
    assert [got.header.kind for got in rig.got(ho1)] == []
    rig.cancel(first, "WO-1")
    assert [got.header.kind for got in rig.got(ho1)] == [Kind.CANCEL]


def test_a_client_cannot_join_another_clients_request(rig):
    """Clients are different people in one role: an id that is pending for one is denied to the other."""
    host = rig.worker("host/1@a")
    mine, theirs = rig.client("door/1@a"), rig.client("door/2@a")
    rig.ask(mine, "turn-1", "host", "host.process_turn")
    rig.ask(theirs, "turn-1", "host", "host.process_turn")
    assert rig.answers(theirs) == [("turn-1", "denied")]
    rig.reply(host, "turn-1", b"", "session.turn_result")
    assert rig.answers(mine) == [("turn-1", "")]


@pytest.mark.parametrize(
    ("asks", "counts", "service", "type_"),
    [
        ("door/evil@a", "door/1@a", "host", "host.process_turn"),
        ("ho1/remote-1@a", "ho1/1@a", "ledger", "ledger.write"),
        ("ho2/1@b", "ho2/1@a", "ho1", "wo.execute"),
    ],
)
def test_nobody_asks_under_an_id_that_another_counted(rig, asks, counts, service, type_):
    """Neither for the answer that was given, nor for the one that will be: its own role and name make no difference."""
    worker = rig.worker(f"{service}/1@w")
    asking = rig.client(asks)
    for message_id in (f"{counts}:1", f"{counts}:2"):
        rig.ask(asking, message_id, service, type_)
        assert rig.answers(asking) == [(message_id, "denied")]
    rig.ask(asking, f"{asks}:1", service, type_)
    assert [got.header.message_id for got in rig.got(worker)] == [f"{asks}:1"]


def test_an_id_in_use_for_something_else_is_denied(rig):
    ho2, _ = pair(rig)
    rig.order(ho2, "WO-1")
    rig.ask(ho2, "WO-1", "ledger", "ledger.lookup")
    assert rig.answers(ho2) == [("WO-1", "denied")]


def test_ids_of_different_roles_do_not_meet(rig):
    ho2, ho1 = pair(rig)
    ledger = rig.worker("ledger/1@a")
    rig.order(ho2, "same")
    rig.ask(ho1, "same", "ledger", "ledger.lookup")
    rig.reply(ledger, "same", b"found", "ledger.found")
    rig.reply(ho1, "same", b"receipt")
    assert [got.body for got in rig.got(ho1) if got.header.kind == Kind.REPLY] == [b"found"]
    assert [got.body for got in rig.got(ho2)] == [b"receipt"]


def test_one_id_of_two_roles_at_one_worker_is_denied_to_the_second(rig):
    """The worker could not tell their answers apart."""
    ledger = rig.worker("ledger/1@a")
    first, second = rig.client("ho2/1@a"), rig.client("ho1/1@a")
    rig.ask(first, "same", "ledger", "ledger.lookup")
    rig.ask(second, "same", "ledger", "ledger.lookup")
    assert rig.answers(second) == [("same", "denied")]
    rig.reply(ledger, "same", b"", "ledger.found")
    assert rig.answers(first) == [("same", "")]


def test_a_counted_id_under_another_roles_name_is_denied(rig):
    """`<instance>:<n>` belongs to that instance's role, so nobody can occupy somebody else's ids."""
    rig.worker("ledger/1@a")
    ho1 = rig.client("ho1/1@a")
    rig.ask(ho1, "ho2/1@a:7", "ledger", "ledger.lookup")
    assert rig.answers(ho1) == [("ho2/1@a:7", "denied")]
    rig.ask(ho1, "ho1/1@a:7", "ledger", "ledger.lookup")
    assert rig.answers(ho1) == []


def test_a_forged_reply_is_denied_and_the_true_one_still_counts(rig):
    ho2, ho1 = pair(rig)
    forger = rig.worker("ho1/2@a")
    rig.order(ho2, "WO-1")
    holder, other = (ho1, forger) if rig.requests(ho1) else (forger, ho1)
    rig.reply(other, "WO-1", b"forged")
    assert rig.core.counts["denied"] == 1
    rig.reply(holder, "WO-1", b"true")
    assert [got.body for got in rig.got(ho2)] == [b"true"]


def test_a_reply_by_a_peer_without_a_service_is_denied(rig):
    ho2, _ = pair(rig)
    rig.reply(ho2, "whatever")
    assert rig.core.counts["denied"] == 1


def test_a_post_to_an_absent_service_is_held_then_a_dead_letter(rig, monkeypatch):
    """It waits limits.POST_HOLD_MS, longer than a request's grace; then it is dead, and its sender is not told."""
    monkeypatch.setattr("hobus.bus.broker.delivery.find_frame_row", lambda *_: POST_ROW)
    monkeypatch.setattr("hobus.bus.broker.delivery.find_denial", lambda *_: "")
    host = rig.client("host/1@a")
    rig.frame(host, make_header(Kind.POST, "p1", type="x", destination="ho2"), b"post")
    rig.advance(4.9)
    assert rig.core.counts.get("dead_letters", 0) == 0
    rig.advance(0.2)
    assert rig.core.counts["dead_letters"] == 1
    assert rig.answers(host) == []
    rig.frame(host, make_header(Kind.POST, "p2", type="x", destination="ho2"), b"held")
    ho2 = rig.worker("ho2/1@a", state="starting", slots=0)
    rig.ready(ho2)
    (got,) = [got for got in rig.got(ho2) if got.header.kind == Kind.POST]
    assert (got.body, got.header.sender) == (b"held", "host/1@a")


def test_a_given_up_service_fails_requests_and_posts_at_once(rig):
    launcher, ho2 = rig.client("launcher/1@a"), rig.client("ho2/1@a")
    rig.order(ho2, "WO-1")
    rig.post(launcher, ServiceGivenUp(service="ho1", given_up=True))
    assert rig.answers(ho2) == [("WO-1", "no_route")]
    rig.order(ho2, "WO-2")
    assert rig.answers(ho2) == [("WO-2", "no_route")]
    rig.post(launcher, ServiceGivenUp(service="ho1", given_up=False))
    rig.order(ho2, "WO-3")
    assert rig.answers(ho2) == []
