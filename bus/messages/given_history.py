"""The first message of a session that goes on from elsewhere: what was said before, and the person's own words, last.

Written and read here, so that nothing that comes before those words can pass for them, and no message for another: a
line of an earlier one that would begin another part gets a space in front.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta
from msgspec.json import Decoder

from hobus.bus.json_text import write_json
from hobus.bus.messages.base import Record
from hobus.bus.messages.work_order import ToolCall

_INSTRUCTIONS = "Instructions of the caller:"
_EXCHANGE = "Said earlier in this conversation:"
_WORDS = "Message:"
_CUT = " … "
_BEGINS = re.compile(rf"^(?:(user|assistant|calls|result): |{_EXCHANGE}$|({_WORDS})$)", re.MULTILINE)
"""Where a part begins, once the whole begins as one with a history does."""
_CALLS = Decoder(list[ToolCall])


class GivenMessage(Record):
    """One message of a conversation that was held elsewhere."""

    role: Annotated[
        Literal["system", "user", "assistant"], Meta(description="who said it; system: instructions of the caller")
    ]
    content: Annotated[str, Meta(description="the words")]


def tell_history(messages: Sequence[GivenMessage]) -> str:
    """Return the words of a turn that goes on from there: the user's last message behind what was said before it.

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
    """Return the words behind what was said before them; alone where nothing was.

    `exchange`: messages as `user: …` or `assistant: …`; behind one of these `tell_calls`.
    """
    parts = ([_INSTRUCTIONS, *map(_cut_within, instructions), ""] if instructions else []) + (
        [_EXCHANGE, *(f"{said[:1]}{_cut_within(said[1:])}" for said in exchange), ""] if exchange else []
    )
    return "\n".join([*parts, _WORDS, words]) if parts else words


def tell_calls(calls: Sequence[ToolCall], results: Sequence[str]) -> list[str]:
    """Return the parts of an exchange that say what an assistant called, and what each call brought, in that order."""
    asked = write_json([call.model_dump(exclude_defaults=True) for call in calls])
    return [f"calls: {asked}", *(f"result: {said if said.strip() else '(nothing)'}" for said in results)]


def _cut_within(text: str) -> str:
    return _BEGINS.sub(lambda match: f" {match[0]}", text)


class Stretch(NamedTuple):
    """A part of such a message: who said the characters from `start` to `end` (system, user, assistant or tool)."""

    role: str
    start: int
    end: int
    calls: tuple[ToolCall, ...] = ()  # of an assistant's, which may be empty then
    call_id: str = ""  # of a tool's: the call that it answers


def split_stretches(message: str) -> list[Stretch]:
    """Return the message's parts in order, the person's own words last; empty for a message without a history.

    Who writes such a beginning by hand has less read as theirs, never more.
    """
    if not _has_history(message):
        return []
    found: list[Stretch] = []
    role, start = ("system", len(_INSTRUCTIONS) + 1) if message.startswith(_INSTRUCTIONS) else ("", 0)
    for match in _BEGINS.finditer(message, start):
        if role and (said := message[start : match.start()].rstrip("\n")):
            found.append(Stretch(role, start, start + len(said)))
        if match[2]:
            return [*_pair_results(found, message), Stretch("user", match.end() + 1, len(message))]
        role, start = match[1] or "", match.end()
    return []


def _pair_results(found: Sequence[Stretch], message: str) -> list[Stretch]:
    """Give calls to who asked for them; what is no call with all its results belongs to the part before it."""
    told, waits = list[Stretch](), list[ToolCall]()
    for number, one in enumerate(found, 1):
        if one.role == "calls":
            results = takewhile(lambda following: following.role == "result", found[number:])
            waits = _read_calls(message[one.start : one.end], len(list(results)))
        if one.role == "calls" and waits:
            has_words = bool(told) and told[-1].role == "assistant" and not told[-1].calls
            asker = told.pop() if has_words else Stretch("assistant", one.start, one.start)
            told.append(asker._replace(calls=tuple(waits)))
        elif one.role == "result" and waits:
            told.append(one._replace(role="tool", call_id=waits.pop(0).call_id))
        elif one.role in ("calls", "result"):
            last = told.pop() if told else one._replace(role="user")
            told.append(last._replace(end=one.end))
        else:
            told.append(one)
    return told


def _read_calls(text: str, count: int) -> list[ToolCall]:
    with suppress(ValueError):
        if len(calls := _CALLS.decode(text)) == count:
            return calls
    return []


def find_own_words(message: str) -> str:
    """Return what of a message its person said now: all of it, unless it begins as one with a history does."""
    if not _has_history(message):
        return message
    return message[found[-1].start :] if (found := split_stretches(message)) else ""


def _has_history(message: str) -> bool:
    return message.startswith((f"{_INSTRUCTIONS}\n", f"{_EXCHANGE}\n"))


def cut_middle(text: str, chars_max: int) -> str:
    """Return the text, or of a long one beginning and end, so that at the cut no sentence seems to begin or end."""
    if len(text) <= chars_max:
        return text
    half = max(1, (chars_max - len(_CUT)) // 2)
    return f"{text[:half]}{_CUT}{text[-half:]}"
