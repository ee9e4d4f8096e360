"""Modules with tools for tests, as an installed package brings them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def install(directory: Path, package: str, source: str) -> Path:
    """A directory for the import path with this module in it."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{package}.py").write_text(source, encoding="utf-8")
    return directory


def entries(package: str, names: Iterable[str]) -> list[str]:
    """What `tools.entry_points` says of these functions of it."""
    return [f"{name} = {package}:{name}" for name in names]
