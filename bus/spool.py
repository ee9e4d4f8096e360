"""Unconditional records on a process's own disk while the ledger is away.

Only records that carry no condition on other writers may stand here: the gateway's records of degraded calls and the
ends of calls already sent, the host's DEGRADATION and TurnDegraded{delivered: true}. Frames are synced one batch at a
time and hash-chained. What a crash tore is shorter than its head says and is cut off; whatever else is not what was
written is damage: the file is set aside, never guessed at.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import struct
import zlib
from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from hobus.bus.errors import LedgerError, MessageTooLarge, RuntimeFault
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.log import Logger
from hobus.bus.messages.base import pack
from hobus.bus.messages.ledger import Ack, WriteEntry
from hobus.bus.port import Disk, FileHandle
from hobus.bus.promise import Promise
from hobus.bus.record.entry import pack_entry, read_spooled_entry

_log = Logger("spool")

_HEAD = struct.Struct(">4sII32s")  # magic, length of the payload, its CRC-32, chain value after it
_CHECK = struct.Struct(">I")  # CRC-32 of the head: a length that it vouches for was written so
_HEAD_BYTES = _HEAD.size + _CHECK.size
_MAGIC = b"HSP6"
_OTHER = re.compile(rb"HSP[0-9]")
_START = b"\0" * 32

ASIDE = {False: "damaged", True: "other-format"}
"""Whether a file that was set aside is in another format -> what its name has between its own and a number."""


class SpoolContent(Struct, frozen=True):
    """What a file held: whole frames in order, where they end, and whether more than a torn tail follows."""

    entries: tuple[WriteEntry, ...]
    end: int
    chain: bytes
    is_damaged: bool
    is_other_format: bool = False
    """What follows was written by another version of this software."""


def is_other_format(magic: bytes) -> bool:
    """Return whether a frame that begins so was written by another version of this software."""
    return magic != _MAGIC and _OTHER.fullmatch(magic) is not None


def pack_spool_frame(entry: WriteEntry, chain: bytes) -> tuple[bytes, bytes]:
    """Return the bytes of one frame and the chain value after it."""
    payload = pack((pack_entry(entry), entry.bodies))
    after = hashlib.sha256(chain + payload).digest()
    head = _HEAD.pack(_MAGIC, len(payload), zlib.crc32(payload), after)
    return head + _CHECK.pack(zlib.crc32(head)) + payload, after


def parse(data: bytes) -> SpoolContent:
    """Return every whole frame from the start. A last one too short is a torn write; any other bad one is damage."""
    entries: list[WriteEntry] = []
    offset, chain = 0, _START

    def make_content(*, is_damaged: bool) -> SpoolContent:
        return SpoolContent(tuple(entries), offset, chain, is_damaged)

    while len(data) - offset >= _HEAD_BYTES:
        magic, length, crc, after = _HEAD.unpack_from(data, offset)
        start, end = offset + _HEAD_BYTES, offset + _HEAD_BYTES + length
        if is_other_format(magic):
            return SpoolContent(tuple(entries), offset, chain, is_damaged=True, is_other_format=True)
        if magic != _MAGIC or _CHECK.unpack_from(data, start - _CHECK.size)[0] != zlib.crc32(
            data[offset : start - _CHECK.size]
        ):
            return make_content(is_damaged=True)
        if end > len(data):
            return make_content(is_damaged=False)
        payload = data[start:end]
        if zlib.crc32(payload) != crc or hashlib.sha256(chain + payload).digest() != after:
            return make_content(is_damaged=True)
        try:
            entries.append(read_spooled_entry(payload))
        except ValueError:
            return make_content(is_damaged=True)
        offset, chain = end, after
    return make_content(is_damaged=False)


class Spool:
    """One file. Entries are on the device when `append` returns; the file goes when all are in the ledger."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._chain = _START
        self._handle: FileHandle | None = None
        self._waiting: dict[str, WriteEntry] = {}

    def open(self) -> list[WriteEntry]:
        """Return what an earlier incarnation left, in order; cut off a torn tail, set a damaged file aside."""
        if not self._disk.exists(self._path):
            return []
        handle = self._disk.open(self._path)
        content = parse(handle.read_at(0, handle.size()))
        if content.is_damaged:
            handle.close()
            self._set_aside(content)
        else:
            handle.truncate(content.end)
            handle.sync()
            self._handle, self._chain = handle, content.chain
            self._waiting = {entry.submission_id: entry for entry in content.entries}
        return list(content.entries)

    @property
    def waiting(self) -> list[WriteEntry]:
        """Return the entries that are not known to be in the ledger, in order."""
        return list(self._waiting.values())

    def held(self, submission_id: str) -> WriteEntry | None:
        """Return this entry, while it is not known to be in the ledger."""
        return self._waiting.get(submission_id)

    def append(self, entries: Sequence[WriteEntry]) -> None:
        """Append entries, skipping known ones. Raises OSError, and then none of them counts as kept."""
        fresh = [entry for entry in entries if entry.submission_id not in self._waiting]
        if not fresh:
            return
        data, chain = b"", self._chain
        for entry in fresh:
            framed, chain = pack_spool_frame(entry, chain)
            data += framed
        handle = self._open_file()
        offset = handle.size()
        try:
            handle.append(data)
            handle.sync()
        except OSError:
            handle.truncate(offset)
            raise
        self._chain = chain
        self._waiting.update((entry.submission_id, entry) for entry in fresh)

    def forget(self, submission_id: str) -> None:
        """Forget an entry that is in the ledger, or lost to another one; the last one removes the file."""
        if self._waiting.pop(submission_id, None) is not None and not self._waiting:
            self._clear()

    def _open_file(self) -> FileHandle:
        if self._handle is None:
            folder = self._path.rpartition("/")[0]
            if folder:
                self._disk.make_dir(folder)
            self._handle = self._disk.open(self._path, create=True)
            self._disk.sync_dir(folder)
        return self._handle

    def _clear(self) -> None:
        if self._handle is not None:
            self._handle.close()
            self._handle = None
        self._chain = _START
        self._disk.remove(self._path)
        self._disk.sync_dir(self._path.rpartition("/")[0])

    def _set_aside(self, content: SpoolContent) -> None:
        number = 1
        kind = ASIDE[content.is_other_format]
        while self._disk.exists(f"{self._path}.{kind}-{number}"):
            number += 1
        aside = f"{self._path}.{kind}-{number}"
        self._disk.rename(self._path, aside)
        self._disk.sync_dir(self._path.rpartition("/")[0])
        _log.error(
            "spool_other_format" if content.is_other_format else "spool_damaged",
            file=aside,
            byte=content.end,
            entries_read=len(content.entries),
        )
        self.append(content.entries)


