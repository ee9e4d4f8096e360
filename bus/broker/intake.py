"""On whose behalf a request is, and how much of one principal the broker takes in. Values in, verdict out.

Nobody can ask in another's name: a client asks for itself, whoever works on a request asks for that one's principal,
and only a supervisor of this machine, whose runs outlive the requests that began them, is believed what it says.
"""

from __future__ import annotations

from hobus.bus.broker.peers import BoundPeer
from hobus.bus.catalog import CLIENT_ROLES, Row
from hobus.bus.envelope import Header

_BELIEVED = "ho2"
_ABOUT = ":about"


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
