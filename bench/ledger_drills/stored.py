"""Harm done to what is stored: tears, flipped bits, segments that are swapped, foreign, missing or cut."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from itertools import combinations, permutations
from pathlib import Path

from bench.ledger_drills.rig import Acked, Outcome, Row, made, medium, on_disk, outcome
from hobus.bus.disk import RealDisk
from hobus.bus.errors import LedgerError
from hobus.bus.sim.disk import SimDisk, SimMedium
from hobus.ledger_service.frame import MAGIC
from hobus.ledger_service.mask import SECTOR_BYTES
from hobus.ledger_service.opening import INDEX, discard_index
from hobus.ledger_service.recovery import recover
from hobus.ledger_service.segment import SegmentFiles

BATCHES = 6
Changed = dict[str, bytes | None]  # segment -> what stands in its place; None: nothing


def _bytes(device: SimMedium) -> dict[str, bytes]:
    return {name: bytes(file.content) for name, file in device.files.items()}


def _device(files: dict[str, bytes]) -> SimDisk:
    device = medium()
    disk = SimDisk(device)
    disk.make_dir("segments")
    for name, content in files.items():
        disk.open(name, create=True).write_at(0, content)
    return disk


def _tears(content: bytes, step: int) -> Iterator[tuple[str, bytes]]:
    """Each prefix, zero-filled and cut; each set of sectors that did not arrive."""
    start, end = content.rfind(MAGIC), len(content.rstrip(b"\0"))  # of the last batch
    for tear in range(start + 1, end, step):
        yield f"torn at byte {tear}", content[:tear] + bytes(len(content) - tear)
        yield f"cut at byte {tear}", content[:tear]
    begins = range(start - start % SECTOR_BYTES, end, SECTOR_BYTES)
    sectors = [(max(start, at), min(at + SECTOR_BYTES, end)) for at in begins]
    for count in range(1, len(sectors)):
        for lost in combinations(sectors, count):
            state = bytearray(content)
            for first, last in lost:
                state[first:last] = bytes(last - first)
            yield f"without sectors at {lost}", bytes(state)


def torn_without_index(*, full: bool) -> Row:
    """Every byte of the last batch, of records whose last batch is text, zeros, or alone in its segment."""
    row = Row("torn tail, every byte and set of sectors", "none")
    for batches in (2, 4, BATCHES) if full else (2,):
        device = medium()
        acked = asyncio.run(made(SimDisk(device), batches))
        files = _bytes(device)
        last = max(files)
        lacking = Acked(list(acked.items())[:-2])
        for what, content in _tears(files[last], 1 if full else 13):
            found = asyncio.run(outcome(_device({**files, last: content}), lacking))
            row.count(found, ("repaired",), f"{batches} batches, {what}")
    return row


def torn_with_index(folder: Path, *, full: bool) -> Row:
    """An index that knows of the batch: it was acknowledged, so the start refuses. One that does not: set aside."""
    row = Row("torn tail, every byte and set of sectors", "whole; one batch behind")
    whole, behind = folder / "whole", folder / "behind"
    asyncio.run(made(RealDisk(behind), 3))
    shutil.copytree(behind, whole)
    lacking = Acked(list(asyncio.run(made(RealDisk(whole), 4)).items())[:-2])
    last = max((whole / "segments").iterdir()).name
    content = (whole / "segments" / last).read_bytes()
    templates: list[tuple[Path, Outcome]] = [(whole, "refused"), (behind, "repaired")]
    for what, state in _tears(content, 1 if full else 40):
        for template, expected in templates:
            case = _copy(template, folder / "case")
            (case / "segments" / last).write_bytes(state)
            row.count(on_disk(case, lacking), (expected,), f"index {template.name}, {what}")
    return row


def flips_without_index(*, full: bool) -> Row:
    """Every bit of the last segment's batches, every byte of the others and of the zeros behind them."""
    row = Row("a flipped bit: every bit of the last segment" if full else "a flipped bit, a sample", "none")
    for batches in (2, 4, BATCHES - 1) if full else (BATCHES - 1,):
        device = medium()
        acked = asyncio.run(made(SimDisk(device), batches))
        files = _bytes(device)
        for name, content in files.items():
            end = len(content.rstrip(b"\0")) if name == max(files) else len(content)
            for bit, is_committed in _bits(len(content), end, every=name == max(files), full=full):
                found = _without_index({**files, name: _flipped(content, bit)}, acked)
                row.count(found, ("refused",) if is_committed else ("repaired",), f"{batches}, {name}, bit {bit}")
    return row


