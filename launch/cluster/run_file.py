"""The run file: what a launcher says about its processes, and whether a cluster runs in a home at all.

Written whole and renamed into place, so that a reader never sees half of it. It counts in the directory that it was
written in, until the next boot: in a copy of a home, or one that was restored, it names processes of another cluster.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from hobus.bus.messages.base import Record
from hobus.launch.cluster import identity
from hobus.launch.cluster.home import Home, find_holder
from hobus.launch.console.errors import CommandError, UnreachableFault, format_next_command, format_next_here

VERSION = 1
OF_ELSEWHERE = "the run file in it is of a home that this one was copied or restored from, or of before the last boot"

Phase = Literal["starting", "running", "draining"]
State = Literal["starting", "ready", "degraded", "draining", "backoff", "failed", "stopped"]
"""Of a supervised process; what follows what: launch/launcher/supervision.py."""


class ChildRow(Record):
    """One supervised process."""

    actor: Annotated[str, Meta(description="its place, e.g. `ho1/2`; stays the same over restarts")]
    role: str
    instance: Annotated[str, Meta(description="`<actor>@<epoch>` of the present incarnation, '' before the first")]
    state: State
    pid: Annotated[int, Meta(description="0 while there is none")]
    mark: Annotated[str, Meta(description="start mark of that pid (launch/cluster/identity.py)")]
    started_at: Annotated[float, Meta(description="seconds since 1970; 0 while there is none")]
    restarts: int
    next_try_at: Annotated[float, Meta(description="state backoff: when it is started again")] = 0.0
    ready_after_ms: Annotated[int, Meta(description="how long this incarnation took to become ready; 0 if not yet")] = 0
    silent_since: Annotated[
        float, Meta(description="seconds since 1970: its last beat, where the broker hears none; 0 while it does")
    ] = 0.0
    note: str = ""
    is_damaged: Annotated[bool, Meta(description="it failed as what it needs is damaged")] = False


class ReloadRow(Record):
    """The newest change of the configuration of this run."""

    digest: Annotated[str, Meta(description="of the configuration that was to be taken in")]
    state: Literal["going", "done", "failed"]
    at: Annotated[float, Meta(description="seconds since 1970: when it became so")]
    step: Annotated[str, Meta(description="state going: what it waits for")] = ""
    detail: Annotated[str, Meta(description="state failed: why, and under which configuration the cluster runs")] = ""


class RunningProcess(NamedTuple):
    """Whoever may be signalled: a name, and a pid with its start mark; the instance of those that have one."""

    actor: str
    instance: str
    pid: int
    mark: str


class RunFile(Record):
    """One run of a cluster."""

    version: int = VERSION
    directory_mark: Annotated[
        str, Meta(description="of where it lies (launch/cluster/identity.py); set by `write`")
    ] = ""
    phase: Phase
    launcher_pid: int
    launcher_mark: str
    zygote_pid: Annotated[int, Meta(description="0 while there is none, or where processes are not forked")] = 0
    zygote_mark: str = ""
    zygote_restarts: int = 0
    zygote_state: Annotated[
        Literal["", "starting", "ready", "failed"], Meta(description="'' where processes are not forked")
    ] = ""
    started_at: float
    root: Annotated[str, Meta(description="the home, as it was named at the start")] = ""
    sockets: Annotated[str, Meta(description="directory of the ipc sockets")]
    config_digest: str
    config_origin: str
    reload: Annotated[ReloadRow | None, Meta(description="null: there was none")] = None
    drain_bound_s: Annotated[float, Meta(description="longer than this no orderly stop takes")]
    children: list[ChildRow]

    def processes(self) -> list[RunningProcess]:
        """Return `launcher`, `zygote` and every supervised process, as far as there is one."""
        rows = [("launcher", "launcher", self.launcher_pid, self.launcher_mark)]
        rows += [("zygote", "zygote", self.zygote_pid, self.zygote_mark)]
        rows += [(row.actor, row.instance, row.pid, row.mark) for row in self.children]
        return [RunningProcess(*row) for row in rows if row[2]]


def write(path: Path, run: RunFile) -> None:
    """Write what this directory's run is like. Raises OSError."""
    here = run.model_copy(update={"directory_mark": identity.make_directory_mark(path.parent)})
    write_whole(path, here.model_dump_json(indent=1))


