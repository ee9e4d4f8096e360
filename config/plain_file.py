"""Reads a file that somebody else may have put there: never a pipe, a device or a directory, nor more than so much."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def plain_bytes(path: Path, max_bytes: int | None = None) -> bytes:
    """The bytes of a plain file, at most so many; never waits for anybody.

    Raises OSError, also for what is no plain file, or longer.
    """
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        about = os.fstat(number)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is no plain file", str(path))
        is_longer = max_bytes is not None and about.st_size > max_bytes
        with os.fdopen(number, "rb", closefd=False) as file:
            data = b"" if is_longer else file.read(-1 if max_bytes is None else max_bytes + 1)
    finally:
        os.close(number)
    if max_bytes is not None and (is_longer or len(data) > max_bytes):
        raise OSError(errno.EFBIG, f"it has more than {max_bytes} bytes", str(path))
    return data
