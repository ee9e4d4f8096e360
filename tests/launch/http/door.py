"""A door over the simulated cluster: the real application, called in process, in virtual time."""

import httpx2

from bench.builders import shipped_snapshot
from hobus.launch.http.app import make_app
from hobus.launch.http.context import Door
from hobus.launch.http.events import FollowedJournals
from hobus.launch.http.guard import names_of
from hobus.launch.http.keys import HttpKey, Ownership
from hobus.launch.http.metrics import Metrics
from hobus.launch.sessions.http_client import AsyncClient
from tests.simulated import SimulatedCluster

SNAPSHOT = shipped_snapshot()
KEYS = {
    f"Bearer k-{name}": HttpKey(principal=name, sha256="0" * 64, created_at_us=0, expires_at_us=None, may=may)
    for name, may in (("alice", "use"), ("bob", "use"), ("carol", "approve"), ("scraper", "metrics"))
}


def sdk():
    """The official one: loaded by the worker that uses it, for half a second."""
    import openai  # noqa: PLC0415

    return openai


class SimulatedDoor:
    """As many doors as asked for, on one cluster."""

    def __init__(self, snapshot=SNAPSHOT, **cluster):
        self.cluster = SimulatedCluster(snapshot, **cluster)
        self.snapshot = snapshot
        self.doors = []
        self.apps = [self.open()]

    def open(self):
        """One more door."""
        bus = self.cluster.world.client("http")
        door = Door(
            bus=bus, snapshot=self.snapshot, ownership=Ownership(b"secret"), key_of=KEYS.get,
            hosts=names_of("127.0.0.1", []), metrics=Metrics(), journals=FollowedJournals(bus, self.snapshot.config),
            body_timeout_ms=60_000,
        )  # fmt: skip
        self.doors.append(door)
        self.cluster.world.run(self.cluster.world.settled())
        return make_app(door)

    def run(self, work):
        """What a coroutine gives, in virtual time."""
        return self.cluster.world.run(work)

    def requested(self):
        """The inputs that the record has, in order."""
        return [entry for entry in self.cluster.entries() if entry.event_type == "RunRequested"]

    def http(self, who="alice", app=0, **more):
        """An HTTP client of one of the doors."""
        headers = {"authorization": f"Bearer k-{who}"} if who else {}
        transport = httpx2.ASGITransport(app=self.apps[app], raise_app_exceptions=False)
        return httpx2.AsyncClient(
            transport=transport,
            base_url="http://127.0.0.1",
            headers=headers | more.pop("headers", {}),
            timeout=None,
            **more,
        )

    def openai(self, who="alice", app=0):
        """The official SDK as a client of one of the doors."""
        transport = httpx2.ASGITransport(app=self.apps[app], raise_app_exceptions=False)
        client = sdk().AsyncOpenAI(
            api_key=f"k-{who}", base_url="http://127.0.0.1/v1", max_retries=0,
            http_client=httpx2.AsyncClient(transport=transport, timeout=None),
        )  # fmt: skip
        client._platform = "Linux"  # else it asks a thread, and there are none in virtual time
        return client

    def client(self, who="alice", app=0):
        """Our own client of one of the doors."""
        transport = httpx2.ASGITransport(app=self.apps[app], raise_app_exceptions=False)
        return AsyncClient("http://127.0.0.1", f"k-{who}", transport=transport, clock=self.doors[app].bus.clock)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for door in self.doors:
            self.run(door.close())
        self.cluster.world.close()
