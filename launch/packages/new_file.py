"""A file of a maker's own: there whole, or not at all, and never in place of another one."""

from __future__ import annotations

import os
from pathlib import Path


def write_new(path: Path, data: bytes, *, mode: int) -> None:
    """The file holds this and is on the device. Raises FileExistsError, also for a link that leads nowhere; OSError."""
    if os.path.lexists(path):
        raise FileExistsError(17, "File exists", str(path))
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(beside, path)  # unlike a rename, it replaces nothing
    finally:
        beside.unlink(missing_ok=True)
