"""The zygotes of one launcher: the present one, the heir that stands ready to follow it, and those that have not ended.

Theory of operation. The present zygote is asked for an heir as soon as it has time: a fork of itself, with everything
loaded. When it dies the heir follows at once and is asked for an heir of its own. Only where both are gone, or the
software on disk is another, is a fresh interpreter loaded, which takes a second or more of CPU; whoever wants a process
waits for that one instead of loading the same beside it. Where the software changed, the former zygote and its heir
stay until that one has answered, and fork again where it ends before: what lies on disk may be half an upgrade. A
zygote that dies before it has answered anything is replaced with back-off; beyond the crash budget there is none until
the window is over.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import structlog

from hobus.bus.port import Clock
from hobus.config.sections.processes import LauncherConfig
from hobus.launch.cluster import identity
from hobus.launch.cluster.sources import ROOT, Sources, State
from hobus.launch.launcher import children, zygote
from hobus.launch.launcher.foretouch import SIBLINGS_MAX
from hobus.launch.launcher.restart_policy import CrashHistory, after_crash
from hobus.launch.launcher.zygote import SPARE, WORD_MAX_BYTES, Fork, Forked, packed

HEIR = 0
"""The number of the order for an heir; those for processes count from 1."""

_log = structlog.get_logger()


@dataclass(slots=True, eq=False)
class Held:
    """One zygote, from its birth until it is reaped."""

    pid: int
    mark: str
    control: socket.socket
    software: State
    born_at: float
    ended: asyncio.Future[None]
    heard_at: float
    """When it last answered, in the loop's time; its birth, before."""
    is_loaded: bool
    """It has answered an order, or was forked by one that had."""


class Shown(NamedTuple):
    """The present zygote as the run file shows it; all empty where processes are not forked."""

    pid: int = 0
    mark: str = ""
    restarts: int = 0
    state: Literal["", "starting", "ready", "backoff", "failed"] = ""


