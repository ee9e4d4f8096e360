"""Where the launcher's processes are born: forked by its zygote, or as fresh interpreters where that cannot be.

A process that is to be forked waits for a zygote that still loads: one interpreter that loads for all is sooner ready
than one for each. What a zygote does not answer, since it ended or hangs, is started as a fresh interpreter, so that no
fault of a zygote keeps a process from running. Nothing here knows an actor.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import structlog
from msgspec import Struct

from hobus.config.sections.processes import LauncherConfig
from hobus.launch.cluster import identity
from hobus.launch.cluster.kernel import become_subreaper
from hobus.launch.launcher import children, zygote
from hobus.launch.launcher.children import Child
from hobus.launch.launcher.zygote import Fork, Forked
from hobus.launch.launcher.zygotes import HeldZygote, ShownZygote, Zygotes
from hobus.launch.limits import FORK_POLL_MS, FORK_TIMEOUT_MS, WATCH_INTERVAL_MS
from hobus.launch.logs import writing
from hobus.launch.process.options import ProcessOptions

_log = structlog.get_logger()


class _Order(Struct):
    """A process that was asked for and is not born yet; what it needs is kept, should it be a fresh interpreter."""

    number: int
    child: Child
    options: ProcessOptions
    log_fd: int
    read_fd: int
    listening_fds: tuple[int, ...] = ()
    """Of an HTTP door: the socket that it accepts from; the maker's own."""
    asked: HeldZygote | None = None
    asked_at: float = 0.0
    timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        os.close(self.log_fd)
        os.close(self.read_fd)


