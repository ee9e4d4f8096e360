"""A peer that floods a socket and dies in the middle of it harms nobody but itself."""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import pytest
import zmq

from bench.cluster import Cluster
from hobus.bus.codec import decode, encode
from hobus.bus.envelope import Kind, header
from hobus.bus.messages.control import Peers, ReadPeers
from hobus.bus.zeromq.tokens import mint
from tests.process.raw_peer import BIG
from tests.process.test_broker_process import Bench

pytestmark = pytest.mark.process

SERVER = """
import sys, time, zmq
from hobus.bus.zeromq.context import ZeroMQ
from tests.bus.broker.rig import settings_with

zeromq = ZeroMQ(settings_with(receive_max=100, tap_hwm=100, heartbeat_interval_ms=50, heartbeat_timeout_ms=150))
socket = getattr(zeromq, sys.argv[1])(int(sys.argv[2]))
socket.bind(sys.argv[3])
print("up", flush=True)
sys.stdin.readline()
while socket.poll(0):
    socket.recv_multipart()
print("alive", flush=True)
socket.close()
zeromq.close()
"""


@pytest.mark.parametrize("has_heartbeats", [False, True], ids=["silent", "with heartbeats"])
@pytest.mark.parametrize(("kind", "type_"), [("bound", zmq.ROUTER), ("feed", zmq.XPUB)])
def test_a_server_whose_peer_dies_at_its_receive_limit_lives_on(kind, type_, has_heartbeats, tmp_path):
    """Its pipe is full, its peer hangs up, several heartbeats would be due: no assertion of libzmq ends the process."""
    endpoint = f"ipc://{tmp_path}/s"
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, kind, str(int(type_)), endpoint],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stdout is not None
    assert server.stdout.readline() == "up\n"
    context = zmq.Context()
    for _ in range(3):
        peer = context.socket(zmq.DEALER if type_ == zmq.ROUTER else zmq.XSUB)
        peer.linger, peer.sndhwm = 0, 0
        if has_heartbeats:
            peer.heartbeat_ivl, peer.heartbeat_ttl, peer.heartbeat_timeout = 50, 150, 10_000
        peer.connect(endpoint)
        for _ in range(30_000):
            peer.send(b"x")
        time.sleep(0.3)
        peer.close()
        time.sleep(0.3)
    said, _ = server.communicate("\n", timeout=30)
    context.destroy(linger=0)
    assert (said, server.returncode) == ("alive\n", 0)


ANSWER_S = 30.0
"""For an answer beside a flood, which lasts until it is there."""

FLOODER = """
import select, sys, time, zmq
context = zmq.Context()
socket = context.socket(zmq.DEALER)
monitor = socket.get_monitor_socket(zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED)
socket.setsockopt(zmq.RECONNECT_IVL, 20)
socket.setsockopt(zmq.IMMEDIATE, 1)
socket.connect(sys.argv[1])
size, seconds = int(sys.argv[2]), float(sys.argv[3])
until, lost, sent, told = time.monotonic() + seconds, 0, 0, b""
while time.monotonic() < until or lost < 2 or not select.select([sys.stdin], [], [], 0)[0]:
    try:
        socket.send(b"x" * size, zmq.NOBLOCK)
        sent += 1
    except zmq.Again:
        time.sleep(0.001)
    while socket.poll(0):
        told = told + b" " + socket.recv_multipart()[-1]
    while monitor.poll(0):
        event = int.from_bytes(monitor.recv_multipart()[0][:2], sys.byteorder)
        lost += event == zmq.EVENT_DISCONNECTED
    if size < 100:
        time.sleep(0.0005)
print(lost, sent, "malformed_max" in repr(told), flush=True)
"""


@pytest.fixture
def bench(tmp_path):
    """A broker of its own, ended afterwards."""
    tmp_path.chmod(0o700)
    made = Bench(tmp_path)
    yield made
    made.end()