@dataclass(slots=True, eq=False)
class Lineage:
    """Made on the launcher's running loop; `close` ends all of them."""

    config: LauncherConfig
    clock: Clock
    log: Path
    on_answer: Callable[[Forked], None]
    on_end: Callable[[], None]
    """Some zygote has ended, and whatever follows it is present; or a pause without any is over."""
    present: Held | None = None
    living: list[Held] = field(default_factory=list[Held])
    _heir: Held | None = None
    _kept: list[Held] = field(default_factory=list[Held])  # of the former software: who forked, and the heir
    _promised: tuple[Held, socket.socket] | None = None  # who was asked for an heir, and our end of it
    _pause: asyncio.TimerHandle | None = None  # after the death of an heir, or one not made
    _history: CrashHistory = field(default_factory=CrashHistory)
    _retry: asyncio.TimerHandle | None = None
    _is_given_up: bool = False
    _is_open: bool = True
    _replacements: int = 0
    _sources: Sources = field(default_factory=lambda: Sources(ROOT, is_watched=True))

    @property
    def is_hopeful(self) -> bool:
        """Whether there is a zygote, or will be one after a pause that is worth waiting for."""
        return self._is_open and not self._is_given_up

    def shown(self) -> Shown:
        """What the run file says of the zygote."""
        if self.present is None:
            return Shown(restarts=self._replacements, state="failed" if self._is_given_up else "backoff")
        state = "ready" if self.present.is_loaded else "starting"
        return Shown(self.present.pid, self.present.mark, self._replacements, state)

    def begin(self, first: zygote.Newborn | None) -> None:
        """`first` was forked before there was a loop and is loading; without it one is started."""
        if first is None:
            self._start()
        else:
            self.present = self._adopt(first, self._sources.state(), is_loaded=False)

    def order(self, to: Held, word: Fork, descriptors: list[int]) -> bool:
        """Whether it is on its way; a zygote that cannot be told is ending, or hangs."""
        try:
            socket.send_fds(to.control, [packed(word)], descriptors)
        except OSError as error:
            _log.warning("zygote_not_reached", reason=error.strerror)
            return False
        return True

    def want_heir(self) -> None:
        """The present zygote is asked for one, if none is there or asked for, and none just died or was refused."""
        has_one = self._heir is not None or self._promised is not None
        if self.present is None or has_one or self._pause is not None or not self._is_open:
            return
        try:
            ours, theirs = zygote.pair()
        except OSError as error:
            self._no_heir(error.strerror)
            return
        with theirs:
            if self.order(self.present, Fork(HEIR, ()), [theirs.fileno()]):
                self._promised = (self.present, ours)
            else:
                ours.close()

    def prepare_spare(self, siblings: Iterable[int]) -> None:
        """The present zygote makes a spare, if it has none, which prepares for being a process like these."""
        if self.present is not None:
            options = [str(pid) for pid in islice(siblings, SIBLINGS_MAX)]
            self.order(self.present, Fork(SPARE, options), [])

    def forget_software(self) -> None:
        """The next look is at each module: what another machine did to a shared disk, no system tells."""
        self._sources.close()

    def replace_if_outdated(self) -> bool:
        """Whether the software on disk is no longer what the present zygote has loaded; then another one is started.

        Nor what another one could not load since.
        """
        present = self.present
        if present is None or present.software == self._sources.state():
            return False
        _log.info("zygote_outdated", pid=present.pid)
        if present.is_loaded:
            self._kept = [present] if self._heir is None else [present, self._heir]
            self._heir = None
        else:
            _let_go(present)
        self._disinherit()
        self._replacements += 1
        self._start()
        return True

    def dismiss(self, one: Held) -> None:
        """Kills a zygote that hangs, or that nobody needs any more."""
        if not one.ended.done():
            with suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)

    async def close(self) -> None:
        """None is left."""
        self._is_open = False
        for timer in (self._retry, self._pause):
            if timer is not None:
                timer.cancel()
        self.present = None
        self._disinherit()
        self._sources.close()
        for one in self.living:
            self.dismiss(one)
        for one in list(self.living):
            await one.ended

    # --- births -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """In a fresh interpreter: this process has a loop and sockets, which must not be copied."""
        self._is_given_up = False
        self.present = None
        loaded = self._sources.state()
        try:
            with ExitStack() as undone:
                ours, theirs = zygote.pair()
                undone.enter_context(ours)
                with theirs, self.log.open("ab") as log:
                    argv = children.python("hobus.launch.launcher.zygote", "--control", str(theirs.fileno()))
                    pid = children.start(argv, output=log.fileno(), keep=theirs.fileno())
                undone.pop_all()
        except OSError as error:
            _log.warning("zygote_not_started", reason=error.strerror)
            self._replace(self.clock.now())
            return
        self.present = self._adopt(zygote.Newborn(pid, ours), loaded, is_loaded=False)
        self.want_heir()

    def _start_again(self) -> None:
        self._start()
        self.on_end()

    def _adopt(self, born: zygote.Newborn, loaded: State, *, is_loaded: bool) -> Held:
        born.control.settimeout(0)
        loop = asyncio.get_running_loop()
        mark = identity.start_mark(born.pid) or ""
        held = Held(
            born.pid, mark, born.control, loaded, self.clock.now(), loop.create_future(), loop.time(), is_loaded
        )
        self.living.append(held)
        loop.add_reader(born.control, self._answered, held)
        children.watch_exit(born.pid, lambda: self._ended(held))
        return held

    def _inherits(self, maker: Held, answer: Forked) -> None:
        """An heir is born, or not; one whose maker was replaced meanwhile ends by itself, as our end is closed."""
        if self._promised is None or self._promised[0] is not maker:
            return
        ours, self._promised = self._promised[1], None
        if not answer.pid:
            ours.close()
            self._no_heir(answer.error)
            return
        self._heir = self._adopt(zygote.Newborn(answer.pid, ours), maker.software, is_loaded=True)
        _log.info("heir_born", heir=answer.pid)

    def _no_heir(self, why: str | None) -> None:
        _log.warning("no_heir", reason=why)
        self._ask_later()

    def _ask_later(self) -> None:
        """For an heir: one that cannot be made, or cannot live, does not keep the zygote busy."""
        pause_s = self.config.restart_backoff_max_ms / 1000
        self._pause = asyncio.get_running_loop().call_later(pause_s, self._pause_is_over)

    def _disinherit(self) -> None:
        """No heir stands ready any more, and none will."""
        if self._promised is not None:
            self._promised[1].close()
            self._promised = None
        if self._heir is not None:
            self.dismiss(self._heir)
            self._heir = None

    # --- answers and ends ---------------------------------------------------------------------------------------

    def _answered(self, held: Held) -> None:
        """Everything that it has said."""
        while word := self._heard(held):
            answer = Forked(*json.loads(word))
            held.is_loaded, held.heard_at = True, asyncio.get_running_loop().time()
            if held is self.present:
                for one in self._kept:
                    _let_go(one)
                self._kept = []
            if answer.number == HEIR:
                self._inherits(held, answer)
            else:
                self.on_answer(answer)

    def _heard(self, held: Held) -> bytes:
        try:
            word = held.control.recv(WORD_MAX_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            word = b""
        if not word:
            asyncio.get_running_loop().remove_reader(held.control)  # it ends; what follows is told by its exit
        return word

    def _ended(self, gone: Held) -> None:
        """Reaps a zygote that ended; if it was the present one, another follows."""
        how = children.reap(gone.pid)
        self._answered(gone)
        asyncio.get_running_loop().remove_reader(gone.control)
        gone.control.close()
        self.living.remove(gone)
        gone.ended.set_result(None)
        if self._is_open and gone is self.present:
            _log.warning("zygote_ended", exit=how, heir=self._heir.pid if self._heir is not None else 0)
            if self._promised is not None:
                self._disinherit()
            self.present = None
            for one in self._kept:
                one.software = gone.software  # not tried again before it changes again
            self._replace(0.0 if gone.is_loaded else gone.born_at)
        elif gone in self._kept:
            self._kept.remove(gone)
        elif gone is self._heir:
            _log.warning("heir_ended", exit=how)
            self._heir = None
            self._ask_later()
        self.on_end()

    def _pause_is_over(self) -> None:
        self._pause = None
        self.want_heir()

    def _replace(self, born_at: float) -> None:
        """By the heir; else by a fresh interpreter, with back-off if the last one never worked; or by none for now.

        By who is kept, where that one was to follow it.
        """
        if self._kept:
            _log.warning("zygote_kept", pid=self._kept[0].pid, reason="the software on disk did not load")
            self.present, *heirs = self._kept
            self._heir, self._kept = heirs[0] if heirs else None, []
            self._replacements += 1
            return
        now = self.clock.now()
        draw = self.clock.random()
        decision = after_crash(self._history, started_at=born_at, now=now, draw=draw, config=self.config)
        self._history = decision.history
        self._replacements += 1
        if decision.delay_s is None:
            _log.error("zygote_given_up", limit="launcher.crash_budget", again_in_ms=self.config.crash_window_ms)
            self._is_given_up = True
            self._disinherit()
        elif self._heir is not None:
            self.present, self._heir = self._heir, None
            return
        elif decision.delay_s == 0:
            self._start()
            return
        delay_s = self.config.crash_window_ms / 1000 if decision.delay_s is None else decision.delay_s
        self._retry = asyncio.get_running_loop().call_later(delay_s, self._start_again)


def _let_go(one: Held) -> None:
    """What it was asked for it still answers for: its socket is closed behind the last order."""
    with suppress(OSError):
        one.control.shutdown(socket.SHUT_WR)
