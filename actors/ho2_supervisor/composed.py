"""Texts that are made of recorded texts: one ref for the whole, behind which a list of the parts stands. Pure.

A prompt shows twenty turns of a session; each of their texts has a ref of its own already. The order that shows them
first brings, as one body, which parts they are; it, later orders of the run and the prompts' records then name that
body alone. A text body is UTF-8, so the mark in front of such a list cannot begin one.
"""

from __future__ import annotations

from collections.abc import Sequence

from bus.messages.base import pack, unpack
from bus.messages.work_order import Segment

_MARK = b"\xc1"
Part = tuple[str | None, str]
"""(ref, '') of a recorded text, or (None, text) of one that stands here."""


def whole(name: str, parts: Sequence[Segment]) -> tuple[Segment, bytes]:
    """One segment with the text of all parts, and the body that stands for it."""
    listed = [[part.ref, ""] if part.ref is not None else [None, part.text] for part in parts]
    return Segment(name=name, text="".join(part.text for part in parts)), _MARK + pack(listed)


def parts_in(body: bytes) -> list[Part] | None:
    """The parts that a body lists; None for a body that is a text itself. Raises ValueError for a damaged list."""
    if not body.startswith(_MARK):
        return None
    return [(ref, text) for ref, text in unpack(body[len(_MARK) :])]
