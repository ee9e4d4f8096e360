"""Commands of this checkout, each in a process that is forked from one which has loaded what commands load.

An interpreter that loads the command line takes a third of a second of a processor, and a suite of real processes runs a
thousand commands. A command is a process of its own all the same: with its own arguments, environment, directory, streams and
exit code. So is the launcher that `up --wait` starts, except where a test has `launchers_are_executed`. What starts others itself,
or stays, is begun as a user begins it: see `bench/cluster.py`.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_SIZE = struct.Struct("!I")
_FRESH = frozenset({"chat", "console", "demo", "dev", "drill", "simulate", "worker"})
"""Commands that start processes, or stay."""


class CommandForge:
    """The process that forks commands, as who asks for them holds it.

    It is no child of this process: tests play a launcher, which ends every child that it did not start, and count theirs.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self.forks_launchers = True
        self._directory = tempfile.TemporaryDirectory(prefix="hobus-commands-")
        self._path = str(Path(self._directory.name) / "socket")
        self._network = _find_network()
        needed, self._needs = os.pipe()
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(self._path)
            listening.listen(64)
            words = [sys.executable, "-P", __file__, str(listening.fileno())]
            subprocess.run(words, env=dict(env), pass_fds=[listening.fileno()], stdin=needed, check=True)
        os.close(needed)

    def takes(self, words: Sequence[str], env: Mapping[str, str]) -> bool:
        """Not where an interpreter begins in another way by its environment, PYTHONPATH aside; nor for a thread on another network."""
        differs = any(name.startswith(("PYTHON", "LC_")) and name != "PYTHONPATH" for name in env)
        return bool(words) and words[0] not in _FRESH and not differs and self._network == _find_network()

    def run(
        self, words: Sequence[str], *, env: Mapping[str, str], cwd: Path | None, timeout_s: float
    ) -> tuple[int, bytes, bytes]:
        """Exit code, output, errors. Raises TimeoutError: the command is killed then."""
        asked = {
            "words": words,
            "env": dict(env),
            "cwd": str(cwd or Path.cwd()),
            "forks": self.forks_launchers,
        }
        given = json.dumps(asked).encode()
        nothing = os.open(os.devnull, os.O_RDONLY)
        (out, to_out), (err, to_err) = os.pipe(), os.pipe()
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(timeout_s)
            asking.connect(self._path)
            socket.send_fds(asking, [_SIZE.pack(len(given))], [nothing, to_out, to_err])
            for descriptor in (nothing, to_out, to_err):
                os.close(descriptor)
            asking.sendall(given)
            said = _read_both(out, err, timeout_s)
            (code,) = struct.unpack("!i", asking.recv(4))
        return code, *said

    def close(self) -> None:
        os.close(self._needs)
        self._directory.cleanup()


def _find_network() -> str:
    """The namespace in which this thread's sockets are: `bench/hosts` has several."""
    return str(Path("/proc/thread-self/ns/net").readlink())


def _read_both(out: int, err: int, timeout_s: float) -> tuple[bytes, bytes]:
    found: dict[int, bytes] = {out: b"", err: b""}
    until = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        for descriptor in found:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(until - time.monotonic())
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                found[key.fd] += data
                if not data:
                    selector.unregister(key.fd)
                    os.close(key.fd)
    return found[out], found[err]


