"""Tools of the caller in OpenAI's words, chat completions' and responses': what they ask for, and what they are told.

Pure. A tool is a function that the client runs (docs/sessions.md); what is not is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from hobus.bus.messages.session import CallerCall, CallResult
from hobus.bus.messages.work_order import ToolChoice, ToolSpec
from hobus.launch.http.problems import Problem
from hobus.launch.http.transcript import Called, Said


def tools_of(tools: Any, choice: Any) -> tuple[list[ToolSpec], ToolChoice]:
    """The tools that a turn is offered, and whether it has to call one. Raises Problem."""
    if choice == "none" or not tools:
        return [], "auto"
    if not isinstance(tools, list):
        raise Problem(400, "invalid_input", "tools is a list", param="tools")
    offered = [_tool(tool, f"tools.{number}") for number, tool in enumerate(tools)]
    match choice:
        case None | "auto":
            return offered, "auto"
        case "required":
            return offered, "required"
        case {"type": "function", "function": {"name": name}} | {"type": "function", "name": name}:
            named = [tool for tool in offered if tool.tool_id == name]
            if not named:
                raise Problem(400, "invalid_input", "it names none of the tools", param="tool_choice")
            return named, "required"
        case _:
            said = "not supported here: a choice other than none, auto, required, or one function"
            raise Problem(400, "unsupported_parameter", said, param="tool_choice")


def _tool(tool: Any, place: str) -> ToolSpec:
    """Chat completions put the function into a field of its own, responses do not."""
    kind = tool.get("type") if isinstance(tool, dict) else None
    if kind != "function":
        raise Problem(
            400, "unsupported_parameter", f"not supported here: a tool of the type {str(kind)[:40]!r}: functions alone",
            param=place,
        )  # fmt: skip
    function = tool.get("function", tool)
    if not isinstance(function, dict):
        raise Problem(400, "invalid_input", "a function is an object", param=place)
    fields = [function.get(name, default) for name, default in (("name", ""), ("description", ""), ("parameters", {}))]
    name, description, parameters = fields
    if not isinstance(name, str) or not isinstance(description or "", str) or not isinstance(parameters or {}, dict):
        raise Problem(400, "invalid_input", "a function has a name, a description and parameters", param=place)
    return ToolSpec(tool_id=name, description=description or "", parameters=parameters or {})


def results_in(said: Sequence[Said]) -> list[CallResult]:
    """The results that a transcript ends with; none where it ends with a message."""
    results: list[CallResult] = []
    for one in reversed(said):
        if one.role != "tool":
            break
        results.insert(0, CallResult(tool_call_id=one.call_id, content=one.text))
    return results


def called(calls: Iterable[CallerCall]) -> tuple[Called, ...]:
    """The calls as a transcript has them."""
    return tuple(Called(call.tool_call_id, call.name, arguments_of(call)) for call in calls)


def arguments_of(call: CallerCall) -> str:
    """As JSON text, which is what OpenAI's clients read."""
    return json.dumps(call.arguments, ensure_ascii=False)


def tool_calls(calls: Iterable[CallerCall]) -> list[dict[str, Any]]:
    """Of a message of a chat completion."""
    return [
        {
            "id": call.tool_call_id, "type": "function",
            "function": {"name": call.name, "arguments": arguments_of(call)},
        }
        for call in calls
    ]  # fmt: skip


def call_item(call: CallerCall, *, is_begun: bool = False) -> dict[str, Any]:
    """Of the output of a response; begun, its arguments are still to come."""
    return {
        "id": f"fc_{call.tool_call_id.removeprefix('call_')}", "type": "function_call", "call_id": call.tool_call_id,
        "name": call.name, "arguments": "" if is_begun else arguments_of(call),
        "status": "in_progress" if is_begun else "completed",
    }  # fmt: skip
