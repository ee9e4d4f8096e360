"""A launcher in the background: forked from the command that starts it where that is safe, else a fresh interpreter.

Forked, the command's own imports are everybody's: it loads what every process of the cluster runs, forks the launcher,
which forks the zygote before it does anything else; nothing is read and built twice.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

from launch import children
from launch.descriptors import keep_only, speak_into
from launch.home import Home
from launch.kernel import has_one_thread
from launch.zygote import MAIN, end_with, is_possible, plain_signals


@dataclass(frozen=True, slots=True)
class Background:
    """A launcher that was started, and the end of the pipe through which it tells how it went."""

    pid: int
    words: IO[bytes]

    def wait(self) -> int:
        """Its exit code, negative for a signal, when it has ended."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def start_launcher(
    home: Home, *, config_file: Path | None, scale: Sequence[str], listen: str | None = None, ends_with_us: bool = False
) -> Background:
    """A new launcher of this home. Raises OSError.

    With `ends_with_us` it takes its cluster down when nobody holds `words` open any more, however this process ended.
    """
    options = ["--home", str(home.root)]
    if config_file is not None:
        options += ["--config", str(config_file)]
    for item in scale:
        options += ["--scale", item]
    if listen is not None:
        options += ["--listen", listen]
    if ends_with_us:
        options += ["--ends-with-maker"]
    with home.log("launcher").open("ab") as log:
        read_fd, write_fd = os.pipe()
        try:
            if is_possible() and has_one_thread():
                pid = _fork(options, log.fileno(), write_fd)
            else:
                argv = children.python("launch.daemon", *options, "--report-fd", str(write_fd))
                pid = children.start(argv, output=log.fileno(), keep=write_fd)
        except OSError:
            os.close(read_fd)
            raise
        finally:
            os.close(write_fd)
    return Background(pid, os.fdopen(read_fd, "rb"))


def _fork(options: Sequence[str], log: int, report: int) -> int:
    gc.disable()  # also while modules are loaded: nearly all of it stays
    importlib.import_module(MAIN)
    gc.freeze()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    pid = os.fork()
    if pid == 0:
        end_with(lambda: _live(options, log, report))
    gc.enable()
    return pid


def _live(options: Sequence[str], log: int, report: int) -> None:
    os.setsid()
    plain_signals()
    speak_into(log)
    keep_only([report])
    daemon: Callable[[Sequence[str]], NoReturn] = importlib.import_module("launch.daemon").main
    gc.enable()
    daemon([*options, "--report-fd", str(report)])
