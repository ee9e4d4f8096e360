"""The one place that watches a ZeroMQ socket's descriptor from an asyncio loop.

The descriptor is edge-triggered and says only that *something* may have changed: after each wake-up the socket is
drained, and its EVENTS are asked again after every message and every send, since either may swallow the edge. A drain
is bounded, so that timers run in between; the rest is taken by a callback at once. Known traps: libzmq#3641, pyzmq#199.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

import zmq

# Plain numbers: pyzmq's enumerations cost as much as the calls that they are used in.
_POLLIN, _POLLOUT = int(zmq.POLLIN), int(zmq.POLLOUT)
_DONTWAIT, _DONTWAIT_MORE = int(zmq.DONTWAIT), int(zmq.DONTWAIT | zmq.SNDMORE)


class DrainedSocket:
    """Hands every multipart message to `on_message`, calls `on_writable` when sending may work again."""

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        batch_max: int,
        on_message: Callable[[list[bytes]], None],
        on_writable: Callable[[], None] | None = None,
    ) -> None:
        self._socket = socket
        self._batch_max = batch_max
        self._on_message = on_message
        self._on_writable = on_writable
        self._loop = asyncio.get_running_loop()
        self._descriptor = cast("int", socket.getsockopt(zmq.FD))
        self._again: asyncio.Handle | None = None
        self._loop.add_reader(self._descriptor, self._woken)
        self._look_again()  # the edge may have come before we watched

    def send(self, frames: Sequence[bytes]) -> bool:
        """Whether the socket took the message; False at EAGAIN. Raises zmq.ZMQError for an unreachable ROUTER peer."""
        send, last = self._socket.send, len(frames) - 1
        try:
            for position, frame in enumerate(
                frames
            ):  # the first part decides: ZeroMQ takes a message whole or not at all
                send(frame, _DONTWAIT if position == last else _DONTWAIT_MORE)
        except zmq.Again:
            return False
        finally:
            if self._again is None and self._events() & _POLLIN:
                self._look_again()
        return True

    def _events(self) -> int:
        return cast("int", self._socket.getsockopt(zmq.EVENTS))

    def _look_again(self) -> None:
        if self._again is None:
            self._again = self._loop.call_soon(self._woken)

    def _woken(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        try:
            self._drain()
        except BaseException:
            self._look_again()  # a failing receiver must not cost us the edge
            raise

    def _drain(self) -> None:
        """Takes what is there, at most a batch; EVENTS says when there is no more, which is cheaper than an EAGAIN."""
        receive, on_message = self._socket.recv_multipart, self._on_message
        for _ in range(self._batch_max):
            events = self._events()
            if events & _POLLOUT and self._on_writable is not None:
                self._on_writable()  # its sends ask EVENTS themselves
            if not events & _POLLIN:
                return
            on_message(receive(_DONTWAIT))
            if self._socket.closed:
                return
        self._look_again()

    def close(self, linger_ms: int = 0) -> None:
        """No longer watched; the socket is closed."""
        if self._socket.closed:
            return
        self._loop.remove_reader(self._descriptor)
        if self._again is not None:
            self._again.cancel()
        self._socket.close(linger=linger_ms)
