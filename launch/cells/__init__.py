"""Cells: several clusters behind one door. Where each person's sessions are, and how they come to another one."""

from pathlib import Path


def path_of(home: Path) -> Path:
    """The map of cells of a home whose doors route; without one they do not."""
    return home / "cells.sqlite"
