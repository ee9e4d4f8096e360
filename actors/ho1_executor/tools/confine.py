"""What a process gives up before it runs foreign code: rights that it could gain, and what it may use of the machine.

For itself and all that it starts, for ever. Standard library alone.
"""

from __future__ import annotations

import ctypes
import resource
import sys
from collections.abc import Mapping
from contextlib import suppress

_PR_SET_NO_NEW_PRIVS = 38
_LIMITS = {
    "core_bytes": resource.RLIMIT_CORE,
    "open_files": resource.RLIMIT_NOFILE,
    "file_bytes": resource.RLIMIT_FSIZE,
    "memory_bytes": resource.RLIMIT_DATA,
    "processes": getattr(resource, "RLIMIT_NPROC", None),
}
"""Setting of `tools.limits` -> the system's limit."""


def confine(limits: Mapping[str, int | None]) -> None:
    """No program that this process starts has more rights than it; the limits hold, the system's own where lower."""
    if sys.platform == "linux":
        # A program with the set-user-id bit would have a life that no kill of a keeper's reaches.
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for name, value in limits.items():
        which = _LIMITS[name]
        if value is None or which is None:
            continue
        most = resource.getrlimit(which)[1]
        limit = value if most == resource.RLIM_INFINITY else min(value, most)
        with suppress(ValueError, OSError):  # a system that does not know it
            resource.setrlimit(which, (limit, limit))
