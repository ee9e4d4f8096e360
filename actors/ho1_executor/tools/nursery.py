"""Makes tool processes by forking: a process that holds no loop, no socket of its worker's and no secret of anybody's.

Forked while its worker is being made, or a fresh interpreter where that is over; it loads, once, what any of them would
and nothing of anybody else's, so that a tool process costs milliseconds whenever one is needed. Each is its sibling, a
child of the worker (`keeper.fork_sibling`), which alone ends it and learns of its end.
"""

from __future__ import annotations

import functools
import gc
import importlib
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn

from hobus.actors.ho1_executor.tools import child_main, keeper
from hobus.actors.ho1_executor.tools.host_process import ForkedProcess, Process, may_fork, start_interpreter

NURSERY_MODULE = "hobus.actors.ho1_executor.tools.nursery"
CHILD_MODULE = "hobus.actors.ho1_executor.tools.child_main"

_ANSWER_S = 10.0
"""A fork takes milliseconds, a fresh interpreter a second; who does not answer by then is stopped, and is replaced."""
_APP_NAMES = ("Agent", "Cluster")
"""What a file with an agent and its tools imports beside `tool`: ten times the work of a tool process without it."""
_PID_BYTES = 4


class Nursery:
    """The worker's side of the process that forks tool processes."""

    def __init__(self, *, has_apps: bool) -> None:
        """Start nothing yet. `has_apps`: some tool stands in a file beside an agent; load its imports once for all."""
        self._preload = _APP_NAMES if has_apps else ()
        self._line: socket.socket | None = None
        self._process: Process | None = None

    def start(self) -> None:
        """Start the forking process before the worker has sockets; later it is started when needed. Raises OSError."""
        if self._line is not None or not keeper.KEEPS:
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        worker = os.getpid()  # behind the fork its parent is somebody else, if it has died by then
        with theirs:
            if not may_fork():
                self._process = start_interpreter(NURSERY_MODULE, *self._preload)(theirs.fileno(), None)
            elif pid := os.fork():
                self._process = ForkedProcess(pid)
            else:
                _become([theirs.fileno()], functools.partial(_serve, worker, self._preload))
        ours.settimeout(_ANSWER_S)
        self._line = ours

    def start_tool_process(self, frames: int, prints: int | None) -> Process:
        """Start a tool process with this socket and this pipe (a `Start`). Raises OSError."""
        if not keeper.KEEPS:
            return start_interpreter(CHILD_MODULE)(frames, prints)
        for _ in range(2):  # somebody may have killed it
            self.start()
            with suppress(OSError):
                if pid := self._ask(frames, prints):
                    return ForkedProcess(pid)
            self.close()
        raise OSError(0, "nobody forks it")

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)  # not reaped yet; a stopped one sees no end of its line
            self._process.wait()
            self._process = None

    def _ask(self, frames: int, prints: int | None) -> int:
        assert self._line is not None and prints is not None  # noqa: S101, PT018 - `start` made it; tools print
        socket.send_fds(self._line, [b"\0"], [frames, prints])
        return int.from_bytes(self._line.recv(_PID_BYTES), "big")


def _serve(worker: int, preload: Sequence[str]) -> None:
    """Fork for whoever asks by the socket at 0, until the worker is gone, or the system makes no more processes."""
    line = socket.socket(fileno=keeper.only_socket(worker, is_kept=False))
    importlib.import_module(child_main.ENTRY_POINTS).prepare()
    for name in preload:
        getattr(importlib.import_module("hobus"), name)
    gc.collect()
    gc.freeze()
    while True:
        _word, descriptors, _flags, _address = socket.recv_fds(line, 1, 2)
        if len(descriptors) != 2:  # noqa: PLR2004 - frames, and prints
            return
        sibling = keeper.fork_sibling()
        if sibling == 0:
            _become(descriptors, functools.partial(child_main.live, worker))
        line.send(sibling.to_bytes(_PID_BYTES, "big"))
        for each in descriptors:
            os.close(each)


def _become(descriptors: Sequence[int], body: Callable[[], None]) -> NoReturn:
    """Run `body` in a process that was just forked, these from 0 on, and exit: no call of its maker's is run on."""
    try:
        os.setsid()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        body()
    except BaseException:  # noqa: BLE001 - the last place that can say anything
        traceback.print_exc()
    finally:
        os._exit(1)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), sys.argv[2:])
