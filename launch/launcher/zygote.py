"""The zygote: a process that has loaded everything and forks the cluster's processes on command.

One thread, no event loop, no ZeroMQ context, no connection, nothing drawn from a source of randomness: a child shares
its memory and nothing else. Everything is loaded before the first fork: a page that the zygote writes later would be
there twice.

Each child is forked twice, the process between ending at once: so the kernel gives it to the launcher, which is
subreaper, and the launcher alone learns of its end. A zygote that dies therefore concerns no running process. It ends
when its socket does: the launcher is gone, or has replaced it.
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
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

from hobus.bus import collector
from hobus.launch.cluster.kernel import has_one_thread, set_title

MAIN = "hobus.launch.process.main"
"""What every child runs; loaded first, and with it the bus, the broker and the configuration's models."""

ROLES = ("ledger", "gateway", "ho3", "ho1", "ho2", "host")
"""`launch/process/roles/<role>.py`, loaded in this order; a role that is not installed is left out."""

WORD_MAX_BYTES = 65_536
"""The kernel keeps a word of this size whole; the options hold a role, a name and two paths."""

_DESCRIPTORS = (2, 3)
_PID_BYTES = 4


LOADED = 0
"""What a zygote answers before any order; those count from 1."""


class Fork(NamedTuple):
    """Launcher to zygote: make a process of `launch.process` with these `ProcessOptions`.

    Beside it come the log's descriptor, the reading end of the liveness pipe, and a door's socket.
    """

    number: int
    options: Sequence[str]


class Forked(NamedTuple):
    """Zygote to launcher: the pid, or 0 and why the system refused. How a process ended the kernel tells its parent."""

    number: int
    pid: int
    error: str = ""


def pack(word: Fork | Forked) -> bytes:
    """Return one word as the socket pair takes it; `Fork(*json.loads(...))` reads it."""
    return json.dumps(word).encode()


class Newborn(NamedTuple):
    """A zygote as the launcher holds it."""

    pid: int
    control: socket.socket


def fork_zygote(log: Path) -> Newborn | None:
    """Fork a zygote that shares what this process has loaded, and writes to `log`; None where forking is not safe.

    To be called before there is an event loop, a thread, a lock or a pipe that it must not hold. Raises OSError.
    """
    if not is_possible() or not has_one_thread():
        return None
    with log.open("ab") as file:
        ours, theirs = make_pair()
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
    """End a zygote that no launcher took over."""
    newborn.control.close()
    os.kill(newborn.pid, signal.SIGKILL)  # our own child and not reaped yet: the pid is certainly its own
    os.waitpid(newborn.pid, 0)


def is_possible() -> bool:
    """Return whether this system has what a zygote rests on: Linux, with a Python that knows pidfd."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open")


def make_pair() -> tuple[socket.socket, socket.socket]:
    """Return the launcher's end and the zygote's end: words stay whole, and each sees the end of the other."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def main() -> None:
    """Run as `python -m` this module `--control FD`: a zygote that replaces another one, in a fresh interpreter."""
    parser = argparse.ArgumentParser(prog="hobus-zygote")
    parser.add_argument("--control", type=int, required=True)
    options = parser.parse_args()
    live(socket.socket(fileno=options.control))


def live(control: socket.socket) -> NoReturn:
    """Serve until the other end of `control` is closed; never return. Its log is standard error."""
    _leave_the_maker_behind()
    keep_only([control.fileno()])
    set_title("hobus zygote")
    gc.disable()  # a collection would touch every page that children are to share
    gc.freeze()
    try:
        load()
        # So that whoever is forked has only to say who it is.
        importlib.import_module("hobus.launch.logs.writing").configure("zygote", f"zygote@{os.getpid()}")
        collector.freeze_for_forks()
        control.send(pack(Forked(LOADED, 0)))
        while True:
            _serve_one(control)
    except EOFError:
        os._exit(0)
    except BaseException:  # noqa: BLE001 - the last place that can say anything; the launcher replaces this process
        traceback.print_exc()
    os._exit(1)


