"""What a peer has not taken yet, over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
import zmq

from hobus.bus.conduct import FRAME_BYTES
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.drained import DrainedSocket
from hobus.bus.zeromq.lane import Unsent, ZeroMQLane
from tests.conformance.clusters import bus_settings

pytestmark = pytest.mark.process
SETTINGS = bus_settings()
MB = 1_000_000
SMALL = 900
"""Of a thousand bytes: with what each frame counts for, less than a big one together."""


async def test_what_a_peer_does_not_read_is_counted_until_it_does(tmp_path) -> None:
    """Of thirty big answers most wait at the server; small ones count as well; read to the end, nothing is left."""
    zeromq = ZeroMQ(SETTINGS)
    router, came = zeromq.bound(zmq.ROUTER), []
    router.bind(f"ipc://{tmp_path}/s")
    drained = DrainedSocket(router, came.append)
    unsent = Unsent(router, drained, 2)
    slow = zmq.Context()
    dealer = slow.socket(zmq.DEALER)
    dealer.setsockopt(zmq.RCVHWM, 1)
    dealer.connect(f"ipc://{tmp_path}/s")
    try:
        dealer.send(b"")
        while not came:
            await asyncio.sleep(0.01)
        routing = came[0][0]
        for _ in range(30):
            assert unsent.send(routing, b"head", b"x" * MB)
        assert 20 * MB < unsent.map_by_connection()[routing] <= 30 * MB
        for _ in range(SMALL):
            assert unsent.send(routing, b"head", b"x" * 1000)
        # Big ones may leave at any moment, each as a whole; what is left over of a whole number of them are small ones.
        waiting = unsent.map_by_connection()[routing]
        assert waiting > 20 * MB
        assert 0.8 * MB < waiting % MB <= SMALL * (1000 + FRAME_BYTES)
        for _ in range(30 + SMALL):
            while not dealer.poll(0):
                await asyncio.sleep(0.001)
            dealer.recv_multipart()
        while unsent.map_by_connection():
            await asyncio.sleep(0.01)
    finally:
        dealer.close(linger=0)
        slow.term()
        drained.close()
        zeromq.close()


async def test_what_was_sent_to_who_left_is_not_counted_for_ever(tmp_path) -> None:
    zeromq = ZeroMQ(SETTINGS)
    router, came = zeromq.bound(zmq.ROUTER), []
    router.setsockopt(zmq.ROUTER_MANDATORY, 1)
    router.bind(f"ipc://{tmp_path}/s")
    drained = DrainedSocket(router, came.append)
    unsent = Unsent(router, drained, 2)
    slow = zmq.Context()
    dealer = slow.socket(zmq.DEALER)
    dealer.setsockopt(zmq.RCVHWM, 1)
    dealer.connect(f"ipc://{tmp_path}/s")
    try:
        dealer.send(b"")
        while not came:
            await asyncio.sleep(0.01)
        for _ in range(30):
            unsent.send(came[0][0], b"head", b"x" * MB)
        assert unsent.map_by_connection()
        dealer.close(linger=0)
        while unsent.map_by_connection():
            await asyncio.sleep(0.01)
    finally:
        dealer.close(linger=0)
        slow.term()
        drained.close()
        zeromq.close()


class Nobody:
    """A lane's rules without any: what came is kept."""

    def __init__(self) -> None:
        self.came: list[bytes] = []

    def bind(self, transport: object) -> None:
        """The test sends."""

    def receive(self, routing: bytes, frames: Sequence[bytes]) -> None:
        self.came.append(routing)


async def test_the_last_answers_of_a_lane_leave_after_it_was_closed(tmp_path) -> None:
    """A process that ends in order answers what it had, and closes at once: the answer is not asked for again."""
    zeromq, server = ZeroMQ(SETTINGS), Nobody()
    lane = ZeroMQLane(zeromq, server, f"ipc://{tmp_path}/s")
    other = zmq.Context()
    dealer = other.socket(zmq.DEALER)
    dealer.connect(lane.endpoint)
    try:
        dealer.send(b"")
        while not server.came:
            await asyncio.sleep(0.01)
        for _ in range(20):
            assert lane.send(server.came[0], b"head", b"x" * MB)
        lane.close()
        taken = 0
        while taken < 20 and dealer.poll(5000):
            dealer.recv_multipart()
            taken += 1
        assert taken == 20
    finally:
        dealer.close(linger=0)
        other.term()
        lane.close()
        zeromq.close()
