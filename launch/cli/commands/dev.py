"""`hobus dev`: the cluster of a Python file, which takes the file's changes in while it runs."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import click

from hobus.bus.clock import SystemClock
from hobus.bus.errors import ConfigError, RuntimeFault
from hobus.bus.messages.ids import shorten_session
from hobus.bus.messages.ledger import EVERY_SESSION, Entry
from hobus.bus.record.ends import end_in, explain_failure, read_result
from hobus.bus.record.journal import read_recorded
from hobus.bus.tool import parse_entry_point
from hobus.config.difference import Difference
from hobus.launch.cli.commands.options import with_home, with_http
from hobus.launch.cluster.endpoints import split_address
from hobus.launch.cluster.home import Home, find_holder
from hobus.launch.cluster.run_file import find_gone
from hobus.launch.cluster.tool_code import list_files
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UsageFault, as_command_error
from hobus.launch.console.interrupt import keep_on
from hobus.launch.console.output import escape_line, format_cell, format_clock_time, format_duration, say, say_prose
from hobus.launch.launcher import children
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.reload import reload_in_turn
from hobus.launch.launcher.starting import start_detached
from hobus.launch.launcher.stop import stop
from hobus.launch.limits import SOURCE_POLL_MS
from hobus.ledger_service.reader import EntryFilter, find_head, read_entries


@click.command()
@click.argument("app", type=click.Path(path_type=Path))
@with_http
@with_home
def dev(*, home: Home, app: Path, http: str | None) -> int:
    """Start the cluster of a home with the agents of APP, a Python file, and load the file's changes while it runs.

    It watches APP, the modules that APP imports from its own directory, and files of instructions. It loads a change as
    `hobus reload` does: new turns use it, running ones end as they began. It shows an error, and the cluster keeps what
    it had. It prints a line per turn. Ctrl-C stops a cluster that this command started.
    """
    if not app.is_file():
        raise UsageFault(f"there is no file {app}", hint="name a Python file with an Agent at its top")
    if http is not None:
        split_address(http, option="--http")
    developed = _Developed(home, app, StartOptions(http=http))
    try:
        developed.take_in()
        with suppress(KeyboardInterrupt), asyncio.Runner() as runner:  # that is how it ends, its loop closed
            _say(f"watching {app} and what it imports from beside it; Ctrl-C ends that")
            while True:
                runner.run(developed.wait_changed())
                developed.take_in()
        return exit_codes.OK
    finally:
        developed.end()


class _Developed:
    """The file's cluster, and what is known of the file."""

    def __init__(self, home: Home, app: Path, options: StartOptions) -> None:
        self._home, self._app, self._options = home, app, options
        self._seen: dict[Path, tuple[int, int] | None] = {}
        self._after: int | None = None
        self._is_ours = False

    def take_in(self) -> None:
        """Have the cluster run under what the file says now, or show why it does not."""
        self._seen = _look_at({*self._seen, *list_files(str(self._app.absolute()))})
        is_up = find_holder(self._home) is not None
        try:
            self._seen |= _look_at(map(Path, _write_agents(self._home, self._app)))
            if is_up:
                self._reload()
            else:
                start_detached(self._home, self._options, wait=True, ends_with_us=True)
                self._is_ours = is_up = True
        except (CommandError, RuntimeFault) as error:
            known = as_command_error(error)
            _say(
                f"{known.message if known else error}{'; the cluster goes on with what it had' if is_up else ''}", "red"
            )
            if known and known.hint and not isinstance(error, ConfigError):  # the file is looked at again by itself
                say(f"  next: {known.hint}")
        if is_up and self._after is None:
            self._after = find_head(self._home.ledger)  # each turn that ends behind that is shown

    def _reload(self) -> None:
        if self._after is None:
            at_start = "; --http counts at a start" if self._options.http else ""
            _say(f"the cluster in {self._home.root} runs already, and goes on afterwards{at_start}")
        done = reload_in_turn(self._home)
        named = ", ".join([*dict.fromkeys(name for one in done.changes for name in _names(one)), *done.beside])
        took = format_duration(done.elapsed_ms / 1000)
        _say(f"taken in after {took}: {named}" if named else "nothing changed", "green")

    async def wait_changed(self) -> None:
        """Return when a file has changed; meanwhile each turn that ends is a line. Raises CommandError: it is down."""
        while _look_at(self._seen) == self._seen:
            await asyncio.sleep(SOURCE_POLL_MS / 1000)
            if self._after is None:
                continue
            if (gone := find_gone(self._home)) is not None:
                raise gone
            ended = EntryFilter(stream=EVERY_SESSION)
            with suppress(RuntimeFault, OSError):  # what cannot be read while it is written is read at the next look
                for entry in read_entries(self._home.ledger, ended, after=self._after, with_bodies=True):
                    self._after = entry.sequence
                    _show_turn(entry)

    def end(self) -> None:
        keep_on()
        if self._is_ours and find_holder(self._home) is not None:
            stop(self._home)


def _look_at(files: Iterable[Path]) -> dict[Path, tuple[int, int] | None]:
    """Return when each was written last, and its size; None: it is not there."""
    found = dict[Path, tuple[int, int] | None].fromkeys(files)
    for path in found:
        with suppress(OSError):
            now = path.stat()
            found[path] = (now.st_mtime_ns, now.st_size)
    return found


def _write_agents(home: Home, app: Path) -> list[str]:
    """Return the files of instructions, after writing the agents into `config/`. Raises CommandError."""
    done = subprocess.run(  # noqa: S603 - this interpreter, this package's own module
        children.make_python_command("hobus.launch.app.started", str(home.root), str(app)),
        env=children.make_environment(),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True, check=False,
    )  # fmt: skip
    try:
        instructions, fault = json.loads(done.stdout)
    except ValueError:
        raise UsageFault(f"importing {app} ended the process; remove the call that exits") from None
    if fault:
        raise CommandError(fault[0], hint=fault[1])
    return instructions


def _names(change: Difference) -> list[str]:
    """Return what changed, and how, as the program calls it: an agent, its tools; else the setting."""
    if change.name == "tools.entry_points":
        return sorted(f"tool {parse_entry_point(one)[0]}" for one in {*change.before} ^ {*change.after})
    return [f"{change.name} ({change.how})" if change.how else change.name]


def _show_turn(entry: Entry) -> None:
    if (taken := read_recorded(entry)) is None or (end := end_in(taken.event.event, taken)) is None:
        return
    result = read_result(taken, end.result_ref)
    said = explain_failure(taken, end) or end.reason or end.code if result is None else result.response
    tools = () if result is None else (call.tool_id for call in result.tool_calls)
    about = "" if result is None else " · ".join([format_duration(result.elapsed_ms / 1000), *tools])
    who = f"{entry.provenance.agent_id} {shorten_session(entry.provenance.session_id)}"
    _say(f"{who}  {format_cell(escape_line(said))}  {about}".rstrip(), None if end.became == "answered" else "red")


def _say(text: str, colour: str | None = None) -> None:
    clock = f"{format_clock_time(SystemClock().now())}  "
    say_prose(clock, text, colour)
    sys.stdout.flush()
