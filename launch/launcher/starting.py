"""A start, as whoever asked for it follows it: a launcher here or in the background, and what is printed of it.

One in the background is a fresh interpreter, so that nothing of the user's shell is in it by accident; it tells by a
pipe how it went. In the foreground Ctrl-C drains the cluster, a second Ctrl-C kills it.
"""

from __future__ import annotations

import getpass
import importlib
import os
import signal
from pathlib import Path
from typing import IO

from msgspec import Struct

from hobus.bus.clock import SystemClock
from hobus.config.files import ADMIN_CONFIG
from hobus.launch.cluster import console_file
from hobus.launch.cluster.home import Home, make_private
from hobus.launch.cluster.run_file import RunFile, find_running
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import (
    CommandError,
    UnreachableFault,
    format_home_option,
    format_next_command,
    make_os_fault,
)
from hobus.launch.console.interrupt import keep_on
from hobus.launch.console.output import (
    choose_state_colour,
    format_clock_time,
    format_duration,
    format_zone,
    join_styled,
    note,
    note_coloured,
    print_table,
    say,
    say_prose,
    style,
)
from hobus.launch.launcher import children, inherited
from hobus.launch.launcher.options import StartOptions, parse_scale
from hobus.launch.launcher.progress import (
    PROGRESS,
    Progress,
    ProgressWord,
    StartBegun,
    StartRefused,
    StartSettled,
    StartUnderWay,
    StateChanged,
    WaitingLine,
)
from hobus.launch.logs import tail, writing
from hobus.launch.logs.lines import choose_actor_colour

_LINE_MAX = 400
_NEXT_COMMANDS = {"talk": "chat", "watch": "tap", "stop": "down"}

_WORDS_OF_OURS: dict[Path, IO[bytes]] = {}
"""Home -> the pipe whose other end a launcher holds that is to end with this process; the kernel closes it then."""


class Background(Struct, frozen=True):
    """A launcher that was started, and the end of the pipe through which it tells how it went."""

    pid: int
    words: IO[bytes]

    def wait(self) -> int:
        """Return the launcher's exit code, negative for a signal, when it has ended."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def start_here(home: Home, options: StartOptions) -> int:
    """Start in this process; return the exit code after the cluster is down. Raises ConfigError, CommandError."""
    line, has_settled = WaitingLine(), False

    def tell(word: Progress) -> None:
        nonlocal has_settled
        if isinstance(word, StartUnderWay):
            line.show(word)
        elif isinstance(word, (StateChanged, ProgressWord)) and has_settled:
            say(make_line(word))
        elif isinstance(word, StartSettled):
            has_settled = True
            show(home, word)
        elif isinstance(word, StartBegun):
            _warn(word)
            note(f"starting; Ctrl-C stops it. Times are {format_zone(SystemClock().now())}")

    # By name: a start in the background loads neither the launcher nor the bus.
    daemon = importlib.import_module("hobus.launch.launcher.daemon")
    try:
        make_private(home.logs)
        with home.log("launcher").open("a", encoding="utf-8", buffering=1) as log:
            lines = writing.configure("launcher", f"launcher@{os.getpid()}", stream=log)
            daemon.run_launcher(home, options, report=tell, lines=lines)
    except OSError as error:
        raise make_os_fault(error, doing=f"the cluster in {home.root} cannot be started") from error
    say("stopped")
    return exit_codes.OK


def start_detached(
    home: Home,
    options: StartOptions,
    *,
    wait: bool,
    quiet: bool = False,
    ends_with_us: bool = False,
) -> int:
    """Start in the background and return the exit code.

    With `wait`, when every process is ready or certainly will not be.

    With `ends_with_us` an interrupted start is taken back: the launcher is told to end, and has. A cluster that is up
    goes down by itself when this process ends, even by SIGKILL.
    """
    parse_scale(options.scale)
    log = home.log("launcher")
    begins_at = tail.measure_log(log)
    try:
        make_private(home.logs)
        ends = ["--ends-with-maker"] if ends_with_us else []
        launcher = _start_launcher(home, options, ends)
    except OSError as error:
        raise make_os_fault(error, doing=f"the cluster in {home.root} cannot be started") from error
    if ends_with_us:
        _WORDS_OF_OURS[home.root] = launcher.words
    try:
        return _follow(home, launcher, wait=wait, quiet=quiet, log_begins_at=begins_at)
    except KeyboardInterrupt:
        if ends_with_us:
            keep_on()
            _take_back(launcher)
            if not quiet:
                note("the start is undone")
        else:
            ps, down = (format_next_command(one, home.root) for one in ("ps", "down"))
            note(f"the start goes on ({ps}); to end it: {down}")
        raise
    finally:
        if not ends_with_us:
            launcher.words.close()


def bring_up(home: Home, options: StartOptions) -> RunFile:
    """Start the home's cluster; it ends with this process. Raises CommandError: where it is not ready, it is down."""
    code = start_detached(home, options, wait=True, quiet=True, ends_with_us=True)
    if code != exit_codes.OK:
        importlib.import_module("hobus.launch.launcher.stop").stop(home, quiet=True)
        raise CommandError("the cluster did not become ready", hint=f"its logs are in {home.logs}", exit_code=code)
    return find_running(home)


def let_go(home: Home) -> None:
    """End the launcher that was to end with this process."""
    if (words := _WORDS_OF_OURS.pop(home.root, None)) is not None:
        words.close()


