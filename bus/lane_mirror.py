"""Frames of a service's own lane, told to the broker for its tap (`lane=direct`).

The gateway's lane alone, which carries the degraded call: a post per frame, header, size and hash, while the broker is
there; nothing is kept for one that is not. The ledger's lane is not mirrored: most frames of a turn are records, and
what they hold stands in the record.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from hobus.bus.codec import pack_header
from hobus.bus.connection import Connection
from hobus.bus.envelope import Header, Kind
from hobus.bus.errors import BusError
from hobus.bus.messages.control import LaneFrame
from hobus.bus.outbox import Outbox

MIRRORED = frozenset({"gateway"})
"""Services whose lanes are mirrored."""


@dataclass(frozen=True, slots=True)
class Mirror:
    """Called for every frame of the lane; never in the way of one."""

    broker: Connection
    outbox: Outbox

    def __call__(self, verdict: str, head: Header, body: bytes) -> None:
        """The broker is told, if it is there."""
        if not self.broker.is_bound:
            return
        frame = LaneFrame(
            verdict=verdict, header=pack_header(head), size=len(body), sha256=hashlib.sha256(body).digest()
        )
        try:
            self.outbox.post(Kind.POST, "broker", frame, key="", trace="")
        except BusError:
            return  # the broker went away meanwhile; the lane goes on without it
