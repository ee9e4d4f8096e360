"""What a worker and its tool processes say to each other: length-prefixed MessagePack maps over a socket pair.

    worker -> child   configure {view, registry, ledger_dir, verifier, output_max_bytes,    once, first
                                 definition_max_bytes, entry_points,
                                 limits, environment}
                      call      {n, tool_id, arguments, context}                            one at a time
                      describe  {n, tool_id}                                                likewise, of entry points
                      reply     {n, value} | {n, fault}                                     answer to a request
    child  -> worker  request   {n, service, type, body}                                    while it works on call n
                      result    {n, ok, code, text, truncated}                              ends call or describe n

Every frame is a map with its kind under `op`. Light on imports: tool processes load this and nothing of the bus.
"""

from __future__ import annotations

from typing import Any, cast

import msgpack

PREFIX_BYTES = 4
FRAME_OVERHEAD_BYTES = 4096
"""What a result frame holds beside its text, and the most that a request may be: the format's own bound."""


class BadFrame(ValueError):
    """Bytes that are no frame of this protocol."""


def pack_frame(op: str, **fields: Any) -> bytes:
    """Prefix and body of one frame."""
    body = cast("bytes", msgpack.packb({"op": op, **fields}, use_bin_type=True))
    return len(body).to_bytes(PREFIX_BYTES, "big") + body


def frame_size(prefix: bytes, max_bytes: int) -> int:
    """Length of the body that follows. Raises BadFrame above `max_bytes`."""
    size = int.from_bytes(prefix, "big")
    if size > max_bytes:
        raise BadFrame(f"a frame of {size} bytes; at most {max_bytes}")
    return size


def unpack_frame(body: bytes) -> dict[str, Any]:
    """The map of a frame. Raises BadFrame for anything else."""
    try:
        value = msgpack.unpackb(body, raw=False, strict_map_key=True)
    except Exception as error:  # noqa: BLE001 - msgpack raises a family without a common base
        raise BadFrame(f"not MessagePack ({type(error).__name__})") from None
    if not isinstance(value, dict) or not isinstance(value.get("op"), str):
        raise BadFrame("not a map with `op`")
    return value


def is_result(frame: dict[str, Any], number: int) -> bool:
    """Whether it is a well-formed end of this call."""
    kinds = {"ok": bool, "code": str, "text": str, "truncated": bool}
    return (
        frame["op"] == "result"
        and frame.get("n") == number
        and all(type(frame.get(name)) is kind for name, kind in kinds.items())
    )


def is_request(frame: dict[str, Any], number: int) -> bool:
    """Whether it is a well-formed question within this call."""
    kinds = {"service": str, "type": str, "body": dict}
    return (
        frame["op"] == "request"
        and frame.get("n") == number
        and all(type(frame.get(name)) is kind for name, kind in kinds.items())
    )
