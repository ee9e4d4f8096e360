"""Where the launcher's processes are born: forked by its zygote, or as fresh interpreters where that cannot be.

A dead, silent or outdated zygote is replaced at once; what it was asked for and had not answered is started as a fresh
interpreter, so that no fault of a zygote keeps a process from running. Nothing here knows an actor.
Source: spec page "Launching, scaling, tapping, watching", Launcher.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from bus.port import Clock
from config.schema import LauncherConfig
from launch import children, fingerprint, identity, zygote
from launch.children import Child
from launch.kernel import become_subreaper
from launch.restart_policy import History, after_crash
from launch.zygote_words import WORD_MAX_BYTES, Fork, read_forked

_LOOK_INTERVAL_S = 0.002

_log = structlog.get_logger()


@dataclass(slots=True)
class _Zygote:
    """The present one, or one that it replaced and that has not ended yet."""

    pid: int
    mark: str
    control: socket.socket
    fingerprint: int
    born_at: float
    ended: asyncio.Future[None]


@dataclass(slots=True)
class _Order:
    """A process that was asked for and is not born yet; what it needs is kept, should it be asked for anew."""

    child: Child
    argv: Sequence[str]
    log_fd: int
    asked: _Zygote | None = None
    timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Answered, one way or the other."""
        if self.timer is not None:
            self.timer.cancel()
        os.close(self.log_fd)


