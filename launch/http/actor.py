"""The door as an actor: a process like any other, that answers nobody on the bus and everybody who has a key over HTTP.

It holds nothing that another door would need: sessions live in HO2 and in the record, keys in the home.
"""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import structlog

from hobus.bus.dispatch import Actor
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.limits import DRAIN_MS
from hobus.bus.port import Bus
from hobus.config import limits as config_limits
from hobus.config.recorded import Snapshots
from hobus.launch.cells import membership
from hobus.launch.cluster import console_file
from hobus.launch.cluster.endpoints import Place, split_address
from hobus.launch.http import limits
from hobus.launch.http.app import make_app
from hobus.launch.http.context import Door
from hobus.launch.http.events import FollowedJournals
from hobus.launch.http.guard import names_of
from hobus.launch.http.keys import BearerKeys, Ownership, keep_recorded, read_owner_secret
from hobus.launch.http.metrics import Metrics
from hobus.launch.http.server import DoorServer, make_server

if TYPE_CHECKING:
    from hobus.launch.http.cells import Cells

_log = structlog.get_logger("http")


class _Open(NamedTuple):
    """What a door that listens consists of."""

    door: Door
    server: DoorServer
    serving: asyncio.Task[None]
    recording: asyncio.Task[None]
    cells: Cells | None


def _make_cells(door: Door, home: Path) -> Cells | None:
    """Make what passes requests on to other cells; None in a home that is none. Raises ConfigError."""
    if (mine := membership(home)) is None:
        return None
    from hobus.launch.cells.map import CellMap  # noqa: PLC0415 - with a client, of no use to other doors
    from hobus.launch.http.cells import Cells  # noqa: PLC0415

    return Cells(door, mine.name, CellMap(mine.map))


class HttpDoor(Actor):
    """One door."""

    service = "http"
    needs = ("host",)

    def __init__(self, place: Place) -> None:
        self._place = place
        self._config = place.snapshot.config
        self._open: _Open | None = None

    async def start(self, bus: Bus) -> None:
        """Answer from now on who connects to `http.listen`."""
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        config = self._config.http
        ledger = LedgerClient(bus, self._config.ledger)
        self._snapshots = Snapshots(self._place.snapshot, ledger, kept_max=config_limits.SNAPSHOTS_KEPT)
        assert self._place.listening is not None  # noqa: S101 - the launcher gives it to each door
        bound, address = socket.socket(fileno=self._place.listening), self._place.home.bound(http=True)
        keys = BearerKeys(self._place.home)
        door = Door(
            bus=bus,
            snapshot=self._place.snapshot,
            ownership=Ownership(read_owner_secret(self._place.home, new_id=bus.new_id)),
            key_of=lambda header: keys.key_of(header, now_us=round(bus.now() * 1_000_000)),
            hosts=names_of(split_address(address)[0], config.hosts),
            metrics=Metrics(),
            journals=FollowedJournals(bus, self._config),
            body_timeout_ms=limits.BODY_TIMEOUT_MS,
            console=partial(console_file.find_offered, self._place.home),
        )
        cells = _make_cells(door, self._place.home.root)
        server = make_server(make_app(door, cells), config, head_timeout_ms=limits.HEAD_TIMEOUT_MS)
        serving = asyncio.get_running_loop().create_task(server.serve(sockets=[bound]))
        recording = asyncio.get_running_loop().create_task(
            keep_recorded(
                bus, self._place.home, interval_s=limits.KEYS_INTERVAL_MS / 1000,
                timeout_s=self._config.launcher.client_timeout_ms / 1000,
            )
        )  # fmt: skip
        for task in (serving, recording):
            task.add_done_callback(self._on_end)
        self._open = _Open(door, server, serving, recording, cells)
        _log.info("http_door_open", address=address)

    async def reconfigure(self, digest: str) -> None:
        """Judge requests by this configuration from now on: its agents and models, its limits of a turn."""
        snapshot = await self._snapshots.get(digest)
        if self._open is not None:
            self._open.door.snapshot = snapshot

    def counters(self) -> dict[str, int]:
        """Return connections, requests, turns under way and readers of events, for the heartbeat."""
        if self._open is None:
            return {}
        state, door = self._open.server.server_state, self._open.door
        return {
            "connections": len(state.connections), "requests": state.total_requests,
            "turns": door.turns_under_way, "event_readers": door.journals.readers,
        }  # fmt: skip

    async def rest(self) -> None:
        """Take no new connection; end streams of events, answer turns under way, however long they take."""
        if self._open is not None:
            self._open.door.closing.set()
            self._open.door.journals.close()
            self._open.server.should_exit = True
            await asyncio.shield(self._open.serving)

    async def drain(self) -> None:
        """Do as `rest` for at most `DRAIN_MS`; tell whoever waits longer that this door closes."""
        try:
            async with asyncio.timeout(DRAIN_MS / 1000):
                await self.rest()
        except TimeoutError:
            if self._open is not None:
                self._open.door.give_up()
            await self.rest()

    async def close(self) -> None:
        """End the server, every request and stream, and the recording of keys."""
        if self._open is None:
            return
        await self._open.door.close()
        self._open.server.should_exit = self._open.server.force_exit = True
        for task in (self._open.serving, self._open.recording):
            task.cancel()
        await asyncio.gather(self._open.serving, self._open.recording, return_exceptions=True)
        if self._open.cells is not None:
            await self._open.cells.close()

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """Treat a task that ends by itself as a fault of this process."""
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failed.done():
            self.failed.set_result(error)
