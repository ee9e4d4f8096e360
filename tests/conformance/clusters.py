"""Two clusters behind one face: the simulated one, and peers, broker and lanes over real sockets."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Protocol, TypeVar

from hobus.bus.broker.tap_record import TapRecord, record_of
from hobus.bus.clock import SystemClock
from hobus.bus.dispatch import Actor
from hobus.bus.lane_server import LaneServer
from hobus.bus.lanes import BESIDE_BROKER, LANES, LEASE_HOLDERS, list_lanes
from hobus.bus.link import Link
from hobus.bus.messages.control import Hello, Refused
from hobus.bus.peer import Peer
from hobus.bus.settings import BusSettings
from hobus.bus.sim.process import SimProcess
from hobus.bus.sim.world import World
from hobus.bus.zeromq.broker_loop import BrokerLoop
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.lane import ZeroMQLane
from hobus.bus.zeromq.link import ZeroMQLink
from hobus.bus.zeromq.tap import TapReader
from hobus.config.sections.record import LedgerConfig

T = TypeVar("T")
CONFIG = Path(__file__).parents[2] / "config" / "admin_config.json"


def bus_settings(**changes: int) -> BusSettings:
    """The shipped settings with some values changed."""
    return BusSettings(**{**json.loads(CONFIG.read_text(encoding="utf-8"))["bus"], **changes})


def ledger_settings(**changed: int) -> LedgerConfig:
    """The shipped settings with some values changed; what was not taken is handed over again soon."""
    shipped = json.loads(CONFIG.read_text(encoding="utf-8"))["ledger"]
    return LedgerConfig(**{**shipped, **changed})


class Cluster(Protocol):
    """What the suite needs of a cluster."""

    settings: BusSettings

    async def start(self, actor: Actor | None, *, role: str, slots: int = 0) -> Peer: ...

    def kill(self, peer: Peer) -> None: ...

    def raw(self, server: str = "") -> Link: ...

    async def restart_broker(self) -> None: ...

    async def tap(self) -> list[TapRecord]:
        """Every frame that the broker handles from now on; the list grows."""
        ...

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T: ...

    def close(self) -> None: ...


class SimCluster:
    """Virtual time."""

    def __init__(self, settings: BusSettings) -> None:
        self.settings = settings
        self.world = World(settings)
        self._epochs = 1

    async def start(self, actor: Actor | None, *, role: str, slots: int = 0) -> Peer:
        peer = self.world.start(actor, role=role, slots=slots)
        await self.world.settled()
        return peer

    def kill(self, peer: Peer) -> None:
        self.world.kill(peer.instance)

    def raw(self, server: str = "") -> Link:
        return self.world.network.connect(SimProcess("stranger"), server)

    async def restart_broker(self) -> None:
        self._epochs += 1
        self.world.network.start_broker(f"sim{self._epochs}")

    async def tap(self) -> list[TapRecord]:
        records: list[TapRecord] = []
        self.world.network.on_tap = lambda tap: records.append(record_of(tap, "sim"))
        return records

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.world.run(coroutine)

    def close(self) -> None:
        self.world.close()


class RealCluster:
    """ZeroMQ over ipc: the broker in a thread, peers on one asyncio loop."""

    def __init__(self, settings: BusSettings) -> None:
        self.settings = settings
        self._folder = Path(tempfile.mkdtemp(prefix="hobus-"))
        self._runner = asyncio.Runner()
        self._clock = SystemClock()
        self._zeromq = ZeroMQ(settings)
        self._peers: list[Peer] = []
        self._links: list[Link] = []
        self._counts: dict[str, int] = {}
        self._epochs = 0
        self._thread: threading.Thread | None = None
        self._reader: TapReader | None = None
        self._start_broker()

    def _endpoint(self, server: str) -> str:
        return f"ipc://{self._folder}/{server.replace('/', '-') or 'broker'}"

    def _link(self, server: str) -> Link:
        return ZeroMQLink(self._zeromq, self.settings, self._endpoint(server))

    def _authenticate(self, hello: Hello) -> Refused | None:
        if hello.token != f"secret of {hello.instance}":
            return Refused(code="bad_token", detail=f"{hello.instance} has no valid token")
        return None

    def _start_broker(self) -> None:
        self._epochs += 1
        reader, self._stop_writer = os.pipe()
        loop = BrokerLoop(
            settings=self.settings,
            endpoint=self._endpoint(""),
            tap_endpoint=self._endpoint("tap"),
            epoch=f"real{self._epochs}",
            authenticate=self._authenticate,
            clock=self._clock,
            stops={reader: lambda _peers: True},
        )

        def run() -> None:
            try:
                loop.run()
            finally:
                loop.close()
                os.close(reader)

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def _stop_broker(self) -> None:
        os.close(self._stop_writer)
        assert self._thread is not None
        self._thread.join(5)
        assert not self._thread.is_alive()

    async def restart_broker(self) -> None:
        self._stop_broker()
        self._start_broker()

    async def tap(self) -> list[TapRecord]:
        records: list[TapRecord] = []
        self._reader = reader = TapReader(self._zeromq, self._endpoint("tap"), with_bodies=True)

        async def read() -> None:
            async for batch in reader.batches():
                records.extend(batch.records)

        self._reading = asyncio.create_task(read())
        await reader.is_heard()
        return records

    async def start(self, actor: Actor | None, *, role: str, slots: int = 0, token: str | None = None) -> Peer:
        self._counts[role] = self._counts.get(role, 0) + 1
        instance = f"{role}/{self._counts[role]}@r{self._counts[role]}"
        links = {name: self._link(name) for name in ["", *list_lanes(role)]}
        peer = Peer(
            actor,
            instance=instance,
            role=role,
            offers=[role] if actor is not None else [],
            slots=slots,
            token=token or f"secret of {instance}",
            settings=self.settings,
            clock=self._clock,
            links=links,
            config_digest="",
            version="test",
        )
        if actor is not None and role in LEASE_HOLDERS:
            peer.connect = self._link
        if actor is not None and (role in LANES or role in BESIDE_BROKER):
            server = LaneServer(instance, self.settings, self._clock, self._authenticate)
            peer.serve_lane(server)
            ZeroMQLane(self._zeromq, server, self._endpoint(role if role in LANES else instance))
        self._peers.append(peer)
        await peer.start(timeout_s=5)
        while peer.state[0] == "starting":
            await asyncio.sleep(0.01)
        return peer

    def kill(self, peer: Peer) -> None:
        peer.close()

    def raw(self, server: str = "") -> Link:
        link = self._link(server)
        self._links.append(link)
        return link

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)

    def close(self) -> None:
        async def close_all() -> None:
            for peer in self._peers:
                peer.close()
            for link in self._links:
                link.close()
            if self._reader is not None:
                self._reader.close()
                await self._reading

        self._runner.run(close_all())
        self._runner.close()
        self._zeromq.close()
        self._stop_broker()
        shutil.rmtree(self._folder)
