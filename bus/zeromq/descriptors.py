"""What a descriptor of libzmq's is, and how its connection ends: the descriptor is the I/O thread's, who may close it.

A descriptor's number is used again after its connection has ended, so it is remembered together with the inode of its
socket, which is not. Everything here works on a duplicate.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from typing import NamedTuple

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class SocketEnd(NamedTuple):
    """One end of a connection: its socket's inode, and who is at the other end (`pid 123`, an address)."""

    inode: int
    who: str
    is_local: bool


def look(descriptor: int) -> SocketEnd:
    """Raises OSError if it is no connected socket (any more), or a local one on a system without SO_PEERCRED."""
    with _own(descriptor) as own:
        inode = os.fstat(own.fileno()).st_ino
        if own.family != socket.AF_UNIX:
            return SocketEnd(inode, str(own.getpeername()[0]).removeprefix("::ffff:"), is_local=False)
        peercred = getattr(socket, "SO_PEERCRED", None)
        if peercred is None:
            raise OSError("no SO_PEERCRED here")
        pid = _CREDENTIALS.unpack(own.getsockopt(socket.SOL_SOCKET, peercred, _CREDENTIALS.size))[0]
        return SocketEnd(inode, f"pid {pid}", is_local=True)


def shut(descriptor: int, inode: int) -> None:
    """No more of this connection, both ways, if the descriptor is still its own. Raises OSError."""
    with _own(descriptor) as own:
        if os.fstat(own.fileno()).st_ino == inode:
            own.shutdown(socket.SHUT_RDWR)


def _own(descriptor: int) -> socket.socket:
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        raise OSError("no socket any more")
    return socket.socket(fileno=os.dup(descriptor))
