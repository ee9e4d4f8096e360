"""What a monitor says of an invariant that does not hold."""

from __future__ import annotations


class Broken(AssertionError):
    """An invariant does not hold; the text says which, and of what."""


def must(holds: bool, what: str) -> None:
    """Raises Broken unless it holds."""
    if not holds:
        raise Broken(what)
