"""The zygote: a process that has loaded everything and forks the cluster's processes on command.

One thread, no event loop, no ZeroMQ context, no connection, nothing drawn from a source of randomness: a child shares
its memory and nothing else. Everything is loaded before the first fork: a page that the zygote writes later would be
there twice.

Each child is forked twice, the process between ending at once: so the kernel gives it to the launcher, which is
subreaper, and the launcher alone learns of its end. A zygote that dies therefore concerns no running process. It ends
when its socket does: the launcher is gone, or has replaced it.

On the launcher's word it also forks its heir: a zygote with a socket of its own, which has everything loaded and waits.
When this one dies, the heir forks at once, where another interpreter would first load for a second or more.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

from hobus.bus import collector
from hobus.launch.cluster import identity
from hobus.launch.cluster.descriptors import keep_only, speak_into
from hobus.launch.cluster.kernel import has_one_thread, set_title
from hobus.launch.launcher.foretouch import foretouch

MAIN = "hobus.launch.process.main"
"""What every child runs; loaded first, and with it the bus, the broker and the configuration's models."""

ROLES = ("ledger", "gateway", "ho3", "ho1", "ho2", "host")
"""`launch/process/roles/<role>.py`, loaded in this order; a role that is not installed is left out."""

WORD_MAX_BYTES = 65_536
"""The kernel keeps a word of this size whole; the options hold a role, a name and two paths."""

_DESCRIPTORS = 2
_PID_BYTES = 4

SPARE = -1
"""The number of the order for a spare; nothing comes beside it.

Its options: the pids of processes that run.
"""


class Fork(NamedTuple):
    """Launcher to zygote: make a process of `launch.process` with these `ProcessOptions`; without any, an heir.

    Beside it come the log's descriptor and the reading end of the liveness pipe; for an heir, its end of a `pair`.
    """

    number: int
    options: Sequence[str]


class Forked(NamedTuple):
    """Zygote to launcher: the pid, or 0 and why the system refused. How a process ended the kernel tells its parent."""

    number: int
    pid: int
    error: str = ""


def packed(word: Fork | Forked) -> bytes:
    """One word as the socket pair takes it; `Fork(*json.loads(...))` reads it."""
    return json.dumps(word).encode()


class Newborn(NamedTuple):
    """A zygote as the launcher holds it."""

    pid: int
    control: socket.socket


def fork_zygote(log: Path) -> Newborn | None:
    """A zygote that shares what this process has loaded, and writes to `log`; None where forking is not safe.

    To be called before there is an event loop, a thread, a lock or a pipe that it must not hold. Raises OSError.
    """
    if not is_possible() or not has_one_thread():
        return None
    with log.open("ab") as file:
        ours, theirs = pair()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        pid = os.fork()
        if pid == 0:
            try:
                speak_into(file.fileno())
            finally:
                live(theirs)
    theirs.close()
    return Newborn(pid, ours)


def end_unused(newborn: Newborn) -> None:
    """A zygote that no launcher took over is gone."""
    newborn.control.close()
    os.kill(newborn.pid, signal.SIGKILL)  # our own child and not reaped yet: the pid is certainly its own
    os.waitpid(newborn.pid, 0)


def is_possible() -> bool:
    """Whether this system has what a zygote rests on: Linux, with a Python that knows pidfd."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open")


def pair() -> tuple[socket.socket, socket.socket]:
    """Launcher's end, zygote's end: words stay whole, and the end of either is seen by the other."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def main() -> None:
    """`python -m` this module `--control FD`: a zygote that replaces another one, in a fresh interpreter."""
    parser = argparse.ArgumentParser(prog="hobus-zygote")
    parser.add_argument("--control", type=int, required=True)
    options = parser.parse_args()
    live(socket.socket(fileno=options.control))


