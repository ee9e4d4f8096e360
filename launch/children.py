"""Operating system processes of the cluster: made, watched, signalled, reaped. Nothing about actors in here."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import launch
from launch.identity import start_mark

_REAP_INTERVAL_S = 0.02
"""How often an exit is looked for where the system has no pidfd (not Linux)."""


@dataclass(slots=True)
class Child:
    """One process in a session of its own; whatever it left in its process group ends with it."""

    pid: int
    mark: str
    _process: subprocess.Popen[bytes] = field(repr=False)
    _liveness_fd: int = field(repr=False)
    _exited: asyncio.Future[str] = field(repr=False)

    def say_secret(self, secret: str) -> None:
        """The child reads its secret from the liveness pipe."""
        with suppress(BrokenPipeError):
            os.write(self._liveness_fd, f"{secret}\n".encode("ascii"))

    def signal(self, number: signal.Signals) -> None:
        """Sent to the process, if it still is one."""
        if not self._exited.done():
            self._process.send_signal(number)

    def kill_group(self) -> None:
        """SIGKILL to it and to what it started."""
        if not self._exited.done():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def wait(self) -> str:
        """How it ended: `exit 0`, `signal 9`."""
        return await asyncio.shield(self._exited)


def spawn(argv: Sequence[str], *, log_path: Path, liveness_argument: str, on_exit: Callable[[str], None]) -> Child:
    """Starts a process whose output goes to `log_path`; `on_exit` is called once, in the loop, with how it ended.

    The reading end of its liveness pipe is inherited; its number follows `liveness_argument`. Raises OSError.
    """
    loop = asyncio.get_running_loop()
    read_fd, write_fd = os.pipe()
    try:
        with log_path.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - this project's own command
                [*argv, liveness_argument, str(read_fd)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(read_fd,),
                start_new_session=True,  # a terminal's Ctrl-C is for the launcher alone, which drains in order
                env=environment(),
            )
    except OSError:
        os.close(write_fd)
        raise
    finally:
        os.close(read_fd)
    child = Child(process.pid, start_mark(process.pid) or "", process, write_fd, loop.create_future())

    def gone() -> None:
        # Before it is reaped its pid cannot belong to anybody else, so the group is certainly its own.
        child.kill_group()
        how = _how(process.wait())
        os.close(write_fd)
        child._exited.set_result(how)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - its maker
        on_exit(how)

    _watch(loop, process, gone)
    return child


def _watch(loop: asyncio.AbstractEventLoop, process: subprocess.Popen[bytes], gone: Callable[[], None]) -> None:
    """`gone` is called in the loop when the process has exited and is not reaped yet."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        _look_for_exit(loop, process, gone)
        return

    def readable() -> None:
        loop.remove_reader(pidfd)
        os.close(pidfd)
        gone()

    loop.add_reader(pidfd, readable)


def _look_for_exit(loop: asyncio.AbstractEventLoop, process: subprocess.Popen[bytes], gone: Callable[[], None]) -> None:
    if process.poll() is None:
        loop.call_later(_REAP_INTERVAL_S, _look_for_exit, loop, process, gone)
    else:
        gone()


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit {code}"


def python(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of this installation; `-P`: never one that lies in the current directory."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """This process's own, with the import path of a checkout that is not installed."""
    root = str(Path(launch.__file__).resolve().parent.parent)
    given = dict(os.environ)
    if root not in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        given["PYTHONPATH"] = os.pathsep.join(filter(None, (root, given.get("PYTHONPATH", ""))))
    return given