def _bits(size: int, committed: int, *, every: bool, full: bool) -> Iterator[tuple[int, bool]]:
    step = (1 if every else 9) if full else (29 if every else 135)
    yield from ((bit, True) for bit in range(0, committed * 8, step))
    yield from ((bit, False) for bit in range(committed * 8, size * 8, 9 if full else 135))


def _without_index(files: dict[str, bytes], acked: Acked) -> Outcome:
    """As a start without an index, which first looks at the last segment alone: most are refused there."""
    disk = _device(files)
    try:
        recover(disk, SegmentFiles(disk), [])
    except LedgerError:
        return "refused"
    return asyncio.run(outcome(_device(files), acked))


def flips_with_index(folder: Path, *, full: bool) -> Row:
    """The start reads the last segment alone; what it does not read, `verify` tells, and no read gives it out."""
    row = Row("a flipped bit: one of every byte" if full else "a flipped bit, a sample", "whole")
    template = folder / "template"
    acked = asyncio.run(made(RealDisk(template), 5))
    paths = sorted((template / "segments").iterdir())
    for path in paths:
        content = path.read_bytes()
        committed = len(content.rstrip(b"\0")) if path == paths[-1] else len(content)
        for byte in range(0, len(content), 1 if full else 90):
            case = _copy(template, folder / "case")
            (case / "segments" / path.name).write_bytes(_flipped(content, byte * 8 + byte % 8))
            expected: tuple[Outcome, ...] = ("refused", "told") if byte < committed else ("repaired",)
            row.count(on_disk(case, acked), expected, f"{path.name}, byte {byte}")
    return row


def flips_of_index(folder: Path, *, full: bool) -> Row:
    """The index is a cache: it is thrown away, or right, or the ledger stops rather than believe it."""
    row = Row("a flipped bit of `index.sqlite`: of every fourth byte" if full else "a flipped bit, a sample", "damaged")
    template = folder / "template"
    acked = asyncio.run(made(RealDisk(template), BATCHES))
    content = (template / INDEX).read_bytes()
    for byte in range(0, len(content), 4 if full else 997):
        case = _copy(template, folder / "case")
        (case / INDEX).write_bytes(_flipped(content, byte * 8 + byte // 4 % 8))
        found = asyncio.run(outcome(RealDisk(case), acked))
        row.count(found, ("whole", "refused"), f"byte {byte}")
    return row


def _flipped(content: bytes, bit: int) -> bytes:
    state = bytearray(content)
    state[bit // 8] ^= 1 << bit % 8
    return bytes(state)


def segments(folder: Path, *, with_index: bool, full: bool = True) -> Row:
    """Swapped, foreign under the same name, copied over another, removed, renamed, cut between batches."""
    row = Row("segments swapped, foreign, removed, renamed, cut", "whole" if with_index else "none")
    own, foreign = folder / "own", folder / "foreign"
    acked = asyncio.run(made(RealDisk(own), BATCHES))
    asyncio.run(made(RealDisk(foreign), BATCHES, ids="ffffffff"))
    if not with_index:
        discard_index(RealDisk(own))
    names = sorted(path.name for path in (own / "segments").iterdir())
    assert names == sorted(path.name for path in (foreign / "segments").iterdir())
    assert len(names) > 2
    for what, changed in _changes(own / "segments", foreign / "segments", names, with_index=with_index):
        case = _copy(own, folder / "case")
        for name, content in changed.items():
            path = case / "segments" / name
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content)
        row.count(on_disk(case, acked), ("refused", "told"), what)
    return row


def _changes(own: Path, foreign: Path, names: list[str], *, with_index: bool) -> Iterator[tuple[str, Changed]]:
    content = {name: (own / name).read_bytes() for name in names}
    alien = {name: (foreign / name).read_bytes() for name in names}
    for one, other in combinations(names, 2):
        yield f"{one} and {other} swapped", {one: content[other], other: content[one]}
    for one, other in permutations(names, 2):
        yield f"{one} in place of {other}", {other: content[one]}
    for count in range(1, len(names) + with_index):
        for some in combinations(names, count):
            yield f"foreign {', '.join(some)}", {name: alien[name] for name in some}
    for name in names if with_index else names[:-1]:  # without index nothing tells that the last one ever was
        yield f"{name} removed", {name: None}
        yield f"{name} empty", {name: b""}
        cut = content[name].rfind(MAGIC)
        if cut > 0:
            yield f"{name} cut between batches", {name: content[name][:cut]}
            yield f"{name} without its last batch", {name: content[name][:cut] + bytes(len(content[name]) - cut)}
    for name in names[1:]:
        later: Changed = {f"{int(name[:20]) + 1:020d}.seg": content[name]}
        yield f"{name} under a later number", {name: None, **later}
        yield f"a second file behind {name}", later


def _copy(template: Path, path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    return Path(shutil.copytree(template, path))
