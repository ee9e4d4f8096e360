"""Servers that speak as providers do, and that the drills have no use for."""

from __future__ import annotations

import asyncio
from typing import Any

from bench.gateway.servers import Behave, Request, head, message, sse, whole


def answering(value: Any, status: int = 200, **headers: Any) -> Behave:
    async def behave(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(whole(value, status, **headers))
        await writer.drain()

    return behave


def streaming(events: list[Any], *, end: bytes = b"", pause_s: float = 0.0) -> Behave:
    """Events one after the other; a pair is (name, data), as Anthropic sends them."""

    async def behave(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(head(content_type="text/event-stream"))
        for event in events:
            name, data = event if isinstance(event, tuple) else ("", event)
            writer.write((f"event: {name}\n" if name else "").encode() + sse(data))
            await writer.drain()
            await asyncio.sleep(pause_s)
        writer.write(end)
        await writer.drain()

    return behave


def by_path(**of: Behave) -> Behave:
    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        await of[request.path.rpartition("/")[2]](request, writer)

    return behave


def message_events(*blocks: tuple[dict[str, Any], list[dict[str, Any]]], stop: str = "end_turn") -> list[Any]:
    """The events of a streamed message: blocks with their deltas."""
    started = message([], stop_reason=None) | {
        "usage": {
            "input_tokens": 10,
            "output_tokens": 1,
            "cache_read_input_tokens": 8,
            "cache_creation_input_tokens": 2,
        }
    }
    events: list[Any] = [("message_start", {"type": "message_start", "message": started}), ("ping", {"type": "ping"})]
    for index, (block, deltas) in enumerate(blocks):
        events.append(("content_block_start", {"type": "content_block_start", "index": index, "content_block": block}))
        events += [
            ("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas
        ]
        events.append(("content_block_stop", {"type": "content_block_stop", "index": index}))
    usage = {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}}
    events.append(("message_delta", {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage}))
    events.append(("message_stop", {"type": "message_stop"}))
    return events
