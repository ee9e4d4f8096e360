"""Nothing that a tool starts outlives its kill or its worker: the keeper of a process that runs foreign code.

Theory of operation. A tool may start programs, and those may leave its process group (`setsid`) and its parentage (a
second fork); no kill of a group reaches them. So the process that a worker starts splits in two: one half goes on to
work, the other stays its parent and is the one to whom every orphan below it falls (Linux: a child subreaper). When it
is told to end, when the worker dies, or when the working half does, it kills whatever is below it, and ends last: the
end of its socket means that nothing is left. It also gives up, before it runs foreign code, rights that it could gain,
and what it may use of the machine. Standard library alone.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

KEEPS = sys.platform == "linux"
"""Elsewhere there is no keeper: a kill reaches the process group, and nothing that left it."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SYS_CLONE3, _CLONE_ARGUMENTS, _CLONE_PARENT = 435, 11, 0x8000
"""A system call with one number on all architectures (Linux 5.3); its arguments are as many numbers, flags first."""
_LIMITS = {
    "open_files": resource.RLIMIT_NOFILE,
    "file_bytes": resource.RLIMIT_FSIZE,
    "memory_bytes": resource.RLIMIT_DATA,
    "processes": getattr(resource, "RLIMIT_NPROC", None),
}
"""Setting of `tools.limits` -> the system's limit."""
_TOLD = (signal.SIGTERM, signal.SIGCHLD)
_DESCRIPTORS_MAX = 1 << 20
SIGNAL_EXIT = 128
"""Exit codes above it tell the signal that ended a process, as shells have it."""


def die_with(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Have this process signalled when its parent dies, however; end here if that was before now."""
    _call_prctl(_PR_SET_PDEATHSIG, int(number))
    if KEEPS and os.getppid() != parent:
        os._exit(0)


def fork_sibling() -> int:
    """Fork a child of this process's parent that splits next; return 0 there, its pid here. Raises OSError."""
    arguments = (ctypes.c_uint64 * _CLONE_ARGUMENTS)(_CLONE_PARENT)
    pid = ctypes.PyDLL(None, use_errno=True).syscall(_SYS_CLONE3, arguments, ctypes.sizeof(arguments))
    if pid < 0:
        raise OSError(ctypes.get_errno(), "no process can be made")
    return pid


def only_socket(worker: int, *, is_kept: bool, prints: bool = False) -> int:
    """Return the worker's socket, which stood at 0; beside it only the standard descriptors are open, input empty.

    `prints`: standard error becomes what output is. This process's life is tied to its worker's. With a keeper it
    returns in the working half. Call it before a thread.
    """
    die_with(worker)  # a tool in a busy loop would never see the end of the pipe; the kernel's word reaches it
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's interrupt is the launcher's business
    socket = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    if prints:
        os.dup2(1, 2)
    _close_all_but(socket)
    if is_kept:
        split(worker, socket)
    return socket


def confine(limits: Mapping[str, int | None]) -> None:
    """Give up rights that a program started here could gain, and apply the limits, the system's own where lower."""
    # A program with the set-user-id bit would have a life that no kill of a keeper's reaches.
    _call_prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump of its memory would show what it was given
    for name, value in limits.items():
        which = _LIMITS[name]
        if value is None or which is None:
            continue
        most = resource.getrlimit(which)[1]
        limit = value if most == resource.RLIM_INFINITY else min(value, most)
        with suppress(ValueError, OSError):  # a system that does not know it
            resource.setrlimit(which, (limit, limit))


def split(worker: int, socket: int) -> None:
    """Split into keeper and working half; return in the working half alone, which dies with its keeper.

    Both hold the socket. Call it before any thread. The caller leads a process group of its own. Of other descriptors
    the keeper has the standard ones alone.
    """
    if not KEEPS:
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _TOLD)
    die_with(worker, signal.SIGTERM)
    _call_prctl(_PR_SET_CHILD_SUBREAPER, 1)  # orphans below it become its children
    keeper = os.getpid()
    working = os.fork()
    if working:
        _keep(working, socket)
    die_with(keeper)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end(keeper: int) -> None:
    """End the keeper and all below it; call it before the keeper is reaped.

    A keeper that somebody killed can end nobody: what is left of its group is killed for it.
    """
    with suppress(ProcessLookupError):
        if not KEEPS or os.waitid(os.P_PID, keeper, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            os.killpg(keeper, signal.SIGKILL)
            return
        os.kill(keeper, signal.SIGTERM)
        os.kill(keeper, signal.SIGCONT)


def _call_prctl(*arguments: int) -> None:
    if KEEPS:
        ctypes.CDLL(None, use_errno=True).prctl(*arguments)


def _close_all_but(descriptor: int) -> None:
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, _DESCRIPTORS_MAX)


def _keep(working: int, socket: int) -> NoReturn:
    """Exit as the working half did: 128 more than the number of a signal."""
    code = None
    try:
        _close_all_but(socket)
        while signal.sigwait(_TOLD) == signal.SIGCHLD and (code := _exit_code(working)) is None:
            pass
        _end_all()
    finally:
        os._exit(code or 0)


def _exit_code(working: int) -> int | None:
    """None: it goes on. Orphans that fell to the keeper are reaped on the way."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == working:
                code = os.waitstatus_to_exitcode(ended[1])
                return code if code >= 0 else SIGNAL_EXIT - code
    return None


def _end_all() -> None:
    """Kill level by level: whoever loses its parent falls to the keeper, until nobody is left."""
    with suppress(ChildProcessError):
        while True:
            for pid in _list_children():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _list_children() -> Iterator[int]:
    me = os.getpid()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if int((entry / "stat").read_bytes().rpartition(b") ")[2].split()[1]) == me:
                    yield int(entry.name)