def _start_launcher(home: Home, options: StartOptions, further: list[str]) -> Background:
    """Start a new launcher of this home. Raises OSError."""
    words = ["--home", str(home.root), *options.words(), *further]
    with home.log("launcher").open("ab") as log:
        read_fd, write_fd = os.pipe()
        try:
            argv = children.make_python_command("hobus.launch.launcher.daemon", *words, "--report-fd", str(write_fd))
            handed = inherited.hand_over(inherited.names_of(options.config_file or home.config / ADMIN_CONFIG))
            with handed[1]:
                pid = children.start(argv, write_fd, output=log.fileno(), handed=handed)
        except OSError:
            os.close(read_fd)
            raise
        finally:
            os.close(write_fd)
    return Background(pid, os.fdopen(read_fd, "rb"))


def _take_back(launcher: Background) -> None:
    """End the launcher in order; before its first word it does not know yet how to, so that word is waited for."""
    is_there = launcher.words.readline() != b""
    if is_there:
        os.kill(launcher.pid, signal.SIGTERM)
    launcher.wait()


def _follow(home: Home, launcher: Background, *, wait: bool, quiet: bool, log_begins_at: int) -> int:
    waiting = WaitingLine()
    for line in launcher.words:
        word = PROGRESS.decode(line)
        if isinstance(word, StartUnderWay) and wait and not quiet:
            waiting.show(word)
        if isinstance(word, StartRefused):
            launcher.wait()  # it holds nothing any more when this command has ended
            raise CommandError(word.message, hint=word.hint, exit_code=word.exit_code)
        if isinstance(word, StartBegun) and not quiet:
            _warn(word)
        if isinstance(word, StartBegun) and not wait:
            say(f"started (pid {word.pid}) in {home.root}.  {format_next_command('ps', home.root)}")
            return exit_codes.OK
        if isinstance(word, StartSettled):
            return exit_codes.OK if quiet and word.is_ready else show(home, word)
    raise make_died_while_starting(home, launcher.wait(), tail.find_reason(home.log("launcher"), start=log_begins_at))


def _warn(word: StartBegun) -> None:
    for said in word.warnings:
        note_coloured(f"warning: {said}", "yellow")


def make_died_while_starting(home: Home, code: int, said: str) -> CommandError:
    if code == 0:
        return UnreachableFault("the cluster was stopped while it was starting")
    how = f"signal {-code}" if code < 0 else f"exit {code}"
    why = f": {said}" if said and code > 0 else ""
    return UnreachableFault(
        f"the launcher died while starting ({how}){why}",
        hint=f"{format_next_command('down', home.root)} ends what it had started; its log is {home.log('launcher')}",
    )


def show(home: Home, word: StartSettled) -> int:
    """Print who is ready, and what stands in the way; return the exit code."""
    run = word.run
    say_prose("", f"cluster {home.root} · config {run.config_origin} {run.config_digest[:19]}")
    _show_all(run)
    if listens := home.bound():
        say(f"listens at {listens} for workers on other hosts: {format_next_command('token create', home.root)}")
    if console_file.find_offered(home):
        who = console_file.ConsoleLink(getpass.getuser(), "operator")
        say(f"console: {console_file.make_link(home, SystemClock(), who)}   (signs in once)")
    # By name: a start in the background that nobody waits for loads nothing of the bus.
    for said in importlib.import_module("hobus.launch.cluster.record").list_unread_spools(home):
        note_coloured(f"warning: {said}", "yellow")
    if word.is_ready:
        took = format_duration(word.elapsed_ms / 1000)
        option = format_home_option(home.root)
        following = "   ".join(f"{what}: hobus {name}{option}" for what, name in _NEXT_COMMANDS.items())
        say(style("ready", "green"), f" in {took}.  {following}")
        return exit_codes.OK
    if word.damaged:
        note(style("error:", "red", bold=True, to_stderr=True), f" {word.damaged}")
        note(
            f"  next: {format_next_command('ledger verify', home.root)}   or   {format_next_command('down', home.root)}"
        )
        return exit_codes.INTEGRITY
    instances = {row.actor: row.instance for row in run.children}
    for actor, lines in word.tails.items():
        if not lines:
            continue
        note(f"--- last lines of {home.log(actor)}")
        for line in tail.cut_to_incarnation(tail.read_lines(lines, actor), instances.get(actor, "")):
            note(f"  {tail.render_for_people(line)[:_LINE_MAX]}")
    late = ", ".join(
        f"{row.actor} is {row.state}{f' ({row.note})' if row.note else ''}"
        for row in run.children
        if row.actor in word.tails
    )
    label = style("error:", "red", bold=True, to_stderr=True)
    note(label, f" not ready after {format_duration(word.elapsed_ms / 1000)}: {late}")
    note(f"  next: {format_next_command('ps', home.root)}   or   {format_next_command('down', home.root)}")
    return exit_codes.UNREACHABLE


def _show_all(run: RunFile) -> None:
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
    print_table(("ACTOR", "STATE", "AFTER", "PID", "NOTE"), rows, coloured=1)


def make_line(word: StateChanged | ProgressWord) -> str:
    clock = f"{format_clock_time(word.at)}  "
    if isinstance(word, ProgressWord):
        return join_styled(clock, word.text)
    row = word.row
    name = style(row.actor.ljust(len("gateway/1")), choose_actor_colour(row.actor))
    after = f" {row.ready_after_ms} ms after its start" if row.state == "ready" else ""
    why = f": {row.note}" if row.note else ""
    return join_styled(clock, name, "  ", style(f"{row.state}{after}{why}", choose_state_colour(row.state)))
