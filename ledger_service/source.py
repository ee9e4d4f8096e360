"""A segment's bytes (`Source`), what is wrong with them (`Damage`), and what is taken for granted (`trusted`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from hobus.bus.disk import RealFile
from hobus.bus.errors import LedgerError
from hobus.bus.port import FileHandle


class Untrue(AssertionError):
    """A defect of this software. Whoever meets it writes and acknowledges nothing any more: the record comes first."""


def require_true(is_so: bool, what: str) -> None:
    """Raise Untrue unless it is so; no switch of the interpreter turns this off, as it does `assert`."""
    if not is_so:
        raise Untrue(what)


_WINDOW_BYTES = 1 << 16
"""Read at once; only speed depends on it: larger pieces the allocator gives back and takes anew, page by page."""
_ZEROS = bytes(_WINDOW_BYTES)


RESTORE = "restore this file from a copy, or run `hobus ledger verify`"


class Damage(LedgerError):
    """What lies there is not what was written."""

    def __init__(self, file: str, byte: int, what: str, *, sequence: int | None = None, fix: str = RESTORE) -> None:
        super().__init__(
            "damaged",
            f"{file}, byte {byte}: {what}{f'; {fix}' if fix else ''}",
            facts={"file": file, "byte": byte, "sequence": sequence},
        )
        self.file = file
        self.byte = byte
        self.what = what
        self.sequence = sequence
        self.fix = fix


class OtherFormat(Damage):
    """Another version of this software wrote it: nothing is damaged, and nothing of it can be read here."""

    def __init__(self, file: str, byte: int, what: str, *, fix: str) -> None:
        super().__init__(file, byte, what, fix=fix)
        self.code = "other_format"

    def __str__(self) -> str:
        return self.detail


class Source:
    """A segment's bytes; `name` and offsets go into every fault."""

    def __init__(
        self, name: str, read_at: Callable[[int, int], bytes], size: Callable[[], int], mask: bytes | None = None
    ) -> None:
        self.name = name
        self.mask = mask
        """Of the ledger that the segment must belong to; None until its first batch is read."""
        self._read_at = read_at
        self._size = size
        self.size = size()
        self._window = b""
        self._window_at = 0

    @classmethod
    def of_handle(cls, name: str, handle: FileHandle, mask: bytes | None) -> Self:
        return cls(name, handle.read_at, handle.size, mask)

    def refresh(self) -> None:
        """Forget what was read: a writer may have appended since."""
        self.size = self._size()
        self._window = b""

    def get(self, offset: int, size: int) -> bytes:
        """Return these bytes; fewer at the end of the file."""
        start = offset - self._window_at
        if start < 0 or start + size > len(self._window):
            if size >= _WINDOW_BYTES:
                return self._read(offset, size)
            self._window, self._window_at, start = self._read(offset, _WINDOW_BYTES), offset, 0
        return self._window[start : start + size]

    def end_of_content(self, offset: int) -> int:
        """Return one past the last byte from `offset` on that is not zero; `offset` if all are."""
        end = offset
        while offset < self.size:
            block = self._read(offset, min(_WINDOW_BYTES, self.size - offset))
            if not block:
                break
            if block != _ZEROS[: len(block)]:
                end = offset + len(block.rstrip(b"\0"))
            offset += len(block)
        return end

    def _read(self, offset: int, size: int) -> bytes:
        try:
            return self._read_at(offset, size)
        except OSError as error:  # a directory in its place, a device that fails: the name is not in the error
            raise Damage(self.name, offset, f"cannot be read ({error.strerror})") from None


@contextmanager
def open_segment_file(path: Path, mask: bytes | None = None) -> Generator[Source]:
    """Open a plain file read-only, for tools that work without a running ledger. Raises OSError."""
    file = RealFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    try:
        yield Source.of_handle(f"{path.parent.name}/{path.name}", file, mask)
    finally:
        file.close()
