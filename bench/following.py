"""Whoever follows the record of a cluster through every death: what it was shown is durable, and must be there afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bench.cluster import Cluster
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ledger import Entries, Entry, Tail
from hobus.launch.cluster.client import connect_bus
from hobus.launch.console.errors import CommandError


async def follow(cluster: Cluster, is_over: Callable[[], bool], take: Callable[[Entry], None]) -> None:
    """Every entry is taken once, in order, until it is over."""
    head = -1
    while not is_over():
        try:
            async with connect_bus(cluster.place, "operator") as operator:
                while not is_over():
                    tail = Tail(after=head, limit=500, wait_ms=500)
                    page = await operator.request("ledger", tail, expect=Entries, timeout_s=2)
                    for entry in page.entries:
                        take(entry)
                        head = entry.sequence
        except (RuntimeFault, CommandError, OSError, AssertionError):
            await asyncio.sleep(0.1)  # somebody whom it needs has just died, or the launcher with its run file