@pytest.mark.parametrize(("size", "is_told"), [(1, True), (4_000_000, False)], ids=["garbage", "much of it"])
def test_who_floods_is_cut_off_and_not_heard_again_for_a_while(bench, size, is_told):
    """Told why if it listens, its connections are ended again and again; a peer of another process notices nothing."""
    client = bench.peer("ho2/1@a")
    flooder = subprocess.Popen(
        [sys.executable, "-c", FLOODER, bench.endpoint, str(size), "2"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    client.idle(1.0)
    client.ask("q", to="ledger", type_name="wo.execute")
    assert client.failure(ANSWER_S) == ("q", "denied")
    assert flooder.poll() is None
    said, _ = flooder.communicate(timeout=120)
    lost, _, told = said.split()
    assert int(lost) > 1
    assert (told == "True") or not is_told
    token = mint(bench.home, "operator/1@a", "operator", None)
    operator = bench.stranger()
    assert operator.hello("operator/1@a", token).type == "bus.welcome"
    head = header(Kind.REQUEST, "r", type=ReadPeers.TYPE, destination="broker", deadline_ms=5000)
    operator.send(head, encode(ReadPeers(), BIG))
    counters = next(
        row for row in decode(Peers, operator.receive(ANSWER_S)[1], BIG).peers if row.role == "broker"
    ).counters
    assert counters["cut_off"] == 1
    assert counters["malformed"] <= bench.settings.malformed_max


def test_a_flood_of_nonsense_at_the_tap_is_cut_off_and_starves_nobody(bench):
    """Subscriptions are taken in a batch at a time; the broker answers, and a reader of the tap still hears of it."""
    client = bench.peer("ho2/1@a")
    code = FLOODER.replace("zmq.DEALER", "zmq.XSUB").replace("socket.poll(0)", "False")
    words = [sys.executable, "-c", code, bench.tap, "1", "1.5"]
    flooder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    client.idle(0.5)
    client.ask("q", to="ledger", type_name="wo.execute")
    assert client.failure(ANSWER_S) == ("q", "denied")
    assert flooder.poll() is None
    said, _ = flooder.communicate(timeout=120)
    assert int(said.split()[0]) > 1


SILENT = """
import contextlib, resource, socket, sys, time

family, address, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
where = address if family == "unix" else (address.rpartition(":")[0], int(address.rpartition(":")[2]))
held = []
while True:
    for one in held:
        with contextlib.suppress(BlockingIOError, OSError):
            if one.recv(100) == b"":
                one.close()
    held = [one for one in held if one.fileno() >= 0]
    while len(held) < count:
        one = socket.socket(socket.AF_UNIX if family == "unix" else socket.AF_INET)
        one.settimeout(0.2)
        try:
            one.connect(where)
        except OSError:
            one.close()
            break
        one.setblocking(False)
        held.append(one)
    print(len(held), flush=True)
    time.sleep(0.05)
"""
DESCRIPTORS = 1024
LOW = 128
"""Descriptors that this process and what it starts may have, fewer than a server needs."""


@pytest.mark.timeout(240)
def test_connections_that_say_nothing_end_no_server(cluster: Cluster):
    """More of them than a process may have descriptors, from elsewhere and here, without a key or a word: turns go on."""
    cluster.up("--listen", "127.0.0.1:0")
    before = {row.actor: row.pid for row in cluster.run().children}
    for actor in ("broker/1", "ledger/1", "gateway/1"):
        resource.prlimit(before[actor], resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    listens = (cluster.home.run / "listening").read_text().strip()
    local = [cluster.home.run / f"{name}.sock" for name in ("broker", "ledger")]
    assert all(path.exists() for path in local)
    for family, address in (("inet", listens), *(("unix", str(path)) for path in local)):
        words = [sys.executable, "-c", SILENT, family, address, str(DESCRIPTORS + DESCRIPTORS // 2)]
        flood = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        try:
            assert flood.stdout is not None
            assert any(int(line) > 0 for line in flood.stdout)
            assert cluster.ask("what packages are installed?")["outcome"] == "success"
            assert flood.poll() is None
        finally:
            flood.kill()
            flood.communicate()
    assert {row.actor: row.pid for row in cluster.run().children} == before
    assert cluster.home.log("broker-1").read_text().count("connections_ended") > 0


def test_processes_have_as_many_descriptors_as_may_be_whatever_they_are_started_with(cluster: Cluster):
    """Shells give a soft limit far below the hard one: each process raises its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (LOW, hard))
    try:
        cluster.up()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    limits = {row.actor: resource.prlimit(row.pid, resource.RLIMIT_NOFILE) for row in cluster.run().children}
    assert len(limits) > 4
    assert set(limits.values()) == {(hard, hard)}
