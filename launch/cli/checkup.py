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
from contextlib import closing
from pathlib import Path

from hobus.bus.errors import ConfigError, RuntimeFault
from hobus.bus.messages.gateway import Breaker
from hobus.bus.port import Clock
from hobus.bus.zeromq.context import read_features
from hobus.bus.zeromq.key_book import list_damaged
from hobus.config.files import SHIPPED
from hobus.config.gates.finding import TITLES
from hobus.config.snapshot import Snapshot, load_snapshot
from hobus.launch.cells import membership
from hobus.launch.cells.map import CellMap, Move
from hobus.launch.cluster import config_changed, identity, run_file
from hobus.launch.cluster.config_changed import find_given_file, list_changed_beside
from hobus.launch.cluster.home import IPC_PATH_MAX_BYTES, Home, find_holder, make_longest_socket
from hobus.launch.cluster.installed import find_layers
from hobus.launch.cluster.installed import list_in_force as installed_in
from hobus.launch.cluster.record import list_unread_spools
from hobus.launch.cluster.run_file import RunFile
from hobus.launch.console.errors import CommandError, format_next_command
from hobus.launch.console.finding import DoctorFinding, Verdict, fail, make_ok, warn
from hobus.launch.console.output import format_count
from hobus.launch.launcher.gates import find_findings
from hobus.launch.launcher.stop import list_living
from hobus.launch.launcher.zygote import is_possible
from hobus.ledger_service.verify import find_other_format

_PYTHON = (3, 11)
_FILES_MIN = 4096
_BREAKER = {"open": "it is not called for now", "half_open": "it is being tried again", "closed": "it is called"}
_PLENTY = 10
"""So many times what the record needs free is no reason for a word."""
_YEAR_2024 = 1_704_067_200.0
_CLOCK_SLACK_S = 60.0


def check_machine() -> list[DoctorFinding]:
    return [_check_python(), _check_libzmq(), _open_files()]


def _check_python() -> DoctorFinding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info[:2] < _PYTHON:
        return fail("python", version, "hobus needs Python 3.11 or newer")
    how = "processes are forked from a zygote" if is_possible() else "processes are fresh interpreters (no pidfd)"
    return make_ok("python", f"{version} on {sys.platform}; {how}")


def _check_libzmq() -> DoctorFinding:
    found = read_features()
    if not found.has_ipc:
        fix = "install a pyzmq whose libzmq has ipc"
        return fail("libzmq", f"{found.version} without local sockets", fix)
    if not found.has_curve:
        fix = "install the pyzmq wheel, which has libsodium; without it no worker of another host can join"
        return warn("libzmq", f"{found.version} without CURVE", fix)
    return make_ok("libzmq", f"{found.version} with CURVE")


def _open_files() -> DoctorFinding:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # a cluster raises the soft one itself
    if 0 <= hard < _FILES_MIN:
        fix = f"raise the hard limit, as root: ulimit -Hn {_FILES_MIN}"
        return warn("open files", f"at most {hard} per process", fix)
    return make_ok("open files", f"at most {'any number' if hard < 0 else hard} per process")


def check_configuration(home: Home, run: RunFile | None) -> tuple[DoctorFinding, Snapshot | None]:
    """Check whether everything governed loads, and return it; of a running cluster with its own file."""
    try:
        snapshot = load_snapshot(find_layers(home, run and find_given_file(home, run)))
    except RuntimeFault as fault:
        fix = format_next_command("config check", home.root)
        return fail("configuration", fault.detail, fix), None
    replaced = [origin for origin in snapshot.origins.values() if origin not in (SHIPPED, *snapshot.packages)]
    own = f"{format_count(len(replaced), 'file')} of {home.config}" if replaced else "all files as shipped"
    if packages := installed_in(home):
        own += f"; {format_count(len(packages), 'package')} installed"
    return make_ok("configuration", f"{own}; digest {snapshot.digest[:19]}"), snapshot


def check_cells(home: Home) -> list[DoctorFinding]:
    """Check whether the map of cells can be read, and moves that stand; nothing where this home is no cell."""
    try:
        if (own := membership(home.root)) is None:
            return []
        with closing(CellMap(own.map)) as cells:
            ok = make_ok("cells", f"{own.name}, one of {len(cells.cells())}")
            return [_make_moving(home, one) for one in cells.moves()] or [ok]
    except RuntimeFault as fault:
        return [fail("cells", fault.detail, str(fault.facts["next"]))]


def _make_moving(home: Home, move: Move) -> DoctorFinding:
    """Return what holds while a person moves, which one who was killed may have left so."""
    said = f"{move.person} is on the way from {move.source} to {move.target} ({move.step}), refused until that ends"
    return warn("cells", said, format_next_command(f"cell move {move.person} {move.target}", home.root))


