"""Commands as forks of one loaded interpreter: a fresh one takes a third of a second for its imports alone.

Each is a process of its own with the environment, the directory and the streams that it is given, and runs what
`python -m hobus` does. What starts processes is not run so (`FRESH`): how those start is part of what is tested.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from hobus import __main__ as command_line

FRESH = frozenset({"up", "demo", "drill", "chat", "worker", "simulate"})
READS_AT_START = ("PYTHON", "LC_", "LANG")
"""Variables that an interpreter looks at when it begins; `PYTHONPATH` is taken in by a fork, too."""
MESSAGE_MAX = 100_000
_ROOT = Path(__file__).parents[1]


class Commands:
    """One loaded interpreter, which lives as long as this process."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "bench.commands", str(theirs.fileno())], pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": str(_ROOT)}, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        atexit.register(self._control.close)

    def run(
        self, words: Sequence[str], stdin: bytes, env: Mapping[str, str], cwd: Path | None, timeout_s: float
    ) -> tuple[int, bytes, bytes]:
        """Exit code and both outputs of one command. Raises subprocess.TimeoutExpired."""
        ours, theirs = socket.socketpair()
        given = json.dumps([*map(list, [words, env.items()]), str(cwd or Path.cwd())]).encode()
        with ours, _file(stdin) as said, _file() as out, _file() as err:
            with theirs:
                socket.send_fds(self._control, [given], [said.fileno(), out.fileno(), err.fileno(), theirs.fileno()])
            pid = int.from_bytes(ours.recv(4), "big")
            if not select.select([ours], [], [], timeout_s)[0]:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(words), timeout_s)
            code = os.waitstatus_to_exitcode(int.from_bytes(ours.recv(4), "big"))
            for file in (out, err):
                file.seek(0)
            return code, out.read(), err.read()


def is_run_so(words: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether a fork shows what a fresh interpreter would."""
    is_plain = all(isinstance(word, str) for word in words) and sum(map(len, words)) < MESSAGE_MAX
    looked_at = any(name.startswith(READS_AT_START) and name != "PYTHONPATH" for name in env)
    return is_plain and words[:1] != () and words[0] not in FRESH and not looked_at


def _file(content: bytes = b"") -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(content)
    file.seek(0)
    return file


def serve(control: socket.socket) -> None:
    """Until the other end is closed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for who waits for a command
    while True:
        given, streams, _, _ = socket.recv_fds(control, 2 * MESSAGE_MAX, 4)
        if not given:
            return
        if os.fork() == 0:
            control.close()
            _run(json.loads(given), streams)
        for number in streams:
            os.close(number)


def _run(given: Any, streams: list[int]) -> NoReturn:
    """One command, in a process that this one waits for."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, answer = streams
    if (pid := os.fork()) == 0:
        os.close(answer)
        _be(given, streams)
    os.write(answer, pid.to_bytes(4, "big"))
    os.write(answer, os.waitpid(pid, 0)[1].to_bytes(4, "big"))
    os._exit(0)


def _be(given: Any, streams: list[int]) -> NoReturn:
    words, env, directory = given
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(directory)
    first = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [*first, *(path for path in sys.path if path not in first)]
    sys.argv = ["hobus", *words]
    code: Any = 1
    try:
        command_line.main()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:  # noqa: BLE001 - as an interpreter does
        traceback.print_exc()
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code if isinstance(code, int) else 1)


def load() -> None:
    """What commands import."""
    commands = importlib.import_module("hobus.launch.cli.commands")
    for module in pkgutil.iter_modules(commands.__path__, f"{commands.__name__}."):
        importlib.import_module(module.name)
    importlib.import_module("hobus.launch.cli.main")
    importlib.import_module("hobus.bus.settings").build_models()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    load()
    serve(socket.socket(fileno=int(sys.argv[1])))
