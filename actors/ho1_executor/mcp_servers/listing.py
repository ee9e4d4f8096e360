"""What a server says, in terms of this system: its listing as tools, its results as texts for the model. Pure.

Of a listing: names that every provider takes, schemas that are schemas. Nothing that a server says of itself is
believed: whether its tools write or may run twice stands in the configuration. Of a result: texts as they are, files
kept and told, nothing left out unsaid.
"""

from __future__ import annotations

import base64
import json
import mimetypes
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hobus.actors.ho1_executor import limits
from hobus.actors.ho1_executor.tools.definition import KeptFiles, ToolDefinition
from hobus.bus.messages.control import SEPARATOR
from hobus.config.json_schema import find_input_schema_fault
from hobus.config.sections.tools import McpServerConfig
from hobus.config.tool_faults import TOOL_ID, is_meant

NOT_TAKEN = "not_taken"
"""Code of a call that a server over HTTP did not take, having forgotten its session: it may be made again."""

NO_RESULT = "answered with something that is not a result"

_NAME_CHARS = 64


class TakenTools(NamedTuple):
    """What became of a listing."""

    tools: dict[str, ToolDefinition]
    names: dict[str, str]  # tool id -> the server's own name
    refused: list[str]  # `<name>: <reason>`


def derive_tool_id(server: str, name: str) -> str:
    """Return the id by which models and agents know a server's tool: characters that providers refuse become `_`."""
    plain = "".join(char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in name)
    return f"{server}{SEPARATOR}{plain}"


def take_listed(server: str, config: McpServerConfig, listed: Sequence[Mapping[str, Any]]) -> TakenTools:
    """Return the tools that are taken from `listed` (each `name`, `description`, `schema`), and why others are not."""
    listed_max, definition_max_bytes = limits.LISTED_MAX, limits.DEFINITION_MAX_BYTES
    tools: dict[str, ToolDefinition] = {}
    names: dict[str, str] = {}
    refused: list[str] = []
    wanted = [tool for tool in listed if config.tools is None or tool["name"] in config.tools]
    for tool in wanted[:listed_max]:
        name: str = tool["name"]
        tool_id = derive_tool_id(server, name)
        fault = _find_fault(tool, tool_id, definition_max_bytes)
        if not fault and tool_id in tools:
            fault = f"has the same id {tool_id} as {names[tool_id]!r}"
        if fault:
            refused.append(f"{make_printable(name, _NAME_CHARS)}: {fault}")
            continue
        reads = is_meant(name, config.reads)
        names[tool_id] = name
        tools[tool_id] = ToolDefinition(
            tool_id=tool_id,
            description=tool["description"],
            parameters=tool["schema"],
            idempotent=reads or is_meant(name, config.idempotent),
            writes=not reads,
            source=server,
            timeout_s=None if config.timeout_ms is None else config.timeout_ms / 1000,
        )
    if len(wanted) > listed_max:
        refused.append(f"{len(wanted) - listed_max} more: it lists {len(wanted)}, at most {listed_max} are taken")
    missing = sorted(set(config.tools or ()) - {tool["name"] for tool in listed})
    refused += [f"{make_printable(name, _NAME_CHARS)}: the server does not list it" for name in missing]
    there = [tool["name"] for tool in wanted]
    refused += [
        f"{make_printable(pattern, _NAME_CHARS)}: is in {setting}, and none of the server's tools is called so"
        for setting, patterns in (("reads", config.reads), ("idempotent", config.idempotent))
        for pattern in patterns
        if pattern != "*" and not any(is_meant(name, [pattern]) for name in there)
    ]
    return TakenTools(tools, names, refused)


def make_printable(text: str, chars: int = 300) -> str:
    """Return the text as it may stand in a table: one line, no control characters, bounded."""
    line = " ".join(text.split())
    return "".join(char if " " <= char <= "~" else "?" for char in line[:chars])


def _find_fault(tool: Mapping[str, Any], tool_id: str, definition_max_bytes: int) -> str:
    if TOOL_ID.fullmatch(tool_id) is None:
        return f"its id {make_printable(tool_id, _NAME_CHARS)} is longer than the 64 characters that providers take"
    if tool.get("is_too_large"):
        return f"its description and schema exceed {definition_max_bytes} bytes"
    try:
        size = len(tool["description"].encode("utf-8", "replace")) + len(json.dumps(tool["schema"], allow_nan=False))
    except (ValueError, RecursionError, TypeError):
        return "its input schema is no JSON"
    if size > definition_max_bytes:
        return f"its description and schema have {size} bytes, at most {definition_max_bytes} are taken"
    return find_input_schema_fault(tool["schema"])


def render_content(content: Sequence[Mapping[str, Any]], structured: Any, files: KeptFiles) -> str:
    """Return the blocks in order, a line between them; structured content only where no block brings a text."""
    parts = [_render_block(block, files) for block in content]
    if structured is not None and not any(block.get("type") == "text" for block in content):
        parts.append(json.dumps(structured, sort_keys=True, ensure_ascii=False))
    return "\n".join(parts)


def _render_block(block: Mapping[str, Any], files: KeptFiles) -> str:
    match block.get("type"):
        case "text":
            return str(block.get("text") or "")
        case "image" | "audio" as kind:
            return _render_file(kind, f"{kind}-{len(files.kept) + 1}", block, block.get("data"), files)
        case "resource":
            return _render_resource(block.get("resource"), files)
        case "resource_link":
            return f"[link to the resource {_render_word(block, 'name')}: {_render_word(block, 'uri')}]"
        case other:
            return f"[content of the unknown kind {str(other)[:40]!r}, not shown]"


def _render_resource(resource: Any, files: KeptFiles) -> str:
    if not isinstance(resource, Mapping):
        return "[an embedded resource without content]"
    if isinstance(resource.get("text"), str):
        head = f"resource {_render_word(resource, 'uri')} {_render_word(resource, 'mimeType')}".rstrip()
        return f"[{head}]\n{resource['text']}"
    return _render_file(
        "resource", _render_word(resource, "uri").rstrip("/").rpartition("/")[2], resource, resource.get("blob"), files
    )


def _render_file(kind: str, name: str, block: Mapping[str, Any], data: Any, files: KeptFiles) -> str:
    media_type = _render_word(block, "mimeType") or "application/octet-stream"
    if "." not in name:
        name += mimetypes.guess_extension(media_type) or ""
    try:
        return files.take(kind, name, media_type, base64.b64decode(data, validate=True))
    except (ValueError, TypeError):
        return f"[{kind} {name}, {media_type}, not kept: its data is not base64]"


def _render_word(block: Mapping[str, Any], name: str) -> str:
    return str(block.get(name) or "")[:200]
