"""Small real servers on loopback that speak as a provider does, or as none should."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Request:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Behave = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    """Does with every request what the test says."""

    behave: Behave
    requests: list[Request] = field(default_factory=list)
    closed: int = 0  # connections that the other side ended before it had its answer
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, path, _version = head[0].split(" ")
                headers = {
                    name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)
                }
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                request = Request(method, path, headers, body)
                self.requests.append(request)
                gone = asyncio.ensure_future(reader.read(1))
                gone.add_done_callback(lambda done: done.cancelled() or done.exception())  # a reset is an end as well
                work = asyncio.ensure_future(self.behave(request, writer))
                await asyncio.wait((gone, work), return_when=asyncio.FIRST_COMPLETED)
                if not work.done():
                    self.closed += 1
                    work.cancel()
                    break
                gone.cancel()
                work.result()
                break
        with suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()


@asynccontextmanager
async def serving(behave: Behave) -> AsyncIterator[Server]:
    """A server for the length of a test."""
    server = Server(behave)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=1 << 24)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()


@contextmanager
def served(behave: Behave) -> Iterator[Server]:
    """A server in a thread of its own, for those whose own work must not make it late."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    manager = serving(behave)
    try:
        yield asyncio.run_coroutine_threadsafe(manager.__aenter__(), loop).result()
        asyncio.run_coroutine_threadsafe(manager.__aexit__(None, None, None), loop).result()
    finally:
        asyncio.run_coroutine_threadsafe(_all_ended(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _all_ended() -> None:
    """What still answers somebody is given up."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def head(status: int = 200, **headers: Any) -> bytes:
    """The head of an answer; names with `_` for `-`."""
    lines = [f"HTTP/1.1 {status} Whatever", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def whole(value: Any, status: int = 200, **headers: Any) -> bytes:
    """Head and body of an answer: text and bytes as they are, all else as JSON."""
    text = value if isinstance(value, str | bytes) else json.dumps(value)
    data = text.encode() if isinstance(text, str) else text
    return head(status, **{"content_type": "application/json", "content_length": len(data)} | headers) + data


def answering(value: Any, status: int = 200, **headers: Any) -> Behave:
    """One whole answer."""

    async def behave(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(whole(value, status, **headers))
        await writer.drain()

    return behave


def sse(*events: Any) -> bytes:
    """Events of a stream, each with its data alone."""
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


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
    """By the last part of the path."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        await of[request.path.rpartition("/")[2]](request, writer)

    return behave


def completion(content: Any = "fine", **changes: Any) -> dict[str, Any]:
    """A chat completion."""
    message = {"role": "assistant", "content": content} | changes.pop("message", {})
    return {
        "id": "c1",
        "object": "chat.completion",
        "model": "tiny-0417",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message} | changes.pop("choice", {})],
        "usage": {
            "prompt_tokens": 20,
            "completion_tokens": 9,
            "prompt_tokens_details": {"cached_tokens": 8},
            "completion_tokens_details": {"reasoning_tokens": 4},
        },
    } | changes


def piece(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """A piece of a chat completion."""
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


USAGE_PIECE = {"choices": [], "usage": completion()["usage"]}
DONE = b"data: [DONE]\n\n"


def message(content: list[Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A message of Anthropic's."""
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "tiny-0417",
        "content": [{"type": "text", "text": "fine"}] if content is None else content,
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": 10,
            "output_tokens": 9,
            "cache_read_input_tokens": 8,
            "cache_creation_input_tokens": 2,
            "output_tokens_details": {"thinking_tokens": 4},
        },
    } | changes


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
