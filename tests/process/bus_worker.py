"""A worker process of the bus tests: `bus_worker.py BROKER_ENDPOINT INSTANCE` runs the desk until it is killed."""

from __future__ import annotations

import asyncio
import sys

from hobus.bus.clock import SystemClock
from hobus.bus.peer import Peer
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.link import ZeroMQLink
from tests.conformance.clusters import bus_settings
from tests.conformance.desk import Desk


async def main(endpoint: str, instance: str) -> None:
    settings = bus_settings()
    peer = Peer(
        Desk(),
        instance=instance,
        role="gateway",
        offers=["gateway"],
        slots=4,
        token=f"secret of {instance}",
        settings=settings,
        clock=SystemClock(),
        links={"": ZeroMQLink(ZeroMQ(settings), settings, endpoint)},
        config_digest="",
        version="test",
    )
    await peer.start(timeout_s=5)
    print("ready", flush=True)  # noqa: T201 - the parent waits for it
    await peer.failed()


asyncio.run(main(sys.argv[1], sys.argv[2]))
