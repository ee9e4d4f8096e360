"""What the installed libzmq can do."""

from __future__ import annotations

from typing import NamedTuple

import zmq


class Features(NamedTuple):
    """Of this process's libzmq."""

    version: str
    has_curve: bool
    has_ipc: bool


def features() -> Features:
    """Version of libzmq, and whether it encrypts (CURVE) and has local sockets (ipc)."""
    return Features(zmq.zmq_version(), zmq.has("curve"), zmq.has("ipc"))
