"""Checks every byte of a ledger's directory, without a running ledger or beside one.

Checked: the chain over the exact stored bytes, every CRC, every salted body hash, that sequence numbers and segments
follow each other without a gap, that ledger time never decreases, that nothing is gone that the index, where there is
one, knows to be acknowledged, and that the index itself is whole. What a start would fix (a torn batch, strays in the
zeros behind the last one) is told and is no fault: the scan is that of recovery, so that both agree.
What it cannot see without a signed checkpoint: a ledger rewritten from some entry on, or cut after one, if the index
was rewritten with it or removed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hobus.ledger_service.frame import GENESIS, HEADER_BYTES, hash_salted, read_header
from hobus.ledger_service.index import FILE, Position, read_fault, read_obstacle, read_positions
from hobus.ledger_service.recovery import decode_all
from hobus.ledger_service.scan import TRIES_BESIDE_WRITER, Damage, Whole, demand_format, walk
from hobus.ledger_service.segment import DIRECTORY, name_segment, parse_segment_name
from hobus.ledger_service.source import RESTORE, OtherFormat, Source, open_segment_file


class VerifyFault(NamedTuple):
    """The first fault."""

    file: str
    byte: int
    sequence: int | None
    what: str
    fix: str = ""  # empty where `what` says it
    is_other_format: bool = False  # nothing is damaged: another version of this software wrote it


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a verification found."""

    ok: bool
    entries: int
    segments: int
    head: int  # sequence of the last whole entry, -1 if there is none
    chain: str  # the chain value after it, hex
    fault: VerifyFault | None
    tail: str  # clean; or torn (...): what follows the last whole batch and the next start sets aside
    index: str  # none (and why the next start makes it anew), behind or agrees; with a fault: ahead, differs, damaged …
    read_from: int = 0  # sequence of the first entry that was read for it; before it an earlier check read


@dataclass(slots=True)
class _Progress:
    segments: int = 0
    first: int = 0  # of the segment to begin with
    sequence: int = 0  # of the next entry
    chain: bytes = GENESIS
    ledger_at_us: int = 0
    mask: bytes | None = None
    at: int = 0  # in the current segment
    index: str = "none"
    ahead: list[Position] = field(default_factory=list[Position])  # what the index knows and was not reached yet


def verify_directory(
    path: Path, progress: Callable[[int], None] | None = None, *, newest: bool = False
) -> VerifyReport:
    """Verify everything; `progress` is told the number of entries verified so far, once per batch.

    `newest`: of the segments only the last one is read, as a start does, whatever the size; that the others are there
    is looked at. `entries` then counts those before it, too.
    """
    return _verify(path, _Progress(), progress or (lambda _count: None), newest=newest)


class Verifier:
    """Check a record again and again, each time from the head on that the last check reached.

    A segment that is complete is not read again while its file is the same, by its size and times; if it is not,
    everything is.
    """

    def __init__(self) -> None:
        self._reached: dict[Path, tuple[_Progress, list[_Stamp]]] = {}

    def __call__(self, path: Path) -> VerifyReport:
        done, stamps = self._reached.pop(path, (_Progress(), []))
        found = _list_stamps(path)  # before the segments: what changes meanwhile is another one the next time
        if stamps != found[: len(stamps)]:
            done = _Progress()
        done.segments -= bool(done.segments and not done.at)  # one that was empty is begun again
        report = _verify(path, done, lambda _count: None)
        if report.ok:
            self._reached[path] = done, found[: done.segments - 1]
        return report


VERIFIER = Verifier()
"""Of this process: a tool's process checks the record for whoever asks it."""

_Stamp = tuple[int, int, int]
"""Size, modification and change of a file, by which another one in its place is told."""


def _list_stamps(path: Path) -> list[_Stamp]:
    """Return the stamps of all segments, in order; none of a record that cannot be looked at."""
    try:
        found = [(path / DIRECTORY / name_segment(first)).stat() for first in list_segment_firsts(path)]
    except (OSError, Damage):
        return []
    return [(one.st_size, one.st_mtime_ns, one.st_ctime_ns) for one in found]


