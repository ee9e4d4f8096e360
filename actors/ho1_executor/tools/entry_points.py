"""Tools of installed Python packages: found by their names in the group `hobus.tools`, loaded in tool processes alone.

Their imports may be anything, so no worker makes them: a tool process loads one and describes it, and its worker goes
by that description; the schema of its arguments is made from its annotations. Light on imports, as everything that tool
processes load.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hobus.actors.ho1_executor.tools.definition import ToolDefinition, ToolHost
from hobus.actors.ho1_executor.tools.registry import BUILTIN
from hobus.actors.ho1_executor.tools.schema_check import schema_fault
from hobus.bus.tool import MARK, Declared, Invocation

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
    """An annotation that says nothing in JSON; the message names the parameter and the fix."""


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


GROUP = "hobus.tools"
SOURCE = "python"


class BadEntryPoint(Exception):
    """It cannot be a tool; the message says why and what fixes it."""


def load(name: str) -> ToolDefinition:
    """The tool of this name. Raises BadEntryPoint, whatever its package does."""
    if name in BUILTIN:
        raise BadEntryPoint("a built-in tool has this name; rename the entry point")
    found = list(entry_points(group=GROUP, name=name))
    if not found:
        known = ", ".join(sorted({point.name for point in entry_points(group=GROUP)})[:20]) or "none"
        raise BadEntryPoint(f"no installed package has it in the group {GROUP}; there: {known}")
    if len({point.value for point in found}) > 1:
        packages = ", ".join(sorted({point.dist.name for point in found if point.dist is not None}))
        raise BadEntryPoint(f"several packages have it ({packages}); uninstall all but one")
    try:
        function = found[0].load()
    except BaseException as error:  # noqa: BLE001 - an import may raise anything, SystemExit too
        raise BadEntryPoint(f"{found[0].value} cannot be imported ({type(error).__name__}: {_line(error)})") from None
    return definition_of(name, function)


def definition_of(name: str, function: Any) -> ToolDefinition:
    """The tool that a function is. Raises BadEntryPoint."""
    declared: Declared | None = getattr(function, MARK, None)
    if not callable(function) or not isinstance(declared, Declared):
        raise BadEntryPoint("it is not a tool; decorate the function with @hobus.tool(idempotent=..., writes=...)")
    description = declared.description or inspect.getdoc(function) or ""
    if not description.strip():
        raise BadEntryPoint("nothing says what it does; give it a docstring or description=")
    try:
        parameters = dict(declared.parameters) if declared.parameters is not None else schema_of(function)
        wants_call = invocation_parameter(function)
    except NoSchema as error:
        raise BadEntryPoint(str(error)) from None
    return ToolDefinition(
        tool_id=name,
        description=description.strip(),
        parameters=parameters,
        idempotent=declared.idempotent,
        run=_runner(function, wants_call),
        writes=declared.writes,
        source=SOURCE,
    )


def description_of(name: str, max_bytes: int) -> str:
    """What a worker has to know of an entry point, as JSON text. Raises BadEntryPoint."""
    tool = load(name)
    try:
        text = json.dumps(
            {
                "description": tool.description,
                "parameters": tool.parameters,
                "idempotent": tool.idempotent,
                "writes": tool.writes,
            },
            allow_nan=False,
        )
    except (TypeError, ValueError):
        raise BadEntryPoint("its parameters= is not JSON; write a JSON Schema") from None
    if len(text.encode()) > max_bytes:
        raise BadEntryPoint(f"its description and schema have more than {max_bytes} bytes; shorten them")
    return text


def _runner(function: Callable[..., Any], wants_call: str | None) -> Callable[[Mapping[str, Any], ToolHost], Any]:
    async def run(arguments: Mapping[str, Any], host: ToolHost) -> Any:
        named = dict(arguments)
        if wants_call is not None:
            known = {field: host.context[field] for field in ("idempotency_key", "session_id", "agent_id")}
            named[wants_call] = Invocation(**known)
        if inspect.iscoroutinefunction(function):
            # The tool process has no loop of its own, and one call at a time.
            return asyncio.run(function(**named))
        return function(**named)

    return run


def _line(error: BaseException) -> str:
    """The first line of what an import said, printable and short: no traceback, and no call has been made yet."""
    first = (str(error).splitlines() or [""])[0]
    return "".join(char if char.isprintable() and char.isascii() else "?" for char in first[:160])


def main() -> None:
    """`python -m` this module, MAX_BYTES NAME...: name -> why it is no tool, as JSON."""
    faults: dict[str, str] = {}
    out = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # what a package prints while it is imported is no part of the answer
    os.dup2(nowhere, 2)
    for name in sys.argv[2:]:
        try:
            fault = schema_fault(json.loads(description_of(name, int(sys.argv[1])))["parameters"])
        except BadEntryPoint as bad:
            fault = str(bad)
        faults[name] = fault
    os.write(out, json.dumps(faults).encode())
    os._exit(0)  # threads that a package left behind are nobody's business


if __name__ == "__main__":
    main()
