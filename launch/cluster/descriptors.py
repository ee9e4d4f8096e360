"""What a process that was just forked holds open: of its maker's descriptors only those that it is meant to have."""

from __future__ import annotations

import os
from collections.abc import Iterable

STANDARD = (0, 1, 2)
_CLOSED_BELOW = 1 << 20
"""`closerange` up to here is one system call where the kernel has `close_range`."""


def keep_only(descriptors: Iterable[int]) -> None:
    """Everything else, the standard three excepted, is closed."""
    begin = len(STANDARD)
    for descriptor in sorted(set(descriptors) - set(STANDARD)):
        os.closerange(begin, descriptor)
        begin = descriptor + 1
    os.closerange(begin, _highest() + 1)


def speak_into(log: int) -> None:
    """Standard output and error go to this descriptor; standard input is empty."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nowhere, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    if nowhere not in STANDARD:
        os.close(nowhere)


def _highest() -> int:
    try:
        return max(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208 - numbers, not paths
    except OSError:
        return _CLOSED_BELOW
