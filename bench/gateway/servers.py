"""Small real servers on loopback that speak as a provider does, or as none should."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from bench.builders import shipped_snapshot
from hobus.config.sections.gateway import AnyProvider
from hobus.gateway_service.providers.http.provider import HttpProvider

KEY = "sk-planted-8f2b6c1d9e"
MODEL = {
    "model_id": "tiny", "sees": False, "context_tokens": 1_000_000, "input_usd_per_million": 1.0,
    "output_usd_per_million": 2.0, "cached_usd_per_million": 0.5,
}  # fmt: skip
COMMON: dict[str, Any] = {"models": [MODEL], "any_model": False, "concurrency_max": 8, "key": "env:THE_KEY", "omit": []}
ANTHROPIC: dict[str, Any] = {**COMMON, "kind": "anthropic", "structured": "json_schema"}
OPENAI: dict[str, Any] = {**ANTHROPIC, "kind": "openai", "max_tokens_field": "max_tokens"}


def instance(
    kind: dict[str, Any], base_url: str, *, gateway: dict[str, Any] | None = None, secret: str = KEY, **changes: Any
) -> HttpProvider:
    suffix = "/v1" if kind["kind"] == "openai" else ""
    shipped = shipped_snapshot().config.gateway
    config: Any = TypeAdapter(AnyProvider).validate_python({**kind, "base_url": base_url + suffix, **changes})
    return HttpProvider(
        "mine", config, type(shipped).model_validate({**shipped.model_dump(), **gateway}) if gateway else shipped,
        chars_per_token=4, given=lambda: {"THE_KEY": secret}, beside=asyncio.to_thread,
        now=time.time,
    )  # fmt: skip


@dataclass
class Request:
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
    behave: Behave
    requests: list[Request] = field(default_factory=list)
    closed: int = 0  # connections that the other side ended before it had its answer
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _version = head[0].split(" ")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            request = Request(method, path, headers, body)
            self.requests.append(request)
            gone = asyncio.ensure_future(reader.read(1))
            gone.add_done_callback(lambda done: done.cancelled() or done.exception())  # a reset is an end as well
            work = asyncio.ensure_future(self.behave(request, writer))
            await asyncio.wait((gone, work), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                gone.cancel()
                work.result()
            else:
                self.closed += 1
                work.cancel()
        with suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()


@asynccontextmanager
async def serving(behave: Behave) -> AsyncIterator[Server]:
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
    begun: Future[tuple[Server, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        is_over = asyncio.Event()
        async with serving(behave) as server:
            begun.set_result((server, asyncio.get_running_loop(), is_over))
            await is_over.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    server, loop, is_over = begun.result()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(is_over.set)
        thread.join()


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


def sse(*events: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def completion(content: Any = "fine", **changes: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content} | changes.pop("message", {})
    choice = {"index": 0, "finish_reason": "stop", "message": message} | changes.pop("choice", {})
    usage = {"prompt_tokens": 20, "prompt_tokens_details": {"cached_tokens": 8}}
    usage |= {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 4}}
    whole = {"id": "c1", "object": "chat.completion", "model": "tiny-0417", "choices": [choice], "usage": usage}
    return whole | changes


def piece(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


USAGE_PIECE = {"choices": [], "usage": completion()["usage"]}
DONE = b"data: [DONE]\n\n"


def message(content: list[Any] | None = None, **changes: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": "fine"}] if content is None else content
    usage = {"input_tokens": 10, "cache_read_input_tokens": 8, "cache_creation_input_tokens": 2}
    usage |= {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}}
    whole = {"id": "m1", "type": "message", "role": "assistant", "model": "tiny-0417", "content": content}
    return whole | {"stop_reason": "end_turn", "usage": usage} | changes
