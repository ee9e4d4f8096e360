"""Installed packages for tests: a module and the metadata that an installer would write."""

from __future__ import annotations

from pathlib import Path


def install(directory: Path, package: str, source: str, **tools: str) -> Path:
    """A directory for the import path with this module in it, whose attributes are tools by these names."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{package}.py").write_text(source, encoding="utf-8")
    info = directory / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", encoding="utf-8")
    lines = "".join(f"{name} = {package}:{attribute}\n" for name, attribute in tools.items())
    (info / "entry_points.txt").write_text(f"[hobus.tools]\n{lines}", encoding="utf-8")
    return directory
