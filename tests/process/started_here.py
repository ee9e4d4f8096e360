"""What tests of processes that they start themselves look at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fresh interpreters find this checkout and its tests, wherever hobus is installed."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def until(is_true: Callable[[], bool], limit_s: float = 30.0) -> None:
    """Polls; a condition that never comes fails the test."""
    async with asyncio.timeout(limit_s):
        while not is_true():
            await asyncio.sleep(0.005)
