"""The zygote of one launcher, and those before it that have not ended.

Theory of operation. A zygote that dies, or has loaded other software than what lies on disk, is followed by one in a
fresh interpreter, which loads for a second or more of CPU; whoever wants a process meanwhile waits for that one. After
one that dies before it has loaded there is none for `launcher.crash_window_ms`: processes are fresh interpreters then.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Literal, NamedTuple

import structlog
from msgspec import Struct, field

from hobus.config.sections.processes import LauncherConfig
from hobus.launch.cluster import identity
from hobus.launch.launcher import children, zygote
from hobus.launch.launcher.zygote import WORD_MAX_BYTES, Fork, Forked, pack
from hobus.launch.logs import writing

_log = structlog.get_logger()


class HeldZygote(Struct, eq=False):
    """One zygote, from its birth until it is reaped."""

    pid: int
    mark: str
    control: socket.socket
    software: State
    ended: asyncio.Future[None]
    heard_at: float
    """When it last answered, in the loop's time; its birth, before."""
    is_loaded: bool
    """It has said so."""


class ShownZygote(NamedTuple):
    """The present zygote as the run file shows it; all empty where processes are not forked."""

    pid: int = 0
    mark: str = ""
    restarts: int = 0
    state: Literal["", "starting", "ready", "failed"] = ""


class Zygotes(Struct, eq=False):
    """The zygotes of one launcher, made on its running loop; `close` ends all of them."""

    config: LauncherConfig
    log: Path
    on_answer: Callable[[Forked], None]
    on_end: Callable[[], None]
    """Some zygote has ended, and whatever follows it is present."""
    present: HeldZygote | None = None
    living: list[HeldZygote] = field(default_factory=list[HeldZygote])
    _retry: asyncio.TimerHandle | None = None
    _is_open: bool = True
    _replacements: int = 0

    def shown(self) -> ShownZygote:
        if self.present is None:
            return ShownZygote(restarts=self._replacements, state="failed")
        state = "ready" if self.present.is_loaded else "starting"
        return ShownZygote(self.present.pid, self.present.mark, self._replacements, state)

    def begin(self, first: zygote.Newborn | None) -> None:
        """Begin with `first`, which was forked before there was a loop and is loading; without it one is started."""
        if first is None:
            self._start()
        else:
            self.present = self._adopt(first, compute_state())

    def order(self, to: HeldZygote, word: Fork, descriptors: list[int]) -> bool:
        """Send an order; return whether it is on its way: a zygote that cannot be told is ending, or hangs."""
        try:
            socket.send_fds(to.control, [pack(word)], descriptors)
        except OSError as error:
            _log.warning("zygote_not_reached", reason=error.strerror)
            return False
        return True

    def replace_if_outdated(self) -> None:
        """Start another zygote if the software on disk is no longer what the present one has loaded."""
        present = self.present
        if present is not None and present.software != compute_state():
            _log.info("zygote_outdated", pid=present.pid)
            _let_go(present)
            self._replacements += 1
            self._start()

    def dismiss(self, one: HeldZygote) -> None:
        """Kill a zygote that hangs, or that nobody needs any more."""
        if not one.ended.done():
            with suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)

    async def close(self) -> None:
        self._is_open = False
        if self._retry is not None:
            self._retry.cancel()
        self.present = None
        for one in self.living:
            self.dismiss(one)
        for one in list(self.living):
            await one.ended

    # --- births -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Start in a fresh interpreter: this process has a loop and sockets, which must not be copied."""
        self.present = None
        loaded = compute_state()
        try:
            with ExitStack() as undone:
                ours, theirs = zygote.make_pair()
                undone.enter_context(ours)
                with theirs, os.fdopen(writing.open_log(self.log), "ab") as log:
                    argv = children.make_python_command(
                        "hobus.launch.launcher.zygote", "--control", str(theirs.fileno())
                    )
                    pid = children.start(argv, theirs.fileno(), output=log.fileno())
                undone.pop_all()
        except OSError as error:
            _log.warning("zygote_not_started", reason=error.strerror)
            self._start_later()
            return
        self.present = self._adopt(zygote.Newborn(pid, ours), loaded)

    def _start_later(self) -> None:
        pause_ms = self.config.crash_window_ms
        _log.error("zygote_given_up", again_in_ms=pause_ms)
        self._retry = asyncio.get_running_loop().call_later(pause_ms / 1000, self._start)

    def _adopt(self, born: zygote.Newborn, loaded: State) -> HeldZygote:
        born.control.settimeout(0)
        loop = asyncio.get_running_loop()
        mark = identity.start_mark(born.pid) or ""
        held = HeldZygote(born.pid, mark, born.control, loaded, loop.create_future(), loop.time(), is_loaded=False)
        self.living.append(held)
        loop.add_reader(born.control, self._on_answer, held)
        children.watch_exit(born.pid, lambda: self._on_end(held))
        return held

    # --- answers and ends ---------------------------------------------------------------------------------------

    def _on_answer(self, held: HeldZygote) -> None:
        while word := self._receive(held):
            answer = Forked(*json.loads(word))
            held.is_loaded, held.heard_at = True, asyncio.get_running_loop().time()
            self.on_answer(answer)

    def _receive(self, held: HeldZygote) -> bytes:
        try:
            word = held.control.recv(WORD_MAX_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            word = b""
        if not word:
            asyncio.get_running_loop().remove_reader(held.control)  # it ends; what follows is told by its exit
        return word

    def _on_end(self, gone: HeldZygote) -> None:
        """Reap a zygote that ended; if it was the present one, another follows."""
        how = children.reap(gone.pid)
        self._on_answer(gone)
        asyncio.get_running_loop().remove_reader(gone.control)
        gone.control.close()
        self.living.remove(gone)
        gone.ended.set_result(None)
        if self._is_open and gone is self.present:
            _log.warning("zygote_ended", exit=how)
            self.present = None
            self._replacements += 1
            if gone.is_loaded:
                self._start()
            else:
                self._start_later()
        self.on_end()


def _let_go(one: HeldZygote) -> None:
    """Close a zygote's socket behind the last order, for which it still answers."""
    with suppress(OSError):
        one.control.shutdown(socket.SHUT_WR)


State = tuple[tuple[str, int, int], ...]
"""Every module with its time and size, as Python knows a changed one; of none where one went meanwhile."""
ROOT = str(Path(__file__).parents[2])
"""Where `hobus` was imported from."""


def compute_state(root: str = ROOT) -> State:
    """Return a value that changes with any module below this directory. Takes some milliseconds."""
    try:
        return tuple(sorted(_list_modules(root)))
    except OSError:  # one went while it was looked at
        return ()


def _list_modules(directory: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _list_modules(entry.path)
            elif entry.name.endswith(".py"):
                found = entry.stat()
                yield entry.path, found.st_mtime_ns, found.st_size