class Nursery:
    """Made on the launcher's running loop; `close` ends the zygote."""

    def __init__(self, config: LauncherConfig, clock: Clock, *, log: Path, first: zygote.Newborn | None) -> None:
        """`first` is a zygote forked before there was a loop; without one, one is started where that is possible."""
        self._config = config
        self._clock = clock
        self._log_path = log
        self._zygote: _Zygote | None = None
        self._living: list[_Zygote] = []
        self._orders: dict[int, _Order] = {}
        self._number = 0
        self._history = History()
        self._retry: asyncio.TimerHandle | None = None
        self._is_open = config.start_method == "fork" and zygote.is_possible() and become_subreaper()
        self.replacements = 0
        if first is not None and self._is_open:
            self._adopt(first, fingerprint.of_sources())
        elif first is not None:
            first.control.close()
        elif self._is_open:
            self._start_zygote()

    def zygote(self) -> tuple[int, str, int]:
        """Pid and start mark of the present zygote, 0 and '' while there is none, and how often one was replaced."""
        pid, mark = (self._zygote.pid, self._zygote.mark) if self._zygote is not None else (0, "")
        return (pid, mark, self.replacements)

    def start(
        self, argv: Sequence[str], *, log: Path, on_born: Callable[[Child], None], on_exit: Callable[[str], None]
    ) -> Child:
        """A process that runs `launch.process` with these arguments, born soon; its output goes to `log`.

        Raises OSError when not even the attempt can be made.
        """
        self._replace_if_outdated()
        log_fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            read_fd, write_fd = os.pipe()
        except OSError:
            os.close(log_fd)
            raise
        child = Child(liveness_fd=write_fd, on_born=on_born, on_exit=on_exit)
        order = _Order(child, argv, log_fd)
        try:
            if not self._ask_zygote(order, read_fd):
                self._spawn(order, read_fd)
        finally:
            os.close(read_fd)
        return child

    def reap_strangers(self, known: Iterable[int]) -> None:
        """Nobody's children that ended here (a killed process's own, for whom this process is the next ancestor)."""
        ours = {*known, *(one.pid for one in self._living)}
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None or ended.si_pid in ours:
                return  # one of ours is reaped by its own watch; the next signal comes back here
            with suppress(ChildProcessError):
                os.waitpid(ended.si_pid, os.WNOHANG)

    async def close(self) -> None:
        """The zygote is gone; no process is born any more."""
        self._is_open = False
        if self._retry is not None:
            self._retry.cancel()
        self._zygote = None
        for one in self._living:
            self._dismiss(one)
        for one in list(self._living):
            await one.ended
        await self._strangers_gone()

    async def _strangers_gone(self) -> None:
        """A spare ends with its zygote, a tool process with its worker; one that does not in time is killed."""
        for kill in (False, True):
            if kill and _has_children():
                for pid in identity.children():
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._config.fork_timeout_ms / 1000):
                    while _has_children():
                        self.reap_strangers(())
                        await asyncio.sleep(_LOOK_INTERVAL_S)

    # --- orders -------------------------------------------------------------------------------------------------

    def _ask_zygote(self, order: _Order, read_fd: int) -> bool:
        """Whether the zygote has the order; it answers, or it is silent for too long, or it ends."""
        if self._zygote is None:
            return False
        self._number += 1
        number = self._number
        word = Fork(number, order.argv).to_bytes()
        try:
            socket.send_fds(self._zygote.control, [word], [order.log_fd, read_fd])
        except OSError as error:
            _log.warning("zygote_not_reached", reason=error.strerror)
            return False
        self._orders[number] = order
        order.asked = self._zygote
        order.timer = asyncio.get_running_loop().call_later(
            self._config.fork_timeout_ms / 1000, self._silent, self._zygote
        )
        return True

    def _spawn(self, order: _Order, read_fd: int) -> None:
        """A fresh interpreter."""
        try:
            children.spawn(
                order.child, children.python(zygote.MAIN, *order.argv), log_fd=order.log_fd, liveness_fd=read_fd
            )
        except OSError as error:
            order.child.not_born(error.strerror or type(error).__name__)
        finally:
            order.close()

    def _spawn_anew(self, order: _Order) -> None:
        """As a fresh interpreter; should the first attempt have been carried out, it reads the end of its pipe."""
        if order.child.has_ended or not self._is_open:
            order.close()
            order.child.not_born("the launcher ends")
            return
        try:
            read_fd, write_fd = os.pipe()
        except OSError as error:
            order.close()
            order.child.not_born(error.strerror or "no pipe")
            return
        order.child.renew_liveness(write_fd)
        try:
            self._spawn(order, read_fd)
        finally:
            os.close(read_fd)

    def _answered(self, present: _Zygote) -> None:
        """Everything that it has said."""
        while word := self._heard(present):
            self._carried_out(word)

    def _heard(self, present: _Zygote) -> bytes:
        try:
            word = present.control.recv(WORD_MAX_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            word = b""
        if not word:
            asyncio.get_running_loop().remove_reader(present.control)  # it ends; what follows is told by its exit
        return word

    def _carried_out(self, word: bytes) -> None:
        answer = read_forked(word)
        order = self._orders.pop(answer.number, None)
        if order is None:
            return
        order.close()
        if answer.pid:
            order.child.born(answer.pid)
        else:
            order.child.not_born(answer.error)

    # --- the zygote ---------------------------------------------------------------------------------------------

    def _adopt(self, born: zygote.Newborn, loaded: int) -> None:
        born.control.settimeout(0)
        loop = asyncio.get_running_loop()
        present = _Zygote(
            born.pid, identity.start_mark(born.pid) or "", born.control, loaded, self._clock.now(), loop.create_future()
        )
        self._zygote = present
        self._living.append(present)
        loop.add_reader(born.control, self._answered, present)
        children.watch_exit(born.pid, lambda: self._ended(present))

    def _start_zygote(self) -> None:
        """In a fresh interpreter: this process has a loop and sockets, which must not be copied."""
        loaded = fingerprint.of_sources()
        ours, theirs = zygote.pair()
        try:
            with self._log_path.open("ab") as log, theirs:
                argv = children.python("launch.zygote", "--control", str(theirs.fileno()))
                pid = children.start(argv, output=log.fileno(), keep=theirs.fileno())
        except OSError as error:
            ours.close()
            _log.warning("zygote_not_started", reason=error.strerror)
            self._replace_later(self._clock.now())
            return
        self._adopt(zygote.Newborn(pid, ours), loaded)

    def _ended(self, gone: _Zygote) -> None:
        """It is reaped; orders that it had not answered are carried out otherwise."""
        how = children.reap(gone.pid)
        self._answered(gone)
        asyncio.get_running_loop().remove_reader(gone.control)
        gone.control.close()
        self._living.remove(gone)
        gone.ended.set_result(None)
        unanswered = [number for number, order in self._orders.items() if order.asked is gone]
        if self._zygote is gone:
            self._zygote = None
            _log.warning("zygote_ended", exit=how, unanswered=len(unanswered))
            if self._is_open:
                self._replace_later(gone.born_at)
        for number in unanswered:
            self._spawn_anew(self._orders.pop(number))

    def _replace_later(self, born_at: float) -> None:
        """At once after a first end, then with back-off; beyond the crash budget processes are fresh interpreters."""
        decision = after_crash(
            self._history, started_at=born_at, now=self._clock.now(), draw=self._clock.random(), config=self._config
        )
        self._history = decision.history
        self.replacements += 1
        if decision.delay_s is None:
            _log.error("zygote_given_up", reason="launcher.crash_budget: processes are fresh interpreters from now on")
            return
        if decision.delay_s == 0:
            self._start_zygote()
        else:
            self._retry = asyncio.get_running_loop().call_later(decision.delay_s, self._start_zygote)

    def _replace_if_outdated(self) -> None:
        present = self._zygote
        if present is None or present.fingerprint == fingerprint.of_sources():
            return
        _log.info("zygote_outdated", pid=present.pid)
        self._zygote = None
        # What it was asked for it still answers for: its socket is closed behind the last order.
        present.control.shutdown(socket.SHUT_WR)
        self.replacements += 1
        self._start_zygote()

    def _silent(self, asked: _Zygote) -> None:
        """An order waited too long: a zygote that hangs is as good as dead."""
        if not asked.ended.done():
            _log.warning("zygote_silent", limit="launcher.fork_timeout_ms")
            self._dismiss(asked)

    def _dismiss(self, one: _Zygote) -> None:
        with suppress(ProcessLookupError):
            os.kill(one.pid, signal.SIGKILL)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
