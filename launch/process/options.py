"""Which process is to be started: as the launcher tells its zygote, and as a command line of a fresh interpreter."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from hobus.launch.process.liveness import STAGES


class ProcessOptions(NamedTuple):
    """What a process is told before it is one."""

    role: str
    instance: str
    home: str
    """Path of the state directory."""
    sockets: str
    """Path of the directory of its cluster's sockets."""

    def words(self) -> list[str]:
        """Return the options as a command line; `parse_command_line` reads it."""
        return [self.role, "--instance", self.instance, "--home", self.home, "--sockets", self.sockets]


def parse_command_line(argv: Sequence[str] | None = None) -> tuple[ProcessOptions, int, int | None]:
    """Read a command line: the options, the reading end of the liveness pipe, and a door's socket.

    Ends by SystemExit where it cannot be read. Only for a fresh interpreter: reading a command line writes to a
    megabyte that a forked process would share.
    """
    parser = argparse.ArgumentParser(prog="hobus-process")
    parser.add_argument("role", choices=sorted(STAGES))
    parser.add_argument("--instance", required=True)
    parser.add_argument("--home", required=True)
    parser.add_argument("--sockets", required=True)
    parser.add_argument("--liveness-fd", type=int, required=True)
    parser.add_argument("--listening-fd", type=int)
    said = parser.parse_args(argv)
    return ProcessOptions(said.role, said.instance, said.home, said.sockets), said.liveness_fd, said.listening_fd
