"""The table of requests that wait for their one outcome."""

from __future__ import annotations

from hobus.bus.correlation import OwnRequest, PendingTable
from hobus.bus.envelope import Kind, make_header
from hobus.bus.messages.control import Cancelled

PING = Cancelled(reason="requester")


def pending(message_id: str, *, connection: str = "", redeliver: bool = True) -> OwnRequest[str]:
    return OwnRequest(make_header(Kind.REQUEST, message_id), PING, b"", 0, connection, 1.0, redeliver, ["waiter"])


def table(*entries: OwnRequest[str]) -> PendingTable[str]:
    made = PendingTable[str]()
    for entry in entries:
        made.add(entry)
    return made


def test_a_reply_settles_its_request_once() -> None:
    requests = table(pending("a"))
    assert requests.settle("a", "") is not None
    assert requests.settle("a", "") is None
    assert len(requests) == 0


def test_a_reply_on_another_connection_settles_nothing() -> None:
    """A lane's server cannot answer what was asked of the broker."""
    requests = table(pending("a"))
    assert requests.settle("a", "ledger") is None
    assert len(requests) == 1


def test_after_a_welcome_everything_redeliverable_is_sent_again_in_order() -> None:
    requests = table(pending("b"), pending("lane", connection="ledger"), pending("a"))
    for entry in requests.all():
        entry.sent_epoch = "one"
    send, lost = requests.welcomed("", "two")
    assert [entry.header.message_id for entry in send] == ["b", "a"]
    assert lost == []
    assert len(requests) == 3


def test_a_restarted_server_took_what_must_not_be_delivered_twice_with_it() -> None:
    """Not redeliverable and sent to the old incarnation: lost, and no longer pending."""
    once = pending("once", redeliver=False)
    once.sent_epoch = "one"
    requests = table(once)
    send, lost = requests.welcomed("", "two")
    assert (send, lost) == ([], [once])
    assert requests.get("once") is None


def test_the_same_server_still_owes_the_answer_to_what_must_not_be_delivered_twice() -> None:
    """A second hello to one incarnation neither sends it again nor gives it up."""
    once = pending("once", redeliver=False)
    once.sent_epoch = "one"
    requests = table(once)
    send, lost = requests.welcomed("", "one")
    assert (send, lost) == ([], [])
    assert requests.get("once") is once


def test_what_was_never_sent_leaves_with_the_first_welcome() -> None:
    """Even what must not be delivered twice: it was not delivered once."""
    once = pending("once", redeliver=False)
    assert table(once).welcomed("", "one")[0] == [once]


def sized(message_id: str, size: int, connection: str = "") -> OwnRequest[str]:
    """One with a body of so many bytes."""
    return OwnRequest(make_header(Kind.REQUEST, message_id), PING, bytes(size), size, connection, 1.0, True, ["waiter"])  # noqa: FBT003


def test_what_is_on_its_way_is_held_as_its_message_alone() -> None:
    """Its requester has that in any case; bytes of a prompt would wait with it for minutes."""
    one = sized("a", 6)
    table(one).sent(one, "e")
    assert (one.body, one.message, one.size_bytes) == (None, PING, 6)


def test_no_more_than_the_window_is_under_way_and_the_rest_leaves_in_order() -> None:
    """One that is larger than the window leaves alone; another connection has a window of its own."""
    requests = table(
        *(sized(name, size) for name, size in (("a", 6), ("b", 5), ("c", 3), ("d", 99))), sized("l", 9, "lane")
    )
    requests.window_bytes = 10
    for name in "abcdl":
        one = requests.get(name)
        assert one is not None
        if requests.may_leave(one):
            requests.sent(one, "e")
        else:
            requests.hold(one)

    def leave() -> list[str]:
        left: list[str] = []
        while (one := requests.release_held("")) is not None:
            requests.sent(one, "e")
            left.append(one.header.message_id)
        return left

    assert leave() == []  # `c` would fit, and waits behind `b`
    requests.settle("a", "")
    assert leave() == ["b", "c"]
    requests.drop("c")
    assert leave() == []
    requests.settle("b", "")
    assert leave() == ["d"]


def test_what_is_sent_again_is_under_way_once_and_who_gave_up_is_held_no_longer() -> None:
    requests = table(sized("a", 6), sized("b", 6), sized("c", 6))
    requests.window_bytes = 10
    first, second, third = requests.all()
    requests.sent(first, "e")
    requests.hold(second)
    requests.hold(third)
    send, _lost = requests.welcomed("", "f")
    assert send == [first, second, third]
    for one in send:
        requests.sent(one, "f") if requests.may_leave(one) else requests.hold(one)
    assert requests.release_held("") is None
    requests.drop("b")
    requests.settle("a", "")
    assert requests.release_held("") is third