class RecordKeeper:
    """Hand unconditional records to the ledger, and put them on disk when it stays silent.

    Records leave in the order of the calls; none is dropped while this process or its disk lives. What the ledger could
    not take (its disk is full) is handed over again every `retry_s` until it does, and before anything urgent: the end
    of a call is offered to the record ahead of the next call that spends what it gave back.
    """

    def __init__(self, ledger: LedgerClient, spool: Spool, *, spool_after_s: float, retry_s: float) -> None:
        self._ledger = ledger
        self._spool = spool
        self._spool_after_s = spool_after_s
        self._retry_s = retry_s
        self._silent: dict[str, WriteEntry] = {}
        self._kept: dict[str, list[Promise[list[Ack]]]] = {}
        self._silence: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._submitted: set[str] = set()  # what the ledger client has; membership only
        self._behind: dict[str, str] = {}  # entry -> the one that has to be decided before it is handed over

    @property
    def spooled(self) -> int:
        """Return how many records wait on disk."""
        return len(self._spool.waiting)

    def submit(  # noqa: PLR0913 - how an entry leaves
        self,
        entry: WriteEntry,
        *,
        keep: bool,
        urgent: bool = False,
        at_once: bool = True,
        behind: str = "",
        follows: str = "",
    ) -> Promise[list[Ack]]:
        """Pipeline one entry; with `keep` it is spooled when no ack has come within `spool_after_s`.

        `urgent`: somebody waits for the ack. `behind` names a spooled entry: a kept one leaves once that is decided,
        `at_once` or with the next write. `follows`: of one that is not kept, as the ledger client has it. The promise
        of a kept entry has the ledger's ack, however often it had to be handed over until then, and no fault but
        MessageTooLarge. That of any other entry has the fault of the write.
        """
        if not keep:
            if urgent:
                self._hand_over_left()
            return self._hand_over(entry, urgent=urgent, follows=follows)
        decided: Promise[list[Ack]] = Promise()
        self._kept.setdefault(entry.submission_id, []).append(decided)
        self._silent[entry.submission_id] = entry
        self._await_silence()
        if behind:
            self._behind[entry.submission_id] = behind
        if not self._has_to_wait(entry.submission_id):
            self._hand_over(entry, urgent=urgent, at_once=at_once)
        return decided

    def held(self, submission_id: str) -> WriteEntry | None:
        """Return this entry, while it is kept here and not known to be in the ledger."""
        return self._silent.get(submission_id) or self._spool.held(submission_id)

    def holds_of(self, stream: str) -> bool:
        """Return whether an entry of this stream is kept here and not known to be in the ledger."""
        return any(entry.stream == stream for entry in (*self._silent.values(), *self._spool.waiting))

    def spool_now(self, entry: WriteEntry) -> None:
        """Put a submitted entry on disk at once. Raises OSError."""
        self._spool.append([entry])
        self._silent.pop(entry.submission_id, None)
        self._await_retry()

    def submit_and_spool(self, entry: WriteEntry, *, behind: str = "") -> Promise[list[Ack]]:
        """Submit an entry and keep it on disk at once; where the disk fails, log that and keep it in memory."""
        decided = self.submit(entry, keep=True, behind=behind)
        try:
            self.spool_now(entry)
        except OSError as error:
            _log.error("spool_failed", error=type(error).__name__, submission_id=entry.submission_id)
        return decided

    def _hand_over(
        self, entry: WriteEntry, *, urgent: bool = False, at_once: bool = False, follows: str = ""
    ) -> Promise[list[Ack]]:
        self._submitted.add(entry.submission_id)
        try:
            submitted = self._ledger.submit([entry], urgent=urgent, at_once=at_once, follows=follows)
        except LedgerError as fault:
            submitted = Promise[list[Ack]]()
            submitted.settle(fault)
        submitted.then(partial(self._note_done, entry))
        return submitted

    def _await_silence(self) -> None:
        if self._silence is None and self._silent:
            self._silence = asyncio.get_running_loop().call_later(self._spool_after_s, self._spool_silent)

    def _spool_silent(self) -> None:
        self._silence = None
        try:
            self._spool.append(list(self._silent.values()))
        except OSError as error:
            # They stay in memory; the next silence tries the disk again.
            _log.error("spool_failed", error=type(error).__name__, entries=len(self._silent))
            self._await_silence()
            return
        self._silent.clear()

    def _note_done(self, entry: WriteEntry, outcome: list[Ack] | RuntimeFault) -> None:
        self._submitted.discard(entry.submission_id)
        if isinstance(outcome, RuntimeFault):
            if not isinstance(outcome, MessageTooLarge):
                self._await_retry()
                return
        elif (ack := outcome[0]).outcome == "refused":
            _log.warning("record_refused", submission_id=entry.submission_id, code=ack.code)
        self._settle(entry.submission_id, outcome)
        self._hand_over_left()  # the ledger answers

    def _settle(self, submission_id: str, outcome: list[Ack] | RuntimeFault) -> None:
        """Release an entry that is decided for good, from memory and disk."""
        self._silent.pop(submission_id, None)
        self._behind.pop(submission_id, None)
        if not self._silent and self._silence is not None:
            self._silence.cancel()
            self._silence = None
        self._spool.forget(submission_id)
        for decided in self._kept.pop(submission_id, ()):
            decided.settle(outcome)

    def _await_retry(self) -> None:
        if self._retry is None and self._list_left():
            self._retry = asyncio.get_running_loop().call_later(self._retry_s, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._hand_over_left()

    def _hand_over_left(self) -> None:
        if self._silent or self._spool.waiting:
            for entry in self._list_left():
                self._hand_over(entry)

    def _list_left(self) -> list[WriteEntry]:
        """Return what waits here, may leave, and the client no longer holds, in order."""
        waiting = {entry.submission_id: entry for entry in self._spool.waiting} | self._silent
        return [entry for name, entry in waiting.items() if name not in self._submitted and not self._has_to_wait(name)]

    def _has_to_wait(self, name: str) -> bool:
        """Return whether the entry that this one follows may still be handed over again, and so come after it."""
        earlier = self._behind.get(name)
        return earlier is not None and self._spool.held(earlier) is not None