def load() -> None:
    """Load everything that a process of any role runs."""
    importlib.import_module(MAIN)
    for role in ROLES:
        with suppress(ModuleNotFoundError):
            importlib.import_module(f"hobus.launch.process.roles.{role}")
    importlib.import_module("hobus.bus.settings").build_models()


def _leave_the_maker_behind() -> None:
    """Begin a session of its own (a terminal's Ctrl-C is for the launcher), with no signal handler of the maker's."""
    with suppress(PermissionError):
        os.setsid()  # refused to the leader of a session, which a zygote in a fresh interpreter is already
    reset_signals()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def reset_signals() -> None:
    """Set signal handlers as a fresh interpreter has them; Ctrl-C is KeyboardInterrupt."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _serve_one(control: socket.socket) -> None:
    """Serve one order. Raises EOFError when nobody will send one any more."""
    word, descriptors, _flags, _address = socket.recv_fds(control, WORD_MAX_BYTES, max(_DESCRIPTORS))
    if not word:
        raise EOFError
    try:
        answer = _carry_out(Fork(*json.loads(word)), descriptors)
    finally:
        # The launcher alone may hold pipes open: a copy left here would hide its death from a child.
        for descriptor in descriptors:
            os.close(descriptor)
    try:
        control.send(pack(answer))
    except OSError:
        raise EOFError from None


def _carry_out(order: Fork, descriptors: Sequence[int]) -> Forked:
    if len(descriptors) not in _DESCRIPTORS:
        return Forked(order.number, 0, f"{len(descriptors)} descriptors came with the order")
    main = importlib.import_module(MAIN)
    with suppress(Exception):
        main.warm(main.ProcessOptions(*order.options))  # the child meets the same fault, and says it
    log, *others = descriptors
    return _fork(order, lambda: _run(order.options, log, others))


def _fork(order: Fork, body: Callable[[], NoReturn]) -> Forked:
    try:
        return Forked(order.number, fork_away(body))
    except OSError as error:
        return Forked(order.number, 0, error.strerror or type(error).__name__)


def fork_away(body: Callable[[], NoReturn]) -> int:
    """Return the pid of a process that runs `body` and is no child of this one. Raises OSError, or what `body` does."""
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
    """Fork in the process between; what it writes is a pid, or the negative number of the error."""
    pid = 0
    try:
        pid = os.fork()
    except OSError as error:
        pid = -(error.errno or 1)
    if pid == 0:
        body()
    os.write(write_fd, pid.to_bytes(_PID_BYTES, "big", signed=True))
    os._exit(0)


def _run(options: Sequence[str], log: int, others: Sequence[int]) -> NoReturn:
    """Run the child: nothing of the zygote is left in it but loaded modules; `random` is seeded anew by itself."""

    def run_body() -> None:
        os.setsid()
        reset_signals()
        speak_into(log)
        keep_only(others)
        gc.freeze()  # where the order came before the last module
        gc.enable()
        main = importlib.import_module(MAIN)
        main.run(main.ProcessOptions(*options), *others)

    end_with(run_body)


def end_with(body: Callable[[], None]) -> NoReturn:
    """Run `body` in a process that was just forked and end the process as an interpreter would.

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


STANDARD = (0, 1, 2)
_CLOSED_BELOW = 1 << 20
"""`closerange` up to here is one system call where the kernel has `close_range`."""


def keep_only(descriptors: Iterable[int]) -> None:
    """Close everything else, except the standard three."""
    begin = len(STANDARD)
    for descriptor in sorted(set(descriptors) - set(STANDARD)):
        os.closerange(begin, descriptor)
        begin = descriptor + 1
    os.closerange(begin, _find_highest() + 1)


def speak_into(log: int) -> None:
    """Send standard output and error to this descriptor; standard input is empty."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nowhere, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    if nowhere not in STANDARD:
        os.close(nowhere)


def _find_highest() -> int:
    try:
        return max(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208 - numbers, not paths
    except OSError:
        return _CLOSED_BELOW


if __name__ == "__main__":
    main()