def check_gates(home: Home, run: RunFile | None, *, is_loaded: bool) -> list[DoctorFinding]:
    """Return one finding for each thing that a gate says, with its mend, else one for all.

    Nothing where nobody knows what is there. Of a configuration that does not load `configuration` tells what G2 and G3
    would.
    """
    try:
        found = find_findings(home, config_file=run and find_given_file(home, run))
    except ConfigError:
        return []
    told: list[DoctorFinding] = []
    for gate in TITLES if is_loaded else (one for one in TITLES if one not in ("G2", "G3")):
        of_gate = [one for one in found if one.gate == gate and one.severity != "note"]
        for one in of_gate:
            made = fail if one.severity == "fail" else warn
            told.append(made(f"gate {gate}", f"{one.file}: {one.reason}", one.mend))
    notes = [one.reason for one in found if one.severity == "note"]
    return (
        told
        if told or not is_loaded
        else [make_ok("gates", "; ".join([f"{min(TITLES)} to {max(TITLES)} pass", *notes]))]
    )


def place(home: Home, snapshot: Snapshot | None, clock: Clock) -> list[DoctorFinding]:
    """Check the home: writable, room, length of its path, clock beside its record."""
    found = [
        _check_writable(home),
        _check_sockets(home),
        _check_clock(home, clock),
        *_check_keys(home),
        *_record(home),
        *(warn("spool", *said.rsplit("; ", 1)) for said in list_unread_spools(home)),
    ]
    if snapshot is not None:
        found.insert(1, _check_disk(home, snapshot))
    return found


def _check_writable(home: Home) -> DoctorFinding:
    there = _find_nearest(home.root)
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        fix = "choose another directory with --home DIR, or fix its permissions"
        said = f"{there}: {error.strerror}"
        return fail("home", said, fix)
    if there != home.root:
        return make_ok("home", f"{home.root} is not there yet and can be made")
    if all((at := _stat_or_none(path)) is not None and at.st_mode & 0o077 for path in (home.root, home.run)):
        return fail("home", f"{home.run} is open to others", f"chmod 700 {home.run}")
    return make_ok("home", f"{home.root} is writable")


def _check_disk(home: Home, snapshot: Snapshot) -> DoctorFinding:
    ledger = snapshot.config.ledger
    needed = ledger.segment_bytes + ledger.reserve_bytes
    free = shutil.disk_usage(_find_nearest(home.ledger)).free
    said = f"{free >> 20} MB free; the record wants {needed >> 20} MB (a segment and ledger.reserve_bytes)"
    if free < needed:
        return fail("disk", said, "free some space on that disk")
    if free < _PLENTY * needed:
        return warn("disk", said, "free some space before it is needed")
    return make_ok("disk", said)


def _check_sockets(home: Home) -> DoctorFinding:
    length = len(os.fsencode(make_longest_socket(home.run)))
    if length <= IPC_PATH_MAX_BYTES:
        said = f"paths of {length} bytes, at most {IPC_PATH_MAX_BYTES}"
        return make_ok("sockets", said)
    said = f"paths of {length} bytes are too long: sockets will lie in {tempfile.gettempdir()}"
    return warn("sockets", said, "a shorter --home avoids that")


def _check_keys(home: Home) -> list[DoctorFinding]:
    """Report tokens and workers that cannot be read; nothing to say where there are none."""
    fix = "restore a copy, or remove it; the workers that it names then have to join again"
    return [warn("keys", f"{path} is damaged and lets nobody in", fix) for path in list_damaged(home.keys)]


def _record(home: Home) -> list[DoctorFinding]:
    """Report whether this version reads the record at all; nothing to say where there is none."""
    try:
        fault = find_other_format(home.ledger)
    except OSError as error:
        return [fail("record", f"{home.ledger} cannot be read: {error.strerror}", "make it readable for this user")]
    return [] if fault is None else [fail("record", f"{fault.file}: {fault.what}", fault.fix)]


def _check_clock(home: Home, clock: Clock) -> DoctorFinding:
    now = clock.now()
    newest = max(
        (at.st_mtime for path in _list_files(home.ledger) if (at := _stat_or_none(path)) is not None), default=0.0
    )
    if now < _YEAR_2024:
        return fail("clock", "the clock of this machine is years behind", "set it")
    if newest > now + _CLOCK_SLACK_S:
        said = f"the clock is {newest - now:.0f} s behind the newest file of the record"
        return warn("clock", said, "set it: times in the record would go backwards")
    return make_ok("clock", "not behind the record")


