"""Logs: structlog, one JSON object a line, in `<home>/logs/<actor>.log`. For operators; the ledger is the record."""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import suppress
from typing import TextIO, cast

import structlog


class LossyLines:
    """Writes to a file, without a buffer; what does not fit on a full disk is lost, and the process goes on.

    A buffer would keep what could not be written and fail again at exit, which would change the exit code.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, text: str) -> int:
        """As much of it as the file takes."""
        with suppress(OSError):
            os.write(self._fd, text.encode("utf-8", "backslashreplace"))
        return len(text)

    def flush(self) -> None:
        """Nothing waits."""


def configure(actor: str, instance: str, *, stream: TextIO | None = None) -> None:
    """From now on every log line of this process carries its actor, instance and pid, and is one JSON object."""
    target = cast("TextIO", LossyLines((stream or sys.stderr).fileno()))
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(sort_keys=False),
        ],
        logger_factory=structlog.WriteLoggerFactory(target),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(actor=actor, instance=instance, pid=os.getpid())
    handler = logging.StreamHandler(target)
    handler.setFormatter(_JsonLines(actor, instance))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


class _JsonLines(logging.Formatter):
    """Warnings of libraries that use the standard library's logging, in the same form."""

    def __init__(self, actor: str, instance: str) -> None:
        super().__init__()
        self._actor = actor
        self._instance = instance

    def format(self, record: logging.LogRecord) -> str:
        """One JSON object."""
        line = {
            "event": record.getMessage(),
            "logger": record.name,
            "level": record.levelname.lower(),
            "actor": self._actor,
            "instance": self._instance,
            "pid": record.process,
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)
