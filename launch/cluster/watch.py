"""A word from the system when something in a directory changes, where it gives one (Linux: inotify)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from contextlib import suppress

_READ_BYTES = 65_536
_CHANGES = 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
"""Written to, another time or rights, moved away or here, made, deleted; the directory itself deleted or moved."""


class Watch:
    """Whether anything has changed directly in some directories; of a shared disk, by this machine."""

    def __init__(self, directories: Iterable[str]) -> None:
        """Raises OSError where the system watches none, or no more."""
        try:
            library = ctypes.CDLL(None, use_errno=True)
            begin, add = library.inotify_init1, library.inotify_add_watch
        except AttributeError:
            raise OSError("this system watches no directory") from None
        self._descriptor = _checked(begin(os.O_NONBLOCK | os.O_CLOEXEC))
        try:
            for directory in directories:
                _checked(add(self._descriptor, os.fsencode(directory), _CHANGES))
        except OSError:
            self.close()
            raise

    def has_spoken(self) -> bool:
        """Whether anything has changed since this was last asked; what was told is not told again, or only in part."""
        with suppress(BlockingIOError):
            return bool(os.read(self._descriptor, _READ_BYTES))
        return False

    def close(self) -> None:
        """No longer watched."""
        os.close(self._descriptor)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
