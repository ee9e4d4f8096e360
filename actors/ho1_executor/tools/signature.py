"""The JSON Schema of a function's arguments, from its annotations. Pure; standard library alone."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hobus.bus.tool import Invocation

_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    dict: {"type": "object"},
    list: {"type": "array"},
    Any: {},
}


class NoSchema(Exception):
    """An annotation that says nothing in JSON; the message names the parameter and the mend."""


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """An object schema with one property per parameter; no other property is allowed. Raises NoSchema."""
    hints = _hints(function)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if hints.get(name) is Invocation:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise NoSchema(f"parameter {name}: only parameters that can be given by name; or pass parameters=")
        if name not in hints:
            raise NoSchema(f"parameter {name} has no annotation; add one, or pass parameters=")
        properties[name] = _schema(hints[name], name)
        if parameter.default is parameter.empty:
            required.append(name)
        elif isinstance(parameter.default, (str, int, float, bool)):
            properties[name] = {**properties[name], "default": parameter.default}
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def invocation_parameter(function: Callable[..., Any]) -> str | None:
    """The parameter that wants to know the call."""
    return next((name for name, hint in _hints(function).items() if hint is Invocation and name != "return"), None)


def _hints(function: Callable[..., Any]) -> Mapping[str, Any]:
    try:
        return get_type_hints(function)
    except (NameError, TypeError) as error:
        raise NoSchema(f"its annotations cannot be read ({error}); pass parameters=") from None


def _schema(hint: Any, name: str) -> dict[str, Any]:
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(one, name) for one in arguments]}
    if origin in (list, Sequence) and len(arguments) == 1:
        return {"type": "array", "items": _schema(arguments[0], name)}
    if origin in (dict, Mapping) and len(arguments) == 2 and arguments[0] is str:  # noqa: PLR2004 - key and value
        return {"type": "object", "additionalProperties": _schema(arguments[1], name)}
    raise NoSchema(f"parameter {name}: no JSON Schema for its annotation; use plain JSON types, or pass parameters=")
