"""Real processes on real sockets: what a caller learns, and when, if a worker is killed or frozen."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from hobus.bus import limits
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.control import PeerRow, Peers, ReadPeer, ReadPeers
from hobus.bus.messages.gateway import PromptResponse
from hobus.bus.peer import Peer
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.link import ZeroMQLink
from tests.conformance.clusters import RealCluster, bus_settings
from tests.conformance.desk import prompt
from tests.played import played

pytestmark = pytest.mark.process
WORKER = Path(__file__).with_name("bus_worker.py")


class Workers:
    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster
        self._running: list[subprocess.Popen[str]] = []

    def start(self, instance: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(WORKER), self._cluster._endpoint(""), instance],
            stdout=subprocess.PIPE,
            text=True,
            cwd=WORKER.parents[2],
            env={**os.environ, "PYTHONPATH": "."},
        )
        self._running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
        return process

    def end(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@pytest.fixture
def cluster() -> Iterator[RealCluster]:
    made = RealCluster(bus_settings())
    yield made
    made.close()


@pytest.fixture
def workers(cluster: RealCluster) -> Iterator[Workers]:
    made = Workers(cluster)
    yield made
    made.end()


async def ask(peer, script: str, service: str = "gateway", *, timeout_s: float = 20) -> PromptResponse:
    return await peer.request(service, prompt(script), expect=PromptResponse, timeout_s=timeout_s)


async def listed(operator: Peer, instance: str) -> None:
    async with asyncio.timeout(30):
        while True:
            peers = (await operator.request("broker", ReadPeers(), expect=Peers, timeout_s=20)).peers
            if (instance, "ready") in [(row.instance, row.state) for row in peers]:
                return
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(("peer_timeout_ms", "number"), [(60_000, signal.SIGKILL), (500, signal.SIGSTOP)])
def test_a_caller_learns_of_a_killed_worker_at_once_and_of_a_frozen_one_within_its_time(
    peer_timeout_ms: int, number: signal.Signals
) -> None:
    """A death is heard, not waited for; a silence is over at bus.peer_timeout_ms."""
    cluster = RealCluster(bus_settings(peer_timeout_ms=peer_timeout_ms))
    workers = Workers(cluster)

    async def scenario() -> None:
        worker = workers.start("gateway/1@w1")
        caller = await cluster.start(None, role="ho1")
        await ask(caller, "echo warm")
        asked = asyncio.ensure_future(ask(caller, "sleep 60", "gateway/1@w1", timeout_s=50))
        await asyncio.sleep(0.3)
        worker.send_signal(number)
        with pytest.raises(RuntimeFault, match="peer_lost"):
            await asyncio.wait_for(asked, 20)

    try:
        cluster.run(scenario())
    finally:
        workers.end()
        cluster.close()


@played
async def test_a_thawed_worker_says_hello_and_works_again(cluster: RealCluster, workers: Workers) -> None:
    """What it held went to another one; its own late answer disturbs nobody; then it takes new work."""
    frozen = workers.start("gateway/1@w1")
    caller = await cluster.start(None, role="ho1")
    await ask(caller, "echo warm")
    asked = asyncio.ensure_future(ask(caller, "sleep 0.2"))
    await asyncio.sleep(0.1)
    frozen.send_signal(signal.SIGSTOP)
    other = workers.start("gateway/2@w2")
    assert (await asked).content == "0.2"
    frozen.send_signal(signal.SIGCONT)
    await listed(await cluster.start(None, role="operator"), "gateway/1@w1")
    other.kill()
    assert (await ask(caller, "echo again", "gateway/1@w1")).content == "again"


@played
async def test_a_late_server_is_found_without_losing_the_first_frames(cluster: RealCluster, workers: Workers) -> None:
    """Peers may start before the broker's socket is bound again; what they asked meanwhile is answered."""
    workers.start("gateway/1@w1")
    caller = await cluster.start(None, role="ho1")
    await ask(caller, "echo warm")
    cluster._stop_broker()
    asked = [asyncio.ensure_future(ask(caller, f"echo {number}")) for number in range(50)]
    await asyncio.sleep(1.5)
    cluster._start_broker()
    assert [(await one).content for one in asked] == [str(number) for number in range(50)]


def test_a_restart_is_noticed_by_the_new_connection_and_not_by_the_next_beat() -> None:
    """With beats a minute apart, a peer that waits for an answer and says nothing is bound again long before the next."""
    cluster = RealCluster(bus_settings(beat_interval_ms=60_000, peer_timeout_ms=600_000))

    async def scenario() -> None:
        caller = await cluster.start(None, role="ho1")
        await cluster.restart_broker()
        async with asyncio.timeout(20):
            while caller._broker.epoch != "real2":
                await asyncio.sleep(0.01)

    try:
        cluster.run(scenario())
    finally:
        cluster.close()


