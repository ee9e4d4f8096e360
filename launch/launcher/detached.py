"""A start in the background, followed by whoever asked for it: how it went, or why it did not."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import IO

from hobus.launch.cluster.home import Home, make_private
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, next_command, of_os_error
from hobus.launch.console.interrupt import keep_on
from hobus.launch.console.output import say
from hobus.launch.launcher.background import Background, start_launcher
from hobus.launch.launcher.progress import NotReady, Ready, Refused, Started, read_progress
from hobus.launch.launcher.scale import parse_scale
from hobus.launch.launcher.show_progress import show
from hobus.launch.logs import tail

_WORDS_OF_OURS: list[IO[bytes]] = []
"""Pipes whose other ends are held by launchers that are to end with this process; the kernel closes them then."""


def start_detached(  # noqa: PLR0913 - one per option of `up`
    home: Home,
    *,
    config_file: Path | None,
    scale: tuple[str, ...],
    wait: bool,
    quiet: bool = False,
    listen: str | None = None,
    http: str | None = None,
    ends_with_us: bool = False,
) -> int:
    """The exit code of a start in the background; the launcher tells through a pipe how it went.

    With `ends_with_us` an interrupted start is taken back: the launcher is told to end, and has. A cluster that is up
    goes down by itself when this process ends, even by SIGKILL.
    """
    parse_scale(scale)
    log = home.log("launcher")
    begins_at = tail.size(log)
    try:
        make_private(home.logs)
        launcher = start_launcher(
            home, config_file=config_file, scale=scale, listen=listen, http=http, ends_with_us=ends_with_us
        )
    except OSError as error:
        raise of_os_error(error, doing=f"the cluster in {home.root} cannot be started") from error
    if ends_with_us:
        return _held(home, launcher, wait=wait, quiet=quiet, log_begins_at=begins_at)
    with launcher.words:
        return _followed(home, launcher, wait=wait, quiet=quiet, log_begins_at=begins_at)


def _held(home: Home, launcher: Background, *, wait: bool, quiet: bool, log_begins_at: int) -> int:
    """As `_followed`; the pipe stays open for as long as this process lives."""
    _WORDS_OF_OURS.append(launcher.words)
    try:
        return _followed(home, launcher, wait=wait, quiet=quiet, log_begins_at=log_begins_at)
    except KeyboardInterrupt:
        keep_on()
        _taken_back(launcher)
        raise


def _taken_back(launcher: Background) -> None:
    """It has ended in order. Before its first word it does not know yet how to: that word is waited for."""
    is_there = launcher.words.readline() != b""
    if is_there:
        os.kill(launcher.pid, signal.SIGTERM)
    launcher.wait()


def _followed(home: Home, launcher: Background, *, wait: bool, quiet: bool, log_begins_at: int) -> int:
    for line in launcher.words:
        word = read_progress(line)
        if isinstance(word, Refused):
            launcher.wait()  # it holds nothing any more when this command has ended
            raise word.as_error()
        if isinstance(word, Started) and not wait:
            say(f"started (pid {word.pid}) in {home.root}.  {next_command('ps', home.root)}")
            return exit_codes.OK
        if isinstance(word, (Ready, NotReady)):
            return exit_codes.OK if quiet and isinstance(word, Ready) else show(home, word)
    raise died_while_starting(home, launcher.wait(), tail.reason(home.log("launcher"), start=log_begins_at))


def died_while_starting(home: Home, code: int, said: str) -> CommandError:
    """The launcher is gone, and had not said how the start went."""
    if code == 0:
        return CommandError("the cluster was stopped while it was starting", exit_code=exit_codes.UNREACHABLE)
    how = f"signal {-code}" if code < 0 else f"exit {code}"
    why = f": {said}" if said and code > 0 else ""
    return CommandError(
        f"the launcher died while starting ({how}){why}",
        hint=f"{next_command('down', home.root)} ends what it had started; its log is {home.log('launcher')}",
        exit_code=exit_codes.UNREACHABLE,
    )
