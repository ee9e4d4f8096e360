"""Which operating system process a pid means: pids are reused, so each is kept together with its start mark."""

from __future__ import annotations

import importlib
import os
import signal
from pathlib import Path


def start_mark(pid: int) -> str | None:
    """A text that no other process with this pid will ever have; None when there is no such living process."""
    if pid <= 0:
        return None
    if Path("/proc/self/stat").exists():
        return _linux_mark(pid)
    psutil = importlib.import_module("psutil")  # only where there is no /proc
    try:
        return f"created:{psutil.Process(pid).create_time():.2f}"
    except psutil.Error:
        return None


def _linux_mark(pid: int) -> str | None:
    """Boot id and start time in clock ticks since boot: both are untouched by changes of the wall clock."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
    # The command name may hold spaces and parentheses; fields count from behind the last one.
    fields = stat[stat.rindex(")") + 2 :].split()
    if fields[0] in ("Z", "X"):
        return None
    return f"{boot}:{fields[19]}"


def is_alive(pid: int, mark: str) -> bool:
    """Whether the very process that had this mark still lives."""
    return bool(mark) and start_mark(pid) == mark


def is_stopped(pid: int) -> bool:
    """Whether every thread of this process stands still after a SIGSTOP."""
    psutil = importlib.import_module("psutil")
    try:
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except psutil.Error:
        return False


def end(pid: int, mark: str, sig: signal.Signals) -> bool:
    """Signals that very process; False when it is gone (another process with its pid is never touched)."""
    if not is_alive(pid, mark):
        return False
    try:
        os.kill(pid, sig)
    except ProcessLookupError:
        return False
    return True


def children() -> list[int]:
    """The pids of this process's own children."""
    psutil = importlib.import_module("psutil")
    return [child.pid for child in psutil.Process().children()]