def test_more_than_the_high_water_mark_may_arrive_while_a_loop_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connecting socket has no receive mark: its heartbeats go on, and every frame is there afterwards."""
    monkeypatch.setattr(limits, "HIGH_WATER_MARK", 50)
    monkeypatch.setattr(limits, "HEARTBEAT_INTERVAL_MS", 50)
    settings = bus_settings(peer_timeout_ms=200)
    frames: list[bytes] = []

    async def scenario(endpoint: str) -> None:
        zeromq = ZeroMQ(settings)
        router = zeromq.bound(zmq.ROUTER)
        router.setsockopt(zmq.SNDHWM, 0)
        router.bind(endpoint)
        link = ZeroMQLink(zeromq, settings, endpoint)
        link.attach(lambda head, _body: frames.append(head))
        link.send(b"h", b"b")
        await asyncio.sleep(0.2)
        parts = router.recv_multipart()
        while len(parts) != 3:  # the empty message of a new connection
            parts = router.recv_multipart()
        for number in range(5000):
            router.send_multipart([parts[0], b"%d" % number, b"x" * 1000])
        time.sleep(1)  # this loop stands still, for many heartbeats
        router.send_multipart([parts[0], b"last", b""])
        async with asyncio.timeout(30):
            while b"last" not in frames:
                await asyncio.sleep(0.01)
        link.close()
        zeromq.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(scenario(f"ipc://{folder}/r"))
    assert frames == [b"%d" % number for number in range(5000)] + [b"last"]


@played
async def test_large_messages_both_ways_do_not_stop_the_beats(cluster: RealCluster, workers: Workers) -> None:
    """Megabytes through the drained reader: everybody is still there afterwards."""
    workers.start("gateway/1@w1")
    caller = await cluster.start(None, role="ho1")
    for _ in range(5):
        answers = [asyncio.ensure_future(ask(caller, "big 4000000")) for _ in range(4)]
        for answer in answers:
            assert len((await answer).content) == 4_000_000
    operator = await cluster.start(None, role="operator")
    row = await operator.request("broker", ReadPeer(instance="gateway/1@w1"), expect=PeerRow, timeout_s=20)
    while "standstills" not in row.counters:  # until a beat has brought its counters
        await asyncio.sleep(0.05)
        row = await operator.request("broker", ReadPeer(instance="gateway/1@w1"), expect=PeerRow, timeout_s=20)
    assert (row.state, row.counters["standstills"]) == ("ready", 0)


class Watched(ZeroMQ):
    def connecting(self, kind: int) -> zmq.Socket[bytes]:
        socket = super().connecting(kind)
        self.tries = socket.get_monitor_socket(zmq.EVENT_CONNECT_RETRIED | zmq.EVENT_CONNECTED)
        return socket


def events_until(monitor: zmq.Socket[bytes], deadline: float, last: int = 0) -> list[int]:
    found: list[int] = []
    while (rest_s := deadline - time.monotonic()) > 0 and last not in found:
        if monitor.poll(round(rest_s * 1000)):
            found.append(int.from_bytes(monitor.recv_multipart()[0][:2], sys.byteorder))
    return found


def test_whoever_misses_a_server_tries_less_and_less_often_and_notices_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A local socket without a server: the pause between two tries doubles from its least to its most."""
    monkeypatch.setattr(limits, "LOCAL_RECONNECT_MIN_MS", 10)
    monkeypatch.setattr(limits, "LOCAL_RECONNECT_MAX_MS", 200)
    settings = bus_settings(peer_timeout_ms=200)
    seconds, most = 2.0, 0.2
    with tempfile.TemporaryDirectory() as directory:
        endpoint = f"ipc://{directory}/server"

        async def scenario() -> None:
            zeromq = Watched(settings)
            link = ZeroMQLink(zeromq, settings, endpoint)
            link.send(b"header", b"body")  # a link connects with what it first sends
            tries = events_until(zeromq.tries, time.monotonic() + seconds)
            assert 3 <= len(tries) <= 6 + seconds / most, tries  # 10, 20, 40, 80, 160, then one each 200 ms
            with zeromq.bound(zmq.ROUTER) as server:
                server.bind(endpoint)
                assert zmq.EVENT_CONNECTED in events_until(zeromq.tries, time.monotonic() + 20, zmq.EVENT_CONNECTED)
            zeromq.tries.close()
            link.close()
            zeromq.close()

        asyncio.run(scenario())
