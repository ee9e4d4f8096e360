"""A peer that floods a socket and dies in the middle of it harms nobody but itself."""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import pytest
import zmq

from bench.cluster import Cluster

pytestmark = pytest.mark.process

SERVER = """
import sys, time, zmq
from hobus.bus import limits
from hobus.bus.zeromq.context import ZeroMQ
from tests.bus.broker.rig import settings_with

limits.HEARTBEAT_INTERVAL_MS, limits.TAP_HWM = 50, 100
zeromq = ZeroMQ(settings_with(peer_timeout_ms=200))
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


@pytest.mark.parametrize(("kind", "type_"), [("bound", zmq.ROUTER), ("feed", zmq.XPUB)])
def test_a_server_whose_peer_dies_at_its_receive_limit_lives_on(kind, type_, tmp_path):
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


SILENT = """
import contextlib, resource, socket, sys, time

address, count = sys.argv[1], int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
where = (address.rpartition(":")[0], int(address.rpartition(":")[2]))
held = []
while True:
    for one in held:
        with contextlib.suppress(BlockingIOError, OSError):
            if one.recv(100) == b"":
                one.close()
    held = [one for one in held if one.fileno() >= 0]
    while len(held) < count:
        one = socket.socket(socket.AF_INET)
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
def test_connections_from_elsewhere_that_say_nothing_do_not_end_the_broker(cluster: Cluster):
    """More of them than a process may have descriptors, without a key or a word: turns go on."""
    cluster.up("--listen", "127.0.0.1:0")
    before = {row.actor: row.pid for row in cluster.run().children}
    resource.prlimit(before["broker/1"], resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    listens = (cluster.home.run / "listening").read_text().strip()
    words = [sys.executable, "-c", SILENT, listens, str(DESCRIPTORS + DESCRIPTORS // 2)]
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
