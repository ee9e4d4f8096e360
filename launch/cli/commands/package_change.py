"""What a changed set of installed packages means for a cluster that runs, and how that is said."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import suppress

from hobus.bus.errors import ConfigError, RuntimeFault
from hobus.config.gates.finding import SHOWN_MAX, Finding, describe_more
from hobus.config.snapshot import Snapshot
from hobus.launch.cli.commands.options import Output
from hobus.launch.cli.commands.package_trust import DEV
from hobus.launch.cluster.home import Home, find_holder
from hobus.launch.console.errors import CommandError, UsageFault, as_command_error, format_next_command
from hobus.launch.console.output import escape_line, note_coloured, say, say_prose, style
from hobus.launch.packages.installing import Installed, PackageChange
from hobus.launch.packages.judging import read_config
from hobus.launch.packages.store import open_store


def list_agents(one: Installed) -> list[str]:
    return [name.removeprefix("agents/").removesuffix(".json") for name in one.files if name.startswith("agents/")]


def change_package(home: Home, change: PackageChange, done: str, *, no_reload: bool) -> Output:
    about = change.now or change.before
    if about is None:  # no command changes nothing into nothing
        raise UsageFault("nothing was done")
    what = f"{about.package_id} {about.version} is {done}"
    running = _take_in(home, about, what, is_change=change.is_change, no_reload=no_reload)
    if change.before is not None and change.is_change and not change.is_repair:
        running += _take_away(home, is_in_use=no_reload and find_holder(home) is not None)
    policy = read_config(home).governance.signatures
    document = {
        "package_id": about.package_id, "version": about.version,
        "before": change.before.version if change.before is not None else "",
        "is_change": change.is_change, "is_repair": change.is_repair,
        "files": about.files, "agents": list_agents(about), "signatures": policy, "running_cluster": running,
        "warnings": [one._asdict() for one in change.warnings],
    }  # fmt: skip

    def show() -> None:
        if not change.is_change:
            say(style("ok", "green"), f"  {about.package_id} {about.version} is installed already")
            if running:
                say(running)
            return
        is_other = change.before is not None and change.now is not None and not change.is_repair
        was = f" (was {document['before']})" if is_other else ""
        said = "repaired" if change.is_repair else done
        say(style(said, "green"), f"  {about.package_id} {about.version}{was}")
        for name in about.files:
            say(f"  {name}")
        say_findings(change.warnings, "yellow")
        if policy == "dev" and change.now is not None:
            note_coloured(DEV, "yellow")
        if running:
            say(running)
        for agent in list_agents(about) if change.now is not None else ():
            said = f'ask --agent {agent} "…"'
            say(f"next: {format_next_command(said, home.root)}")

    return Output(document, show)


def _take_away(home: Home, *, is_in_use: bool) -> str:
    """Take from the disk what is in force no longer; return what is to be said of what a cluster still runs under."""
    if is_in_use:
        return "; the files that it runs under stay in the home until the next package command"
    with suppress(CommandError), open_store(home):  # it takes away what is left; else the next command does
        pass
    return ""


def _take_in(home: Home, about: Installed, what: str, *, is_change: bool, no_reload: bool) -> str:
    """Return what a running cluster knows of it; empty where none runs, or where nothing of it is new to that one.

    Raises CommandError (failed part way) where it does not take it in: on disk it is as `what` says.
    """
    if find_holder(home) is None or (not is_change and _is_known(home, about)):
        return ""
    again = format_next_command("reload", home.root)
    if no_reload:
        return f"the running cluster does not know it yet: {again}"
    # By name: it loads the bus, which no other command of this family needs.
    reloading = importlib.import_module("hobus.launch.launcher.reload")
    try:
        done = reloading.reload_in_turn(home)
    except (CommandError, RuntimeFault) as fault:
        error = as_command_error(fault)
        if error is None:
            raise
        why = error.message.removeprefix("nothing was changed: ")
        hint = again if isinstance(fault, reloading.UnderWay) else error.hint or again
        raise CommandError(
            f"{what}, but the running cluster did not load it: {why}", hint=hint, code=error.code
        ) from None
    return f"the running cluster loaded it; its next turns run under {done.digest[:19]}"


def _is_known(home: Home, about: Installed) -> bool:
    """Return whether the cluster that runs here runs under this package, as it is installed."""
    try:
        running = Snapshot.from_bytes(home.snapshot.read_bytes())
    except (OSError, ConfigError):
        return False
    return running.packages.get(about.package_id) == about.package


def say_findings(findings: Sequence[Finding], colour: str) -> None:
    for one in findings[:SHOWN_MAX]:
        say_prose(style(f"  {one.severity}  {one.gate}  ", colour), escape_line(f"{one.file}: {one.reason}"))
        if one.mend:
            say_prose("            next: ", escape_line(one.mend))
    for line in describe_more(findings):
        say(f"  {line}")
