"""The pipe that tells a process whether its launcher still lives.

The launcher keeps the writing end open and writes two lines: what this process is given of the environment, and the
secret of this incarnation. The kernel closes that end when the launcher dies, however it dies, and every child reads
the end of the file. PDEATHSIG is not used: it fires when a *thread* of the launcher ends.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable

FINISH = signal.SIGUSR1
"""From the launcher: take nothing new, finish, end. SIGTERM tells the same with little time."""


class LauncherGone(Exception):
    """The launcher was gone before it had said the secret."""


def read_given(fd: int) -> tuple[dict[str, str], str]:
    """Variables, and the secret, that the launcher wrote; raises LauncherGone when it died first."""
    return json.loads(_line(fd)), _line(fd)


def _line(fd: int) -> str:
    said = b""
    while not said.endswith(b"\n"):
        piece = os.read(fd, 1)
        if not piece:
            raise LauncherGone
        said += piece
    return said[:-1].decode("ascii")


def watch(fd: int, *, on_gone: Callable[[], None], hard_limit_s: float) -> None:
    """`on_gone` is called (on a thread of its own) when the launcher is gone; `hard_limit_s` later the process ends.

    A thread, because it must work while the process's loop is stuck; it does nothing but wait.
    """

    def wait() -> None:
        try:
            while os.read(fd, 64):
                pass
        except OSError:
            return  # this process closed the pipe: it is ending by itself
        on_gone()
        threading.Event().wait(hard_limit_s)
        os._exit(70)

    threading.Thread(target=wait, name="liveness", daemon=True).start()