def check_cluster(home: Home) -> tuple[list[DoctorFinding], RunFile | None]:
    """Return who holds the home, what an earlier run left, and, if one runs, its run file."""
    pid = find_holder(home)
    try:
        run = run_file.read(home.run_file)
    except CommandError as error:
        stale = fail("run file", error.message, format_next_command("down", home.root))
        return [stale], None
    if pid is None:
        left = list_living(run)
        if run_file.is_of_elsewhere(home.run_file):
            return [
                warn("launcher", f"no cluster runs; {run_file.OF_ELSEWHERE}", format_next_command("up", home.root))
            ], None
        if run is None:
            return [make_ok("launcher", "no cluster runs, and none was left behind")], None
        names = ", ".join(f"{row.actor} (pid {row.pid})" for row in left) or "no process"
        said = f"the launcher of an earlier run is dead; it left its run file and {names}"
        return [warn("launcher", said, format_next_command("down", home.root))], None
    if run is None or not home.snapshot.exists():
        said = f"a launcher (pid {pid}) holds this home, but its run directory is gone: nobody can reach the cluster"
        return [fail("launcher", said, format_next_command("down", home.root))], None
    fault = run_file.find_move(run, home) or run_file.find_stall(run.launcher_pid)
    found = [
        fail("launcher", fault.message, fault.hint)
        if fault
        else make_ok("launcher", f"pid {run.launcher_pid}, {run.phase}")
    ]
    if not run.zygote_pid and is_possible():
        why = "it ended before it was loaded" if run.zygote_state == "failed" else "no zygote"
        said = f"{why}: processes are started as fresh interpreters, which takes about a second each"
        fix = f"launcher.start_method, or its log: {format_next_command('logs zygote launcher', home.root)}"
        found.append(warn("zygote", said, fix))
    elif run.zygote_pid and not identity.is_alive(run.zygote_pid, run.zygote_mark):
        found.append(warn("zygote", "it has just died; it is being replaced"))
    return found, run


def check_in_force(home: Home, run: RunFile) -> list[DoctorFinding]:
    """Report whether what is configured is what runs; a configuration with faults is told of above."""
    try:
        changed = config_changed.find_changes(home, run)
    except ConfigError:
        return []
    found = [warn("configuration in force", changed.said, changed.mend)] if changed else []
    tools = Snapshot.from_bytes(home.snapshot.read_bytes()).config.tools
    for what in list_changed_beside(tools, run):
        said = f"{what} was changed after executors were started: not all of them have it"
        found.append(warn("tools in force", said, format_next_command("reload", home.root)))
    return found


def check_health(
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
    served = {_get_role(actor) for actor, state, _ in everybody if state == "ready"} | set(elsewhere)
    found: list[DoctorFinding] = []
    if not broker_answers:
        fix = format_next_command("logs broker", home.root)
        found.append(fail("broker", "it does not answer", fix))
    for actor, state, note in everybody:
        if state == "ready":
            continue
        verdict: Verdict = "fail" if state in ("failed", "lost") or _get_role(actor) not in served else "warn"
        said = f"{state}: {note}" if note else state
        if _get_role(actor) not in served:
            said = f"{said} (no {_get_role(actor)} is ready)"
        fix = _fix(actor, state, home, is_damaged=actor in damaged)
        found.append(DoctorFinding(check=actor, verdict=verdict, detail=said, fix=fix))
    if not found:
        found.append(make_ok("processes", "all are ready"))
    return found


def check_breakers(rows: Iterable[Breaker], home: Home) -> list[DoctorFinding]:
    """Return one line for each model that is left alone, tried again, or has failed more than once in a row."""
    return [
        warn(
            f"breaker {one.provider_id}/{one.model_id}",
            f"{one.state}: {_BREAKER[one.state]}, after {one.failures} faults of the provider in a row",
            format_next_command(f"provider check {one.provider_id}", home.root),
        )
        for one in rows
        if one.state != "closed" or one.failures > 1
    ]


def _get_role(actor: str) -> str:
    return actor.partition("/")[0]


def _fix(actor: str, state: str, home: Home, *, is_damaged: bool) -> str:
    logs = format_next_command(f"logs {actor}", home.root)
    if is_damaged:
        verify = format_next_command("ledger verify", home.root)
        return f"{verify} names the place; then down, and restore a copy, or as it says; {logs}"
    if state in ("failed", "stopped"):
        return f"{format_next_command(f'restart {actor}', home.root)}; {logs}"
    return logs


def _find_nearest(path: Path) -> Path:
    return next(one for one in (path, *path.parents) if one.is_dir())


def _stat_or_none(path: Path) -> os.stat_result | None:
    """Return its status; None when it is gone: a cluster may end, and files of the index come and go."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _list_files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()] if directory.is_dir() else []
