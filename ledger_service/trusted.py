"""What the writer takes for granted of the parts that it calls, said where it does, and looked at in every commit."""

from __future__ import annotations


class Untrue(AssertionError):
    """A defect of this software. Whoever meets it writes and acknowledges nothing any more: the record comes first."""


def trusted(is_so: bool, what: str) -> None:
    """Raises Untrue unless it is so; no switch of the interpreter turns it off, as it does `assert`."""
    if not is_so:
        raise Untrue(what)
