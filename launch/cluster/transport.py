"""Connections of this installation: ZeroMQ, over ipc sockets in the state directory."""

from __future__ import annotations

from collections.abc import Sequence

from hobus.bus.link import Link
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.link import ZeroMQLink
from hobus.launch.cluster.endpoints import Place


def links(zeromq: ZeroMQ, place: Place, lanes: Sequence[str]) -> dict[str, Link]:
    """A connection to the broker and one to each of these lanes; made on a running loop."""
    settings = place.snapshot.config.bus
    made: dict[str, Link] = {"": ZeroMQLink(zeromq, settings, place.broker)}
    for service in lanes:
        made[service] = ZeroMQLink(zeromq, settings, place.lane(service))
    return made
