"""Logs: structlog, one JSON object a line, in `<home>/logs/<actor>.log`. For operators; the ledger is the record."""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO, cast

import structlog
from structlog.typing import Processor

from hobus.bus.inbox import CAUSE
from hobus.launch.logs.files import OLDER

_SPEAKER: dict[str, object] = {}
"""Who this process is, as each of its lines says."""


def open_log(path: Path) -> int:
    """Open a descriptor that appends to this log; make its directory where somebody removed it. Raises OSError."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


class LossyLines:
    """Write to a file without a buffer; what does not fit on a full disk is lost, and the process goes on.

    A buffer would keep what could not be written and fail again at exit, which would change the exit code.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._path: Path | None = None
        self._max_bytes = 0
        self._bytes = 0

    def limit(self, path: Path, max_bytes: int) -> None:
        """Move the file aside before it grows beyond `max_bytes` from now on, and make it anew if it was removed."""
        self._path, self._max_bytes = path, max_bytes
        with suppress(OSError):
            self._bytes = os.fstat(self._fd).st_size

    def write(self, text: str) -> int:
        """Write as much of the text as the file takes; return the length of all of it."""
        data = text.encode("utf-8", "backslashreplace")
        with suppress(OSError):
            if self._path is not None and not os.fstat(self._fd).st_nlink:
                self._go_on_in(self._path)
            elif self._path is not None and self._bytes and self._bytes + len(data) > self._max_bytes:
                self._path.replace(self._path.with_name(self._path.name + OLDER))
                self._go_on_in(self._path)
            self._bytes += os.write(self._fd, data)
        return len(text)

    def _go_on_in(self, path: Path) -> None:
        """Go on in a new file. Whoever writes to the standard descriptors directly follows into it."""
        self._bytes = 0
        written = os.fstat(self._fd).st_ino
        fresh = open_log(path)
        try:
            for descriptor in {self._fd, *(one for one in (1, 2) if os.fstat(one).st_ino == written)}:
                os.dup2(fresh, descriptor, inheritable=descriptor in (1, 2))
        finally:
            os.close(fresh)

    def flush(self) -> None:
        """Do nothing: there is no buffer."""


def configure(actor: str, instance: str, *, stream: TextIO | None = None) -> LossyLines:
    """Give every log line of this process its actor, instance and pid from now on, as one JSON object."""
    _SPEAKER.update(actor=actor, instance=instance, pid=os.getpid())
    structlog.contextvars.bind_contextvars(**_SPEAKER)
    return _make_lines((stream or sys.stderr).fileno())


@functools.lru_cache(maxsize=1)
def _make_lines(fd: int) -> LossyLines:
    """Return log lines to this descriptor; a fork of a process in which they go there finds that done."""
    lines = LossyLines(fd)
    target = cast("TextIO", lines)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        _with_cause,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        structlog.processors.format_exc_info,
    ]
    as_json = structlog.processors.JSONRenderer(sort_keys=False)
    structlog.configure(
        processors=[*shared, as_json],
        logger_factory=structlog.WriteLoggerFactory(target),
        cache_logger_on_first_use=True,
    )
    # Warnings of libraries that use the standard library's logging, in the same form, whatever thread they come from.
    handler = logging.StreamHandler(target)
    plain = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, as_json]
    foreign: list[Processor] = [
        lambda _logger, _method, record: {**record, **_SPEAKER},
        *shared,
        structlog.stdlib.add_logger_name,
    ]
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=plain, foreign_pre_chain=foreign))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    return lines


def _with_cause(_logger: object, _method: str, record: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the request that is handled, and the turn that its trace names, to what is logged meanwhile."""
    cause = CAUSE.get()
    if cause is not None:
        record["request"] = cause.message_id
        if cause.trace:
            record["trace"] = cause.trace
    return record
