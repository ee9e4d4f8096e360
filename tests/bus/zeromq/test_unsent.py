"""Bytes that a peer has not taken yet, over a real socket."""

from __future__ import annotations

import asyncio

import pytest
import zmq

from bus.zeromq.context import ZeroMQ
from bus.zeromq.drained import DrainedSocket
from bus.zeromq.unsent import Unsent
from tests.conformance.clusters import bus_settings

pytestmark = pytest.mark.process
SETTINGS = bus_settings()
MB = 1_000_000


async def test_what_a_peer_does_not_read_is_counted_until_it_does(tmp_path) -> None:
    """Of thirty big answers most wait at the server; small ones count as well; read to the end, nothing is left."""
    zeromq = ZeroMQ(SETTINGS)
    router, came = zeromq.bound(zmq.ROUTER), []
    router.bind(f"ipc://{tmp_path}/s")
    drained = DrainedSocket(router, SETTINGS, came.append)
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
        assert 20 * MB < unsent.by_connection()[routing] <= 31 * MB
        before = unsent.by_connection()[routing]
        for _ in range(1000):
            assert unsent.send(routing, b"head", b"x" * 1000)
        assert unsent.by_connection()[routing] > before + 0.9 * MB
        for _ in range(1030):
            while not dealer.poll(0):
                await asyncio.sleep(0.001)
            dealer.recv_multipart()
        while unsent.by_connection():
            await asyncio.sleep(0.01)
    finally:
        dealer.close(linger=0)
        slow.term()
        drained.close()
        zeromq.close()


async def test_what_was_sent_to_who_left_is_not_counted_for_ever(tmp_path) -> None:
    """The connection is gone, and with it what waited for it."""
    zeromq = ZeroMQ(SETTINGS)
    router, came = zeromq.bound(zmq.ROUTER), []
    router.setsockopt(zmq.ROUTER_MANDATORY, 1)
    router.bind(f"ipc://{tmp_path}/s")
    drained = DrainedSocket(router, SETTINGS, came.append)
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
        assert unsent.by_connection()
        dealer.close(linger=0)
        while unsent.by_connection():
            await asyncio.sleep(0.01)
    finally:
        dealer.close(linger=0)
        slow.term()
        drained.close()
        zeromq.close()
