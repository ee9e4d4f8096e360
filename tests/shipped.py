"""The shipped configuration, read once for all tests, and copies of it with some settings changed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from hobus.config.snapshot import Snapshot, load_snapshot


@cache
def shipped_snapshot() -> Snapshot:
    """Frozen, as every snapshot is."""
    return load_snapshot()


@cache
def shipped_with(*changes: tuple[str, Any]) -> Snapshot:
    """The shipped snapshot with some values of `admin_config.json` changed, each named by its dotted path."""
    shipped = shipped_snapshot()
    values = shipped.config.model_dump()
    for path, value in changes:
        *sections, name = path.split(".")
        section = values
        for step in sections:
            section = section[step]
        assert name in section, path
        section[name] = list(value) if isinstance(value, tuple) else value
    return replace(shipped, config=type(shipped.config).model_validate(values))
