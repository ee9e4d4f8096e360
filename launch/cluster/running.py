"""Whether a cluster runs in a home, and what a command ends with when none does."""

from __future__ import annotations

from hobus.launch.cluster import identity, run_file
from hobus.launch.cluster.home import Home, holder
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, next_command


def running(home: Home) -> run_file.RunFile:
    """The cluster that runs in this home. Raises CommandError (not reachable) when there is none."""
    run, held_by = run_file.read(home.run_file), holder(home)
    if run is None or held_by is None:
        raise not_reachable(home, held_by, is_left=run is not None)
    return run


def not_reachable(home: Home, held_by: int | None, *, is_left: bool = False) -> CommandError:
    """The error for a home whose run directory is gone, or lacks what every command needs; `is_left`: a dead one's."""
    if held_by:
        said = (
            f"the cluster in {home.root} cannot be reached: its run directory is gone (its launcher is pid {held_by})"
        )
        return CommandError(said, hint=next_command("down", home.root), exit_code=exit_codes.UNREACHABLE)
    left = " (its launcher died; the next up cleans up)" if is_left else ""
    said = f"no cluster runs in {home.root}{left}"
    return CommandError(said, hint=next_command("up", home.root), exit_code=exit_codes.UNREACHABLE)


def cluster_gone(home: Home) -> CommandError | None:
    """The error (not reachable) for a home in which neither a launcher nor a broker is left; None while one lives.

    A launcher that died alone does not count: the broker that it left behind still carries what is under way.
    """
    try:
        run = run_file.read(home.run_file)
    except CommandError:
        return None  # what it says of itself cannot be read: that is no proof of death
    if run is not None:
        # By pid and mark, not by the home's lock: looking at that often could refuse it to an `up`.
        brokers = [(row.pid, row.mark) for row in run.children if row.role == "broker"]
        if any(identity.is_alive(pid, mark) for pid, mark in [(run.launcher_pid, run.launcher_mark), *brokers]):
            return None
    elif holder(home) is not None:
        return None
    return CommandError(
        f"the cluster in {home.root} is gone: nobody is left who could answer",
        hint=next_command("up", home.root),
        exit_code=exit_codes.UNREACHABLE,
    )
