"""Which messages go by a lane, a service's own socket, instead of the broker."""

from __future__ import annotations

import re
from functools import lru_cache

from hobus.bus.catalog import Row, find_row

INSTANCE_PATTERN = re.compile(r"(?P<role>[a-z0-9]{1,16})/[A-Za-z0-9._-]{1,64}@[A-Za-z0-9]{1,64}")
"""`<role>/<n>@<incarnation>`."""
_ROLES_KEPT = 1024
"""Of the instances that asked last; each frame names one or two."""
LANES = ("ledger", "gateway")
"""Services that have one, of the service's name."""
BESIDE_BROKER = frozenset({"gateway", "ho1"})
"""Roles whose lanes only spare the broker work: it is told of every frame, and while a lane is down, or its server
rests, requests go by the broker. Each executor has its own, of its instance's name, for supervisors that the broker
grants a lease of some of its slots."""
LEASE_HOLDERS = frozenset({"ho2"})
LAST_RESORT = "gateway.degraded_prompt"
"""It must not depend on what it is a resort from: it waits for the lane, and never goes by the broker."""


def list_lanes(role: str) -> tuple[str, ...]:
    """Return the lanes that a process of this role on this machine connects to."""
    if role == "ledger":
        return ()
    return LANES if role in ("host", "ho1") else ("ledger",)


@lru_cache(maxsize=_ROLES_KEPT)
def find_way(service: str, type_name: str) -> tuple[Row | None, str]:
    """Return the row of a message to this service, or to an instance, and its lane; "": by the broker."""
    row = find_row(get_role(service), type_name)
    return row, service if service in LANES and row is not None else ""


def is_foreign(message_id: str, instance: str) -> bool:
    """Return whether a counted id (`<instance>:<n>`) was counted by another instance, whose request it then names."""
    if message_id.startswith(f"{instance}:"):
        return False
    match = INSTANCE_PATTERN.match(message_id)
    return match is not None and message_id[match.end() : match.end() + 1] == ":"


@lru_cache(maxsize=_ROLES_KEPT)
def get_role(instance: str) -> str:
    """Return the role in `<role>/<n>@<epoch>`; a service name is its own role."""
    return instance.partition("/")[0]


def get_name(instance: str) -> str:
    """Return `<role>/<n>` in `<role>/<n>@<epoch>`."""
    return instance.partition("@")[0]


def get_epoch(instance: str) -> str:
    """Return the incarnation in `<role>/<n>@<epoch>`."""
    return instance.rpartition("@")[2]
