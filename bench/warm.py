"""Commands from a process that has loaded all of them: a test that gives a hundred commands loads `hobus` once.

`python -m bench.warm SOCKET` serves: each connection brings one command (its words, environment and directory) with
three descriptors, and gets the exit code of the process that was forked for it. That process runs `hobus.__main__` as a
new one does; what it does not do is begin and load. Whoever asks about that, or gives an environment that Python itself
reads at its start, does not come here (`bench.cluster.hobus`).
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
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

IS_POSSIBLE = hasattr(os, "pidfd_open")
COLD = frozenset({"up", "down", "init", "demo", "drill", "simulate", "worker", "chat"})
"""Commands that begin, or end, processes of their own, or hold a terminal."""
_AT_START = ("PYTHON", "LC_", "LANG", "MALLOC")
_REQUEST_MAX_BYTES, _DESCRIPTORS = 1 << 22, 1 << 16
_READY = b"ready"


def read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """What of it Python reads as it begins, and the libraries that it loads."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_AT_START) and not name.startswith("LC_HOBUS_")
    }


class Commands:
    """The serving process, as whoever gives commands sees it; it ends with this one, or when it is closed."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="hobus-warm-")
        self._path = str(Path(self._directory.name) / "s")
        self._at_start = read_at_start(environment)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "bench.warm", self._path], env=dict(environment),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None
        self._is_ready = False

    def takes(self, words: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Whether this command is as good here as in a process of its own."""
        return not COLD.intersection(words) and read_at_start(environment) == self._at_start

    def run(
        self, words: Sequence[str], *, stdin: bytes, environment: Mapping[str, str], cwd: Path | None, timeout_s: float
    ) -> tuple[int, bytes, bytes]:
        """One command to its end: exit code, standard output and standard error. Raises TimeoutError."""
        if not self._is_ready:
            assert self._process.stdout is not None
            assert self._process.stdout.readline().strip() == _READY
            self._is_ready = True
        asked = {"words": list(words), "environment": dict(environment), "cwd": str(cwd or Path.cwd())}
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(timeout_s)
                connection.connect(self._path)
                socket.send_fds(connection, [b"3"], [given.fileno(), out.fileno(), err.fileno()])
                connection.sendall(json.dumps(asked).encode() + b"\n")
                said = connection.makefile("rb")
                pid = int(said.readline())
                try:
                    code = said.readline()
                except TimeoutError:
                    os.kill(pid, signal.SIGKILL)
                    raise
            out.seek(0)
            err.seek(0)
            return int(code), out.read(), err.read()

    def close(self) -> None:
        """It ends."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()
        self._directory.cleanup()


def _serve(path: str) -> None:
    """Until nobody holds the other end of standard input."""
    cli = importlib.import_module("hobus.launch.cli.main")
    for name in cli.COMMANDS:
        cli.hobus.get_command(None, name)
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as server, selectors.DefaultSelector() as selector:
        server.bind(path)
        server.listen(64)
        selector.register(server, selectors.EVENT_READ)
        selector.register(sys.stdin.buffer, selectors.EVENT_READ)
        os.write(1, _READY + b"\n")
        while True:
            for key, _ in selector.select():
                if key.fileobj is server:
                    connection, _address = server.accept()
                    pid = _begin(connection)
                    selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, connection))
                elif key.fileobj is sys.stdin.buffer:
                    return
                else:
                    selector.unregister(key.fileobj)
                    os.close(key.fd)
                    _tell(*key.data)


def _begin(connection: socket.socket) -> int:
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 3)
    asked = json.loads(connection.makefile("rb").readline(_REQUEST_MAX_BYTES))
    pid = os.fork()
    if not pid:
        _become(asked, descriptors)
    connection.sendall(f"{pid}\n".encode())
    for descriptor in descriptors:
        os.close(descriptor)
    return pid


def _tell(pid: int, connection: socket.socket) -> None:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with connection:
        try:
            connection.sendall(f"{code}\n".encode())
        except OSError:  # it was not waited for any longer
            return


def _become(asked: dict[str, Any], descriptors: Sequence[int]) -> NoReturn:
    """The command's process, to its end."""
    code = 1
    try:
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        os.closerange(3, _DESCRIPTORS)
        os.chdir(asked["cwd"])
        os.environ.clear()
        os.environ.update(asked["environment"])
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            old = getattr(sys, name)
            new = open(number, old.mode, encoding=old.encoding, errors=old.errors, closefd=False)  # noqa: SIM115 - it stays
            new.reconfigure(line_buffering=name == "stderr")
            setattr(sys, name, new)
            setattr(sys, f"__{name}__", new)
        sys.argv = ["hobus", *asked["words"]]
        importlib.import_module("hobus.__main__").main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as an interpreter ends at one
        traceback.print_exc()
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                code = code or 120
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1])
