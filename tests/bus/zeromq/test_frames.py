"""Parts of messages over real sockets inside one process: whole messages, in order, whatever their number of parts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import zmq

from hobus.bus.zeromq.drained import EVENTS, NOBLOCK, NOBLOCK_MORE, POLLIN, option_of, receiver_of, sender_of


@pytest.fixture
def pair() -> Iterator[tuple[zmq.Socket[bytes], zmq.Socket[bytes]]]:
    """A ROUTER and a DEALER that are connected."""
    context = zmq.Context()
    router, dealer = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
    router.bind("inproc://frames")
    dealer.connect("inproc://frames")
    yield router, dealer
    context.destroy(linger=0)


@pytest.mark.parametrize("parts", [[b""], [b"head", b"body"], [b"a", b"", b"c", b"d"]], ids=["one", "two", "four"])
def test_a_message_arrives_whole_both_ways(
    pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]], parts: list[bytes]
) -> None:
    router, dealer = pair
    for part in parts[:-1]:
        sender_of(dealer)(part, NOBLOCK_MORE)
    sender_of(dealer)(parts[-1], NOBLOCK)
    sender_of(dealer)(b"next", NOBLOCK)
    assert option_of(router)(EVENTS) & POLLIN
    routing, *received = receiver_of(router)()
    assert received == parts
    assert receiver_of(router)() == [routing, b"next"]
    for part in (routing, *parts[:-1]):
        sender_of(router)(part, NOBLOCK_MORE)
    sender_of(router)(parts[-1], NOBLOCK)
    assert receiver_of(dealer)() == parts


def test_nothing_there_is_said_and_not_waited_for(pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]]) -> None:
    """EVENTS has no POLLIN and a receive raises Again at once."""
    for socket in pair:
        assert not option_of(socket)(EVENTS) & POLLIN
        with pytest.raises(zmq.Again):
            receiver_of(socket)()
