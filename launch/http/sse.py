"""Server-sent events: one frame, a response that writes frames as they come, and what a client that goes ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, TypeVar

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

T = TypeVar("T")
PING = ": still here\n\n"
_LINE_ENDS = str.maketrans({end: f"\\u{ord(end):04x}" for end in "\u0085\u2028\u2029"})
"""What some readers of streams take for the end of a line, though the standard does not; in JSON they stand escaped."""
_HEADERS = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}


def make_frame(data: str | Mapping[str, Any], *, event: str = "", identity: str = "") -> str:
    """Return one event; data is JSON, as text or to be written so, on one line."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = text.translate(_LINE_ENDS)
    head = (f"id: {identity}\n" if identity else "") + (f"event: {event}\n" if event else "")
    return f"{head}data: {text}\n\n"


def make_stream(frames: AsyncGenerator[str], headers: Mapping[str, str] | None = None) -> StreamingResponse:
    """Return the response; the generator is closed when the client goes."""

    async def yield_body() -> AsyncGenerator[bytes]:
        async with aclosing(frames):
            async for one in frames:
                yield one.encode("utf-8", "replace")

    return _Streamed(yield_body(), media_type="text/event-stream", headers={**_HEADERS, **(headers or {})})


class _Streamed(StreamingResponse):
    """Starlette's response without its task group for each answer, a quarter of a turn's processor time here."""

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send all, or stop when the client has gone: then the generator is closed."""
        with suppress(ClientGone):
            await run_until_gone(self.stream_response(send), partial(wait_disconnected, receive))


# --- clients that go --------------------------------------------------------------------------------------------------

Gone = Callable[[], Coroutine[Any, Any, object]]
"""Returns when the client has gone."""


class ClientGone(Exception):
    """Nobody is left to be answered."""


async def wait_disconnected(receive: Receive) -> None:
    """Wait until the client has gone; its body was read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def run_until_gone(work: Awaitable[T], gone: Gone) -> T:
    """Return what the work brings; when the client goes first, cancel it and raise ClientGone."""
    task, watch = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    watch.add_done_callback(lambda _: task.cancel())
    try:
        return await task
    except asyncio.CancelledError:
        if watch.done() and not watch.cancelled():
            raise ClientGone from None
        raise  # it is this answer that is given up, not its client
    finally:
        watch.cancel()
