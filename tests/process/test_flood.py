"""A peer that floods a socket and dies in the middle of it harms nobody but itself."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
import zmq

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
