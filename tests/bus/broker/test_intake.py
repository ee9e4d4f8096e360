"""On whose behalf a request is, what of one client the broker takes in, and who comes next: by the core's own frames."""

from __future__ import annotations

import pytest

from hobus.bus.envelope import Kind, header
from tests.bus.broker.rig import Rig

TURN, COMMAND, READ = "host.process_turn", "session.command", "session.read"


def principal_at(rig, worker):
    """Of the requests that this worker got."""
    return [got.header.principal for got in rig.got(worker) if got.header.kind == Kind.REQUEST]


def test_a_client_asks_for_itself_whatever_it_claims():
    """Both roles of its process and all its connections are one principal."""
    rig = Rig()
    host, ho2 = rig.worker("host/1@a"), rig.worker("ho2/1@a")
    rig.ask(rig.client("door/7@a"), "t1", "host", TURN, principal="client/8")
    rig.ask(rig.client("door/7.1@a"), "t2", "host", TURN, principal="ho2/1")
    rig.ask(rig.client("operator/7@a"), "r1", "ho2", READ)
    assert principal_at(rig, host) == ["client/7", "client/7"]
    assert principal_at(rig, ho2) == ["client/7"]


def test_what_a_service_asks_for_a_request_is_on_behalf_of_who_asked_that():
    """Host, supervisor, executor: however far down, and whatever host and executor say themselves."""
    rig = Rig()
    host, ho2, ho1, gateway = [rig.worker(f"{role}/1@a") for role in ("host", "ho2", "ho1", "gateway")]
    rig.ask(rig.client("door/7@a"), "t1", "host", TURN)
    rig.ask(host, "h1", "ho2", "ho2.turn", causation_id="t1", principal="client/8")
    rig.order(ho2, "WO-1", causation_id="h1")
    rig.ask(ho1, "p1", "gateway", "gateway.prompt", causation_id="WO-1", principal="client/8")
    for worker in (host, ho2, ho1, gateway):
        assert principal_at(rig, worker) == ["client/7"]


@pytest.mark.parametrize(
    ("asker", "says", "counts_as"),
    [
        ("ho2/1@a", "client/8", "client/8"),  # its runs outlive the requests that began them
        ("ho2/1@a", "", "ho2/1"),
        ("host/1@a", "client/8", "host/1"),
        ("ho1/1@a", "client/8", "ho1/1"),
    ],
)
def test_nobody_but_a_supervisor_is_believed_on_whose_behalf_it_asks(asker, says, counts_as):
    """A cause that the asker was never given proves nothing either."""
    rig = Rig()
    services = {"ho2": ("ho1", "wo.execute"), "host": ("ho2", READ), "ho1": ("gateway", "gateway.read_budget")}
    service, type_name = services[asker.partition("/")[0]]
    worker = rig.worker(f"{service}/9@a")
    rig.ask(rig.client(asker), "m1", service, type_name, principal=says, causation_id="t1")
    assert principal_at(rig, worker) == [counts_as]


def test_one_request_more_than_a_clients_share_is_busy_at_once_with_a_time():
    """Its share is open again with each answer; another client's is its own; services have none here."""
    rig = Rig(client_open_max=2, busy_retry_ms=70)
    host, ho2 = rig.worker("host/1@a"), rig.worker("ho2/1@a")
    greedy, again, polite = rig.client("door/7@a"), rig.client("door/7.1@a"), rig.client("door/8@a")
    rig.ask(greedy, "t1", "host", TURN)
    rig.ask(again, "t2", "host", TURN)
    rig.ask(greedy, "t3", "host", TURN)
    (refusal,) = rig.got(greedy)
    assert (refusal.failure.code, refusal.failure.retryable, refusal.failure.retry_after_ms) == ("busy", True, 70)
    rig.ask(polite, "t4", "host", TURN)
    for number in range(9):
        rig.ask(host, f"h{number}", "ho2", "ho2.turn", key=f"s{number}")
    assert len(rig.requests(ho2)) == 9
    assert rig.requests(host) == ["t1", "t2", "t4"]
    rig.reply(host, "t1", b"", "session.turn_result")
    rig.ask(greedy, "t5", "host", TURN)
    assert rig.requests(host) == ["t5"]


