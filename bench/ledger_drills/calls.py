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

from bench.ledger_drills import rig
from hobus.bus.disk import RealDisk
from hobus.bus.errors import LedgerError
from hobus.bus.sim.disk import SimDisk

FIRST, SECOND = range(7), range(7, 10)  # batches before and after a restart in the middle; a segment holds two or three
CHANGING = frozenset({"make_dir", "rename", "remove", "sync_dir", "write_at", "sync", "truncate"})
"""Calls that a disk refuses that was remounted read-only; and `open` to write."""

Strike = Callable[[int, str, Callable[[], None]], None]
"""Told of each call before it is made: its number, its name, and how to do a part of it. May raise, or not return."""


class WatchedDisk:
    """A disk whose every call, on itself and on its files, is numbered and may be struck."""

    def __init__(self, inner: Any, strike: Strike = lambda *_: None, *, index_in_memory: bool = False) -> None:
        self.inner = inner
        self.index_in_memory = index_in_memory
        self.strike = strike
        self.calls: list[str] = []

    def step(self, name: str, partly: Callable[[], None] = lambda: None) -> None:
        self.calls.append(name)
        self.strike(len(self.calls) - 1, name, partly)

    def real_path(self, path: str) -> str | None:
        return None if self.index_in_memory else self.inner.real_path(path)

    def __getattr__(self, name: str) -> Any:
        return partial(self._call, self.inner, name)

    def _call(self, on: Any, name: str, *args: Any, **named: Any) -> Any:
        writes = name == "open" and (named.get("create", False) or named.get("write", True))
        half = partial(on.write_at, args[0], args[1][: len(args[1]) // 2]) if name == "write_at" else lambda: None
        self.step("open to write" if writes else name, half)
        made = getattr(on, name)(*args, **named)
        return _WatchedFile(partial(self._call, made)) if name == "open" else made


class _WatchedFile:
    def __init__(self, call: Callable[..., Any]) -> None:
        self._made = call

    def __getattr__(self, name: str) -> Any:
        return partial(self._made, name)


async def _live(disk: Any, acked: rig.Acked, tell: Callable[[str, int], None]) -> None:
    """Start, batches over several segments, an end without goodbye and a torn batch, a start that fixes it, batches."""
    for incarnation, numbers in ((1, FIRST), (2, SECOND)):
        ledger = await rig.start(disk, rig.SMALL, rig.SmallBus(instance=f"ledger/1@{incarnation}"))
        try:
            await rig.write_batches(ledger, numbers, acked, tell)
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


def lived(disk: WatchedDisk, tell: Callable[[str, int], None] = lambda *_: None) -> rig.Acked:
    """What was acknowledged of that life, as far as it came. Only refusals and errors of the disk may end it."""
    acked = rig.Acked()
    with suppress(LedgerError, OSError):
        asyncio.run(_live(disk, acked, tell))
    return acked


def _count() -> list[str]:
    disk = WatchedDisk(SimDisk(rig.medium()))
    assert len(lived(disk)) == 2 * (len(FIRST) + len(SECOND))
    return disk.calls


class Fault(NamedTuple):
    name: str
    error: int
    only: frozenset[str] | None  # these calls; None: every one
    for_good: bool  # that call and all later ones; else that one alone

    def strike(self, at: int) -> Strike:
        """Call `at` fails, behind half of it if it is a write; the later ones too if it is for good."""

        def strike(number: int, name: str, partly: Callable[[], None]) -> None:
            is_due = number >= at if self.for_good else number == at
            is_write = name == "open to write" and self.error == errno.EROFS
            if is_due and (self.only is None or name in self.only or is_write):
                with suppress(OSError):
                    partly()
                raise OSError(self.error, os.strerror(self.error))

        return strike


WRITES = frozenset({"write_at"})
FAULTS = (
    Fault("each call fails once (EIO)", errno.EIO, None, for_good=False),
    Fault("each call fails, and all after it (EIO)", errno.EIO, None, for_good=True),
    Fault("the disk is full from each write on (ENOSPC)", errno.ENOSPC, WRITES | {"make_dir"}, for_good=True),
    Fault("each write alone finds no space (ENOSPC)", errno.ENOSPC, WRITES, for_good=False),
    Fault("remounted read-only at each call (EROFS)", errno.EROFS, CHANGING, for_good=True),
)
KEPT: tuple[rig.Outcome, ...] = ("whole", "repaired")


def failed(fault: Fault, *, full: bool) -> rig.Row:
    """Every call, with what was not synced kept (the process died) and lost (the power was cut)."""
    calls, row = _count(), rig.Row(fault.name, "none")
    for at in range(0, len(calls), 1 if full else 9):
        if fault.only is not None and calls[at] not in fault.only and not fault.for_good:
            continue
        for power_cut in (False, True):
            device = rig.medium()
            disk = SimDisk(device)
            acked = lived(WatchedDisk(disk, fault.strike(at)))
            disk.kill()
            if power_cut:
                device.crash()
            found = asyncio.run(rig.outcome(SimDisk(device), acked, instance="ledger/1@3"))
            row.count(found, KEPT, f"{calls[at]} {at}, power cut: {power_cut}")
    return row


def lying(*, full: bool) -> rig.Row:
    """Each sync fails and leaves the pages marked clean; the next start acknowledges; then the power is cut."""
    row = rig.Row("each sync fails behind a page cache that lies", "none")
    syncs = sum(name == "sync" for name in _count())
    for at in range(0, syncs, 1 if full else 3):
        files: dict[str, rig.LyingFile] = {}
        disk, left = WatchedDisk(rig.LyingDisk(files)), at

        def strike(_number: int, name: str, _partly: Callable[[], None], disk: WatchedDisk = disk) -> None:
            nonlocal left
            if name == "sync":
                disk.inner.fail_next_sync = left == 0
                left -= 1

        disk.strike = strike
        acked = lived(disk)
        for instance in ("ledger/1@3", "ledger/1@4"):
            found = asyncio.run(rig.outcome(rig.LyingDisk(files), acked, instance=instance))
            row.count(found, KEPT, f"sync {at}, {instance}")
            rig.cut_power(files)
    return row


def killed(folder: Path, *, full: bool) -> rig.Row:
    """A child on the real file system, SIGKILLed at each call; half of a write may have been made."""
    calls = _in_child(folder / "whole", lambda number, _name, _partly: None)
    row = rig.Row("SIGKILL at each call, real file system", "whole")
    for at in range(0, calls[1], 1 if full else 12):

        def strike(number: int, _name: str, partly: Callable[[], None], at: int = at) -> None:
            if number == at:
                partly()
                os.kill(os.getpid(), signal.SIGKILL)

        acked, _ = _in_child(folder / "case", strike)
        row.count(rig.on_disk(folder / "case", acked), KEPT, f"call {at}")
    return row


def limited(folder: Path, *, full: bool) -> rig.Row:
    """The kernel cuts real writes short: no file of the child may be larger than so many bytes (RLIMIT_FSIZE)."""
    row = rig.Row("real short writes: each file size that the kernel will not exceed", "none")
    for size in range(0, rig.SMALL.segment_bytes + 1_024, 8 if full else 512):

        def limit(size: int = size) -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

        acked, _ = _in_child(folder / "case", lambda *_: None, before=limit, index_in_memory=True)
        row.count(rig.on_disk(folder / "case", acked), KEPT, f"{size} bytes")
    return row


def _in_child(
    path: Path, strike: Strike, before: Callable[[], None] = lambda: None, *, index_in_memory: bool = False
) -> tuple[rig.Acked, int]:
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
    acked = rig.Acked({name: int(number) for name, number in words if name != "calls"})
    return acked, next((int(number) for name, number in words if name == "calls"), -1)


def _be_child(disk: WatchedDisk, writing: int) -> None:
    def say(name: str, number: int) -> None:
        os.write(writing, f"{name} {number}\n".encode())

    try:
        lived(disk, say)
        say("calls", len(disk.calls))
    finally:
        os._exit(0)
