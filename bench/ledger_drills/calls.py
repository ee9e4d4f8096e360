"""Each call to the file system failed, cut short or died at: on the disk port, and on the real file system in a child."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.ledger_drills.lying_disk import LyingDisk, LyingFile, cut_power
from bench.ledger_drills.rig import SmallBus, medium, start
from bench.ledger_drills.rows import SMALL, Acked, Outcome, Row, on_disk, outcome, write_batches
from hobus.bus.disk import RealDisk
from hobus.bus.errors import LedgerError
from hobus.bus.sim.disk import SimDisk, SimMedium

FIRST, SECOND = range(7), range(7, 10)
"""Batches before and after a restart in the middle; a segment holds two or three."""
_DISK_CALLS = frozenset(
    {"open", "exists", "list", "make_dir", "rename", "remove", "sync_dir", "free_bytes", "lock"}
)  # fmt: skip
_FILE_CALLS = frozenset({"read_at", "write_at", "sync", "truncate", "size", "close"})
CHANGING = frozenset({"make_dir", "rename", "remove", "sync_dir", "write_at", "sync", "truncate"})
"""Calls that a disk refuses that was remounted read-only; and `open` to write."""

Strike = Callable[[int, str, Callable[[], None]], None]
"""Told of each call before it is made: its number, its name, and how to do a part of it. May raise, or not return."""


class WatchedDisk:
    """A disk whose every call, on itself and on its files, is numbered and may be struck."""

    def __init__(
        self, inner: Any, strike: Strike = lambda _number, _name, _partly: None, *, index_in_memory: bool = False
    ) -> None:
        self.inner = inner
        self.index_in_memory = index_in_memory
        self.strike = strike
        self.calls: list[str] = []

    def step(self, name: str, partly: Callable[[], None] = lambda: None) -> None:
        """One call."""
        self.calls.append(name)
        self.strike(len(self.calls) - 1, name, partly)

    def real_path(self, path: str) -> str | None:
        """Not a call to the file system."""
        return None if self.index_in_memory else self.inner.real_path(path)

    def __getattr__(self, name: str) -> Any:
        assert name in _DISK_CALLS, name
        return partial(self._call, name)

    def _call(self, name: str, *args: Any, **named: Any) -> Any:
        writes = name == "open" and (named.get("create", False) or named.get("write", True))
        self.step("open to write" if writes else name)
        made = getattr(self.inner, name)(*args, **named)
        return _WatchedFile(self, made) if name == "open" else made


class _WatchedFile:
    def __init__(self, disk: WatchedDisk, inner: Any) -> None:
        self._disk = disk
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        assert name in _FILE_CALLS, name
        return partial(self._call, name)

    def _call(self, name: str, *args: Any) -> Any:
        def partly() -> None:
            if name == "write_at":
                self._inner.write_at(args[0], args[1][: len(args[1]) // 2])

        self._disk.step(name, partly)
        return getattr(self._inner, name)(*args)


async def _live(disk: Any, acked: Acked, tell: Callable[[str, int], None]) -> None:
    """Start, batches over several segments, an end without goodbye and a torn batch, a start that fixes it, batches."""
    for incarnation, numbers in ((1, FIRST), (2, SECOND)):
        ledger = await start(disk, SMALL, SmallBus(instance=f"ledger/1@{incarnation}"))
        try:
            await write_batches(ledger, numbers, acked, tell)
            await ledger.bus.release()  # the index, and zeros ahead
        finally:
            ledger.service.stop()
        if incarnation == 1:
            _tear(disk.inner)


def _tear(disk: Any) -> None:
    last = disk.list("segments")[-1]
    handle = disk.open(f"segments/{last}")
    content = handle.read_at(0, handle.size())
    handle.write_at(len(content.rstrip(b"\0")) // 8 * 8 + 8, b"HOBUSLG1 and no more of its batch")
    handle.close()


def lived(disk: WatchedDisk, tell: Callable[[str, int], None] = lambda _name, _sequence: None) -> Acked:
    """What was acknowledged of that life, as far as it came. Only refusals and errors of the disk may end it."""
    acked = Acked()
    with suppress(LedgerError, OSError):
        asyncio.run(_live(disk, acked, tell))
    return acked


def _count() -> list[str]:
    disk = WatchedDisk(SimDisk(medium()))
    assert len(lived(disk)) == 2 * (len(FIRST) + len(SECOND))
    return disk.calls


def _failing(fault: Fault, at: int) -> Strike:
    """Call `at` fails, behind half of it if it is a write; the later ones too if it is for good."""

    def strike(number: int, name: str, partly: Callable[[], None]) -> None:
        due = number >= at if fault.for_good else number == at
        if due and (
            fault.only is None or name in fault.only or (name == "open to write" and fault.error == errno.EROFS)
        ):
            with suppress(OSError):
                partly()
            raise OSError(fault.error, os.strerror(fault.error))

    return strike


class Fault(NamedTuple):
    """How calls fail."""

    name: str
    error: int
    only: frozenset[str] | None  # these calls; None: every one
    for_good: bool  # that call and all later ones; else that one alone


FAULTS = (
    Fault("each call fails once (EIO)", errno.EIO, None, for_good=False),
    Fault("each call fails, and all after it (EIO)", errno.EIO, None, for_good=True),
    Fault(
        "the disk is full from each write on (ENOSPC)", errno.ENOSPC, frozenset({"write_at", "make_dir"}), for_good=True
    ),
    Fault("each write alone finds no space (ENOSPC)", errno.ENOSPC, frozenset({"write_at"}), for_good=False),
    Fault("remounted read-only at each call (EROFS)", errno.EROFS, CHANGING, for_good=True),
)


def failed(fault: Fault, *, full: bool) -> Row:
    """Every call, with what was not synced kept (the process died) and lost (the power was cut)."""
    calls, row = _count(), Row(fault.name, "none")
    for at in range(0, len(calls), 1 if full else 5):
        if fault.only is not None and calls[at] not in fault.only and not fault.for_good:
            continue
        for power_cut in (False, True):
            device = medium()
            disk = SimDisk(device)
            acked = lived(WatchedDisk(disk, _failing(fault, at)))
            disk.kill()
            found = _after(device, acked, power_cut=power_cut)
            row.count(found, ("whole", "repaired"), f"{calls[at]} {at}, power cut: {power_cut}")
    return row


def _after(device: SimMedium, acked: Acked, *, power_cut: bool) -> Outcome:
    if power_cut:
        device.crash()
    return asyncio.run(outcome(SimDisk(device), acked, instance="ledger/1@3"))


def lying(*, full: bool) -> Row:
    """Each sync fails and leaves the pages marked clean; the next start acknowledges; then the power is cut."""
    row = Row("each sync fails behind a page cache that lies", "none")
    syncs = sum(name == "sync" for name in _count())
    for at in range(0, syncs, 1 if full else 3):
        files: dict[str, LyingFile] = {}
        disk, left = WatchedDisk(LyingDisk(files)), at

        def strike(_number: int, name: str, _partly: Callable[[], None], disk: WatchedDisk = disk) -> None:
            nonlocal left
            if name == "sync":
                disk.inner.fail_next_sync = left == 0
                left -= 1

        disk.strike = strike
        acked = lived(disk)
        first = asyncio.run(outcome(LyingDisk(files), acked, instance="ledger/1@3"))
        row.count(first, ("whole", "repaired"), f"sync {at}, page cache")
        cut_power(files)
        row.count(
            asyncio.run(outcome(LyingDisk(files), acked, instance="ledger/1@4")), ("whole", "repaired"), f"sync {at}"
        )
    return row


def killed(folder: Path, *, full: bool) -> Row:
    """A child on the real file system, SIGKILLed at each call; half of a write may have been made."""
    calls = _in_child(folder / "whole", lambda number, _name, _partly: None)
    row = Row("SIGKILL at each call, real file system", "whole")
    for at in range(0, calls[1], 1 if full else 12):

        def strike(number: int, _name: str, partly: Callable[[], None], at: int = at) -> None:
            if number == at:
                partly()
                os.kill(os.getpid(), signal.SIGKILL)

        acked, _ = _in_child(folder / "case", strike)
        row.count(on_disk(folder / "case", acked), ("whole", "repaired"), f"call {at}")
    return row


def limited(folder: Path, *, full: bool) -> Row:
    """The kernel cuts real writes short: no file of the child may be larger than so many bytes (RLIMIT_FSIZE)."""
    row = Row("real short writes: each file size that the kernel will not exceed", "none")
    for size in range(0, SMALL.segment_bytes + 1_024, 8 if full else 512):

        def limit(size: int = size) -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

        acked, _ = _in_child(folder / "case", lambda _number, _name, _partly: None, before=limit, index_in_memory=True)
        row.count(on_disk(folder / "case", acked), ("whole", "repaired"), f"{size} bytes")
    return row


def _in_child(
    path: Path, strike: Strike, before: Callable[[], None] = lambda: None, *, index_in_memory: bool = False
) -> tuple[Acked, int]:
    """What a forked child had acknowledged when it ended, and the number of its calls if it ended by itself."""
    shutil.rmtree(path, ignore_errors=True)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        before()
        _be_child(WatchedDisk(RealDisk(path), strike, index_in_memory=index_in_memory), writing)
    os.close(writing)
    with open(reading, encoding="ascii") as told:  # noqa: PTH123 - a descriptor
        lines = told.read().splitlines(keepends=True)
    os.waitpid(child, 0)
    words = [line.split() for line in lines if line.endswith("\n")]
    acked = Acked({name: int(number) for name, number in words if name != "calls"})
    return acked, next((int(number) for name, number in words if name == "calls"), -1)


def _be_child(disk: WatchedDisk, writing: int) -> None:
    try:
        lived(disk, lambda name, sequence: _say(writing, name, sequence))
        _say(writing, "calls", len(disk.calls))
    finally:
        os._exit(0)


def _say(descriptor: int, name: str, number: int) -> None:
    os.write(descriptor, f"{name} {number}\n".encode())
