"""What processes ask of Linux and its C library beyond the standard library: orphans, a name, memory, scheduling."""

from __future__ import annotations

import ctypes
import functools
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

_M_MMAP_THRESHOLD = -3
_RETURNED_BYTES = 1 << 20
_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_ARGUMENTS_AT, _ARGUMENTS_END = 45, 46
"""Fields of `/proc/<pid>/stat` behind the command name: where the argument strings of a process lie in its memory."""


def become_subreaper() -> bool:
    """Return whether descendants whose parent dies become this process's own children from now on."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def keep_memory_private() -> bool:
    """Return whether nobody but root may read or trace this process from now on, and it leaves no core."""
    return _prctl(_PR_SET_DUMPABLE, 0)


def raise_open_files() -> None:
    """Raise the limit of open files to the hard one, also for children: a server needs one per connection."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # macOS refuses what is beyond a limit of its own
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def set_title(text: str) -> None:
    """Show this text in `ps` and `top`; without effect where that is not possible."""
    if not _prctl(_PR_SET_NAME, ctypes.c_char_p(text.encode()[:15])):
        return
    begin, end = _find_arguments()
    if begin < end:
        # The kernel shows this piece of memory as the command line; nothing else reads it once Python runs.
        ctypes.memmove(begin, text.encode()[: end - begin - 1].ljust(end - begin, b"\0"), end - begin)


@functools.cache
def _find_arguments() -> tuple[int, int]:
    """Return where this process has its command line, from and to; in a fork it is the same place."""
    with suppress(OSError, ValueError, IndexError):
        fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return int(fields[_ARGUMENTS_AT]), int(fields[_ARGUMENTS_END])
    return 0, 0


def return_big_memory() -> None:
    """Return pieces of 1 MB and more to the kernel as soon as they are freed; without effect without glibc.

    Left to itself the allocator takes the first big piece that is freed as a sign that such pieces are common, and from
    then on keeps them: a few bodies of 8 MB at once stay with the process for good.
    """
    with suppress(OSError, AttributeError):
        _load_library().mallopt(_M_MMAP_THRESHOLD, _RETURNED_BYTES)


def return_free_memory() -> None:
    """Return what is free between pieces in use to the kernel, in a few milliseconds; without effect without glibc.

    The allocator does so only at the end of its heap: what many turns at once took would stay with the process.
    """
    with suppress(OSError, AttributeError):
        _load_library().malloc_trim(0)


def schedule_as_batch() -> None:
    """Have this process and its children preempt nobody when they are woken; without effect but on Linux.

    The one that runs ends its pass first, and whoever waited finds more frames at once: under load that saves about a
    tenth of a turn's CPU, half of the kernel's part. A machine with a free core notices nothing.
    """
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def has_one_thread() -> bool:
    """Return whether this process may be forked: threads of libraries count, which `threading` does not know."""
    try:
        return len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 - names are counted, no path is made
    except OSError:
        return False


def _prctl(option: int, value: object) -> bool:
    if sys.platform != "linux":
        return False
    try:
        return _load_library().prctl(option, value, 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False


@functools.cache
def _load_library() -> ctypes.CDLL:
    """Return the C library as this process has it loaded. Raises OSError."""
    return ctypes.CDLL(None)
