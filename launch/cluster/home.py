"""The state directory of one cluster: where everything lies, who holds it, and what is swept away.

<home>/config/   a user's own governed files (replace shipped and installed ones one by one)
<home>/packages/ installed packages, and the pointer that says which are in force
<home>/lock      held by the launcher
<home>/run/      mode 0700: run.json, snapshot, tokens, sockets; gone after `down`
<home>/logs/     one file of JSON lines per actor
<home>/ledger/   the record
<home>/spool/    what a service keeps on disk until the ledger takes it
<home>/keys/     mode 0700: the broker's key, join tokens, workers on other hosts, typed keys of providers
<home>/chat_history  mode 0600: what was typed into `hobus chat`
<home>/.hobus-home   says that this is a home, a worker's too, whatever else lies in it: no agent reads files here; and
                     whose it is: an id drawn once, and where it lay when it was last held

"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from hobus.bus.clock import SystemClock
from hobus.launch.cluster import identity
from hobus.launch.console.errors import RefusedFault

IPC_PATH_MAX_BYTES = 107
"""`sockaddr_un.sun_path` holds 108 bytes with its closing zero (Linux)."""

_LONGEST_SOCKET_NAME = "gateway.sock"
_PRIVATE = 0o700
_MARK = ".hobus-home"
_MARK_SAYS = "A home of hobus: no agent reads files in this directory.\n"
_WORKER_KEY = "worker.key"
_OTHERS = 0o077
_OF_OLDER_HOMES = (("ledger", "logs", "spool"), (_WORKER_KEY,), ("keys/broker.key",), ("keys/http.secret",))
"""What lies in a home that no hobus with marks has started: a cluster's, a worker's, copies of them."""
_IGNORED = """\
# Made by hobus: record, logs and keys are not for version control. What somebody writes into config/ may be.
/*
!/config/
/config/.*
"""


class Home:
    """Paths below one state directory; making one touches nothing."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.config = root / "config"  # a user's own governed files
        self.packages = root / "packages"  # what was installed
        self.ledger = root / "ledger"  # the record
        self.logs = root / "logs"
        self.spool = root / "spool"  # what waits for the ledger
        self.keys = root / "keys"  # who may connect from elsewhere
        self.chat_history = root / "chat_history"
        self.lock_file = root / "lock"
        """Held by the launcher; not in `run/`, so that a cluster whose `run/` somebody removed is still known."""
        self.run = root / "run"  # exists only while the cluster runs
        self.run_file = self.run / "run.json"
        self.snapshot = self.run / "snapshot"  # the frozen configuration's bytes
        self.listening = self.run / "listening"
        """Where the broker of this run listens for other hosts, so that its successor binds the same port."""
        self.http = self.run / "http"
        """Where the HTTP doors of this run listen; written by the first one, so that the others bind the same port."""
        self.offered_console = self.run / "console"
        """Where the console of this run is to be had."""
        self.links = self.run / "links"
        """Hashes of the words that sign people in there."""

    def offered(self, digest: str) -> Path:
        """Return where a configuration lies that a run is to go over to, for the launcher to take."""
        return self.run / f"snapshot-{digest.replace(':', '-')}"

    def log(self, actor: str) -> Path:
        """Return the log file of an actor: `ho1/2` logs to `ho1-2.log`."""
        return self.logs / f"{actor.replace('/', '-')}.log"

    def bound(self, *, http: bool = False) -> str:
        """Return where the broker (or the HTTP doors) of this run listens, with port; empty: nowhere, or not yet."""
        with suppress(OSError):
            return (self.http if http else self.listening).read_text(encoding="ascii").strip()
        return ""


def make_home(path: Path) -> Home:
    return Home(path.expanduser().absolute())


def prepare(home: Home) -> None:
    """Make all directories; `run` is private. Raises OSError."""
    for directory in (home.run, home.logs, home.ledger, home.spool):
        make_private(directory)
        directory.chmod(_PRIVATE)  # also if somebody else had made it


def keep_snapshot(home: Home, data: bytes) -> None:
    """Write the snapshot for whoever starts from now on; nobody reads half of it. Raises OSError."""
    beside = home.snapshot.with_name(f"{home.snapshot.name}.new")
    beside.write_bytes(data)
    beside.replace(home.snapshot)


def make_private(directory: Path) -> None:
    """Make the directory, and the home above it, for this user alone, unless they are there. Raises OSError."""
    make_root(directory.parent)
    directory.mkdir(mode=_PRIVATE, exist_ok=True)


def make_root(root: Path) -> None:
    """Make a home for this user alone, whose content no version control takes, unless it is there. Raises OSError."""
    if root.is_dir():
        return
    root.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
    ignored = root / ".gitignore"
    try:
        ignored.write_text(_IGNORED, encoding="utf-8")
    except OSError:
        ignored.unlink(missing_ok=True)
        with suppress(OSError):
            root.rmdir()  # who comes next makes it whole
        raise
    _mark(root)


def _mark(root: Path) -> None:
    if not (root / _MARK).exists():
        (root / _MARK).write_text(_MARK_SAYS, encoding="utf-8")


class Claim(NamedTuple):
    """What a home is beside the one that it was when it was last held."""

    lay_at: Path | None
    """Where that one lay, if it was elsewhere."""
    is_copy: bool
    """It still lies there."""


def claim(home: Home, *, may_be_copy: bool = True) -> Claim:
    """Claim what lies here as the home: another one, where it is a copy of one that is still there.

    One that was moved, or restored where the former is gone, stays the same; a copy that may be none stays a copy. The
    caller holds the lock. Raises OSError.
    """
    own_id, lay_at = _read_mark(home.root)
    former = Path(lay_at) if lay_at else home.root
    is_elsewhere = not (former.is_dir() and former.samefile(home.root))
    is_copy = is_elsewhere and _read_mark(former)[0] == own_id
    if may_be_copy or not is_copy:
        own_id = (not is_copy and own_id) or SystemClock().new_id()
        (home.root / _MARK).write_text(f"{_MARK_SAYS}{own_id} {home.root}\n", encoding="utf-8")
    return Claim(former if is_elsewhere else None, is_copy)


def _read_mark(root: Path) -> tuple[str, str]:
    """Return id and path; both empty where no mark says so."""
    try:
        text = (root / _MARK).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", ""
    own_id, _, lay_at = text.removeprefix(_MARK_SAYS).strip().partition(" ")
    return own_id, lay_at


def is_worker(root: Path) -> bool:
    return (root / _WORKER_KEY).exists()


def is_home(directory: Path) -> bool:
    """Return whether this is a home, a cluster's or a worker's: by its mark, by what older ones hold, or by keys."""
    if directory.name == "keys" and directory.is_dir() and not directory.stat().st_mode & _OTHERS:
        return True
    return any(all((directory / name).exists() for name in names) for names in ((_MARK,), *_OF_OLDER_HOMES))


class HomeLock:
    """Held by the launcher for as long as it lives; the kernel gives it back when the process dies."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    @classmethod
    def take(cls, home: Home) -> HomeLock | None:
        """Return the lock, or None if somebody has it. Raises OSError."""
        make_root(home.root)
        _mark(home.root)  # also a directory that was there before
        file = home.lock_file.open("a+", encoding="utf-8")
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()} {identity.start_mark(os.getpid())} {home.root.stat().st_ino}")
        file.flush()
        return cls(file)

    def is_replaced(self, home: Home) -> bool:
        """Return whether another directory lies at the home's path: a backup that was restored there, or the like."""
        try:
            return not os.path.samestat(home.lock_file.stat(), os.fstat(self._file.fileno()))
        except OSError:
            return False

    def release(self) -> None:
        self._file.close()


class Holder(NamedTuple):
    """The process that holds a home; pid 0 if it did not say yet."""

    pid: int
    mark: str
    inode: int


def find_holder(home: Home) -> int | None:
    """Return the pid of the launcher that holds this home, 0 if it did not say yet, None if nobody does.

    Raises as `held_by`.
    """
    held = find_lock_holder(home)
    return held.pid if held is not None else None


def find_lock_holder(home: Home) -> Holder | None:
    """Return who holds the home's lock. Raises CommandError where it is on another directory through a hard link."""
    try:
        file = home.lock_file.open("r", encoding="utf-8")
    except OSError:
        return None
    with file:
        try:
            # A shared lock is refused exactly while a launcher has the exclusive one, and disturbs nobody.
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            pid, _, rest = file.read().strip().partition(" ")
        else:
            return None
    if not pid.isdigit():
        return Holder(0, "", 0)
    mark, _, inode = rest.rpartition(" ")
    if inode != str(home.root.stat().st_ino):
        raise RefusedFault(
            f"{home.root} shares its files with another home, which is in use (pid {pid}): they are hard links",
            hint="a copy without hard links is a home of its own: cp -a",
        )
    return Holder(int(pid), mark, int(inode))


def choose_sockets_directory(home: Home) -> Path:
    """Return where sockets lie: `run/`, or a new private directory when that path is too long for a socket.

    Raises OSError.
    """
    if _fits(home.run):
        return home.run
    for parent in (Path(tempfile.gettempdir()), Path("/tmp")):  # noqa: S108 - mkdtemp makes a private directory in it
        if _fits(parent / "hobus-12345678"):
            return Path(tempfile.mkdtemp(prefix="hobus-", dir=parent))
    raise OSError(36, "no directory with a path short enough for a socket", str(home.run))


def make_longest_socket(directory: Path) -> Path:
    return directory / _LONGEST_SOCKET_NAME


def _fits(directory: Path) -> bool:
    return len(os.fsencode(make_longest_socket(directory))) <= IPC_PATH_MAX_BYTES


def sweep(home: Home, sockets: Path | None) -> None:
    """Remove what the last run left: run file, snapshot, tokens, sockets. Record, logs and the lock stay."""
    if sockets is not None and sockets != home.run:
        shutil.rmtree(sockets, ignore_errors=True)
    with suppress(OSError):
        for path in home.run.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def remove_run(home: Home) -> None:
    """Remove the run directory itself; called last, by the launcher that holds it."""
    shutil.rmtree(home.run, ignore_errors=True)