def _verify(path: Path, done: _Progress, progress: Callable[[int], None], *, newest: bool = False) -> VerifyReport:
    fault: VerifyFault | None = None
    tail, read_from = "clean", done.sequence
    indexed = read_positions(path)  # before the segments: then a running writer cannot make it be ahead of them
    if indexed is not None:
        done.index, done.ahead = "not compared", [known for known in indexed if known.last >= read_from]
    try:
        if newest:
            _begin_with_the_last(path, done)
        tail = _verify_all(path, done, progress)
        if indexed is not None:
            reached = indexed[-1].last if indexed else -1
            done.index = "agrees" if reached == done.sequence - 1 else "behind"
            if not newest and not read_from:
                _demand_whole_index(path, done)
        _demand_place_for_index(path, done)
    except Damage as damage:
        fault = _make_fault(damage)
    except OSError as error:
        what = f"cannot be read ({error.strerror})"
        fault = VerifyFault(str(error.filename or path), 0, None, what, "make it readable for this user")
    return VerifyReport(
        ok=fault is None,
        entries=done.sequence,
        segments=done.segments,
        head=done.sequence - 1,
        chain=done.chain.hex(),
        fault=fault,
        tail=tail,
        index=done.index,
        read_from=read_from,
    )


def _make_fault(damage: Damage) -> VerifyFault:
    """Return the fault with its fix: a damaged segment has one alone."""
    fix = "restore this file from a copy while no cluster runs" if damage.fix == RESTORE else damage.fix
    return VerifyFault(damage.file, damage.byte, damage.sequence, damage.what, fix, isinstance(damage, OtherFormat))


def _demand_whole_index(path: Path, done: _Progress) -> None:
    """Demand an index that is whole: a start uses it unread, and stops when it meets a damaged page."""
    fault = read_fault(path)
    if fault:
        done.index = "damaged"
        what = f"{fault}; no entry is lost: delete it while no cluster runs, the next start makes it anew"
        raise Damage(FILE, 0, what, fix="")


def _demand_place_for_index(path: Path, done: _Progress) -> None:
    """Demand that a start may make whatever stands in the index's place give way."""
    obstacle = read_obstacle(path)
    if not obstacle:
        return
    done.index = f"none ({obstacle}: the next start moves it aside or removes it, and makes a new one)"
    if not os.access(path, os.W_OK) and path.stat().st_uid != os.geteuid():  # the owner's start makes it writable
        raise Damage(FILE, 0, f"{obstacle}, and no start can remove it: {path} is not writable for this user", fix="")


def is_ledger(path: Path) -> bool:
    """Return whether a ledger was ever started in this directory: a segment, or an index that knows of some."""
    if (path / FILE).exists() and read_positions(path) != []:  # an empty one: its first start died before a segment was
        return True
    return (path / DIRECTORY).exists() and bool(list_segment_firsts(path))


def find_other_format(path: Path) -> VerifyFault | None:
    """Return what another version of this software wrote, by the record's beginning; None: nothing. Raises OSError."""
    if not (path / DIRECTORY).is_dir():
        return None
    for first in list_segment_firsts(path)[:1]:
        with open_segment_file(path / DIRECTORY / name_segment(first)) as source:
            header = read_header(source.get(0, HEADER_BYTES))
            try:
                if header is not None:
                    demand_format(source.name, 0, header)
            except Damage as fault:
                return _make_fault(fault)
    return None


def list_segment_firsts(path: Path) -> list[int]:
    """Return the first sequence of each segment in a ledger's directory, in order. Raises Damage without a ledger."""
    folder = path / DIRECTORY
    if not folder.is_dir():
        what = "not a directory of segments" if folder.exists() else "there is no ledger here"
        raise Damage(str(folder), 0, what)
    found = (parse_segment_name(entry.name) for entry in folder.iterdir())
    return sorted(first for first in found if first is not None)


def _begin_with_the_last(path: Path, done: _Progress) -> None:
    """Begin with the last segment: what is before it is taken from the index, else from its first batch."""
    firsts = list_segment_firsts(path)
    for known in done.ahead[:-1]:
        if known.first not in firsts:
            raise Damage(f"{DIRECTORY}/{name_segment(known.first)}", 0, "the segment is missing", sequence=known.first)
    if not firsts or firsts == [0]:
        return
    done.first = done.sequence = firsts[-1]
    before = next((known.chain for known in done.ahead if known.last == firsts[-1] - 1), None)
    with open_segment_file(path / DIRECTORY / name_segment(firsts[-1])) as source:
        header = read_header(source.get(0, HEADER_BYTES))
    done.chain = before or (header.previous_chain if header is not None else GENESIS)
    done.segments = len(firsts) - 1
    done.ahead = [known for known in done.ahead if known.first >= firsts[-1]]


