"""`hobus up`: start the cluster of a home, in the foreground or detached."""

from __future__ import annotations

import importlib
import os
import signal
from pathlib import Path
from typing import IO

import click

from hobus.config.files import ADMIN_CONFIG
from hobus.launch import exit_codes, given, log_tail
from hobus.launch.background import Background, options_of, start_launcher
from hobus.launch.commands.options import with_home
from hobus.launch.errors import CommandError, next_command, of_os_error
from hobus.launch.home import Home, holder, make_private
from hobus.launch.interrupt import keep_on
from hobus.launch.listen import parts_of
from hobus.launch.output import say
from hobus.launch.progress import NotReady, Ready, Refused, Started, already_up, read_progress
from hobus.launch.scale import parse_scale
from hobus.launch.show_progress import show

HTTP = "127.0.0.1:8420"
"""Where the HTTP door is when nobody says where: this machine alone."""
_WORDS_OF_OURS: list[IO[bytes]] = []
"""Pipes whose other ends are held by launchers that are to end with this process; the kernel closes them then."""


@click.command()
@click.option(
    "--wait",
    is_flag=True,
    help="Return when every process is ready (implies --detach); exit 4 if not, 3 if the record is damaged.",
)
@click.option("--detach", is_flag=True, help="Run in the background.")
@click.option("--scale", multiple=True, metavar="ROLE=N", help="Number of processes of a role, e.g. ho1=2.")
@click.option(
    "--config", "config_file", type=click.Path(path_type=Path), help="Laid over the shipped admin_config.json."
)
@click.option("--listen", metavar="HOST:PORT", help="Let workers on other hosts connect here; port 0: any free one.")
@click.option(
    "--http",
    is_flag=False,
    flag_value=HTTP,
    metavar="[HOST:PORT]",
    help=f"Open the HTTP door, at {HTTP} unless told otherwise; port 0: any free one.",
)
@with_home
def up(  # noqa: PLR0913 - one per option
    *,
    home: Home,
    wait: bool,
    detach: bool,
    scale: tuple[str, ...],
    config_file: Path | None,
    listen: str | None,
    http: str | None,
) -> int:
    """Start the cluster of a home.

    Without --wait or --detach it stays in the foreground: Ctrl-C drains it, a second Ctrl-C kills it.
    """
    held_by = holder(home)
    if held_by is not None:
        raise already_up(home.root, held_by)
    if listen is not None:
        parts_of(listen)  # an empty one is no address either
    if http is not None:
        parts_of(http)
    if wait or detach:
        return start_detached(home, config_file=config_file, scale=scale, wait=wait, listen=listen, http=http)
    if not given.is_handed_over():
        words = [
            "up",
            "--home",
            str(home.root),
            *options_of(config_file=config_file, scale=scale, listen=listen, http=http),
        ]
        given.execute(words, given.names_of(config_file or home.config / ADMIN_CONFIG))
    # By name: a start in the background loads neither the launcher nor the bus.
    foreground = importlib.import_module("hobus.launch.foreground")
    code: int = foreground.run(home, config_file=config_file, scale=scale, listen=listen, http=http)
    return code


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
    begins_at = log_tail.size(log)
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
    raise died_while_starting(home, launcher.wait(), log_tail.reason(home.log("launcher"), start=log_begins_at))


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