class ProcessNursery:
    """Make processes on the launcher's running loop; `close` ends the zygotes."""

    def __init__(self, config: LauncherConfig, *, log: Path, first: zygote.Newborn | None) -> None:
        """Begin. `first`: a zygote forked before there was a loop; without one, start one where possible."""
        self._config = config
        self._orders: dict[int, _Order] = {}
        self._children: set[Child] = set()
        """Asked for and not ended."""
        self._number = 0
        self._is_open = True
        self._zygotes: Zygotes | None = None
        if config.start_method == "fork" and zygote.is_possible() and become_subreaper():
            self._zygotes = Zygotes(config, log=log, on_answer=self._take_answer, on_end=self._on_zygote_end)
            self._zygotes.begin(first)
        elif first is not None:
            zygote.end_unused(first)

    def zygote(self) -> ShownZygote:
        """Return the present zygote, if processes are forked here."""
        return self._zygotes.shown() if self._zygotes is not None else ShownZygote()

    def start(
        self,
        options: ProcessOptions,
        *,
        log: Path,
        on_born: Callable[[Child], None],
        on_exit: Callable[[str], None],
        listening_fds: tuple[int, ...] = (),
    ) -> Child:
        """Start a process of `launch.process` with these options, born soon; its output goes to `log`.

        Raises OSError when not even the attempt can be made.
        """
        log_fd = writing.open_log(log)
        try:
            read_fd, write_fd = os.pipe()
        except OSError:
            os.close(log_fd)
            raise
        self._number += 1

        def on_gone(how: str) -> None:
            self._children.discard(child)
            on_exit(how)
            self.reap_strangers()

        child = Child(liveness_fd=write_fd, on_born=on_born, on_exit=on_gone)
        self._children.add(child)
        if self._zygotes is not None:
            self._zygotes.replace_if_outdated()
        self._put(_Order(self._number, child, options, log_fd, read_fd, listening_fds))
        return child

    def reap_strangers(self) -> None:
        """Reap orphans that ended here (a killed process's children, for whom this process is the next ancestor).

        To be called whenever a child ends. The kernel tells of the first one that ended; if that is one of this
        process's own, whoever reaps it calls this again: the signals of all who stand behind it may have come already.
        """
        living = self._zygotes.living if self._zygotes is not None else ()
        ours = {one.pid for one in (*self._children, *living)}
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None or ended.si_pid in ours:
                return
            with suppress(ChildProcessError):
                os.waitpid(ended.si_pid, os.WNOHANG)

    async def close(self) -> None:
        """End the zygotes; no process is born any more."""
        self._is_open = False
        if self._zygotes is not None:
            await self._zygotes.close()
        await self._wait_strangers_gone()

    async def _wait_strangers_gone(self) -> None:
        """Wait for orphans: a tool process ends with its worker; one that does not in time is killed."""
        for kill in (False, True):
            if kill and _has_children():
                for pid in identity.list_children():
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            with suppress(TimeoutError):
                async with asyncio.timeout(FORK_TIMEOUT_MS / 1000):
                    while _has_children():
                        self.reap_strangers()
                        await asyncio.sleep(FORK_POLL_MS / 1000)

    # --- orders -------------------------------------------------------------------------------------------------

    def _put(self, order: _Order) -> None:
        """Hand the order to the zygote and wait for its answer; where there is none, start a fresh interpreter now."""
        self._orders[order.number] = order
        keeper = self._zygotes
        if keeper is None or keeper.present is None:
            self._spawn(order)
            return
        order.asked, order.asked_at = keeper.present, asyncio.get_running_loop().time()
        keeper.order(
            order.asked, Fork(order.number, order.options), [order.log_fd, order.read_fd, *order.listening_fds]
        )
        self._watch(order, keeper, order.asked)

    def _watch(self, order: _Order, keeper: Zygotes, asked: HeldZygote) -> None:
        """Count a zygote that hangs as dead; on a busy machine it may load for long."""
        loop, config = asyncio.get_running_loop(), self._config
        limit_ms = FORK_TIMEOUT_MS if asked.is_loaded else config.ready_timeout_ms
        rest_ms = (max(order.asked_at, asked.heard_at) - loop.time()) * 1000 + limit_ms
        is_stopped = identity.is_stopped(asked.pid)
        if rest_ms > 0 and not is_stopped:
            look_in_s = min(rest_ms, WATCH_INTERVAL_MS) / 1000
            order.timer = loop.call_later(look_in_s, self._watch, order, keeper, asked)
            return
        _log.warning("zygote_silent", limit_ms=limit_ms, is_loaded=asked.is_loaded, is_stopped=is_stopped)
        keeper.dismiss(asked)

    def _on_zygote_end(self) -> None:
        """Start a fresh interpreter for each order that the zygote cannot answer any more.

        Should the order have been carried out, that process reads the end of its pipe: the new one has another.
        """
        for order in list(self._orders.values()):
            if order.asked is None or not order.asked.ended.done():
                continue
            if order.child.has_ended or not self._is_open:
                self._note_unborn(order, "the launcher ends")
                continue
            try:
                read_fd, write_fd = os.pipe()
            except OSError as error:
                self._note_unborn(order, error.strerror or "no pipe")
                continue
            os.close(order.read_fd)
            order.read_fd = read_fd
            order.child.renew_liveness(write_fd)
            self._spawn(order)
        self.reap_strangers()

    def _spawn(self, order: _Order) -> None:
        if self._zygotes is not None:
            _log.warning("started_fresh", process=order.options.instance)
        try:
            argv = children.make_python_command(zygote.MAIN, *order.options.words())
            children.spawn(
                order.child, argv, log_fd=order.log_fd, liveness_fd=order.read_fd, listening_fds=order.listening_fds
            )
        except OSError as error:
            self._note_unborn(order, error.strerror or type(error).__name__)
        else:
            self._note_done(order)

    def _take_answer(self, answer: Forked) -> None:
        order = self._orders.get(answer.number)
        if order is None:
            return
        if answer.pid:
            self._note_done(order)
            order.child.born(answer.pid)
        else:
            self._note_unborn(order, answer.error)

    def _note_unborn(self, order: _Order, why: str) -> None:
        self._note_done(order)
        order.child.note_unborn(why)

    def _note_done(self, order: _Order) -> None:
        del self._orders[order.number]
        order.close()


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
