"""Server-sent events: one frame, and a response that writes frames as they come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

PING = ": still here\n\n"
_LINE_ENDS = str.maketrans({end: f"\\u{ord(end):04x}" for end in "\u0085\u2028\u2029"})
"""What some readers of streams take for the end of a line, though the standard does not; in JSON they stand escaped."""
_HEADERS = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}


def frame(data: str | Mapping[str, Any], *, event: str = "", identity: str = "") -> str:
    """One event; data is JSON, as text or to be written so, on one line."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = text.translate(_LINE_ENDS)
    head = (f"id: {identity}\n" if identity else "") + (f"event: {event}\n" if event else "")
    return f"{head}data: {text}\n\n"


def streamed(frames: AsyncGenerator[str], headers: Mapping[str, str] | None = None) -> StreamingResponse:
    """The response; the generator is closed when the client goes."""

    async def body() -> AsyncGenerator[bytes]:
        async with aclosing(frames):
            async for one in frames:
                yield one.encode("utf-8", "replace")

    return _Streamed(body(), media_type="text/event-stream", headers={**_HEADERS, **(headers or {})})


class _Streamed(StreamingResponse):
    """Starlette's, without its task group for each answer, a quarter of the processor time that a turn takes here."""

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Returns when all is sent, or when the client has gone: then the generator is closed."""
        loop = asyncio.get_running_loop()
        work = loop.create_task(self.stream_response(send))
        watch = loop.create_task(_gone(receive))
        watch.add_done_callback(lambda _: work.cancel())
        try:
            await work
        except asyncio.CancelledError:
            if not watch.done() or watch.cancelled():
                raise  # it is this answer that is given up, not its client
        finally:
            watch.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
