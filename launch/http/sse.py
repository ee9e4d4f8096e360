"""Server-sent events: one frame, and a response that writes frames as they come."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from starlette.responses import StreamingResponse

PING = ": still here\n\n"
_HEADERS = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}


def frame(data: str | Mapping[str, Any], *, event: str = "", identity: str = "") -> str:
    """One event; data that is no text is written as JSON, on one line."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    head = (f"id: {identity}\n" if identity else "") + (f"event: {event}\n" if event else "")
    return f"{head}data: {text}\n\n"


def streamed(frames: AsyncGenerator[str], headers: Mapping[str, str] | None = None) -> StreamingResponse:
    """The response; the generator is closed when the client goes."""

    async def body() -> AsyncGenerator[bytes]:
        async with aclosing(frames):
            async for one in frames:
                yield one.encode("utf-8", "replace")

    return StreamingResponse(body(), media_type="text/event-stream", headers={**_HEADERS, **(headers or {})})
