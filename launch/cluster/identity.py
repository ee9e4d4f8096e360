"""Which operating system process a pid means: pids are reused, so each is kept together with its start mark.

What names processes bears the mark of its directory besides, so that a copy of it names none.
"""

from __future__ import annotations

import functools
import importlib
import os
import platform
import signal
from pathlib import Path

_HAS_PROC = Path("/proc/self/stat").exists()


def start_mark(pid: int) -> str | None:
    """Return a text that no other process with this pid will ever have; None when there is no such living process."""
    if pid <= 0:
        return None
    if _HAS_PROC:
        return _read_linux_mark(pid)
    psutil = importlib.import_module("psutil")  # only where there is no /proc: a launcher stays without it
    try:
        return f"created:{psutil.Process(pid).create_time():.2f}"
    except psutil.Error:
        return None


def _read_linux_mark(pid: int) -> str | None:
    """Return boot id and start time in ticks since boot: changes of the wall clock touch neither."""
    try:
        fields, boot = _read_stat(pid), _boot()
    except OSError:
        return None
    if fields[0] in (b"Z", b"X"):
        return None
    return f"{boot}:{fields[19].decode()}"


def make_directory_mark(directory: Path) -> str:
    """Return a text that no copy of this directory has, nor the same one after another boot or on another machine.

    Raises OSError.
    """
    found = directory.stat()
    boot = _boot() if _HAS_PROC else f"{platform.node()}:{importlib.import_module('psutil').boot_time():.0f}"
    return f"{boot}:{found.st_dev:x}:{found.st_ino:x}"


@functools.cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_bytes().decode().strip()


def _read_stat(pid: int) -> list[bytes]:
    """Return what the kernel says of this process, from its state on. Raises OSError."""
    stat = Path(f"/proc/{pid}/stat").read_bytes()
    # The command name may hold spaces and parentheses; fields count from behind the last one.
    return stat[stat.rindex(b")") + 2 :].split()


def is_alive(pid: int, mark: str) -> bool:
    return bool(mark) and start_mark(pid) == mark


def is_stopped(pid: int) -> bool:
    """Return whether every thread of this process stands still after a SIGSTOP."""
    if _HAS_PROC:
        try:
            return _read_stat(pid)[0] == b"T"
        except OSError:
            return False
    psutil = importlib.import_module("psutil")
    try:
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except psutil.Error:
        return False


def end(pid: int, mark: str, sig: signal.Signals) -> bool:
    """Signal that very process; return False when it is gone (another process with its pid is never touched)."""
    if not is_alive(pid, mark):
        return False
    try:
        os.kill(pid, sig)
    except ProcessLookupError:
        return False
    return True


def list_children() -> list[int]:
    psutil = importlib.import_module("psutil")
    return [child.pid for child in psutil.Process().children()]
