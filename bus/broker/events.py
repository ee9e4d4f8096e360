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
    """One well-formed frame pair; `connection` is the transport's own random name of the connection."""

    connection: bytes
    header: bytes
    body: bytes
    origin: Origin = LOCAL


class FrameGarbage(NamedTuple):
    """Bytes from a connection that are no frame pair (wrong number of parts)."""

    connection: bytes
    detail: str
    size_bytes: int = 0
    origin: Origin = LOCAL


class Connected(NamedTuple):
    """A connection is new (the transport's first, empty message); its peer has yet to say hello."""

    connection: bytes


class UnknownKey(NamedTuple):
    """A connection with an unknown key was refused."""

    fingerprint: str
    address: str


class ConnectionLost(NamedTuple):
    """The transport could not send to this connection: its peer is gone, or takes nothing any more."""

    connection: bytes


class Tick(Struct, frozen=True):
    """Time has passed, and nothing else happened."""


Event = FrameReceived | FrameGarbage | Connected | UnknownKey | ConnectionLost | Tick


class Send(Struct, frozen=True):
    """Send these two parts to a connection; if that fails, step ConnectionLost."""

    connection: bytes
    header: bytes
    body: bytes


class CutOff(NamedTuple):
    """End this connection from elsewhere; `why` is for the log."""

    connection: bytes
    peer: str
    why: str


class CutKey(NamedTuple):
    """End every connection that proved this public key, which was revoked."""

    key: str


Action = Send | CutOff | CutKey | Tap
