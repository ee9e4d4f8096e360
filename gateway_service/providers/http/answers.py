"""Reading what a provider says, which may be anything: each value is what it must be, or `BadAnswer` says which is not.

Pure; no text of an answer is repeated in a fault.
"""

from __future__ import annotations

import json
from typing import Any

from hobus.bus.messages.work_order import ToolCall

_COUNT_MAX = 2**53
"""Up to here a number is the same one for every reader of JSON."""


class BadAnswer(Exception):
    """An answer that came, and is none; `used` is what it says that it cost, None where it does not say."""

    def __init__(self, what: str, used: dict[str, int] | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.used = used


def an_object(value: Any, where: str) -> dict[str, Any]:
    """The JSON object; None counts as an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadAnswer(f"{where} is {_kind(value)}, not an object")
    return value


def a_list(value: Any, where: str) -> list[Any]:
    """The JSON array; None counts as an empty one."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadAnswer(f"{where} is {_kind(value)}, not a list")
    return value


def a_text(value: Any, where: str) -> str:
    """The text; None counts as none."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadAnswer(f"{where} is {_kind(value)}, not text")
    return value


def a_count(value: Any, where: str) -> int:
    """The number of something; None counts as 0."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _COUNT_MAX:
        raise BadAnswer(f"{where} is no count")
    return value


def call_arguments(text: str, tool: str) -> dict[str, Any]:
    """The arguments of a tool call; a model may write anything there."""
    try:
        value = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        raise BadAnswer(f"the arguments for tool {tool[:64]!r} are not JSON") from None
    if not isinstance(value, dict):
        raise BadAnswer(f"the arguments for tool {tool[:64]!r} are {_kind(value)}, not an object")
    return value


def tool_call(position: int, call_id: str, tool_id: str, arguments: dict[str, Any]) -> ToolCall:
    """One call, under its position until the gateway numbers it."""
    return ToolCall(call_id=str(position), provider_call_id=call_id, tool_id=tool_id, arguments=arguments)


def _kind(value: Any) -> str:
    return {str: "text", list: "a list", dict: "an object", bool: "a truth value"}.get(type(value), "a number")
