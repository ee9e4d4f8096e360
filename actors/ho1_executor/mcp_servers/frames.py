"""What a worker and the process of one MCP server say to each other. Pure.

    worker -> process  configure {server, output_max_bytes, message_max_bytes, listed_max, definition_max_bytes,
                                  end_grace_s}                              once, first
                       call      {n, tool, arguments, idempotency_key}      any number at once
                       cancel    {n}                                        the call is to end; its result still comes
    process -> worker  listed    {server, tools: [{name, description, schema}]}   ready; again after each change
                       failed    {detail}                                   it could not be connected; the process ends
                       result    {n, ok, code, text, truncated}             ends call n

Frames are those of `tools/protocol.py`.
"""

from __future__ import annotations

from typing import Any

from hobus.actors.ho1_executor.mcp_servers.listing import is_listing


def is_listed(frame: dict[str, Any]) -> bool:
    """Whether it is a well-formed listing."""
    return frame["op"] == "listed" and isinstance(frame.get("server"), str) and is_listing(frame.get("tools"))


def failure_in(frame: dict[str, Any]) -> str | None:
    """Why the server could not be connected; None if the frame does not say so."""
    detail = frame.get("detail")
    return printable(detail) if frame["op"] == "failed" and isinstance(detail, str) else None


def printable(text: str, chars: int = 300) -> str:
    """As it may stand in a table: one line, no control characters, bounded."""
    line = " ".join(text.split())
    return "".join(char if " " <= char <= "~" else "?" for char in line[:chars])
