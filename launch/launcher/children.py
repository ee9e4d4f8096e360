"""Operating system processes of the cluster: made, watched, signalled, reaped. Nothing about actors in here."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import hobus
from hobus.launch.cluster.identity import start_mark

HandedOver = tuple[dict[str, str], IO[bytes]]
"""What `given.hand_over` makes."""

_REAP_INTERVAL_S = 0.02
"""How often an exit is looked for where the system has no pidfd (not Linux)."""


class Child:
    """One process in a session of its own; whatever it left in its process group ends with it.

    It may be asked for before it is born: a signal then reaches it as soon as it is.
    """

    def __init__(self, *, liveness_fd: int, on_born: Callable[[Child], None], on_exit: Callable[[str], None]) -> None:
        """Prepare a child that is not born yet. `liveness_fd` is the writing end of its pipe, closed when it has ended.

        `on_born` and `on_exit` are called once each, in the loop; the latter with how it ended: `exit 0`, `signal 9`.
        """
        self.pid = 0
        self.mark = ""
        self._liveness_fd = liveness_fd
        self._on_born = on_born
        self._on_exit = on_exit
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._early: list[signal.Signals] = []

    @property
    def has_ended(self) -> bool:
        return self._ended.done()

    def born(self, pid: int) -> None:
        """Take over the process that is there now: watch it, and reap it when it ends."""
        self.pid, self.mark = pid, start_mark(pid) or ""
        watch_exit(pid, self._on_gone)
        for number in self._early:
            self.signal(number)
        self._on_born(self)

    def note_unborn(self, why: str) -> None:
        """Note that the system refused; whatever may have come of the attempt reads the end of its pipe and ends."""
        if not self.has_ended:
            self._end(f"not started: {why}")

    def renew_liveness(self, write_fd: int) -> None:
        """Take another pipe, for another attempt to start it; whoever holds the first one reads its end."""
        os.close(self._liveness_fd)
        self._liveness_fd = write_fd

    def say(self, given: Mapping[str, str], secret: str) -> None:
        """Give the child, by the liveness pipe, its part of the environment and its secret."""
        with suppress(BrokenPipeError):
            os.write(self._liveness_fd, f"{json.dumps(given)}\n{secret}\n".encode("ascii"))

    def signal(self, number: signal.Signals) -> None:
        self._send(os.kill, number)

    def kill_group(self) -> None:
        self._send(os.killpg, signal.SIGKILL)

    async def wait(self) -> str:
        """Wait, and return how it ended: `exit 0`, `signal 9`."""
        return await asyncio.shield(self._ended)

    def _send(self, send: Callable[[int, int], None], number: signal.Signals) -> None:
        if self.has_ended:
            return
        if not self.pid:
            self._early.append(number)
            return
        # A forked child that has no session of its own yet is no leader of a group.
        for way in (send, os.kill):
            try:
                way(self.pid, number)
            except ProcessLookupError:
                continue
            except PermissionError:
                return
            return

    def _on_gone(self) -> None:
        # Before it is reaped its pid cannot belong to anybody else, so the group is certainly its own.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._end(reap(self.pid))

    def _end(self, how: str) -> None:
        os.close(self._liveness_fd)
        self._ended.set_result(how)
        self._on_exit(how)


def spawn(child: Child, argv: Sequence[str], *, log_fd: int, liveness_fd: int, listening_fds: Sequence[int]) -> None:
    """Make `child` a fresh interpreter that runs `argv`, with the numbers of its further descriptors behind it.

    Its output goes to `log_fd`. All descriptors stay the caller's. Raises OSError.
    """
    words = [*argv, "--liveness-fd", str(liveness_fd), *(f"--listening-fd={one}" for one in listening_fds)]
    child.born(start(words, liveness_fd, *listening_fds, output=log_fd))


def start(argv: Sequence[str], *keep: int, output: int, handed: HandedOver | None = None) -> int:
    """Start a process that holds the standard descriptors and `keep`; return its pid, to be reaped here.

    Raises OSError.

    `handed`: its environment, and the file from which it may read more; else it has this process's own.
    """
    environ, file = handed if handed is not None else (make_environment(), None)
    process = subprocess.Popen(  # noqa: S603 - this project's own command
        argv,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=keep if file is None else (*keep, file.fileno()),
        start_new_session=True,  # a terminal's Ctrl-C is for the launcher alone, which drains in order
        env=environ,
    )
    process.returncode = 0  # reaped by `reap`, not through this object
    return process.pid


def reap(pid: int) -> str:
    """Reap a child that has ended; return how it ended."""
    try:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return "exit unknown"
    return f"signal {-code}" if code < 0 else f"exit {code}"


def watch_exit(pid: int, gone: Callable[[], None]) -> None:
    """Call `gone` in the loop, never before this returns, once this child has ended; it is not reaped yet.

    One that ended before anybody knew that it is this process's may be reaped already.
    """
    loop = asyncio.get_running_loop()
    try:
        pidfd = os.pidfd_open(pid)
    except (AttributeError, OSError):
        loop.call_soon(_look_for_exit, loop, pid, gone)
        return

    def on_readable() -> None:
        loop.remove_reader(pidfd)
        os.close(pidfd)
        gone()

    loop.add_reader(pidfd, on_readable)


def _look_for_exit(loop: asyncio.AbstractEventLoop, pid: int, gone: Callable[[], None]) -> None:
    try:
        has_ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        has_ended = True
    if has_ended:
        gone()
    else:
        loop.call_later(_REAP_INTERVAL_S, _look_for_exit, loop, pid, gone)


def make_python_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this installation; `-P`: never one in the current directory."""
    return [sys.executable, "-P", "-m", module, *arguments]


def make_environment() -> dict[str, str]:
    """Return this process's environment, with the import path of a checkout that is not installed."""
    root = str(Path(hobus.__file__).resolve().parent.parent)
    given = dict(os.environ)
    if root not in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        given["PYTHONPATH"] = os.pathsep.join(filter(None, (root, given.get("PYTHONPATH", ""))))
    return given
