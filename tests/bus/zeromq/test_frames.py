"""Parts of messages over real sockets inside one process: whole messages, in order, whatever their number of parts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import zmq

from hobus.bus.zeromq.drained import (
    EVENTS,
    NOBLOCK,
    NOBLOCK_MORE,
    POLLIN,
    make_option_reader,
    make_receiver,
    make_sender,
)


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
        make_sender(dealer)(part, NOBLOCK_MORE)
    make_sender(dealer)(parts[-1], NOBLOCK)
    make_sender(dealer)(b"next", NOBLOCK)
    assert make_option_reader(router)(EVENTS) & POLLIN
    routing, *received = make_receiver(router)()
    assert received == parts
    assert make_receiver(router)() == [routing, b"next"]
    for part in (routing, *parts[:-1]):
        make_sender(router)(part, NOBLOCK_MORE)
    make_sender(router)(parts[-1], NOBLOCK)
    assert make_receiver(dealer)() == parts


def test_nothing_there_is_said_and_not_waited_for(pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]]) -> None:
    """EVENTS has no POLLIN and a receive raises Again at once."""
    for socket in pair:
        assert not make_option_reader(socket)(EVENTS) & POLLIN
        with pytest.raises(zmq.Again):
            make_receiver(socket)()