def write_whole(path: Path, text: str) -> None:
    """Write exactly this text, or leave the file as it was. Raises OSError that names it."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


def read(path: Path) -> RunFile | None:
    """Return the run of this directory that the file tells of; None when there is none. Raises CommandError."""
    run = _find(path)
    return run if run is not None and _is_here(run, path) else None


def is_of_elsewhere(path: Path) -> bool:
    """Return whether a run file lies there that was written in another directory, or before the last boot."""
    try:
        run = _find(path)
    except CommandError:
        return False
    return run is not None and not _is_here(run, path)


def _find(path: Path) -> RunFile | None:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        run = RunFile.model_validate_json(text)
    except ValueError:
        run = None
    if run is None or run.version != VERSION:
        raise CommandError(f"{path} is not a run file of this version", hint=format_next_here("down"))
    return run


def _is_here(run: RunFile, path: Path) -> bool:
    try:
        return run.directory_mark == identity.make_directory_mark(path.parent)
    except FileNotFoundError:
        return False


def find_running(home: Home) -> RunFile:
    """Return the cluster that runs in this home. Raises CommandError (not reachable) when there is none."""
    run, held_by = read(home.run_file), find_holder(home)
    if run is None or held_by is None:
        raise make_not_reachable(home, held_by)
    if (fault := find_move(run, home)) is not None:
        raise fault
    return run


def find_move(run: RunFile, home: Home) -> CommandError | None:
    """Return the error (not reachable) for a home with another path than its processes use; None for a link to it."""
    with suppress(OSError):
        if not run.root or home.root.samefile(run.root):
            return None
    return UnreachableFault(
        f"the cluster in {home.root} cannot be reached: it was started in {run.root}, and moved while it ran",
        hint=format_next_command("down", home.root),
    )


def make_not_reachable(home: Home, held_by: int | None) -> CommandError:
    """Return the error for a home in which no cluster runs, or whose run directory lacks what every command needs."""
    if held_by:
        said = (
            f"the cluster in {home.root} cannot be reached: its run directory is gone (its launcher is pid {held_by})"
        )
        return UnreachableFault(said, hint=format_next_command("down", home.root))
    left = ""
    if home.run_file.exists():
        is_of_others = is_of_elsewhere(home.run_file)
        left = f" ({OF_ELSEWHERE if is_of_others else 'its launcher died'}; the next up cleans up)"
    said = f"no cluster runs in {home.root}{left}"
    return UnreachableFault(said, hint=format_next_command("up", home.root))


def find_stall(launcher_pid: int) -> CommandError | None:
    """Return the error (not reachable) for a launcher that stands still, as after Ctrl-Z or SIGSTOP.

    None while it runs.

    Its processes go on without it; nobody starts, stops or restarts one until it goes on.
    """
    if not identity.is_stopped(launcher_pid):
        return None
    return UnreachableFault(
        f"the launcher (pid {launcher_pid}) is stalled: it was stopped (SIGSTOP, or Ctrl-Z in its terminal)",
        hint=f"kill -CONT {launcher_pid}, then the same command again",
    )


def find_gone(home: Home) -> CommandError | None:
    """Return the error (not reachable) for a home without launcher and broker; None while one lives.

    A launcher that died alone does not count: the broker that it left behind still carries what is under way.
    """
    try:
        run = read(home.run_file)
    except CommandError:
        return None  # what it says of itself cannot be read: that is no proof of death
    if run is not None:
        # By pid and mark, not by the home's lock: looking at that often could refuse it to an `up`.
        brokers = [(row.pid, row.mark) for row in run.children if row.role == "broker"]
        if any(identity.is_alive(pid, mark) for pid, mark in [(run.launcher_pid, run.launcher_mark), *brokers]):
            return None
    elif find_holder(home) is not None:
        return None
    return UnreachableFault(
        f"the cluster in {home.root} is gone: no process is left to answer", hint=format_next_command("up", home.root)
    )
