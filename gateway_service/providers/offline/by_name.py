"""Tools asked for by name: `use <tool id> {json arguments}`, one per line, which any tool understands. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from hobus.gateway_service.providers.offline.reading import Call

_LINE = re.compile(r"use[ \t]+([A-Za-z0-9_-]{1,64})[ \t]*(\{.*\})?[ \t]*", re.IGNORECASE)
_CALLS_MAX = 64
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Named:
    """The calls that a message names, or why there are none."""

    calls: tuple[Call, ...] = ()
    said: str = ""


def message_of(text: str) -> str:
    """The message itself; a door's client may say other things before it."""
    return text.rpartition("\nMessage:\n")[2]


def named_in(text: str, offered: Collection[str]) -> Named | None:
    """What a message of this form wants; None for any other message."""
    lines = [line.strip() for line in message_of(text).splitlines() if line.strip()]
    found = [_LINE.fullmatch(line) for line in lines]
    if not found or len(found) > _CALLS_MAX or not all(found):
        return None
    calls: list[Call] = []
    for match in (one for one in found if one is not None):
        tool_id = match.group(1)
        if tool_id not in offered:
            # "use short words" is no tool: only what names one of something is taken for an order.
            if "__" not in tool_id and match.group(2) is None:
                return None
            return Named(said=f"I was not given a tool {tool_id}. {_given(offered)}")
        arguments = _arguments(match.group(2))
        if arguments is None:
            return Named(said=f"What follows {tool_id} is no JSON object, so I did not use it.")
        calls.append(Call(tool_id, arguments))
    return Named(calls=tuple(calls))


def _arguments(text: str | None) -> dict[str, Any] | None:
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _given(offered: Collection[str]) -> str:
    names = sorted(offered)
    if not names:
        return "I was given none."
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"I was given {', '.join(names[:_SHOWN])}{more}."
