"""A disk that is soon full, for whoever may mount one."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(directory: Path, size: str) -> Generator[Path]:
    """A tmpfs of this size (`48m`) at a directory that is made for it; skips where this user may not mount."""
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", directory], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this user may not mount")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)