def test_a_command_is_taken_in_while_its_senders_share_is_full():
    """Cancel, pause and end do not wait behind what they are about, and have a bound of their own."""
    rig = Rig(client_open_max=1)
    ho2 = rig.worker("ho2/1@a")
    operator = rig.client("operator/7@a")
    rig.ask(operator, "r1", "ho2", READ, key="s")
    rig.ask(operator, "r2", "ho2", READ, key="s")
    rig.ask(operator, "c1", "ho2", COMMAND, key="s")
    rig.ask(operator, "c2", "ho2", COMMAND, key="s")
    assert rig.requests(ho2) == ["r1", "c1"]
    assert rig.answers(operator) == [("r2", "busy"), ("c2", "busy")]
    rig.frame(operator, header(Kind.CANCEL, "x", correlation_id="r1", destination="ho2"))
    assert [got.header.kind for got in rig.got(ho2)] == [Kind.CANCEL]


@pytest.mark.parametrize(("setting", "who"), [("client_open_max_bytes", 7), ("clients_open_max_bytes", 8)])
def test_bodies_are_bounded_in_bytes_by_client_and_altogether(setting, who):
    """What is open is held in memory: beyond the bytes it is busy, and free again when it has ended."""
    rig = Rig(fair_unit_bytes=10, **{setting: 100})
    host = rig.worker("host/1@a")
    first, second = rig.client("door/7@a"), rig.client(f"door/{who}.1@a")
    rig.ask(first, "t1", "host", TURN, body=b"x" * 60)
    rig.ask(second, "t2", "host", TURN, body=b"x" * 41)
    assert rig.answers(second) == [("t2", "busy")]
    rig.ask(second, "t3", "host", TURN, body=b"x" * 40)
    rig.reply(host, "t1", b"", "session.turn_result")
    rig.reply(host, "t3", b"", "session.turn_result")
    rig.ask(second, "t4", "host", TURN, body=b"x" * 100)
    assert rig.requests(host) == ["t1", "t3", "t4"]


def test_whoever_has_nothing_open_may_ask_whatever_the_others_have():
    """All that may be open is taken by others: one request of the least size comes in, no second and no larger one."""
    rig = Rig(clients_open_max_bytes=100, fair_unit_bytes=10)
    host = rig.worker("host/1@a")
    rig.ask(rig.client("door/7@a"), "t1", "host", TURN, body=b"x" * 100)
    polite = rig.client("door/8@a")
    for message_id, size in (("p1", 11), ("p2", 10), ("p3", 1)):
        rig.ask(polite, message_id, "host", TURN, body=b"x" * size)
    assert rig.answers(polite) == [("p1", "busy"), ("p3", "busy")]
    rig.reply(host, "p2", b"", "session.turn_result")
    rig.ask(polite, "p4", "host", TURN, body=b"x" * 10)
    assert rig.requests(host) == ["t1", "p2", "p4"]


def test_a_share_is_given_back_however_a_request_ends():
    """Cancelled, expired, its worker lost, its service gone: nothing of it is counted afterwards."""
    rig = Rig(client_open_max=1, service_grace_ms=500)
    greedy = rig.client("door/7@a")
    rig.ask(greedy, "t1", "host", TURN)
    rig.advance(0.6)  # nobody offers the service
    rig.ask(greedy, "t2", "host", TURN)
    host = rig.worker("host/1@a")
    rig.ask(greedy, "t3", "host", TURN, deadline_ms=100)
    rig.advance(0.2)
    rig.ask(greedy, "t4", "host", TURN)
    rig.frame(greedy, header(Kind.CANCEL, "x", correlation_id="t4", destination="host"))
    rig.frame(host, header(Kind.FAILURE, "f", correlation_id="t4", type="bus.failure"))
    rig.ask(greedy, "t5", "host", TURN)
    assert rig.requests(host) == ["t3", "t4", "t5"]


def test_orders_of_one_supervisor_take_turns_between_those_they_are_for():
    """A client's ninety orders do not stand before another one's first."""
    rig = Rig()
    ho2, ho1 = rig.client("ho2/1@a"), rig.worker("ho1/1@a", slots=1)
    for number in range(90):
        rig.order(ho2, f"A{number}", principal="client/7")
    rig.order(ho2, "B0", principal="client/8")
    rig.reply(ho1, "A0")
    rig.reply(ho1, "A1")
    assert "B0" in rig.requests(ho1)


PACED = {"client_rate": 10, "client_burst": 1, "contended_ms": 500}


