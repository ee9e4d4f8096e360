"""What a worker and the processes that run foreign code for it say to each other: length-prefixed MessagePack maps.

Every frame is a map with its kind under `op`. A process of tools takes one call at a time; a shared one, any number:

    worker -> child   configure {view, registry, checks, output_max_bytes,    once, first
                                 said_max_bytes, definition_max_bytes, entry_points,
                                 limits, environment, is_shared}
                      call      {n, tool_id, arguments, context}                            the context has a `view` of
                                                                                            its own where it is another
                      describe  {n, tool_id}                                                likewise, of entry points
                      cancel    {n}                                                         if shared; its result comes
                      reply     {n, value} | {n, fault}                                     answer to a request
    child  -> worker  request   {n, service, type, body}                                    while it works on call n
                      result    {n, ok, code, text, truncated, traceback, files}            ends call or describe n
                      spent     {}                                                          it takes no other call
                      blocked   {tool_id, begun}                                           nor then: this one holds up
                                                                                            all others of a shared one,
                                                                                            who have not begun never do

The process of an MCP server any number:

    worker -> process  configure {server, given, limits, output_max_bytes,                  once, first
                                  message_max_bytes, listed_max}
                       call      {n, tool, arguments, idempotency_key}                      any number at once
                       cancel    {n}                                                        its result still comes
    process -> worker  listed    {server, tools: [{name, description, schema}]}             ready; again after a change
                       failed    {detail}                                                   not connected; it ends
                       result    {n, ok, code, text, truncated, traceback, files}           ends call n

What a process prints is no frame: it has a pipe for that (`print_pipe`).

Light on imports: tool processes load this and nothing of the bus.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgpack

from hobus.actors.ho1_executor.tools.definition import ToolResult

PREFIX_BYTES = 4
FRAME_OVERHEAD_BYTES = 4096
"""What a result frame holds beside its texts, and the most that a request may be: the format's own bound."""


_RESULT: Mapping[str, type] = {"ok": bool, "code": str, "text": str, "truncated": bool, "traceback": str, "files": list}
_REQUEST: Mapping[str, type] = {"service": str, "type": str, "body": dict}


class BadFrame(ValueError):
    """Say that bytes are no frame of this protocol."""


def pack_frame(op: str, **fields: Any) -> bytes:
    body = cast("bytes", msgpack.packb({"op": op, **fields}, use_bin_type=True))
    return len(body).to_bytes(PREFIX_BYTES, "big") + body


def read_frame_size(prefix: bytes, max_bytes: int) -> int:
    """Return the length of the body that follows. Raises BadFrame above `max_bytes`."""
    size = int.from_bytes(prefix, "big")
    if size > max_bytes:
        raise BadFrame(f"a frame of {size} bytes; at most {max_bytes}")
    return size


def unpack_frame(body: bytes) -> dict[str, Any]:
    """Return the map of a frame. Raises BadFrame for anything else."""
    try:
        value = msgpack.unpackb(body, raw=False, strict_map_key=True)
    except Exception as error:  # noqa: BLE001 - msgpack raises a family without a common base
        raise BadFrame(f"not MessagePack ({type(error).__name__})") from None
    if not isinstance(value, dict) or not isinstance(value.get("op"), str):
        raise BadFrame("not a map with `op`")
    return value


def list_result_fields(number: int, result: ToolResult) -> dict[str, Any]:
    return {"n": number, **{name: getattr(result, name) for name in _RESULT}}


def read_result(frame: Mapping[str, Any]) -> ToolResult | None:
    """Return the result that a frame brings, of the call under `n`; None if it is no well-formed one."""
    if frame["op"] != "result" or not _has(frame, {"n": int, **_RESULT}):
        return None
    fields: dict[str, Any] = {name: frame[name] for name in _RESULT}
    fields["files"] = [tuple(file) for file in fields["files"] if [*map(type, file)] == [str, str, bytes]]
    return ToolResult(**fields)


def is_request(frame: Mapping[str, Any]) -> bool:
    """Return whether the frame is a well-formed question within the call under `n`."""
    return frame["op"] == "request" and _has(frame, {"n": int, **_REQUEST})


def _has(frame: Mapping[str, Any], kinds: Mapping[str, type]) -> bool:
    return all(type(frame.get(name)) is kind for name, kind in kinds.items())
