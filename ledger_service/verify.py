"""Checks every byte of a ledger's directory, without a running ledger or beside one. Source: spec page "The ledger".

Checked: the chain over the exact stored bytes, every CRC, every salted body hash, that sequence numbers and segments
follow each other without a gap, that ledger time never decreases, and that what lies beyond the last batch is zeros.
What it cannot see without a signed checkpoint: a ledger rewritten from some entry on, or cut after one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ledger_service.frame import GENESIS, salted_hash
from ledger_service.recovery import decode_all
from ledger_service.scan import Damage, Tail, Whole, next_whole
from ledger_service.segment import DIRECTORY, first_sequence_of, segment_name
from ledger_service.source import SegmentFile, Source

_TRIES = 3
"""A fault beside a running writer is looked at again: what was half written a moment ago is whole now."""


class VerifyFault(NamedTuple):
    """The first fault."""

    file: str
    byte: int
    sequence: int | None
    what: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a verification found."""

    ok: bool
    entries: int
    segments: int
    head: int  # sequence of the last whole entry, -1 if there is none
    chain: str  # the chain value after it, hex
    fault: VerifyFault | None
    tail: str  # clean; or what follows the last whole batch: in flight, or torn by a crash and not yet recovered


@dataclass(slots=True)
class _Progress:
    segments: int = 0
    sequence: int = 0  # of the next entry
    chain: bytes = GENESIS
    ledger_at_us: int = 0
    at: int = 0  # in the current segment


def verify_directory(path: Path, progress: Callable[[int], None] | None = None) -> VerifyReport:
    """Reads everything; `progress` is told the number of entries verified so far, once per batch."""
    done = _Progress()
    fault: VerifyFault | None = None
    tail = "clean"
    try:
        tail = _verify_all(path, done, progress or (lambda _count: None))
    except Damage as damage:
        fault = VerifyFault(damage.file, damage.byte, damage.sequence, damage.what)
    except OSError as error:
        fault = VerifyFault(str(error.filename or path), 0, None, f"cannot be read ({error.strerror})")
    return VerifyReport(fault is None, done.sequence, done.segments, done.sequence - 1, done.chain.hex(), fault, tail)


def segment_firsts(path: Path) -> list[int]:
    """First sequence of each segment in a ledger's directory, in order. Raises Damage when there is no ledger."""
    folder = path / DIRECTORY
    if not folder.is_dir():
        raise Damage(str(folder), 0, "there is no ledger here")
    found = (first_sequence_of(entry.name) for entry in folder.iterdir())
    return sorted(first for first in found if first is not None)


def _verify_all(path: Path, done: _Progress, progress: Callable[[int], None]) -> str:
    firsts = segment_firsts(path)
    current = 0
    while firsts or done.segments:
        later = [first for first in firsts if first > current]  # listed before reading: then `current` is complete
        file = path / DIRECTORY / segment_name(current)
        if not file.exists():
            raise Damage(f"{DIRECTORY}/{file.name}", 0, "the segment is missing", sequence=current)
        done.segments += 1
        done.at = 0
        with SegmentFile(file) as segment:
            tail = _verify_segment(segment.source, done, progress, is_last=not later)
        if not later:
            return tail
        current = done.sequence
        if later[0] != current:
            name = f"{DIRECTORY}/{segment_name(current)}"
            raise Damage(name, 0, f"the segment is missing; the next one is {segment_name(later[0])}", sequence=current)
        firsts = segment_firsts(path)
    return "clean"


def _verify_segment(source: Source, done: _Progress, progress: Callable[[int], None], *, is_last: bool) -> str:
    tries = _TRIES if is_last else 1
    while True:
        try:
            found = next_whole(source, done.at, done.sequence, done.chain)
        except Damage:
            tries -= 1
            if tries <= 0:
                raise
            source.refresh()
            continue
        if isinstance(found, Whole):
            _verify_frame(source, found, done)
            progress(done.sequence)
            continue
        tries -= 1
        if found.kind != "clean" and tries > 0:
            source.refresh()
            continue
        return _verify_tail(source, found, done, is_last=is_last)


def _verify_tail(source: Source, tail: Tail, done: _Progress, *, is_last: bool) -> str:
    if tail.kind == "clean":
        return "clean"
    if tail.kind == "stray" or not is_last:
        raise Damage(source.name, tail.at, "bytes beyond the last batch are not zero", sequence=done.sequence)
    return f"in flight or torn: {tail.end - tail.at} bytes at byte {tail.at} of {source.name}"


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
            if body is None or len(body.data) != length or salted_hash(body.salt, body.data) != hashed:
                byte = found.at + (body.at if body else len(found.data))
                raise Damage(source.name, byte, "a body is not the one its entry names", sequence=sequence)
    extra = next(bodies, None)
    if extra is not None:
        raise Damage(source.name, found.at + extra.at, "a body that no entry names", sequence=done.sequence)
    done.sequence += len(entries)
    done.chain = found.chains[-1]
    done.at = found.end
