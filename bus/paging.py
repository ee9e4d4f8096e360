"""What the broker knows of peers and tools, read whole: page after page; and announcements cut into parts.

A broker that restarts between two pages is noticed by its epoch: reading begins again, within the same time.
"""

from __future__ import annotations

from typing import TypeVar

from hobus.bus.errors import BusError, RuntimeFault
from hobus.bus.messages.base import pack
from hobus.bus.messages.control import (
    AnnounceTools,
    PeerRow,
    Peers,
    ReadPeer,
    ReadPeers,
    ReadTools,
    Tools,
    ToolSource,
    ToolWord,
)
from hobus.bus.port import Bus

P = TypeVar("P", Peers, Tools)


async def read_peers(bus: Bus, *, timeout_s: float) -> Peers:
    """Read everybody who is connected. Raises BusError when the broker does not answer all within `timeout_s`."""
    pages = await _read_pages(bus, ReadPeers, Peers, timeout_s)
    return pages[0].model_copy(update={"peers": [row for page in pages for row in page.peers], "next": ""})


async def read_tools(bus: Bus, *, timeout_s: float) -> Tools:
    """Read every tool and every source of tools. Raises BusError as `read_peers` does."""
    pages = await _read_pages(bus, ReadTools, Tools, timeout_s)
    rows = {
        "tools": [row for page in pages for row in page.tools],
        "sources": [row for page in pages for row in page.sources],
    }
    return pages[0].model_copy(update=rows | {"next": ""})


async def is_held(bus: Bus, instance: str, *, timeout_s: float) -> bool:
    """Return whether the broker holds this instance; True while the broker itself cannot say."""
    try:
        row = await bus.request("broker", ReadPeer(instance=instance), expect=PeerRow, timeout_s=timeout_s)
    except RuntimeFault as fault:
        return fault.code != "not_found"
    return row.state != "lost"


async def _read_pages(bus: Bus, question: type[ReadPeers | ReadTools], expect: type[P], timeout_s: float) -> list[P]:
    """Read all pages of one incarnation of the broker."""
    ends_at = bus.clock.monotonic() + timeout_s
    pages: list[P] = []
    while not pages or pages[-1].next:
        left_s = ends_at - bus.clock.monotonic()
        if left_s <= 0:
            raise BusError("expired", "the broker's answer has more pages than could be read in time")
        asked = question(after=pages[-1].next if pages else "")
        pages.append(await bus.request("broker", asked, expect=expect, timeout_s=left_s))
        if pages[-1].epoch != pages[0].epoch:
            pages.clear()
    return pages


def cut_parts(said: AnnounceTools, max_bytes: int) -> list[AnnounceTools]:
    """Cut the announcement into parts of at most `max_bytes`, or of one row where that is larger."""
    parts: list[list[ToolWord | ToolSource]] = [[]]
    size = 0
    for row in (*said.sources, *said.tools):
        row_bytes = len(pack(row.model_dump()))
        if size and size + row_bytes > max_bytes:
            parts.append([])
            size = 0
        size += row_bytes
        parts[-1].append(row)
    return [
        AnnounceTools(
            tools=[row for row in rows if isinstance(row, ToolWord)],
            sources=[row for row in rows if isinstance(row, ToolSource)],
            part=number,
            parts=len(parts),
        )
        for number, rows in enumerate(parts, start=1)
    ]
