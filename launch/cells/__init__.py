"""Cells: clusters among which people are sharded. Where each person's sessions are, and how they come to another."""

from pathlib import Path


def path_of(home: Path) -> Path:
    """Which cell a home is, and of which map (`map.Membership`); without it its doors do not route."""
    return home / "cell.json"
