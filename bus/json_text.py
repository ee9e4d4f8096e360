"""JSON text: what is in one that somebody else wrote, if a message can carry it; that of a message's value. Pure."""

from __future__ import annotations

import json
from typing import Any, NoReturn, cast

import msgspec

from hobus.bus.messages.base import pack


class _AnyObject(msgspec.Struct):
    """An object whose contents are not looked at."""


_ANY_OBJECT, _DEPTH_MAX = msgspec.json.Decoder(_AnyObject), 200


def is_object(text: str) -> bool:
    """Return whether the text is a JSON object, at most 200 levels deep, in one pass and without building it.

    For a process that serves everybody and only hands it on; tens of times faster than reading it.
    """
    try:
        _ANY_OBJECT.decode(text)
        is_flat = text.count("{") + text.count("[") <= _DEPTH_MAX
        return is_flat or is_within(json.loads(text), _DEPTH_MAX)
    except (ValueError, RecursionError):
        return False


def mend(text: str) -> str:
    """Return the text with no half of a character: two that belong together are one, any other is U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def mend_json(text: str | bytes) -> str:
    """Mend all texts in a JSON text, which may write halves as escapes. Raises ValueError."""
    try:
        value = json.loads(text if isinstance(text, str) else text.decode("utf-8", "replace"))
        return mend(json.dumps(value, ensure_ascii=False))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def write_json(value: Any) -> str:
    """Return a value that a message carries as JSON text, as HTTP clients send it: no blanks, letters unescaped."""
    return str(_encode(value), "utf-8")


_encode = msgspec.json.Encoder().encode


def read_json(text: str) -> Any:
    """Return the value, if a message can carry it. Raises ValueError for all else.

    No NaN and no infinity, no number over 64 bits, no lone surrogate, no endless nesting.
    """
    try:
        value: Any = json.loads(text, parse_constant=_refuse, parse_float=_read_finite)
        pack(value)
    except (OverflowError, RecursionError) as error:
        raise ValueError(type(error).__name__) from None
    return value


def read_object(text: str, *, depth_max: int) -> dict[str, Any] | None:
    """Return the object that the text is; None for anything else, and for one with more levels."""
    try:
        value = read_json(text)
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) and is_within(value, depth_max) else None


def is_within(value: Any, depth_max: int) -> bool:
    """Return whether objects and lists are nested at most that deep: `{}` is 1, `{"a": []}` is 2."""
    level = [value]
    for _ in range(depth_max):
        level = [inner for item in level for inner in _list_inner(item) if isinstance(inner, dict | list)]
        if not level:
            return True
    return False


def _list_inner(item: Any) -> list[Any]:
    if isinstance(item, dict):
        return list(cast("dict[str, Any]", item).values())
    return cast("list[Any]", item) if isinstance(item, list) else []


def _read_finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(text)
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)
