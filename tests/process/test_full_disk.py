"""A home whose disk has no byte left: who dies then is started again, however often, and all is well once there is room."""

from __future__ import annotations

import errno
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.process.cluster import cluster_in, eventually, write_config

pytestmark = pytest.mark.process

FULL_S = 15.0
"""In which a process that cannot start is tried so often that any other one had been given up."""
ROLES = ("ledger/1", "ho1/1", "ho2/1", "host/1")
BUDGET = 3
"""Crashes after which any other process is given up."""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of a few megabytes."""
    directory = tmp_path / "small"
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48m", "none", directory], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this user may not mount")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


def test_who_dies_while_the_disk_is_full_is_there_again_once_there_is_room(small: Path) -> None:
    """No token could be written for them, as often as others are given up; then they run, and a turn is answered."""
    cluster = cluster_in(small / "home")
    try:
        small_ledger = ("ledger.segment_bytes", 4 << 20), ("ledger.reserve_bytes", 1 << 20)
        config = write_config(small / "config.json", *small_ledger, ("launcher.crash_budget", BUDGET))
        cluster.up("--config", str(config))
        fill(small / "filler")
        for actor in ROLES:
            cluster.kill(actor)
        time.sleep(FULL_S)  # the run file cannot be written either: nothing tells how often they were tried
        (small / "filler").unlink()
        eventually(lambda: max(cluster.row(actor).restarts for actor in ROLES) > BUDGET)  # some may have found a byte
        eventually(lambda: all(row.state == "ready" for row in cluster.run().children))
        assert cluster.ask("is the ledger intact?")["outcome"] == "success"
        cluster.verify()
    finally:
        cluster.end()


def fill(path: Path) -> None:
    """To the last byte."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 9, 1):
            while is_taken(file, size):
                pass


def is_taken(file: IO[bytes], size: int) -> bool:
    """Whether there was room for so many bytes more."""
    try:
        file.write(b"x" * size)
    except OSError as error:
        return error.errno != errno.ENOSPC
    return True
