"""`hobus up`: start the cluster of a home, in the foreground or detached."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import click

from bus.clock import SystemClock
from launch import children, exit_codes, logs
from launch.commands.options import with_home
from launch.errors import CommandError, of_os_error
from launch.home import Home, holder, prepare
from launch.launcher import Launcher
from launch.output import duration, note, say, styled, table
from launch.plan import make_plan, parse_scale
from launch.progress import NotReady, Progress, Ready, Refused, Started, already_up, read_progress


@click.command()
@click.option("--wait", is_flag=True, help="Return when every process is ready (implies --detach); exit 4 if not.")
@click.option("--detach", is_flag=True, help="Run in the background.")
@click.option("--scale", multiple=True, metavar="ROLE=N", help="Number of processes of a role, e.g. ho1=2.")
@click.option(
    "--config", "config_file", type=click.Path(path_type=Path), help="Replaces the shipped admin_config.json."
)
@with_home
def up(*, home: Home, wait: bool, detach: bool, scale: tuple[str, ...], config_file: Path | None) -> int:
    """Start the cluster of a home.

    Without --wait or --detach it stays in the foreground: Ctrl-C drains it, a second Ctrl-C kills it.
    """
    held_by = holder(home)
    if held_by is not None:
        raise already_up(home.root, held_by)
    if wait or detach:
        return start_detached(home, config_file=config_file, scale=scale, wait=wait)
    return _foreground(home, config_file=config_file, scale=scale)


def _foreground(home: Home, *, config_file: Path | None, scale: tuple[str, ...]) -> int:
    plan = make_plan(home, config_file=config_file, scale=scale)
    try:
        prepare(home)
        with home.log("launcher").open("a", encoding="utf-8", buffering=1) as log:
            logs.configure("launcher", f"launcher@{os.getpid()}", stream=log)
            asyncio.run(Launcher(home=home, plan=plan, clock=SystemClock(), report=_Foreground(home).tell).run())
    except OSError as error:
        raise of_os_error(error, doing="the cluster cannot be started") from error
    say("stopped")
    return exit_codes.OK


class _Foreground:
    """Prints progress for somebody who watches."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def tell(self, word: Progress) -> None:
        """One word of the launcher in this process."""
        if isinstance(word, Started):
            note("starting; Ctrl-C stops it")
        else:
            show(self._home, word)


def start_detached(
    home: Home, *, config_file: Path | None, scale: tuple[str, ...], wait: bool, quiet: bool = False
) -> int:
    """The exit code of a start in the background; the launcher tells through a pipe how it went."""
    parse_scale(scale)
    try:
        prepare(home)
        read_fd = _start_launcher(home, config_file, scale)
    except OSError as error:
        raise of_os_error(error, doing="the cluster cannot be started") from error
    with os.fdopen(read_fd, "rb") as words:
        for line in words:
            word = read_progress(line)
            if isinstance(word, Refused):
                raise word.as_error()
            if isinstance(word, Started) and not wait:
                say(f"started (pid {word.pid}) in {home.root}.  hobus ps --home {home.root}")
                return exit_codes.OK
            if isinstance(word, (Ready, NotReady)):
                return exit_codes.OK if quiet and isinstance(word, Ready) else show(home, word)
    tail = "\n".join(logs.tail(home.log("launcher"), 20))
    raise CommandError(f"the launcher ended before it had started anything\n{tail}", hint=f"see {home.log('launcher')}")


def _start_launcher(home: Home, config_file: Path | None, scale: tuple[str, ...]) -> int:
    """Descriptor from which the new launcher's words can be read."""
    read_fd, write_fd = os.pipe()
    argv = children.python("launch.daemon", "--home", str(home.root), "--report-fd", str(write_fd))
    if config_file is not None:
        argv += ["--config", str(config_file)]
    for item in scale:
        argv += ["--scale", item]
    try:
        with home.log("launcher").open("ab") as log:
            subprocess.Popen(  # noqa: S603 - this project's own command
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(write_fd,),
                start_new_session=True,
                env=children.environment(),
            )
    except OSError:
        os.close(read_fd)
        raise
    finally:
        os.close(write_fd)
    return read_fd


def show(home: Home, word: Ready | NotReady | Started | Refused) -> int:
    """Prints who is ready, and what stands in the way; the exit code says which."""
    if not isinstance(word, (Ready, NotReady)):
        return exit_codes.OK
    run = word.run
    say(f"cluster {home.root} · config {run.config_origin} {run.config_digest[:19]}")
    rows = [
        (
            row.actor,
            row.state,
            f"{row.ready_after_ms} ms" if row.ready_after_ms else "-",
            f"pid {row.pid or '-'}",
            row.note,
        )
        for row in run.children
    ]
    table(("ACTOR", "STATE", "AFTER", "PID", "NOTE"), rows, coloured=1)
    if isinstance(word, Ready):
        option = "" if home.root == Path.cwd() / ".hobus" else f" --home {home.root}"
        say(
            f"{styled('ready', 'green')} in {duration(word.elapsed_ms / 1000)}.  "
            f"ask: hobus ask{option} TEXT   watch: hobus tap{option}   stop: hobus down{option}"
        )
        return exit_codes.OK
    for actor, lines in word.tails.items():
        note(f"--- last lines of {home.log(actor)}")
        for line in lines:
            note(f"  {line[:400]}")
    late = ", ".join(word.tails)
    note(f"not ready after {duration(word.elapsed_ms / 1000)}: {late}")
    note(f"  next: hobus ps --home {home.root}   or   hobus down --home {home.root}")
    return exit_codes.UNREACHABLE
