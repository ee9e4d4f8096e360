"""A result of a server as text for the model: texts as they are, the rest described, nothing left out unsaid. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

_BASE64_CHARS, _BASE64_BYTES = 4, 3


def told(content: Sequence[Mapping[str, Any]], structured: Any) -> str:
    """The blocks in order, a line between them; structured content only where no block brings a text."""
    parts = [_block(block) for block in content]
    if structured is not None and not any(block.get("type") == "text" for block in content):
        parts.append(json.dumps(structured, sort_keys=True, ensure_ascii=False))
    return "\n".join(parts)


def _block(block: Mapping[str, Any]) -> str:
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "image" | "audio" as kind:
            return f"[{kind} {_word(block, 'mimeType')}, {_bytes_of(block.get('data'))} bytes, not shown]"
        case "resource":
            return _resource(block.get("resource"))
        case "resource_link":
            return f"[link to the resource {_word(block, 'name')}: {_word(block, 'uri')}]"
        case other:
            return f"[content of the unknown kind {str(other)[:40]!r}, not shown]"


def _resource(resource: Any) -> str:
    if not isinstance(resource, Mapping):
        return "[an embedded resource without content]"
    head = f"resource {_word(resource, 'uri')} {_word(resource, 'mimeType')}".rstrip()
    if isinstance(resource.get("text"), str):
        return f"[{head}]\n{resource['text']}"
    return f"[{head}, {_bytes_of(resource.get('blob'))} bytes, not shown]"


def _word(block: Mapping[str, Any], name: str) -> str:
    return str(block.get(name) or "")[:200]


def _bytes_of(data: Any) -> int:
    """How many bytes a base64 text holds."""
    if not isinstance(data, str):
        return 0
    return len(data) * _BASE64_BYTES // _BASE64_CHARS - data[-2:].count("=")
