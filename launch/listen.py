"""Where a cluster listens for workers on other hosts: what may be asked for, checked before anything is started."""

from __future__ import annotations

import importlib
import re
import socket
from contextlib import suppress

from hobus.launch import exit_codes
from hobus.launch.errors import CommandError
from hobus.launch.home import Home

_FORM = re.compile(r"(?P<host>\*|\[[0-9A-Fa-f:]+\]|[^\s:/]+):(?P<port>[0-9]{1,5})")
_PORT_MAX = 65_535
_EVERY_HOST = ("*", "0.0.0.0", "[::]")  # noqa: S104 - what is compared with


def parts_of(address: str) -> tuple[str, int]:
    """Host and port. Raises CommandError (usage) for anything else."""
    match = _FORM.fullmatch(address)
    if match is None or int(match["port"]) > _PORT_MAX:
        raise CommandError(
            f"{address[:200]!r} is no address: expected HOST:PORT",
            hint="hobus up --listen 127.0.0.1:0   (this machine alone, any free port)",
            exit_code=exit_codes.USAGE,
        )
    return match["host"], int(match["port"])


def is_every_host(address: str) -> bool:
    """Whether it names no one address by which others could reach it."""
    return parts_of(address)[0] in _EVERY_HOST


def check_listen(address: str) -> None:
    """It can be listened at, encrypted. Raises CommandError (usage, not reachable), ConfigError without CURVE."""
    parts_of(address)
    importlib.import_module("hobus.bus.zeromq.curve").check_available()
    _check_free(address, "--listen, bus.listen")


def check_http(address: str) -> None:
    """It can be listened at, and the web server is there. Raises CommandError (usage, not reachable), ConfigError."""
    parts_of(address)
    importlib.import_module("hobus.launch.roles.http").require_installed()
    _check_free(address, "--http, http.listen")


def _check_free(address: str, named: str) -> None:
    host, port = parts_of(address)
    wanted = "0.0.0.0" if host == "*" else host.strip("[]")  # noqa: S104 - CURVE or keys guard it
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(wanted, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as ZeroMQ binds
            probe.bind(where)
            probe.listen(1)
    except OSError as error:
        raise CommandError(
            f"cannot listen at {address} ({named}): {error.strerror or error}",
            hint="choose another port, or port 0 for any free one",
            exit_code=exit_codes.UNREACHABLE,
        ) from None


def http_address(home: Home) -> str:
    """Where the HTTP doors of this run listen, the port included; empty: nowhere, or not yet."""
    with suppress(OSError):
        return home.http.read_text(encoding="ascii").strip()
    return ""


def bound_address(home: Home) -> str:
    """Where the running broker listens, its port included; empty: nowhere, or not yet."""
    with suppress(OSError):
        return home.listening.read_text(encoding="ascii").strip()
    return ""
