"""On whose behalf a request is, what of one client the broker takes in, and who comes next: by the core's own frames."""

from __future__ import annotations

import pytest

from hobus.bus import limits
from hobus.bus.envelope import Kind, make_header
from tests.bus.broker.rig import Rig

TURN, COMMAND, READ = "host.process_turn", "session.command", "session.read"


def principal_at(rig, worker):
    """Of the requests that this worker got."""
    return [got.header.principal for got in rig.got(worker) if got.header.kind == Kind.REQUEST]


def test_a_client_asks_for_itself_whatever_it_claims():
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
        ("http/1@a", "client/key/ann", "client/key/ann"),  # it alone has seen the key
        ("http/1@a", "client/8", "client/key/client/8"),  # a key has no say over who else asks
        ("http/1@a", "", "client/http/1"),
        ("door/7@a", "client/key/ann", "client/7"),
    ],
)
def test_nobody_but_a_supervisor_and_the_http_door_is_believed_on_whose_behalf_it_asks(asker, says, counts_as):
    """A cause that the asker was never given proves nothing either."""
    rig = Rig()
    services = {"ho2": ("ho1", "wo.execute"), "host": ("ho2", READ), "ho1": ("gateway", "gateway.read_budget")}
    service, type_name = services.get(asker.partition("/")[0], ("host", TURN))
    worker = rig.worker(f"{service}/9@a")
    rig.ask(rig.client(asker), "m1", service, type_name, principal=says, causation_id="t1")
    assert principal_at(rig, worker) == [counts_as]


@pytest.fixture
def two_open(monkeypatch):
    """Of one principal no more than two requests may be open."""
    monkeypatch.setattr(limits, "OPEN_MAX", 2)


@pytest.mark.usefixtures("two_open")
def test_one_request_more_than_a_principal_may_have_open_is_busy_at_once_with_a_time():
    """It has room again with each answer; another one's is its own; services have no bound here."""
    rig = Rig()
    host, ho2 = rig.worker("host/1@a"), rig.worker("ho2/1@a")
    greedy, again, polite = rig.client("door/7@a"), rig.client("door/7.1@a"), rig.client("door/8@a")
    rig.ask(greedy, "t1", "host", TURN)
    rig.ask(again, "t2", "host", TURN)
    rig.ask(greedy, "t3", "host", TURN)
    (refusal,) = rig.got(greedy)
    assert (refusal.failure.code, refusal.failure.retryable, refusal.failure.retry_after_ms) == ("busy", True, 250)
    rig.ask(polite, "t4", "host", TURN)
    for number in range(9):
        rig.ask(host, f"h{number}", "ho2", "ho2.turn", key=f"s{number}")
    assert len(rig.requests(ho2)) == 9
    assert rig.requests(host) == ["t1", "t2", "t4"]
    rig.reply(host, "t1", b"", "session.turn_result")
    rig.ask(greedy, "t5", "host", TURN)
    assert rig.requests(host) == ["t5"]


@pytest.mark.usefixtures("two_open")
def test_a_command_is_taken_in_while_its_sender_has_as_much_open_as_it_may():
    """Cancel, pause and end do not wait behind what they are about, and have a bound of their own."""
    rig = Rig()
    ho2 = rig.worker("ho2/1@a")
    operator = rig.client("operator/7@a")
    for message_id in ("r1", "r2", "r3"):
        rig.ask(operator, message_id, "ho2", READ, key="s")
    for message_id in ("c1", "c2", "c3"):
        rig.ask(operator, message_id, "ho2", COMMAND, key="s")
    assert rig.requests(ho2) == ["r1", "r2", "c1", "c2"]
    assert rig.answers(operator) == [("r3", "busy"), ("c3", "busy")]
    rig.frame(operator, make_header(Kind.CANCEL, "x", correlation_id="r1", destination="ho2"))
    assert [got.header.kind for got in rig.got(ho2)] == [Kind.CANCEL]


