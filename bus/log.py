"""Loggers that load structlog with their first line: most commands log none, and it takes longer than they do."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

_AT_FIRST: list[Callable[[], object]] = []


class Logger:
    """Ask `structlog.get_logger(name)` line by line."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, level: str) -> Callable[..., Any]:
        loaded = importlib.import_module("structlog")
        while _AT_FIRST:
            _AT_FIRST.pop()()
        return getattr(loaded.get_logger(self._name), level)


def configure_with(configure: Callable[[], object]) -> None:
    """Call `configure` once structlog is loaded: now, or before the first line of a `Logger`."""
    if "structlog" in sys.modules:
        configure()
    else:
        _AT_FIRST[:] = [configure]
