"""A link: one connection that takes frames and gives frames.

`bus/zeromq/link.py` makes one from a drained DEALER, `bus/sim/network.py` from a queue in virtual time. Everything
above a link is the same code in both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

OnFrames = Callable[[bytes, bytes], None]
"""Called with (header bytes, body bytes) of each frame pair, in order, from the event loop."""


class Link(Protocol):
    """One outgoing connection to the broker or to a lane's server."""

    def attach(self, on_frames: OnFrames) -> None:
        """Hand every incoming frame pair to `on_frames` from now on."""
        ...

    def send(self, header: bytes, body: bytes) -> None:
        """Send the frames in order, without blocking; they wait here while nobody is connected.

        Raises BusError(busy) when as many frames wait as the link may keep.
        """
        ...

    def discard(self) -> None:
        """Forget the frames that wait for a connection: what matters is sent again after the next welcome."""
        ...

    def close(self) -> None:
        """Close the connection; drop what was not yet on its way."""
        ...


class LaneEnd(Protocol):
    """The rules of a lane, as its transport sees them."""

    def bind(self, transport: LaneTransport) -> None:
        """Frames leave by this transport from now on."""
        ...

    def receive(self, routing: bytes, frames: Sequence[bytes]) -> None:
        """Handle one multipart message of one connection."""
        ...


class LaneTransport(Protocol):
    """The socket side of a lane's server: addresses are the transport's own routing ids."""

    def send(self, routing: bytes, header: bytes, body: bytes) -> bool:
        """Send the frames; return False if nobody is connected under this routing id any more."""
        ...

    def unsent(self) -> Mapping[bytes, int]:
        """Return, by routing id, bytes that were handed over and have not left yet; without any, no row."""
        ...

    def close(self) -> None:
        """Close the socket: nothing is taken or given afterwards."""
        ...