def live(control: socket.socket) -> NoReturn:
    """Serves until the other end of `control` is closed; never returns. Its log is standard error."""
    _begin_with(control)
    gc.disable()  # a collection would touch every page that children are to share
    gc.freeze()
    try:
        load()
        # So that whoever is forked has only to say who it is.
        importlib.import_module("hobus.launch.logs.writing").configure("zygote", f"zygote@{os.getpid()}")
        collector.share()
        while True:
            try:
                Zygote(control).serve()
            except Succession as heir:
                control = heir.control
            _begin_with(control)
    except EOFError:
        os._exit(0)
    except BaseException:  # noqa: BLE001 - the last place that can say anything; the launcher replaces this process
        traceback.print_exc()
    os._exit(1)


def load() -> None:
    """Everything that a process of any role runs."""
    importlib.import_module(MAIN)
    for role in ROLES:
        with suppress(ModuleNotFoundError):
            importlib.import_module(f"hobus.launch.process.roles.{role}")


def _begin_with(control: socket.socket) -> None:
    _leave_the_maker_behind()
    keep_only([control.fileno()])
    set_title("hobus zygote")


def _leave_the_maker_behind() -> None:
    """A session of its own (a terminal's Ctrl-C is for the launcher), and no signal handler of the maker's."""
    with suppress(PermissionError):
        os.setsid()  # refused to the leader of a session, which a zygote in a fresh interpreter is already
    plain_signals()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def plain_signals() -> None:
    """Signal handlers as a fresh interpreter has them; Ctrl-C is KeyboardInterrupt."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


class Succession(BaseException):
    """Raised in the process that was just forked as an heir, so that nothing of its maker's calls is left below it."""

    def __init__(self, control: socket.socket) -> None:
        super().__init__()
        self.control = control


class Spare(NamedTuple):
    """A child that was forked ahead of its order, so that a restart need not wait for the kernel's copying."""

    pid: int
    mark: str
    line: socket.socket

    def take(self, word: bytes, descriptors: Sequence[int] = ()) -> bool:
        """Whether the order, or a word without descriptors, has reached it."""
        try:
            socket.send_fds(self.line, [word], descriptors)
        except OSError:
            return False
        return True

    def is_stopped(self) -> bool:
        """It would take an order and not carry it out."""
        return identity.is_stopped(self.pid)

    def end(self) -> None:
        """Gone, though it may be stopped, which sees no end of its line."""
        self.line.close()
        identity.end(self.pid, self.mark, signal.SIGKILL)