def _serve(listening: socket.socket) -> None:
    """Forks a command for each connection, and tells it the exit code; ends with its standard input.

    A command is killed when nobody waits for it any more.
    """
    cli = importlib.import_module("hobus.launch.cli.main")
    for name in {cli._FAMILIES.get(name, name) for name in cli.COMMANDS if name not in _FRESH}:
        importlib.import_module(f"hobus.launch.cli.commands.{name}")
    for name in ("launcher.daemon", "launcher.launcher", "launcher.starting"):
        importlib.import_module(f"hobus.launch.{name}")
    importlib.import_module("hobus.launch.launcher.zygote").load()
    gc.collect()
    gc.freeze()
    ended, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    running: dict[int, tuple[socket.socket, int]] = {}
    with selectors.DefaultSelector() as selector:
        for readable in (listening, ended, 0):
            selector.register(readable, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj == 0:
                    for pid in running:
                        os.kill(pid, signal.SIGKILL)
                    return
                if key.fileobj == ended:
                    with suppress(BlockingIOError):
                        os.read(ended, 1 << 10)
                    _reap(running, selector)
                elif key.fileobj == listening:
                    _begin(cli, listening, running, selector)
                elif key.data in running:
                    os.kill(key.data, signal.SIGKILL)


def _begin(
    cli: Any,
    listening: socket.socket,
    running: dict[int, tuple[socket.socket, int]],
    selector: selectors.DefaultSelector,
) -> None:
    asking, _ = listening.accept()
    try:
        asked, streams = _question(asking)
    except EOFError:
        asking.close()
        return
    learned, learns = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(learned)
        _become(cli, asked, streams, learns)
    for descriptor in (*streams, learns):
        os.close(descriptor)
    running[pid] = asking, learned
    selector.register(asking, selectors.EVENT_READ, pid)


def _question(asking: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Raises EOFError: who asked is gone."""
    size, streams, _flags, _address = socket.recv_fds(asking, _SIZE.size, 3)
    if len(size) < _SIZE.size:
        raise EOFError
    (left,) = _SIZE.unpack(size)
    data = b""
    while len(data) < left:
        part = asking.recv(left - len(data))
        if not part:
            raise EOFError
        data += part
    return json.loads(data), list(streams)


def _reap(running: dict[int, tuple[socket.socket, int]], selector: selectors.DefaultSelector) -> None:
    """What a command loaded beyond what was there is loaded here, for the next ones."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        asking, learned = running.pop(pid)
        selector.unregister(asking)
        with suppress(OSError):
            asking.sendall(struct.pack("!i", os.waitstatus_to_exitcode(status)))
        asking.close()
        with open(learned, "rb") as file:  # noqa: PTH123 - a descriptor
            names = file.read().decode().split()
        for name in names:
            with suppress(Exception):
                importlib.import_module(name)
        if names:
            gc.collect()
            gc.freeze()


def _become(cli: Any, asked: dict[str, Any], streams: Sequence[int], learns: int) -> None:
    """This process is the command. It ends without taking apart what it shares with all others, which costs most of its time."""
    for standard, descriptor in enumerate(streams):
        os.dup2(descriptor, standard)
    os.closerange(3, learns)
    os.closerange(learns + 1, 1 << 12)
    sys.stdin = open(0, closefd=False, encoding="utf-8")  # noqa: SIM115 - as an interpreter that begins has them
    sys.stdout = open(1, "w", closefd=False, encoding="utf-8")  # noqa: SIM115
    sys.stderr = open(2, "w", 1, closefd=False, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.path[:0] = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    sys.argv = ["hobus", *asked["words"]]
    if asked["forks"]:
        _fork_launchers()
    before = set(sys.modules)
    atexit.register(lambda: os.write(learns, " ".join(set(sys.modules) - before).encode()[: 1 << 15]))
    importlib.import_module("hobus.launch.console.interrupt").raise_at_interrupt()
    try:
        cli.main(asked["words"])
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code)


def _fork_launchers() -> None:
    """What this process starts as a launcher is forked from it."""
    children = importlib.import_module("hobus.launch.launcher.children")
    execute: Callable[..., int] = children.start

    def start(argv: Sequence[str], *keep: int, output: int, handed: Any = None) -> int:
        module, *words = argv[argv.index("-m") + 1 :]
        has_imported = any(word.endswith(".py") for word in sys.argv)  # a program's file, which stays what it was then
        if module != "hobus.launch.launcher.daemon" or has_imported:
            return execute(argv, *keep, output=output, handed=handed)
        pid = os.fork()
        if pid:
            return pid
        zygote = importlib.import_module("hobus.launch.launcher.zygote")
        environ, file = handed

        def run() -> None:
            os.setsid()
            zygote.reset_signals()
            zygote.speak_into(output)
            zygote.keep_only([*keep, file.fileno()])
            os.environ.clear()
            os.environ.update(environ)
            importlib.import_module(module).main(words)

        zygote.end_with(run)
        return 0  # it never comes back

    children.start = start


if __name__ == "__main__":
    if os.fork():
        os._exit(0)
    _serve(socket.socket(fileno=int(sys.argv[1])))
