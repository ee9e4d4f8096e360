"""The small header in front of every body.

A header is a positional MessagePack array, versioned; the broker reads headers and never bodies.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

HEADER_VERSION = 2


class Kind(IntEnum):
    """What an envelope is for; those from HELLO on are control between a peer and its server."""

    REQUEST = 1
    REPLY = 2
    FAILURE = 3
    POST = 4
    PUBLISH = 5
    STREAM = 6
    CANCEL = 7
    HELLO = 16
    READY = 17
    BEAT = 18
    CREDIT = 19
    BYE = 20
    WELCOME = 21
    JOIN = 22
    TOOLS = 23


class Header(NamedTuple):
    """Positional fields in wire order."""

    version: int
    kind: int
    message_id: str
    correlation_id: str  # reply, failure, stream, cancel: the request's message id
    causation_id: str  # the message whose handling caused this one
    type: str
    type_version: int
    destination: str  # a service, or an instance
    key: str  # routing key: same key, same owner while it lives
    deadline_ms: int  # remaining, lowered at each hop; 0 where none applies
    attempt: int
    sensitive: bool
    trace: str
    principal: str  # stamped: on whose behalf, for fair shares; "" in what nobody asked for
    sender: str  # the stamped instance; a claimed one counts for nothing


def header(  # noqa: PLR0913 - one argument per wire field
    kind: Kind,
    message_id: str,
    *,
    correlation_id: str = "",
    causation_id: str = "",
    type: str = "",  # noqa: A002 - the wire's word
    type_version: int = 1,
    destination: str = "",
    key: str = "",
    deadline_ms: int = 0,
    attempt: int = 1,
    sensitive: bool = False,
    trace: str = "",
    principal: str = "",
    sender: str = "",
) -> Header:
    """A header with the fields that matter to this kind."""
    return Header(
        HEADER_VERSION, int(kind), message_id, correlation_id, causation_id, type, type_version, destination, key,
        deadline_ms, attempt, sensitive, trace, principal, sender,
    )  # fmt: skip
