"""A launcher in the background: a fresh interpreter, so that nothing of the user's shell is in it by accident."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hobus.config.files import ADMIN_CONFIG
from hobus.launch.cluster.home import Home
from hobus.launch.launcher import children, inherited


@dataclass(frozen=True, slots=True)
class Background:
    """A launcher that was started, and the end of the pipe through which it tells how it went."""

    pid: int
    words: IO[bytes]

    def wait(self) -> int:
        """Its exit code, negative for a signal, when it has ended."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def start_launcher(  # noqa: PLR0913 - one per option of `up`
    home: Home,
    *,
    config_file: Path | None,
    scale: Sequence[str],
    listen: str | None = None,
    http: str | None = None,
    ends_with_us: bool = False,
) -> Background:
    """A new launcher of this home. Raises OSError.

    With `ends_with_us` it takes its cluster down when nobody holds `words` open any more, however this process ended.
    """
    options = ["--home", str(home.root), *options_of(config_file=config_file, scale=scale, listen=listen, http=http)]
    if ends_with_us:
        options += ["--ends-with-maker"]
    with home.log("launcher").open("ab") as log:
        read_fd, write_fd = os.pipe()
        try:
            argv = children.python("hobus.launch.launcher.daemon", *options, "--report-fd", str(write_fd))
            handed = inherited.hand_over(inherited.names_of(config_file or home.config / ADMIN_CONFIG))
            with handed[1]:
                pid = children.start(argv, output=log.fileno(), keep=write_fd, handed=handed)
        except OSError:
            os.close(read_fd)
            raise
        finally:
            os.close(write_fd)
    return Background(pid, os.fdopen(read_fd, "rb"))


def options_of(
    *, config_file: Path | None, scale: Sequence[str], listen: str | None, http: str | None = None
) -> list[str]:
    """Of a start, as its command line has them."""
    options = [] if config_file is None else ["--config", str(config_file)]
    for item in scale:
        options += ["--scale", item]
    options += [] if listen is None else ["--listen", listen]
    return options if http is None else [*options, "--http", http]
