"""The only place that brings an actor and a transport together: its connections, its lane, its view of the others."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hobus.bus.catalog import CLIENT_ROLES
from hobus.bus.errors import RuntimeFault
from hobus.bus.lane_server import LaneServer
from hobus.bus.paging import read_peers
from hobus.bus.peer import Peer
from hobus.bus.port import Clock
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.lane import ZeroMQLane
from hobus.bus.zeromq.tokens import TokenDirectory
from hobus.config.snapshot import Snapshot
from hobus.launch.cluster.endpoints import LANES, Place
from hobus.launch.cluster.transport import links
from hobus.launch.cluster.version import software_version
from hobus.launch.process.failpoint import drilled
from hobus.launch.process.roles import Made

_OUTGOING_LANES = {"host": ("ledger", "gateway"), "ledger": ()}
"""Lanes that a role connects to; every other one connects to the ledger's alone."""


@dataclass(slots=True)
class Wired:
    """One actor with everything that it needs, not started yet."""

    peer: Peer
    roles_present: Callable[[], Awaitable[list[str]]]
    """Who is there besides, as far as this process can see it."""
    _made: Made
    _zeromq: ZeroMQ

    def failure(self) -> asyncio.Future[BaseException] | None:
        """Done when the started actor itself says that its process must end; None if it never says so."""
        return getattr(self._made.actor, "failed", None)

    async def start(self, *, timeout_s: float) -> None:
        """Connected, the actor started, its requests let in; what may come late comes. Raises BusError."""
        await self.peer.start(timeout_s=timeout_s)
        self._made.begin(self.peer.announce)

    async def rest(self) -> None:
        """The actor takes nothing new from outside of the bus, and has nothing of it left."""
        await self._made.actor.rest()

    async def close(self) -> None:
        """Nothing is open any more."""
        self.peer.close()
        self._zeromq.close()
        await self._made.close()


def make_actor(place: Place, role: str) -> Made:
    """The actor of this role, from the file of that name in `launch/process/roles`."""
    make: Callable[[Place], Made] = importlib.import_module(f"hobus.launch.process.roles.{role}").make
    return make(place)


def wire(place: Place, made: Made, instance: str, secret: str, *, clock: Clock) -> Wired:
    """This actor on ZeroMQ; called on a running loop. Raises zmq.ZMQError when its lane cannot be bound."""
    snapshot = place.snapshot
    actor_name, _, _ = instance.partition("@")
    role, _, _ = actor_name.partition("/")
    zeromq = ZeroMQ(snapshot.config.bus)
    outgoing = links(zeromq, place, _OUTGOING_LANES.get(role, ("ledger",)))
    peer = Peer(
        made.actor,
        instance=instance,
        role=role,
        offers=() if role in CLIENT_ROLES else (role,),  # the HTTP door asks, and answers nobody on the bus
        slots=made.slots,
        token=secret,
        settings=snapshot.config.bus,
        clock=clock,
        links=drilled(outgoing, actor_name, place.home.run, os.environ),
        config_digest=snapshot.digest,
        version=software_version(),
        tools=made.tools,
    )
    server = _serve_lane(zeromq, place, role, peer) if role in LANES else None
    present = _present_on(server) if role == "ledger" and server is not None else _present_at_broker(peer, snapshot)
    return Wired(peer, present, made, zeromq)


def _serve_lane(zeromq: ZeroMQ, place: Place, service: str, peer: Peer) -> LaneServer:
    server = LaneServer(
        instance=peer.instance,
        settings=place.snapshot.config.bus,
        clock=peer.clock,
        authenticate=TokenDirectory(place.home.run).authenticate,
    )
    ZeroMQLane(zeromq, server, place.lane(service))
    peer.serve_lane(server)
    return server


def _present_at_broker(peer: Peer, snapshot: Snapshot) -> Callable[[], Awaitable[list[str]]]:
    timeout_s = snapshot.config.bus.peer_timeout_ms / 1000

    async def present() -> list[str]:
        try:
            peers = await read_peers(peer, timeout_s=timeout_s)
        except RuntimeFault:
            return []  # without the broker nobody can need this process
        return [row.role for row in peers.peers if row.state != "lost"]

    return present


def _present_on(server: LaneServer) -> Callable[[], Awaitable[list[str]]]:
    """The ledger may not ask the broker, but everybody who writes is connected to its lane."""

    async def present() -> list[str]:
        return [instance.partition("/")[0] for instance in server.connected()]

    return present