def _verify_all(path: Path, done: _Progress, progress: Callable[[int], None]) -> str:
    firsts = list_segment_firsts(path) if not done.ahead or (path / DIRECTORY).exists() else []
    if not firsts and not done.ahead:
        raise Damage(str(path / DIRECTORY), 0, "there is no ledger here: it holds no segment")
    current = done.first
    while firsts or done.segments:
        later = [first for first in firsts if first > current]  # listed before reading: then `current` is complete
        file = path / DIRECTORY / name_segment(current)
        if not file.exists():
            raise Damage(f"{DIRECTORY}/{file.name}", 0, "the segment is missing", sequence=current)
        if current != done.first or not done.at:
            done.segments, done.first, done.at = done.segments + 1, current, 0
        with open_segment_file(file, done.mask) as source:
            tail = _verify_segment(source, current, done, progress, is_last=not later)
            done.mask = source.mask
        if not later:
            _demand_all(done, current)
            return tail
        walked, current = current, done.sequence
        if later[0] != current and done.ahead and done.ahead[0].first == walked:
            what = f"the segment was cut: entries {current}..{later[0] - 1} were acknowledged and are gone"
            raise Damage(f"{DIRECTORY}/{file.name}", done.at, what, sequence=current)
        if later[0] != current:
            name = f"{DIRECTORY}/{name_segment(current)}"
            raise Damage(name, 0, f"the segment is missing; the next one is {name_segment(later[0])}", sequence=current)
        firsts = list_segment_firsts(path)
    _demand_all(done, current)
    return "clean"


def _demand_all(done: _Progress, current: int) -> None:
    """Demand that the segments led up to all that the index holds, which was acknowledged."""
    if not done.ahead:
        return
    done.index = "ahead"
    known, last, end = done.ahead[0].first, done.ahead[-1].last, done.sequence - 1
    reach = f"end at {end}" if end >= 0 else "hold none"
    what = (
        f"the index knows entries up to {last}; the segments {reach}: "
        f"entries {end + 1}..{last} were acknowledged and are gone"
    )
    byte = done.at if known == current else 0
    raise Damage(f"{DIRECTORY}/{name_segment(known)}", byte, what, sequence=done.sequence)


def _verify_segment(
    source: Source, first: int, done: _Progress, progress: Callable[[int], None], *, is_last: bool
) -> str:
    tail = "clean"
    for found in walk(source, done.sequence, done.chain, at=done.at, tries=TRIES_BESIDE_WRITER if is_last else 1):
        if isinstance(found, Whole):
            _verify_frame(source, found, done)
            _compare(source, first, found, done)
            progress(done.sequence)
        elif found.kind != "clean":
            if not is_last:
                raise Damage(source.name, found.at, "bytes beyond the last batch are not zero", sequence=done.sequence)
            size = found.end - found.at
            tail = f"torn ({size} bytes after the last whole batch; the next start sets them aside)"
    return tail


def _compare(source: Source, first: int, found: Whole, done: _Progress) -> None:
    """Compare the history that the index recorded with what lies there."""
    while done.ahead and done.ahead[0].last < done.sequence:
        if done.ahead.pop(0) != Position(first, done.sequence - 1, done.at, done.chain):
            done.index = "differs"
            what = "the index recorded another history up to here"
            raise Damage(source.name, found.at, what, sequence=done.sequence - 1)


def _verify_frame(source: Source, found: Whole, done: _Progress) -> None:
    entries = decode_all(found, source.name)
    bodies = iter(found.frame.bodies)
    for number, entry in enumerate(entries):
        sequence = done.sequence + number
        if entry.ledger_at_us < done.ledger_at_us:
            byte = found.at + found.frame.entries_at[number]
            raise Damage(source.name, byte, "ledger time goes back", sequence=sequence)
        done.ledger_at_us = entry.ledger_at_us
        for hashed, length in zip(entry.body_hashes, entry.body_lengths, strict=True):
            body = next(bodies, None)
            if body is None or len(body.data) != length or hash_salted(body.salt, body.data) != hashed:
                byte = found.at + (body.at if body else len(found.data))
                raise Damage(source.name, byte, "a body is not the one its entry names", sequence=sequence)
    extra = next(bodies, None)
    if extra is not None:
        raise Damage(source.name, found.at + extra.at, "a body that no entry names", sequence=done.sequence)
    done.sequence += len(entries)
    done.chain = found.chains[-1]
    done.at = found.end
