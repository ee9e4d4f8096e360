"""Parts of a message to and from a socket, without what pyzmq does for options that are not used here.

`zmq.Socket.send` only adds the routing ids and groups of draft sockets to the send of its C base, and
`recv_multipart` asks after a part for one that is certainly there. Both are most of a message's cost in pyzmq.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import zmq

EVENTS, POLLIN, POLLOUT = int(zmq.EVENTS), int(zmq.POLLIN), int(zmq.POLLOUT)
"""Plain numbers: pyzmq's enumerations cost as much as the calls that they are used in."""
NOBLOCK, NOBLOCK_MORE = int(zmq.NOBLOCK), int(zmq.NOBLOCK | zmq.SNDMORE)
_RCVMORE = int(zmq.RCVMORE)

Option = Callable[[int], int]
SendPart = Callable[[bytes, int], None]
Receive = Callable[[], list[bytes]]


def option_of(socket: zmq.Socket[bytes]) -> Option:
    """Reads a socket's numeric options."""
    return cast("Option", socket.get)


def sender_of(socket: zmq.Socket[bytes]) -> SendPart:
    """Sends one part with flags; raises zmq.Again or another zmq.ZMQError."""
    return cast("SendPart", super(zmq.Socket, socket).send)


def receiver_of(socket: zmq.Socket[bytes]) -> Receive:
    """Takes one whole message without blocking; raises zmq.Again if there is none."""
    receive, option = cast("Callable[[int], bytes]", socket.recv), option_of(socket)
    parts_at_least = 2 if socket.type == zmq.ROUTER else 1  # a routing id never comes alone

    def receive_message() -> list[bytes]:
        parts = [receive(NOBLOCK)]
        if parts_at_least > 1:
            parts.append(receive(NOBLOCK))
        while option(_RCVMORE):
            parts.append(receive(NOBLOCK))
        return parts

    return receive_message
