"""Which messages go by a lane, a service's own socket, instead of the broker."""

from __future__ import annotations

import re
from functools import lru_cache

from hobus.bus.catalog import Row, row_of, rows_of

INSTANCE_PATTERN = re.compile(r"(?P<role>[a-z0-9]{1,16})/[A-Za-z0-9._-]{1,64}@[A-Za-z0-9]{1,64}")
"""`<role>/<n>@<incarnation>`."""
_ROLES_KEPT = 1024
"""Of the instances that asked last; each frame names one or two."""
LANES = ("ledger", "gateway")
"""Services that have one."""


def lane_types(service: str) -> frozenset[str]:
    """What its lane takes: all of the ledger's; of the gateway's the session host's last resort alone."""
    if service == "gateway":
        return frozenset({"gateway.degraded_prompt"})
    return frozenset(rows_of(service)) if service in LANES else frozenset()


@lru_cache(maxsize=_ROLES_KEPT)
def way_of(service: str, type_name: str) -> tuple[Row | None, str]:
    """The row of a message to this service, or to an instance; and its lane, where the sender has a link to it.

    "" for the broker.
    """
    lane = service if type_name in lane_types(service) else ""
    return row_of(role_of(service), type_name), lane


def is_foreign(message_id: str, instance: str) -> bool:
    """Whether a counted id (`<instance>:<n>`) was counted by somebody else: his request it names, and his answer."""
    if message_id.startswith(f"{instance}:"):
        return False
    match = INSTANCE_PATTERN.match(message_id)
    return match is not None and message_id[match.end() : match.end() + 1] == ":"


@lru_cache(maxsize=_ROLES_KEPT)
def role_of(instance: str) -> str:
    """The role in `<role>/<n>@<epoch>`; a service name is its own role."""
    return instance.partition("/")[0]


def epoch_of(instance: str) -> str:
    """The incarnation in `<role>/<n>@<epoch>`."""
    return instance.rpartition("@")[2]
