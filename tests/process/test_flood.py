"""A peer that floods a socket and dies in the middle of it harms nobody but itself."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
import zmq

from bus.codec import decode, encode
from bus.envelope import Kind, header
from bus.messages.control import Peers, ReadPeers
from bus.zeromq.tokens import mint
from tests.process.raw_peer import BIG
from tests.process.test_broker_process import Bench

pytestmark = pytest.mark.process

SERVER = """
import sys, time, zmq
from bus.zeromq.context import ZeroMQ
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


FLOODER = """
import sys, time, zmq
context = zmq.Context()
socket = context.socket(zmq.DEALER)
monitor = socket.get_monitor_socket(zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED)
socket.setsockopt(zmq.RECONNECT_IVL, 20)
socket.setsockopt(zmq.IMMEDIATE, 1)
socket.connect(sys.argv[1])
size, seconds = int(sys.argv[2]), float(sys.argv[3])
until, lost, sent, told = time.monotonic() + seconds, 0, 0, b""
while time.monotonic() < until:
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
        [sys.executable, "-c", FLOODER, bench.endpoint, str(size), "2"], stdout=subprocess.PIPE, text=True
    )
    client.idle(1.0)
    client.ask("q", to="ledger", type_name="wo.execute")
    assert client.failure(2.0) == ("q", "denied")
    said, _ = flooder.communicate(timeout=30)
    lost, _, told = said.split()
    assert int(lost) > 1
    assert (told == "True") or not is_told
    token = mint(bench.home, "operator/1@a", "operator", None)
    operator = bench.stranger()
    assert operator.hello("operator/1@a", token).type == "bus.welcome"
    head = header(Kind.REQUEST, "r", type=ReadPeers.TYPE, destination="broker", deadline_ms=5000)
    operator.send(head, encode(ReadPeers(), BIG))
    counters = next(row for row in decode(Peers, operator.receive(5.0)[1], BIG).peers if row.role == "broker").counters
    assert counters["cut_off"] == 1
    assert counters["malformed"] <= bench.settings.malformed_max


def test_a_flood_of_nonsense_at_the_tap_is_cut_off_and_starves_nobody(bench):
    """Subscriptions are taken in a batch at a time; the broker answers, and a reader of the tap still hears of it."""
    client = bench.peer("ho2/1@a")
    code = FLOODER.replace("zmq.DEALER", "zmq.XSUB").replace("socket.poll(0)", "False")
    flooder = subprocess.Popen([sys.executable, "-c", code, bench.tap, "1", "1.5"], stdout=subprocess.PIPE, text=True)
    client.idle(0.5)
    client.ask("q", to="ledger", type_name="wo.execute")
    assert client.failure(2.0) == ("q", "denied")
    said, _ = flooder.communicate(timeout=30)
    assert int(said.split()[0]) > 1
