"""What the broker's ring holds of the last while, for commands that tell what has just happened."""

from __future__ import annotations

import asyncio

from hobus.bus.broker.tap_record import TapRecord
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.tap import TapReader
from hobus.launch.cluster.endpoints import Place
from hobus.launch.console.errors import CommandError


async def ring_of(place: Place, *, since_s: float) -> list[TapRecord]:
    """Its records of the last `since_s` seconds. Raises CommandError when the broker does not answer."""
    zeromq = ZeroMQ(place.snapshot.config.bus)
    reader = TapReader(zeromq, place.snapshot.config.bus, place.tap, since_s=since_s)
    found: list[TapRecord] = []
    try:
        async with asyncio.timeout(place.snapshot.config.launcher.client_timeout_ms / 1000):
            async for batch in reader.batches():
                found += batch.records
                if batch.reaches_at is not None:
                    break
    except TimeoutError:
        raise CommandError("the broker's tap did not answer") from None
    finally:
        reader.close()
        zeromq.close()
    return found