class Zygote:
    """The serving side of `control`."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._spare: Spare | None = None

    def serve(self) -> None:
        """For ever.

        Raises EOFError when nobody will send an order any more, Succession in a process that is to serve as heir.
        """
        while True:
            self._serve_one()

    def _serve_one(self) -> None:
        word, descriptors, _flags, _address = socket.recv_fds(self._control, WORD_MAX_BYTES, _DESCRIPTORS)
        if not word:
            raise EOFError
        try:
            answer = self._carried_out(word, descriptors)
        finally:
            # The launcher alone may hold pipes open: a copy left here would hide its death from a child.
            for descriptor in descriptors:
                os.close(descriptor)
        try:
            self._control.send(packed(answer))
        except OSError:
            raise EOFError from None

    def _carried_out(self, word: bytes, descriptors: Sequence[int]) -> Forked:
        order = Fork(*json.loads(word))
        if self._spare is not None and self._spare.is_stopped():
            self._spare.end()
            self._spare = None
        if order.number == SPARE:
            # Not before: whoever was forked last gets ready now, and has the machine for that.
            if self._spare is None:
                self._make_spare()
            if self._spare is not None:
                self._spare.take(word)
            return Forked(SPARE, 0)
        if len(descriptors) != (_DESCRIPTORS if order.options else 1):
            return Forked(order.number, 0, f"{len(descriptors)} descriptors came with the order")
        if not order.options:
            return _forked(order, lambda: self._succeed(descriptors[0]))
        spare, self._spare = self._spare, None
        if spare is not None:
            with spare.line:
                if spare.take(word, descriptors):
                    return Forked(order.number, spare.pid)
        main = importlib.import_module(MAIN)
        with suppress(Exception):
            main.warm(main.ProcessOptions(*order.options))  # the child meets the same fault, and says it
        log, liveness = descriptors
        return _forked(order, lambda: _run(order.options, log, liveness))

    def _succeed(self, control: int) -> NoReturn:
        """In the heir: of this zygote it keeps what is loaded, and lets go of its connections."""
        self._control.close()
        if self._spare is not None:
            self._spare.line.close()
        raise Succession(socket.socket(fileno=os.dup(control)))

    def _make_spare(self) -> None:
        ours, theirs = pair()
        try:
            with theirs:
                pid = fork_away(lambda: _wait(theirs))
                self._spare = Spare(pid, identity.start_mark(pid) or "", ours)
        except OSError:
            ours.close()  # then orders are carried out without one


def _wait(line: socket.socket) -> NoReturn:
    """The spare: it becomes what its order says, or ends with the zygote; meanwhile it prepares when it is told to."""
    _leave_the_maker_behind()
    keep_only([line.fileno()])
    while True:
        word, descriptors, _flags, _address = socket.recv_fds(line, WORD_MAX_BYTES, _DESCRIPTORS)
        if descriptors or not word:
            break
        foretouch([int(pid) for pid in Fork(*json.loads(word)).options])
    if len(descriptors) != _DESCRIPTORS:
        os._exit(0)
    log, liveness = descriptors
    _run(Fork(*json.loads(word)).options, log, liveness)


def _forked(order: Fork, body: Callable[[], NoReturn]) -> Forked:
    try:
        return Forked(order.number, fork_away(body))
    except OSError as error:
        return Forked(order.number, 0, error.strerror or type(error).__name__)


def fork_away(body: Callable[[], NoReturn]) -> int:
    """The pid of a process that runs `body` and is no child of this one. Raises OSError, and there what `body` does."""
    read_fd, write_fd = os.pipe()
    try:
        between = os.fork()
        if between == 0:
            _tell_pid(write_fd, body)
        os.waitpid(between, 0)
        said = os.read(read_fd, _PID_BYTES)
    finally:
        os.close(read_fd)
        os.close(write_fd)
    pid = int.from_bytes(said, "big", signed=True)
    if pid <= 0:
        raise OSError(-pid, os.strerror(-pid))
    return pid


def _tell_pid(write_fd: int, body: Callable[[], NoReturn]) -> NoReturn:
    """Runs in the process between; what it writes is a pid, or the negative number of the error."""
    pid = 0
    try:
        pid = os.fork()
    except OSError as error:
        pid = -(error.errno or 1)
    if pid == 0:
        body()
    os.write(write_fd, pid.to_bytes(_PID_BYTES, "big", signed=True))
    os._exit(0)


def _run(options: Sequence[str], log: int, liveness: int) -> NoReturn:
    """The child: nothing of the zygote is left in it but loaded modules; `random` is seeded anew by itself."""

    def body() -> None:
        with suppress(PermissionError):
            os.setsid()  # refused to a spare, which leads its session already
        plain_signals()
        speak_into(log)
        keep_only([liveness])
        gc.freeze()  # where the order came before the last module
        gc.enable()
        main = importlib.import_module(MAIN)
        main.run(main.ProcessOptions(*options), liveness)

    end_with(body)


def end_with(body: Callable[[], None]) -> NoReturn:
    """Runs `body` in a process that was just forked and ends the process as an interpreter would.

    No atexit functions: they are the maker's, whose process this is not. Nobody here leaves threads to join.
    """
    sys.stdout, sys.stderr = sys.__stdout__ or sys.stdout, sys.__stderr__ or sys.stderr
    code = 1
    try:
        body()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - the last place that can say anything
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
