"""The only place that brings an actor and a transport together: its connections, its lane, its view of the others."""

from __future__ import annotations

import importlib
import os
from collections.abc import Awaitable, Callable

from hobus.bus.catalog import CLIENT_ROLES
from hobus.bus.lane_server import LaneServer
from hobus.bus.lanes import BESIDE_BROKER, LANES, LEASE_HOLDERS, list_lanes
from hobus.bus.link import Link
from hobus.bus.paging import read_peers
from hobus.bus.peer import Peer
from hobus.bus.port import Clock
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.lane import ZeroMQLane
from hobus.bus.zeromq.tokens import TokenDirectory
from hobus.config.snapshot import Snapshot
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.version import __version__
from hobus.launch.process.failpoint import Drill, DrilledLane, DrilledLink, drill_of
from hobus.launch.process.roles import Made


def make_actor(place: Place, role: str) -> Made:
    """Make the actor of this role, from the file of that name in `launch/process/roles`."""
    make: Callable[[Place], Made] = importlib.import_module(f"hobus.launch.process.roles.{role}").make
    return make(place)


Presence = Callable[[], Awaitable[list[str]]]
"""The roles of who is there besides, as far as a process can see it."""


def wire(  # noqa: PLR0913 - what an actor is wired to
    zeromq: ZeroMQ, place: Place, made: Made, instance: str, secret: str, *, clock: Clock
) -> tuple[Peer, Presence]:
    """Put this actor on ZeroMQ, not started yet; called on a running loop.

    Raises zmq.ZMQError when its lane cannot be bound.
    """
    snapshot = place.snapshot
    actor_name, _, _ = instance.partition("@")
    role, _, _ = actor_name.partition("/")
    drill = drill_of(actor_name, place.home.run, os.environ)

    def make_link(lane: str) -> Link:
        made = place.link(zeromq, lane)
        return made if drill is None else DrilledLink(made, drill)

    peer = Peer(
        made.actor,
        instance=instance,
        role=role,
        offers=() if role in CLIENT_ROLES else (role,),  # the HTTP door asks, and answers nobody on the bus
        slots=made.slots,
        token=secret,
        settings=snapshot.config.bus,
        clock=clock,
        links={lane: make_link(lane) for lane in ("", *list_lanes(role))},
        config_digest=snapshot.digest,
        version=__version__,
        tools=made.tools,
    )
    if role in LEASE_HOLDERS:
        peer.connect = make_link
    address = place.lane(role if role in LANES else instance)
    has_lane = role in LANES or role in BESIDE_BROKER
    server = _serve_lane(zeromq, place, address, peer, drill) if has_lane else None
    if role == "ledger" and server is not None:
        return peer, _make_lane_presence(server)
    return peer, _make_broker_presence(peer, snapshot)


def _serve_lane(zeromq: ZeroMQ, place: Place, address: str, peer: Peer, drill: Drill | None) -> LaneServer:
    server = LaneServer(
        instance=peer.instance,
        settings=place.snapshot.config.bus,
        clock=peer.clock,
        authenticate=TokenDirectory(place.home.run).authenticate,
    )
    ZeroMQLane(zeromq, server if drill is None else DrilledLane(server, drill), address)
    peer.serve_lane(server)
    return server


def _make_broker_presence(peer: Peer, snapshot: Snapshot) -> Presence:
    timeout_s = snapshot.config.bus.peer_timeout_ms / 1000

    async def list_present() -> list[str]:
        peers = await read_peers(peer, timeout_s=timeout_s)
        return [row.role for row in peers.peers if row.state != "lost"]

    return list_present


def _make_lane_presence(server: LaneServer) -> Presence:
    """Return who is connected to the ledger's lane, which everybody who writes is: it may not ask the broker."""

    async def list_present() -> list[str]:
        return [instance.partition("/")[0] for instance in server.connected()]

    return list_present
