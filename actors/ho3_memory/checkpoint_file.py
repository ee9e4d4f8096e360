"""The checkpoint file on the memory process's own disk. Losing it costs time at the next start, nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import structlog

from hobus.actors.ho3_memory.checkpoint import NO_FRAME, CheckpointFrame, RecordPosition, encode, frames
from hobus.actors.ho3_memory.facts import Fact
from hobus.bus.port import Disk

FILE = "memory.checkpoint"
_log = structlog.get_logger("memory")


class CheckpointFile:
    """One file of frames; one writer."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._end = 0
        self._digest = NO_FRAME.digest

    def load(self) -> Iterator[CheckpointFrame]:
        """Its whole frames; a torn or changed rest is passed over, and written over by the next frame."""
        self.discard()
        data = self._read()
        for frame in frames(data):
            self._end, self._digest = frame.end, frame.digest
            yield frame
        if self._end < len(data):
            _log.warning("checkpoint_cut", whole_bytes=self._end, file_bytes=len(data))

    def discard(self) -> None:
        """The next frame is the first."""
        self._end, self._digest = 0, NO_FRAME.digest

    def _read(self) -> bytes:
        try:
            handle = self._disk.open(FILE, write=False)
        except FileNotFoundError:
            return b""
        except OSError as error:
            _log.warning("checkpoint_unreadable", error=str(error))
            return b""
        try:
            return handle.read_at(0, handle.size())
        except OSError as error:
            _log.warning("checkpoint_unreadable", error=str(error))
            return b""
        finally:
            handle.close()

    def append(self, facts: Iterable[Fact], position: RecordPosition) -> None:
        """One more frame, synced. Raises OSError: then the frame does not count, now or later."""
        data, digest = encode(facts, position, self._digest)
        is_new = not self._disk.exists(FILE)
        handle = self._disk.open(FILE, create=True)
        try:
            handle.truncate(self._end)
            handle.write_at(self._end, data)
            handle.sync()
        finally:
            handle.close()
        if is_new:
            self._disk.sync_dir()
        self._end, self._digest = self._end + len(data), digest
