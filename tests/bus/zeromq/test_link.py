"""A link's socket: when its server first notices it."""

from __future__ import annotations

import asyncio

import pytest
import zmq

from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.drained import DrainedSocket
from hobus.bus.zeromq.link import ZeroMQLink
from tests.conformance.clusters import bus_settings

pytestmark = pytest.mark.process
SETTINGS = bus_settings()


async def test_a_link_connects_with_its_first_frame(tmp_path) -> None:
    """A lane that is never spoken to is no connection; the probe and the frame come with the first one."""
    zeromq = ZeroMQ(SETTINGS)
    router, came = zeromq.bound(zmq.ROUTER), []
    router.bind(f"ipc://{tmp_path}/s")
    drained = DrainedSocket(router, lambda message: came.append(message[1:]))
    silent, speaking = (ZeroMQLink(zeromq, SETTINGS, f"ipc://{tmp_path}/s") for _ in range(2))
    try:
        silent.discard()
        speaking.send(b"head", b"body")
        async with asyncio.timeout(10):
            while [b"head", b"body"] not in came:
                await asyncio.sleep(0.01)
        assert came == [[b""], [b"head", b"body"]]
        silent.close()
        silent.send(b"too", b"late")
    finally:
        silent.close()
        speaking.close()
        drained.close()
        zeromq.close()
