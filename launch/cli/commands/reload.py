"""`hobus reload`: a running cluster takes in what lies on disk; turns that run end under what they began with."""

from __future__ import annotations

from typing import Any

import click

from hobus.launch.cli.commands.options import Output, with_json
from hobus.launch.cluster.config_changed import describe_changes
from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import format_next_command
from hobus.launch.console.output import format_duration, note, note_coloured, say, say_prose, style
from hobus.launch.launcher.reload import Reloaded
from hobus.launch.launcher.reload import reload as reloaded

_HOW = (
    "agents, prompts, contracts, packages: at once",
    "budgets, routes, providers, sessions: at once",
    "tools, ho1, ho2, ho3, http: their processes are started anew",
    "code of tools in packages, files of secrets of MCP servers: executors are; keys of providers need no reload",
    "bus, ledger, launcher, http.listen: not without a stop",
)


@click.command(epilog="\b\n" + "\n".join(_HOW))
@click.option("--no-wait", is_flag=True, help="Return as soon as the launcher accepts it.")
@with_json
def reload(*, home: Home, no_wait: bool) -> Output:
    """Apply the configuration on disk, without a stop.

    The launcher checks it as `hobus up` does, and records it. New turns use it; running turns end under the one they
    began with, and none is lost. Workers on other hosts fetch it.

    If a process does not start with it, all return to the old one, and the command says so. Repeat the command to
    complete an interrupted reload.
    """
    try:
        done = reloaded(home, wait=not no_wait)
    except KeyboardInterrupt:
        note(f"the launcher continues the reload: {format_next_command('ps', home.root)}")
        raise
    return Output(make_document(done), lambda: _show(home, done, no_wait=no_wait))


def _show(home: Home, done: Reloaded, *, no_wait: bool) -> None:
    for warning in done.warnings:
        note_coloured(f"warning: {warning}", "yellow")
    if done.before == done.digest and not done.beside:
        return say(f"nothing changed: the cluster runs under {done.digest[:19]}, as on disk")
    verb = "goes over to" if no_wait else "runs under"
    took = "" if no_wait else f" after {format_duration(done.elapsed_ms / 1000)}"
    say(style("ok", "green"), f"  the cluster {verb} {done.digest[:19]} (before: {done.before[:19]}){took}")
    said = [describe_changes(done.changes, is_done=True), *done.beside]
    none = "no value and no file but in how settings are written down"
    say_prose("  changed: ", "; ".join(filter(None, said)) or none)
    if done.effects.roles:
        say(f"  restarted: {', '.join(done.effects.roles)}")
    for name, (role, number) in done.effects.scaled.items():
        scale = format_next_command(f"scale {role}={number}", home.root)
        say_prose("  ", f"{name} is of the next start; now: {scale}")
    return None


def make_document(done: Reloaded) -> Any:
    return {
        "before": done.before,
        "digest": done.digest,
        "changed": [*(change.name for change in done.changes), *done.beside],
        "started_anew": list(done.effects.roles),
        "warnings": list(done.warnings),
        "elapsed_ms": done.elapsed_ms,
    }
