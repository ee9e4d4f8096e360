"""What the index on disk has on record, read beside its writer or without one; no file is made or changed.

The index is only ever behind the segments, so what it knows was acknowledged: it shows a ledger that was cut. It is a
cache all the same, and one that a start would throw away (garbage, another schema, rows missing) tells nothing here.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from hobus.ledger_service.index import FILE, FILES, SCHEMA_VERSION, IndexReader, Position, connection_to

_Answer = TypeVar("_Answer")
_TRIES = 3
"""A writer that starts or ends meanwhile makes or removes the write-ahead log between two looks at it."""
_AT_REST = "mode=ro&immutable=1"
_WITH_LOG = "mode=ro&readonly_shm=1"
"""Reads the newest commits from the log, live or left by a crash; the log's own index is read, or made in memory."""


def read_positions(directory: Path) -> list[Position] | None:
    """How far the index of this ledger reaches, segment by segment; None if there is none that a start would use."""
    return _asked(directory, IndexReader.positions)


def read_fault(directory: Path) -> str | None:
    """What is wrong anywhere in an index that a start would use; empty if nothing is, None if there is none."""
    return _asked(directory, IndexReader.fault)


def read_obstacle(directory: Path) -> str:
    """What stands in the place of the index's files and is no file, so that it gives way to a new one; or nothing."""
    found = (directory / name for name in FILES)
    return next((f"{path.name} is no file" for path in found if os.path.lexists(path) and not path.is_file()), "")


def _asked(directory: Path, question: Callable[[IndexReader], _Answer]) -> _Answer | None:
    path = directory / FILE
    if read_obstacle(directory):  # whoever opens a pipe to read it waits for ever
        return None
    for _ in range(_TRIES):
        had_log = _has_log(path)
        try:
            with _readable(path) as uri:
                found = _answer(uri, question)
        except (sqlite3.Error, OSError):
            found = None
        if had_log == _has_log(path) and (found is not None or not had_log):
            return found
    return None


@contextmanager
def _readable(path: Path) -> Generator[str]:
    if not _has_log(path):
        yield f"{path.absolute().as_uri()}?{_AT_REST}"
    elif _beside(path, "-shm").exists():
        yield f"{path.absolute().as_uri()}?{_WITH_LOG}"
    else:  # no process has it open, and reading a log makes this file: in a copy
        with TemporaryDirectory() as copied:
            for file in (path, _beside(path, "-wal")):
                shutil.copyfile(file, Path(copied) / file.name)
            yield f"{(Path(copied) / path.name).as_uri()}?mode=rw"


def _answer(uri: str, question: Callable[[IndexReader], _Answer]) -> _Answer | None:
    index = IndexReader(connection_to(uri, uri=True))
    try:
        index.begin()
        if index.version() != SCHEMA_VERSION:
            return None
        index.check()
        return question(index)
    finally:
        index.close()


def _has_log(path: Path) -> bool:
    try:
        return _beside(path, "-wal").stat().st_size > 0
    except OSError:
        return False


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
