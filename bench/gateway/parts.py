"""What the gateway's drills stand on: a cluster whose models are servers of this process, and who asks as executors do."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from bench.builders import prompt, shipped_snapshot, write_config
from bench.cluster import Cluster, cluster_in, temporary
from bench.gateway.servers import DONE, KEY, MODEL, OPENAI, Request, completion, head, piece, sse, whole
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.gateway import Prompt, PromptMessage, PromptResponse
from hobus.bus.messages.work_order import Segment
from hobus.bus.port import Bus
from hobus.launch.cluster import identity

MANY, NEVER_S = 1_000_000_000, 3600
MODEL_ID = str(MODEL["model_id"])
TIRELESS = {
    "launcher.crash_budget": MANY, "launcher.restart_backoff_max_ms": 200, "gateway.breaker.failures": 1_000_000,
    "budget.agent_token_limit": MANY, "budget.provider_token_limit": MANY,
}  # fmt: skip
"""Of a drill that kills the gateway, or fails its calls, more often than anybody else would stand."""


@contextmanager
def cluster_of(
    urls: Mapping[str, str], settings: Mapping[str, Any], *, is_up: bool = True, **env: str
) -> Generator[Cluster]:
    """Up, with a provider at each of these addresses, the first one asked by default; down and gone afterwards."""
    shipped = shipped_snapshot().config.gateway.model_dump(mode="json")["providers"]
    ours = {name: {**OPENAI, "base_url": f"{url}/v1", "concurrency_max": 64} for name, url in urls.items()}
    changes = {
        "gateway.providers": shipped | ours,
        "gateway.default_route": {"provider_id": next(iter(urls)), "model_id": MODEL_ID},
        **settings,
    }
    with temporary("gateway") as directory:
        cluster = cluster_in(directory / "home", {"THE_KEY": KEY, **env})
        cluster.home.config.mkdir(parents=True)
        write_config(cluster.home.config / "admin_config.json", *changes.items())
        try:
            if is_up:
                cluster.up("--detach")
            yield cluster
        finally:
            cluster.end()


def kill_gateway(cluster: Cluster) -> bool:
    with suppress(AssertionError, StopIteration):
        row = cluster.row("gateway/1")
        return bool(row.pid) and identity.end(row.pid, row.mark, signal.SIGKILL)
    return False


def call_of(key: str, session_id: str, *, says: str = "", length: int = 100, **changes: Any) -> Prompt:
    """The prompt of one call; its text begins with its key, which is how its provider knows it."""
    text = f"{key} {says}".ljust(length, ".")
    message = PromptMessage(role="user", segments=[Segment(name="user_input", text=text)])
    return prompt(key, messages=[message], session_id=session_id, **changes)


async def ask(
    bus: Bus, wanted: Prompt, *, timeout_s: float, on_stream: Callable[[Any], None] | None = None
) -> PromptResponse:
    """The answer, asked for again under the same key while that may help, as executors do. Raises RuntimeFault."""
    loop = asyncio.get_running_loop()
    ends_at, attempt = loop.time() + timeout_s, 1
    while True:
        try:
            return await bus.request(
                "gateway", wanted, expect=PromptResponse, timeout_s=max(0.05, ends_at - loop.time()),
                message_id=wanted.idempotency_key, attempt=attempt, on_stream=on_stream,
            )  # fmt: skip
        except RuntimeFault as fault:
            pause_s = fault.pause_s(0.1, 0.5)
            if not fault.retryable or ends_at - loop.time() <= pause_s:
                raise
        await asyncio.sleep(pause_s)
        attempt += 1


@dataclass(slots=True)
class Call:
    key: str
    number: int  # of this key, from 1
    way: str = ""
    content: str = ""
    is_worked: bool = True  # it worked on it, and bills it; else it refused
    is_whole: bool = False  # all of the answer left


Way = Callable[["Books", Call, Request, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Books:
    """A provider that does with each call what `choose` says, and writes down what it did."""

    choose: Callable[[Call], str]
    usage: Callable[[Request], tuple[int, int]] = lambda _request: (20, 9)
    on_way: Callable[[str], None] = lambda _where: None
    """Told how far a call is that is answered whole: request, half, whole."""
    calls: list[Call] = field(default_factory=list[Call])
    by_key: dict[str, list[Call]] = field(default_factory=dict[str, list[Call]])
    lock: threading.Lock = field(default_factory=threading.Lock)

    async def behave(self, request: Request, writer: asyncio.StreamWriter) -> None:
        """One call, counted before anything else is done with it."""
        key = str(request.json["messages"][-1]["content"]).split()[0]
        with self.lock:
            mine = self.by_key.setdefault(key, [])
            call = Call(key, len(mine) + 1)
            mine.append(call)
            self.calls.append(call)
        call.content = f"answer {call.number} to {key}"
        call.way = self.choose(call)
        call.is_worked = call.way not in REFUSALS
        await WAYS[call.way](self, call, request, writer)

    def answer(self, call: Call, request: Request) -> tuple[dict[str, Any], bytes, bytes]:
        prompt_tokens, completion_tokens = self.usage(request)
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
        if request.json.get("stream"):
            rest = sse(piece(content=call.content[6:]), piece("stop"), {"choices": [], "usage": usage})
            return {"content_type": "text/event-stream"}, sse(piece(content=call.content[:6])), rest + DONE
        data = json.dumps(completion(call.content, usage=usage)).encode()
        half = len(data) // 2
        return {"content_type": "application/json", "content_length": len(data)}, data[:half], data[half:]


async def _whole(books: Books, call: Call, request: Request, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(0.05 if call.way == "late" else 0.0)
    headers, first, rest = books.answer(call, request)
    books.on_way("request")
    writer.write(head(200, **headers) + first)
    await writer.drain()
    books.on_way("half")
    call.is_whole = True  # before it leaves: whoever has it may ask at once what stands here
    writer.write(rest)
    await writer.drain()
    books.on_way("whole")


async def _half(books: Books, call: Call, request: Request, writer: asyncio.StreamWriter) -> None:
    headers, first, _rest = books.answer(call, request)
    writer.write(head(200, **headers) + first)
    await writer.drain()
    await asyncio.sleep(NEVER_S if call.way == "stuck" else 0.0)


def _saying(data: bytes) -> Way:
    """These bytes, whatever is asked; nothing: the connection is reset."""

    async def way(_books: Books, _call: Call, _request: Request, writer: asyncio.StreamWriter) -> None:
        if not data:
            writer.transport.abort()
            return
        writer.write(data)
        await writer.drain()

    return way


async def _silent(_books: Books, _call: Call, _request: Request, _writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(NEVER_S)


async def _drip(_books: Books, _call: Call, _request: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(head(200, content_type="application/json"))
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.1)


REFUSALS = frozenset({"429", "500"})  # of these a provider bills nothing

WAYS: Mapping[str, Way] = {
    "whole": _whole, "late": _whole, "half": _half, "disconnect": _saying(b""), "silent": _silent, "stuck": _half,
    "malformed": _saying(head(200, content_type="application/json", content_length=12) + b'{"choices": '),
    "429": _saying(whole({"error": {"message": "slow down"}}, 429, retry_after_ms=5)), "500": _saying(whole({"error": {"message": "it broke"}}, 500)), "drip": _drip,
}  # fmt: skip
