"""What goes into the broker's core and what comes out of it."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from hobus.bus.broker.tap_record import Tap


class Origin(NamedTuple):
    """Where a connection comes from, on its transport's word."""

    key: str = ""  # the CURVE public key (Z85) that it proved to have; "" on a local socket
    address: str = ""


LOCAL = Origin()


class FrameReceived(Struct, frozen=True):
    """One well-cut frame pair of a connection; `connection` is the transport's own random name for it."""

    connection: bytes
    header: bytes
    body: bytes
    origin: Origin = LOCAL


class FrameGarbage(NamedTuple):
    """Something of a connection that is not a frame pair (wrong number of parts)."""

    connection: bytes
    detail: str
    size_bytes: int = 0
    origin: Origin = LOCAL


class Connected(NamedTuple):
    """A connection is new (its transport's first, empty message): who has it is still to be said."""

    connection: bytes


class UnknownKey(NamedTuple):
    """Somebody connected with a key that is not known, and was not let in."""

    fingerprint: str
    address: str


class ConnectionLost(NamedTuple):
    """The transport could not send to this connection: nobody is there, or it no longer takes anything."""

    connection: bytes


class Tick(Struct, frozen=True):
    """Nothing but time has passed."""


Event = FrameReceived | FrameGarbage | Connected | UnknownKey | ConnectionLost | Tick


class Send(Struct, frozen=True):
    """Send these two parts to a connection; if that fails, feed back ConnectionLost."""

    connection: bytes
    header: bytes
    body: bytes


class CutOff(NamedTuple):
    """End this connection from elsewhere; `why` is for the log."""

    connection: bytes
    peer: str
    why: str


class CutKey(NamedTuple):
    """End every connection that proved this public key: it was taken back."""

    key: str


Action = Send | CutOff | CutKey | Tap