@pytest.mark.parametrize(("limit", "who"), [("CLIENT_OPEN_MAX_BYTES", 7), ("CLIENTS_OPEN_MAX_BYTES", 8)])
def test_bodies_are_bounded_in_bytes_by_client_and_altogether(limit, who, monkeypatch):
    """What is open is held in memory: beyond the bytes it is busy, and free again when it has ended."""
    monkeypatch.setattr(limits, "FAIR_UNIT_BYTES", 10)
    monkeypatch.setattr(limits, limit, 100)
    rig = Rig()
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


def test_whoever_has_nothing_open_may_ask_whatever_the_others_have(monkeypatch):
    """All that may be open is taken by others: one request of the least size comes in, no second and no larger one."""
    monkeypatch.setattr(limits, "FAIR_UNIT_BYTES", 10)
    monkeypatch.setattr(limits, "CLIENTS_OPEN_MAX_BYTES", 100)
    rig = Rig()
    host = rig.worker("host/1@a")
    rig.ask(rig.client("door/7@a"), "t1", "host", TURN, body=b"x" * 100)
    polite = rig.client("door/8@a")
    for message_id, size in (("p1", 11), ("p2", 10), ("p3", 1)):
        rig.ask(polite, message_id, "host", TURN, body=b"x" * size)
    assert rig.answers(polite) == [("p1", "busy"), ("p3", "busy")]
    rig.reply(host, "p2", b"", "session.turn_result")
    rig.ask(polite, "p4", "host", TURN, body=b"x" * 10)
    assert rig.requests(host) == ["t1", "p2", "p4"]


def test_a_share_is_given_back_however_a_request_ends(monkeypatch):
    monkeypatch.setattr(limits, "OPEN_MAX", 1)
    rig = Rig(service_grace_ms=500)
    greedy = rig.client("door/7@a")
    rig.ask(greedy, "t1", "host", TURN)
    rig.advance(0.6)  # nobody offers the service
    rig.ask(greedy, "t2", "host", TURN)
    host = rig.worker("host/1@a")
    rig.ask(greedy, "t3", "host", TURN, deadline_ms=100)
    rig.advance(0.2)
    rig.ask(greedy, "t4", "host", TURN)
    rig.frame(greedy, make_header(Kind.CANCEL, "x", correlation_id="t4", destination="host"))
    rig.frame(host, make_header(Kind.FAILURE, "f", correlation_id="t4", type="bus.failure"))
    rig.ask(greedy, "t5", "host", TURN)
    assert rig.requests(host) == ["t3", "t4", "t5"]


@pytest.mark.parametrize("kind", ["client", "client/key"])
def test_orders_of_one_supervisor_take_turns_between_those_they_are_for(kind):
    """A client's ninety orders, or those of one key of an HTTP door, do not stand before another one's first."""
    rig = Rig()
    ho2, ho1 = rig.client("ho2/1@a"), rig.worker("ho1/1@a", slots=1)
    for number in range(90):
        rig.order(ho2, f"A{number}", principal=f"{kind}/7")
    rig.order(ho2, "B0", principal=f"{kind}/8")
    rig.reply(ho1, "A0")
    rig.reply(ho1, "A1")
    assert "B0" in rig.requests(ho1)


def test_a_worker_whose_loop_is_behind_gets_no_more_until_its_beat_says_otherwise():
    """What takes a slot waits at the broker, or goes to another worker; one that has nothing to do always gets one."""
    rig = Rig()
    ho2, slow, quick = rig.client("ho2/1@a"), rig.worker("ho1/1@a", slots=9), rig.worker("ho1/2@a", slots=9)
    rig.beat(slow, lag_ms=900)
    for number in range(5):
        rig.order(ho2, f"A{number}")
    assert (rig.requests(slow), rig.requests(quick)) == (["A0"], ["A1", "A2", "A3", "A4"])
    rig.beat(quick, lag_ms=900)
    rig.order(ho2, "A5")
    assert rig.requests(quick) == rig.requests(slow) == []
    rig.beat(slow, lag_ms=0)
    assert rig.requests(slow) == ["A5"]
