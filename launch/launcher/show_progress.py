"""What is printed when a cluster became ready, or did not."""

from __future__ import annotations

import shlex
from pathlib import Path

from hobus.launch.cluster.addresses import bound_address
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.last_lines import for_people, read_lines, since_another
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import next_command
from hobus.launch.console.output import duration, note, say, styled, table
from hobus.launch.launcher.progress import NotReady, Ready

_LINE_MAX = 400


def show(home: Home, word: Ready | NotReady) -> int:
    """Prints who is ready, and what stands in the way; the exit code says which."""
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
    if listens := bound_address(home):
        say(f"listens at {listens} for workers on other hosts: {next_command('token create', home.root)}")
    if isinstance(word, Ready):
        option = "" if home.root == Path.cwd() / ".hobus" else f" --home {shlex.quote(str(home.root))}"
        say(
            f"{styled('ready', 'green')} in {duration(word.elapsed_ms / 1000)}.  "
            f"ask: hobus ask{option} TEXT   watch: hobus tap{option}   stop: hobus down{option}"
        )
        return exit_codes.OK
    if word.damaged:
        note(f"{styled('error:', 'red', bold=True, to_stderr=True)} {word.damaged}")
        note(f"  next: {next_command('ledger verify', home.root)}   or   {next_command('down', home.root)}")
        return exit_codes.INTEGRITY
    instances = {row.actor: row.instance for row in run.children}
    for actor, lines in word.tails.items():
        note(f"--- last lines of {home.log(actor)}")
        for line in since_another(read_lines(lines, actor), instances.get(actor, "")):
            note(f"  {for_people(line)[:_LINE_MAX]}")
    notes = {row.actor: f" ({row.note})" if row.note else "" for row in run.children}
    late = ", ".join(f"{actor}{notes.get(actor, '')}" for actor in word.tails)
    note(f"not ready after {duration(word.elapsed_ms / 1000)}: {late}")
    note(f"  next: {next_command('ps', home.root)}   or   {next_command('down', home.root)}")
    return exit_codes.UNREACHABLE
