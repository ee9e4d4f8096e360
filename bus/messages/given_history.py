"""The first message of a session that goes on from elsewhere: what was said before, and the person's own words, last.

Written and read here, so that nothing that comes before those words can pass for them: whatever stands in any part,
what is read as the person's own is the end of it, or less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from hobus.bus.messages.base import Record

_INSTRUCTIONS = "Instructions of the caller:"
_EXCHANGE = "Said earlier in this conversation:"
_WORDS = "Message:"
_CUT = " … "


class Said(Record):
    """One message of a conversation that was held elsewhere."""

    role: Literal["system", "user", "assistant"] = Field(description="who said it; system: instructions of the caller")
    content: str = Field(description="the words")


def told(messages: Sequence[Said]) -> str:
    """The words of a turn that goes on from there: the user's last message behind what was said before it.

    Raises ValueError for a conversation that does not end with one.
    """
    if not messages or messages[-1].role != "user":
        raise ValueError("the last message is the user's: it is what is answered")
    earlier = messages[:-1]
    return with_history(
        [one.content for one in earlier if one.role == "system"],
        [f"{one.role}: {one.content}" for one in earlier if one.role != "system"],
        messages[-1].content,
    )


def with_history(instructions: Sequence[str], exchange: Sequence[str], words: str) -> str:
    """The words behind what was said before them; alone where nothing was."""
    parts = ([_INSTRUCTIONS, *instructions, ""] if instructions else []) + (
        [_EXCHANGE, *exchange, ""] if exchange else []
    )
    return "\n".join([*parts, _WORDS, words]) if parts else words


def own_words(message: str) -> str:
    """What of a message its person said now: all of it, unless it begins as one with a history does.

    Who writes such a beginning by hand has less read as theirs, never more.
    """
    if not message.startswith((f"{_INSTRUCTIONS}\n", f"{_EXCHANGE}\n")):
        return message
    return message.rpartition(f"\n{_WORDS}\n")[2] if f"\n{_WORDS}\n" in message else ""


def both_ends(text: str, chars_max: int) -> str:
    """The text, or of a long one its beginning and its end, so that at the cut no sentence seems to begin or end."""
    if len(text) <= chars_max:
        return text
    half = max(1, (chars_max - len(_CUT)) // 2)
    return f"{text[:half]}{_CUT}{text[-half:]}"
