"""Addresses at which a cluster is asked to listen."""

from __future__ import annotations

import re

from hobus.launch.console.errors import UsageFault, next_here

_FORM = re.compile(r"(?P<host>\*|\[[0-9A-Fa-f:]+\]|[^\s:/]+):(?P<port>[0-9]{1,5})")
_PORT_MAX = 65_535
_EVERY_HOST = ("*", "0.0.0.0", "[::]")  # noqa: S104 - what is compared with


def parts_of(address: str) -> tuple[str, int]:
    """Host and port. Raises CommandError (usage) for anything else."""
    match = _FORM.fullmatch(address)
    if match is None or int(match["port"]) > _PORT_MAX:
        raise UsageFault(
            f"{address[:200]!r} is not an address: expected HOST:PORT",
            hint=f"{next_here('up --listen 127.0.0.1:0')}   (this machine alone, any free port)",
        )
    return match["host"], int(match["port"])


def is_every_host(address: str) -> bool:
    """Whether it names no one address by which others could reach it."""
    return parts_of(address)[0] in _EVERY_HOST
