"""On whose behalf a request is, and how much of one principal the broker takes in. Values in, verdict out.

Nobody can ask in another's name: a client asks for itself, whoever works on a request asks for that one's principal,
and only a supervisor of this machine, whose runs outlive the requests that began them, is believed what it says.
"""

from __future__ import annotations

from typing import NamedTuple

from hobus.bus.broker.peers import BoundPeer
from hobus.bus.catalog import CLIENT_ROLES, Row
from hobus.bus.envelope import Header
from hobus.bus.fair import Shares
from hobus.bus.settings import BusSettings

_BELIEVED = "ho2"
_ABOUT = ":about"


class Asked(NamedTuple):
    """A client's request that waits until its rate allows it (`bus/pacing.py`)."""

    peer: BoundPeer
    frame: Header
    header_bytes: int
    body: bytes | None  # None: there was no room for it
    size_bytes: int
    arrived_at: float


def behalf_of(peer: BoundPeer, frame: Header) -> str:
    """The principal of this request."""
    if peer.role in CLIENT_ROLES:
        return peer.principal
    if peer.role == _BELIEVED and not peer.address and frame.principal:
        return frame.principal
    cause = peer.in_flight.get(frame.causation_id)
    return peer.principal if cause is None else cause.principal


def share_of(peer: BoundPeer, row: Row) -> str:
    """Whose share a request of this peer is of; "" for the cluster's own processes, which ask because others did.

    A command about what its sender has open is not kept out by that.
    """
    if peer.role not in CLIENT_ROLES and not peer.address:
        return ""
    return peer.principal + _ABOUT if row.about else peer.principal


def shares_of(principal: str) -> tuple[str, str]:
    """Both that a client has."""
    return principal, principal + _ABOUT


def over_share(shares: Shares, share: str, size_bytes: int, peer: BoundPeer, settings: BusSettings) -> str:
    """Why one more request of this size is too much for now; "" if it may come in.

    Whatever the others have open, whoever has nothing may ask for something of at most `bus.fair_unit_bytes`.
    """
    held = shares.of(share)
    count_max = settings.client_open_max if peer.role in CLIENT_ROLES else settings.service_open_max
    if held.count >= count_max:
        name = "client_open_max" if peer.role in CLIENT_ROLES else "service_open_max"
        return f"{held.count} requests of {share} are open (bus.{name})"
    if held.size_bytes + size_bytes > settings.client_open_max_bytes:
        return f"{held.size_bytes} bytes of {share} are open (bus.client_open_max_bytes)"
    is_least = held.count == 0 and size_bytes <= settings.fair_unit_bytes
    if not is_least and shares.size_bytes + size_bytes > settings.clients_open_max_bytes:
        return f"{shares.size_bytes} bytes are open for those outside (bus.clients_open_max_bytes)"
    return ""
