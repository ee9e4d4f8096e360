"""Whether a cluster can listen where it is asked to, checked before anything is started."""

from __future__ import annotations

import importlib
import socket

from hobus.launch.cluster.addresses import parts_of
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError


def check_listen(address: str) -> None:
    """It can be listened at, encrypted. Raises CommandError (usage, not reachable), ConfigError without CURVE."""
    parts_of(address)
    importlib.import_module("hobus.bus.zeromq.curve").check_available()
    _check_free(address, "--listen, bus.listen")


def check_http(address: str) -> None:
    """It can be listened at, and the web server is there. Raises CommandError (usage, not reachable), ConfigError."""
    parts_of(address)
    importlib.import_module("hobus.launch.process.roles.http").require_installed()
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
