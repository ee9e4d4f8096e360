"""Words of others, kept short. Imports nothing: also what must start at once uses it."""

from __future__ import annotations


def cut(text: str, max_chars: int) -> str:
    """The text, or as much of it as fits into `max_chars` with a mark that says how long it was."""
    if len(text) <= max_chars:
        return text
    mark = f"... ({len(text)} characters)"
    return f"{text[: max(0, max_chars - len(mark))]}{mark}"


def shortened(text: str, max_chars: int) -> str:
    """The text, or its beginning with `…`, in at most `max_chars`."""
    return text if len(text) <= max_chars else f"{text[: max(0, max_chars - 1)]}…"
