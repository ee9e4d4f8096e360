"""Copies of a process that nobody is yet, forked ahead: they become the tool processes of an executor.

Forked while an executor gets ready, those take two thirds of its CPU until then: the forks, and the copying of each
page that it writes to afterwards. So whoever waits to be a process of any role forks them before, and hands them their
sockets once it is an executor. Who is something else lets them go when it is ready. A copy shares nothing with the one
that it waits for but a socket, and ends with it.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import threading
import traceback
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import structlog

from hobus.actors.ho1_executor.tools import child_main
from hobus.launch.cluster.descriptors import STANDARD, keep_only
from hobus.launch.cluster.kernel import end_with_parent, outlive_parent, return_big_memory, set_title
from hobus.launch.logs import writing

_WORD_MAX_BYTES = 4096
"""A name, and whether there is a keeper."""


class _Copy(NamedTuple):
    pid: int
    line: socket.socket


_idle: list[_Copy] = []


def prepare(count: int) -> None:
    """So many wait, or fewer where the system refuses more. Called before there is a thread, a loop or a secret."""
    this = os.getpid()
    for _ in range(count - len(_idle)):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            return
        if pid == 0:
            _wait(theirs, this)
        theirs.close()
        _idle.append(_Copy(pid, ours))


def lines() -> list[int]:
    """The descriptors by which they are held."""
    return [copy.line.fileno() for copy in _idle]


def tool_process(frames: int, line: int, *, is_kept: bool) -> int:
    """The pid of a copy that is a tool process of this executor from now on, with these sockets; 0: there is none."""
    said = structlog.contextvars.get_contextvars()
    word = json.dumps([said.get("actor", ""), said.get("instance", ""), is_kept]).encode()
    while _idle:
        copy = _idle.pop()
        with copy.line:
            try:
                socket.send_fds(copy.line, [word], [frames, line, STANDARD[2]])
            except OSError:  # somebody has killed it
                os.waitpid(copy.pid, 0)
            else:
                return copy.pid
    return 0


def dismiss(in_s: float) -> None:
    """None of them is left after that time: this process is no executor, and others may have the machine until then.

    On a thread, which holds nobody up.
    """
    gone, _idle[:] = list(_idle), []
    if gone:
        threading.Thread(target=_end, args=(gone, in_s), name="copies", daemon=True).start()


def _end(copies: Sequence[_Copy], in_s: float) -> None:
    threading.Event().wait(in_s)
    for copy in copies:
        copy.line.close()
        os.kill(copy.pid, signal.SIGKILL)  # our own child, not reaped yet; a stopped one sees no end of its line
        os.waitpid(copy.pid, 0)


def _wait(line: socket.socket, maker: int) -> NoReturn:
    """In the copy. Its log is the zygote's until it is told which one is its own."""
    try:
        end_with_parent(maker)
        _idle.clear()
        os.setsid()
        keep_only([line.fileno()])
        word, descriptors, _flags, _address = socket.recv_fds(line, _WORD_MAX_BYTES, len(STANDARD))
        if len(descriptors) != len(STANDARD):
            os._exit(0)  # whom it waited for is gone, or somebody else
        outlive_parent()  # from now on it may have processes of its own to end first
        actor, instance, is_kept = json.loads(word)
        for source, target in zip(descriptors, STANDARD, strict=True):
            os.dup2(source, target)
        set_title(f"hobus {actor}")
        return_big_memory()
        writing.configure(actor, instance)
        gc.enable()
        child_main.live(os.getppid(), kept=is_kept)
    except BaseException:  # noqa: BLE001 - the last place that can say anything
        traceback.print_exc()
    finally:
        os._exit(1)
