"""What `hobus doctor` looks at: the machine, the home, the configuration, the running cluster.

Each check says ok, warn or fail, what it found, and the fix; none changes anything that stays.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path

from hobus.bus.errors import ConfigError, RuntimeFault
from hobus.bus.messages.gateway import Breaker
from hobus.bus.port import Clock
from hobus.bus.zeromq.context import features
from hobus.bus.zeromq.key_book import damaged_in
from hobus.config.files import SHIPPED
from hobus.config.gates.finding import TITLES
from hobus.config.snapshot import Snapshot, load_snapshot
from hobus.launch.cluster import config_changed, identity, run_file
from hobus.launch.cluster.config_changed import changed_beside
from hobus.launch.cluster.home import IPC_PATH_MAX_BYTES, Home, holder, longest_socket
from hobus.launch.cluster.installed import in_force as installed_in
from hobus.launch.cluster.installed import layers_of
from hobus.launch.cluster.record import unread_spools
from hobus.launch.cluster.run_file import RunFile
from hobus.launch.console.errors import CommandError, next_command
from hobus.launch.console.finding import DoctorFinding, Verdict, fail, ok, warn
from hobus.launch.console.output import counted
from hobus.launch.launcher.gates import findings_in
from hobus.launch.launcher.stop import living
from hobus.launch.launcher.zygote import is_possible
from hobus.ledger_service.verify import other_format

_PYTHON = (3, 11)
_FILES_MIN = 4096
_BREAKER = {"open": "it is not called for now", "half_open": "it is being tried again"}
_PLENTY = 10
"""So many times what the record needs free is no reason for a word."""
_YEAR_2024 = 1_704_067_200.0
_CLOCK_SLACK_S = 60.0


def machine() -> list[DoctorFinding]:
    return [_python(), _libzmq(), _open_files()]


def _python() -> DoctorFinding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info[:2] < _PYTHON:
        return fail("python", version, "hobus needs Python 3.11 or newer")
    how = "processes are forked from a zygote" if is_possible() else "processes are fresh interpreters (no pidfd)"
    return ok("python", f"{version} on {sys.platform}; {how}")


def _libzmq() -> DoctorFinding:
    found = features()
    if not found.has_ipc:
        fix = "install a pyzmq whose libzmq has ipc"
        return fail("libzmq", f"{found.version} without local sockets", fix)
    if not found.has_curve:
        fix = "install the pyzmq wheel, which has libsodium; without it no worker of another host can join"
        return warn("libzmq", f"{found.version} without CURVE", fix)
    return ok("libzmq", f"{found.version} with CURVE")


def _open_files() -> DoctorFinding:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # a cluster raises the soft one itself
    if 0 <= hard < _FILES_MIN:
        fix = f"raise the hard limit, as root: ulimit -Hn {_FILES_MIN}"
        return warn("open files", f"at most {hard} per process", fix)
    return ok("open files", f"at most {'any number' if hard < 0 else hard} per process")


def configuration(home: Home, run: RunFile | None) -> tuple[DoctorFinding, Snapshot | None]:
    """Check whether everything governed loads, and return it; of a running cluster with its own file."""
    try:
        snapshot = load_snapshot(layers_of(home, _given(home, run)))
    except RuntimeFault as fault:
        fix = next_command("config check", home.root)
        return fail("configuration", fault.detail, fix), None
    replaced = [origin for origin in snapshot.origins.values() if origin not in (SHIPPED, *snapshot.packages)]
    own = f"{counted(len(replaced), 'file')} of {home.config}" if replaced else "all files as shipped"
    if packages := installed_in(home):
        own += f"; {counted(len(packages), 'package')} installed"
    return ok("configuration", f"{own}; digest {snapshot.digest[:19]}"), snapshot


def _given(home: Home, run: RunFile | None) -> Path | None:
    return None if run is None else config_changed.given_file(home, run)


def gates(home: Home, run: RunFile | None, *, is_loaded: bool) -> list[DoctorFinding]:
    """Return one finding for each thing that a gate says, with its mend, else one for all.

    Nothing where nobody knows what is there. Of a configuration that does not load `configuration` tells what G2 and G3
    would.
    """
    try:
        found = findings_in(home, config_file=_given(home, run))
    except ConfigError:
        return []
    told: list[DoctorFinding] = []
    for gate in TITLES if is_loaded else (one for one in TITLES if one not in ("G2", "G3")):
        of_gate = [one for one in found if one.gate == gate and one.severity != "note"]
        for one in of_gate:
            made = fail if one.severity == "fail" else warn
            told.append(made(f"gate {gate}", f"{one.file}: {one.reason}", one.mend))
    notes = [one.reason for one in found if one.severity == "note"]
    return told if told or not is_loaded else [ok("gates", "; ".join([f"{min(TITLES)} to {max(TITLES)} pass", *notes]))]


def place(home: Home, snapshot: Snapshot | None, clock: Clock) -> list[DoctorFinding]:
    """Check the home: writable, room, length of its path, clock beside its record."""
    found = [_writable(home), _sockets(home), _clock(home, clock), *_keys(home), *_record(home), *_spools(home)]
    if snapshot is not None:
        found.insert(1, _disk(home, snapshot))
    return found


def _writable(home: Home) -> DoctorFinding:
    there = _nearest(home.root)
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        fix = "choose another directory with --home DIR, or fix its permissions"
        said = f"{there}: {error.strerror}"
        return fail("home", said, fix)
    if there != home.root:
        return ok("home", f"{home.root} is not there yet and can be made")
    if all((at := _stat(path)) is not None and at.st_mode & 0o077 for path in (home.root, home.run)):
        return fail("home", f"{home.run} is open to others", f"chmod 700 {home.run}")
    return ok("home", f"{home.root} is writable")


def _disk(home: Home, snapshot: Snapshot) -> DoctorFinding:
    ledger = snapshot.config.ledger
    needed = ledger.segment_bytes + ledger.reserve_bytes
    free = shutil.disk_usage(_nearest(home.ledger)).free
    said = f"{free >> 20} MB free; the record wants {needed >> 20} MB (a segment and ledger.reserve_bytes)"
    if free < needed:
        return fail("disk", said, "free some space on that disk")
    if free < _PLENTY * needed:
        return warn("disk", said, "free some space before it is needed")
    return ok("disk", said)


def _sockets(home: Home) -> DoctorFinding:
    length = len(os.fsencode(longest_socket(home.run)))
    if length <= IPC_PATH_MAX_BYTES:
        said = f"paths of {length} bytes, at most {IPC_PATH_MAX_BYTES}"
        return ok("sockets", said)
    said = f"paths of {length} bytes are too long: sockets will lie in {tempfile.gettempdir()}"
    return warn("sockets", said, "a shorter --home avoids that")


def _keys(home: Home) -> list[DoctorFinding]:
    """Report tokens and workers that cannot be read; nothing to say where there are none."""
    fix = "restore a copy, or remove it; the workers that it names then have to join again"
    return [warn("keys", f"{path} is damaged and lets nobody in", fix) for path in damaged_in(home.keys)]


def _record(home: Home) -> list[DoctorFinding]:
    """Report whether this version reads the record at all; nothing to say where there is none."""
    try:
        fault = other_format(home.ledger)
    except OSError as error:
        return [fail("record", f"{home.ledger} cannot be read: {error.strerror}", "make it readable for this user")]
    return [] if fault is None else [fail("record", f"{fault.file}: {fault.what}", fault.fix)]


def _spools(home: Home) -> list[DoctorFinding]:
    return [warn("spool", *said.rsplit("; ", 1)) for said in unread_spools(home)]


def _clock(home: Home, clock: Clock) -> DoctorFinding:
    now = clock.now()
    newest = max((at.st_mtime for path in _files(home.ledger) if (at := _stat(path)) is not None), default=0.0)
    if now < _YEAR_2024:
        return fail("clock", "the clock of this machine is years behind", "set it")
    if newest > now + _CLOCK_SLACK_S:
        said = f"the clock is {newest - now:.0f} s behind the newest file of the record"
        return warn("clock", said, "set it: times in the record would go backwards")
    return ok("clock", "not behind the record")


def cluster(home: Home) -> tuple[list[DoctorFinding], RunFile | None]:
    """Return who holds the home, what an earlier run left, and, if one runs, its run file."""
    pid = holder(home)
    try:
        run = run_file.read(home.run_file)
    except CommandError as error:
        stale = fail("run file", error.message, next_command("down", home.root))
        return [stale], None
    if pid is None:
        left = living(run)
        if run_file.is_of_elsewhere(home.run_file):
            return [warn("launcher", f"no cluster runs; {run_file.OF_ELSEWHERE}", next_command("up", home.root))], None
        if run is None:
            return [ok("launcher", "no cluster runs, and none was left behind")], None
        names = ", ".join(f"{row.actor} (pid {row.pid})" for row in left) or "no process"
        said = f"the launcher of an earlier run is dead; it left its run file and {names}"
        return [warn("launcher", said, next_command("down", home.root))], None
    if run is None or not home.snapshot.exists():
        said = f"a launcher (pid {pid}) holds this home, but its run directory is gone: nobody can reach the cluster"
        return [fail("launcher", said, next_command("down", home.root))], None
    fault = run_file.moved(run, home) or run_file.stalled(run.launcher_pid)
    found = [
        fail("launcher", fault.message, fault.hint) if fault else ok("launcher", f"pid {run.launcher_pid}, {run.phase}")
    ]
    if not run.zygote_pid and is_possible():
        why = "it ended before it was loaded" if run.zygote_state == "failed" else "no zygote"
        said = f"{why}: processes are started as fresh interpreters, which takes about a second each"
        fix = f"launcher.start_method, or its log: {next_command('logs zygote launcher', home.root)}"
        found.append(warn("zygote", said, fix))
    elif run.zygote_pid and not identity.is_alive(run.zygote_pid, run.zygote_mark):
        found.append(warn("zygote", "it has just died; it is being replaced"))
    return found, run


def in_force(home: Home, run: RunFile) -> list[DoctorFinding]:
    """Report whether what is configured is what runs; a configuration with faults is told of above."""
    try:
        changed = config_changed.changed_since(home, run)
    except ConfigError:
        return []
    found = [warn("configuration in force", changed.said, changed.mend)] if changed else []
    tools = Snapshot.from_bytes(home.snapshot.read_bytes()).config.tools
    for what in changed_beside(tools, run):
        said = f"{what} was changed after executors were started: not all of them have it"
        found.append(warn("tools in force", said, next_command("reload", home.root)))
    return found


def health(
    rows: Iterable[tuple[str, str, str]],
    *,
    broker_answers: bool,
    home: Home,
    damaged: Collection[str] = (),
    elsewhere: Collection[str] = (),
) -> list[DoctorFinding]:
    """Report on (actor, state, note) of every process.

    `damaged` failed because what they need is damaged; of the roles `elsewhere` another host has a ready process.
    """
    everybody = list(rows)
    served = {_role(actor) for actor, state, _ in everybody if state == "ready"} | set(elsewhere)
    found: list[DoctorFinding] = []
    if not broker_answers:
        fix = next_command("logs broker", home.root)
        found.append(fail("broker", "it does not answer", fix))
    for actor, state, note in everybody:
        if state == "ready":
            continue
        verdict: Verdict = "fail" if state in ("failed", "lost") or _role(actor) not in served else "warn"
        said = f"{state}: {note}" if note else state
        if _role(actor) not in served:
            said = f"{said} (no {_role(actor)} is ready)"
        fix = _fix(actor, state, home, is_damaged=actor in damaged)
        found.append(DoctorFinding(check=actor, verdict=verdict, detail=said, fix=fix))
    if not found:
        found.append(ok("processes", "all are ready"))
    return found


def breakers(rows: Iterable[Breaker], home: Home) -> list[DoctorFinding]:
    """Return one line for each model that is left alone, or tried again; nothing where all are called."""
    return [
        warn(
            f"breaker {one.provider_id}/{one.model_id}",
            f"{one.state}: {_BREAKER[one.state]}, after {one.failures} faults of the provider in a row",
            next_command(f"provider check {one.provider_id}", home.root),
        )
        for one in rows
        if one.state != "closed"
    ]


def _role(actor: str) -> str:
    return actor.partition("/")[0]


def _fix(actor: str, state: str, home: Home, *, is_damaged: bool) -> str:
    logs = next_command(f"logs {actor}", home.root)
    if is_damaged:
        verify = next_command("ledger verify", home.root)
        return f"{verify} names the place; then down, and restore a copy, or as it says; {logs}"
    if state in ("failed", "stopped"):
        return f"{next_command(f'restart {actor}', home.root)}; {logs}"
    return logs


def _nearest(path: Path) -> Path:
    return next(one for one in (path, *path.parents) if one.is_dir())


def _stat(path: Path) -> os.stat_result | None:
    """Return its status; None when it is gone: a cluster may end, and files of the index come and go."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()] if directory.is_dir() else []