def contended(**overrides):
    """A rig with a host and two clients of which the second has just asked: (rig, host, greedy, polite)."""
    rig = Rig(**PACED | overrides)
    host, greedy, polite = rig.worker("host/1@a"), rig.client("door/7@a"), rig.client("door/8@a")
    rig.ask(polite, "p0", "host", TURN)
    rig.requests(host)
    return rig, host, greedy, polite


def test_what_a_client_asks_faster_than_its_rate_waits_while_others_ask():
    """One saved up, one on credit, then ten a second, in order; nobody is told `busy`."""
    rig, host, greedy, _ = contended()
    for number in range(5):
        rig.ask(greedy, f"t{number}", "host", TURN)
    assert rig.requests(host) == ["t0", "t1"]
    rig.advance(0.1)
    assert rig.requests(host) == ["t2"]
    rig.advance(0.2)
    assert rig.requests(host) == ["t3", "t4"]
    assert rig.got(greedy) == []


def test_a_polite_client_does_not_wait_behind_what_waits():
    """Each has a rate of its own."""
    rig, host, greedy, polite = contended()
    for number in range(50):
        rig.ask(greedy, f"t{number}", "host", TURN)
    rig.requests(host)
    rig.ask(polite, "p1", "host", TURN)
    assert rig.requests(host) == ["p1"]


def test_a_client_that_is_alone_is_not_slowed_down_and_others_work_for_it_does_not_count():
    """Services ask on its behalf; whoever else asked did so too long ago, and has nothing open."""
    rig, host, greedy, _ = contended()
    rig.reply(host, "p0", b"", "session.turn_result")
    ho2 = rig.worker("ho2/1@a")
    rig.advance(0.5)
    for number in range(30):
        rig.ask(greedy, f"t{number}", "host", TURN)
        rig.ask(host, f"h{number}", "ho2", "ho2.turn", causation_id=f"t{number}")
    assert len(rig.requests(host)) == len(rig.requests(ho2)) == 30


def test_a_client_is_not_alone_while_another_one_waits_for_an_answer_or_is_worked_for():
    """However long that takes."""
    rig, host, greedy, _ = contended()
    rig.advance(5.0)
    for number in range(9):
        rig.ask(greedy, f"t{number}", "host", TURN)
    assert len(rig.requests(host)) == 2
    rig.reply(host, "p0", b"", "session.turn_result")
    rig.advance(5.0)
    rig.worker("ho1/1@a")
    ho2 = rig.worker("ho2/1@a")
    rig.ask(ho2, "WO-1", "ho1", "wo.execute", principal="client/8")  # a run that outlived its request
    for number in range(10, 19):
        rig.ask(greedy, f"t{number}", "host", TURN)
    assert len(rig.requests(host)) == 7 + 2


def test_a_cancel_finds_what_waits_for_its_rate():
    """It never comes in, and its sender is told."""
    rig, host, greedy, _ = contended()
    for number in range(4):
        rig.ask(greedy, f"t{number}", "host", TURN)
    rig.requests(host)
    rig.cancel(greedy, "t2")
    (told,) = rig.got(greedy)
    assert (told.header.correlation_id, told.failure.code) == ("t2", "cancelled")
    rig.advance(0.5)
    assert rig.requests(host) == ["t3"]


def test_a_command_waits_for_no_request_of_its_sender():
    """What it is about may be one of those that wait; it costs four."""
    rig, host, greedy, _ = contended()
    ho2 = rig.worker("ho2/1@a")
    for number in range(9):
        rig.ask(greedy, f"t{number}", "host", TURN)
    for number in range(3):
        rig.ask(greedy, f"c{number}", "ho2", COMMAND)
    assert rig.requests(ho2) == ["c0"]
    rig.advance(0.3)
    assert rig.requests(ho2) == ["c1"]
    assert len(rig.requests(host)) == 2 + 3


def test_the_time_that_a_request_waited_is_taken_from_its_deadline():
    """What is left of it is what its worker gets; nothing left: it is told so."""
    rig, host, greedy, _ = contended()
    for number in range(3):
        rig.ask(greedy, f"t{number}", "host", TURN, deadline_ms=5000)
    rig.ask(greedy, "late", "host", TURN, deadline_ms=150)
    rig.got(host)
    rig.advance(0.3)
    (got,) = [one for one in rig.got(host) if one.header.kind == Kind.REQUEST]
    assert (got.header.message_id, got.header.deadline_ms) == ("t2", 4900)
    (told,) = rig.got(greedy)
    assert (told.header.correlation_id, told.failure.code) == ("late", "expired")


