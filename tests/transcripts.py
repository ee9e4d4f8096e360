"""Earlier turns of a prompt as tests read them."""

from __future__ import annotations

import re


def readable(text: str) -> str:
    """The text of a `history` segment, each message on a line that begins with who says it."""
    return re.sub("\x1e([a-z]+)(?: [0-9]+)?\n", r"\1: ", text)
