"""Tools of installed Python packages: found by their names in the group `hobus.tools`, loaded in tool processes alone.

Their imports may be anything, so no worker makes them: a tool process loads one and describes it, and its worker goes
by that description. Light on imports, as everything that tool processes load.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

from hobus.actors.ho1_executor.tools.definition import ToolDefinition, ToolHost
from hobus.actors.ho1_executor.tools.registry import BUILTIN
from hobus.actors.ho1_executor.tools.schema_check import schema_fault
from hobus.actors.ho1_executor.tools.signature import NoSchema, invocation_parameter, schema_of
from hobus.bus.tool import MARK, Declared, Invocation

GROUP = "hobus.tools"
SOURCE = "python"


class BadEntryPoint(Exception):
    """It cannot be a tool; the message says why and what mends it."""


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
        raise BadEntryPoint("it is no tool; decorate the function with @hobus.tool(idempotent=..., writes=...)")
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