def test_a_client_that_is_gone_gets_nothing_of_what_waited_and_its_next_connection_asks_anew():
    """The same id takes the place that the first one had."""
    rig, host, greedy, _ = contended()
    for number in range(4):
        rig.ask(greedy, f"t{number}", "host", TURN)
    rig.requests(host)
    again = rig.hello("door/7@a", b"again")
    rig.got(again)
    rig.ask(again, "t3", "host", TURN)
    rig.ask(again, "t2", "host", TURN)
    rig.advance(0.5)
    assert rig.requests(host) == ["t2", "t3"]
    rig.ask(again, "t4", "host", TURN)
    rig.ask(again, "t5", "host", TURN)
    rig.ask(again, "t6", "host", TURN)
    rig.bye(again)
    rig.requests(host)
    rig.advance(0.5)
    assert rig.requests(host) == []


def test_who_asks_on_far_beyond_what_may_wait_is_told_busy_and_then_cut_off():
    """Others are not."""
    rig, host, greedy, polite = contended(client_waiting_max=3)
    for number in range(2 + 3 + 3):
        rig.ask(greedy, f"t{number}", "host", TURN)
    assert [told.failure.code for told in rig.got(greedy)] == ["busy"] * 3
    assert not rig.cut_off
    rig.ask(greedy, "t8", "host", TURN)
    assert [(cut.peer, "client_waiting_max" in cut.why) for cut in rig.cut_off] == [("door/7@a", True)]
    rig.requests(host)
    rig.ask(polite, "p1", "host", TURN)
    assert rig.requests(host) == ["p1"]


def test_bodies_that_have_no_room_to_wait_are_dropped_their_senders_told_and_cut_off_beyond_a_bound():
    """Their size counts as if they had been taken in."""
    rig, host, greedy, _ = contended(
        client_open_max_bytes=100, client_dropped_max_bytes=150, fair_unit_bytes=10, client_rate=10
    )
    for number in range(2):
        rig.ask(greedy, f"t{number}", "host", TURN)
    rig.ask(greedy, "whole", "host", TURN, body=bytes(60))
    rig.ask(greedy, "dropped", "host", TURN, body=bytes(60))
    rig.requests(host)
    rig.advance(0.1)
    assert rig.requests(host) == ["whole"]
    rig.advance(0.6)
    assert rig.got(greedy) == []
    rig.advance(0.2)
    (told,) = rig.got(greedy)
    assert (told.header.correlation_id, told.failure.code) == ("dropped", "busy")
    for number in range(5):
        rig.ask(greedy, f"more{number}", "host", TURN, body=bytes(60))
    assert [cut.peer for cut in rig.cut_off] == ["door/7@a"]


def test_a_large_answer_is_paid_for_by_who_asked():
    """Its next request comes in that much later."""
    rig, host, greedy, _ = contended(fair_unit_bytes=10)
    rig.ask(greedy, "t0", "host", TURN)
    rig.requests(host)
    rig.reply(host, "t0", bytes(100), "session.turn_result")
    rig.ask(greedy, "t1", "host", TURN)
    assert rig.requests(host) == []
    rig.advance(0.9)
    assert rig.requests(host) == []
    rig.advance(0.2)
    assert rig.requests(host) == ["t1"]


def test_two_connections_of_a_process_that_ask_under_one_id_are_both_told():
    """What waits for one of them is not put in the place of the other's; a cancel is of its own alone."""
    rig, host, greedy, _ = contended()
    again = rig.client("door/7.1@b")
    for number in range(2):
        rig.ask(greedy, f"t{number}", "host", TURN)
    rig.ask(greedy, "same", "host", TURN)
    rig.ask(again, "same", "host", TURN)
    rig.ask(greedy, "mine", "host", TURN)
    rig.cancel(again, "mine")
    rig.advance(1.0)
    assert rig.requests(host)[-2:] == ["same", "mine"]
    rig.reply(host, "same", b"", "session.turn_result")
    assert rig.answers(greedy) == [("same", "")]
    assert rig.answers(again) == [("same", "denied")]  # as where nothing waits: the id is another connection's
