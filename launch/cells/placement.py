"""In which cell a person who is new begins: rendezvous hashing. Pure."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha256


def choose_cell(person: str, cells: Collection[str]) -> str:
    """Return the cell with the highest hash of both names: the same whatever the order, and at every door.

    With one cell more, who changes goes there; with one fewer, only its own change. Raises ValueError for no cell.
    """
    return max(cells, key=lambda cell: sha256(f"{cell}\n{person}".encode()).digest())
