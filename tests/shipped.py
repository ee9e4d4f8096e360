"""The shipped configuration, read once for all tests that change nothing of it."""

from __future__ import annotations

from functools import cache

from hobus.config.snapshot import Snapshot, load_snapshot


@cache
def shipped_snapshot() -> Snapshot:
    """Frozen, as every snapshot is: a test that wants another one makes a copy."""
    return load_snapshot()
