"""The one place that watches a ZeroMQ socket's descriptor from an asyncio loop.

The descriptor is edge-triggered and says only that *something* may have changed: after each wake-up the socket is
drained, and its EVENTS are asked after every message and every send, since either may swallow the edge (sends inside a
drain are covered by the drain's own question). A drain is bounded, so that timers run in between; the rest is taken by
a callback at once. Known traps: libzmq#3641, pyzmq#199.

Parts go to and from a socket without what pyzmq does for options that are not used here, most of a message's cost:
`zmq.Socket.send` only adds the routing ids and groups of draft sockets to the send of its C base, and `recv_multipart`
asks after a part for one that is certainly there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

import zmq

from hobus.bus import limits


class DrainedSocket:
    """Hand every multipart message to `on_message`; `on_writable` sends what waits and says whether it sent."""

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        on_message: Callable[[list[bytes]], None],
        on_writable: Callable[[], bool] | None = None,
        *,
        receive: Receive | None = None,
    ) -> None:
        self._socket = socket
        self._batch_max, self._batch_max_bytes = limits.BATCH_MAX, limits.BATCH_MAX_BYTES
        self._on_message = on_message
        self._on_writable = on_writable
        self._loop = asyncio.get_running_loop()
        self._option, self._send, self._receive = (
            make_option_reader(socket),
            make_sender(socket),
            receive or make_receiver(socket),
        )
        self._descriptor = self._option(zmq.FD)
        self._again: asyncio.Handle | None = None
        self._is_draining = False
        self._loop.add_reader(self._descriptor, self._on_wake)
        self._look_again()  # the edge may have come before we watched

    def send(self, frames: Sequence[bytes]) -> bool:
        """Return whether the socket took the message; False at EAGAIN. Raises zmq.ZMQError for an unreachable peer."""
        send = self._send
        try:
            for frame in frames[:-1]:  # the first part decides: ZeroMQ takes a message whole or not at all
                send(frame, NOBLOCK_MORE)
            send(frames[-1], NOBLOCK)
        except zmq.Again:
            return False
        finally:
            if self._again is None and not self._is_draining:
                self._look_after_send()
        return True

    def send_tracked(self, frames: Sequence[bytes]) -> zmq.MessageTracker | None:
        """Send without a copy of the last frame; the tracker is done once that has left. None at EAGAIN."""
        try:
            for frame in frames[:-1]:
                self._send(frame, NOBLOCK_MORE)
            return self._socket.send(frames[-1], NOBLOCK, copy=False, track=True)
        except zmq.Again:
            return None
        finally:
            if self._again is None and not self._is_draining:
                self._look_after_send()

    def _look_after_send(self) -> None:
        if self._option(EVENTS) & POLLIN:
            self._look_again()

    def _look_again(self) -> None:
        if self._again is None:
            self._again = self._loop.call_soon(self._on_wake)

    def _on_wake(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        self._is_draining = True
        try:
            self._drain()
        except BaseException:
            self._look_again()  # a failing receiver must not cost us the edge
            raise
        finally:
            self._is_draining = False

    def _drain(self) -> None:
        """Take what is there, at most a batch.

        A wake-up mostly brings a message, so that is tried first; after that EVENTS says whether there is more, which
        is cheaper than an EAGAIN. Where it has said so some times, there are many: they are taken without asking.
        """
        socket, on_message, on_writable = self._socket, self._on_message, self._on_writable
        events, left_bytes, more_count = POLLIN, self._batch_max_bytes, 0
        for _ in range(self._batch_max):
            if events & POLLIN:
                try:
                    message = self._receive()
                except zmq.Again:
                    message, more_count = None, 0
                if message is not None:
                    on_message(message)
                    left_bytes -= len(message[-1])
                if socket.closed:
                    return
            if left_bytes <= 0:
                break
            if more_count == MANY:
                continue
            events = self._option(EVENTS)
            if events & POLLOUT and on_writable is not None and on_writable():
                events = self._option(EVENTS)
            if not events & POLLIN:
                return
            more_count += 1
        self._look_again()

    def close(self, linger_ms: int = 0) -> None:
        """Stop watching, and close the socket."""
        if self._socket.closed:
            return
        self._loop.remove_reader(self._descriptor)
        if self._again is not None:
            self._again.cancel()
        self._socket.close(linger=linger_ms)


EVENTS, POLLIN, POLLOUT = int(zmq.EVENTS), int(zmq.POLLIN), int(zmq.POLLOUT)
"""Plain numbers: pyzmq's enumerations cost as much as the calls that they are used in."""
NOBLOCK, NOBLOCK_MORE = int(zmq.NOBLOCK), int(zmq.NOBLOCK | zmq.SNDMORE)
_RCVMORE = int(zmq.RCVMORE)
MANY = 4
"""An EAGAIN costs as much as asking so often."""

Option = Callable[[int], int]
SendPart = Callable[[bytes, int], None]
Receive = Callable[[], list[bytes]]


def make_option_reader(socket: zmq.Socket[bytes]) -> Option:
    return cast("Option", socket.get)


def make_sender(socket: zmq.Socket[bytes]) -> SendPart:
    """Return a function that sends one part with flags; it raises zmq.Again or another zmq.ZMQError."""
    return cast("SendPart", super(zmq.Socket, socket).send)


def make_receiver(socket: zmq.Socket[bytes], parts_at_least: int = 1) -> Receive:
    """Return a function that takes one whole message without blocking; it raises zmq.Again if there is none.

    `parts_at_least`: so many a trusted sender's message always has; asking for each costs more than a part.
    """
    receive, option = cast("Callable[[int], bytes]", socket.recv), make_option_reader(socket)
    if socket.type == zmq.ROUTER:
        parts_at_least = 2  # a routing id never comes alone

    def receive_message() -> list[bytes]:
        parts = [receive(NOBLOCK)]
        while len(parts) < parts_at_least or option(_RCVMORE):
            parts.append(receive(NOBLOCK))
        return parts

    return receive_message
