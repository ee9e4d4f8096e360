"""A model server in a process of its own: `python -m bench.waiting.provider THINK_S PIECES GAP_MS [PORT]`.

Chat completions: it thinks, then says its words, each after a gap, or all at once where nobody streams. It prints its
port, serves until it is killed, and says at /stats how many calls it had, how many at once, and how many that said what an
earlier one had said. It labels every message that it is to classify as chat, and asks for a tool where it is told to `use` it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from bench.builders import shipped_snapshot


def _answer(value: Any) -> bytes:
    body = json.dumps(value).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _chunk(value: Any) -> bytes:
    body = b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"
    return f"{len(body):x}\r\n".encode() + body + b"\r\n"


def _piece(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}


def _calls(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Of the tool that the newest message says to use, if it has one so called."""
    last, names = asked["messages"][-1], [one["function"]["name"] for one in asked.get("tools", ())]
    wanted = [name for name in names if last["role"] == "user" and f"use {name}" in str(last["content"])]
    return [{"id": "c1", "type": "function", "function": {"name": name, "arguments": "{}"}} for name in wanted[:1]]


async def serve(think_s: float, pieces: int, gap_s: float, port: int) -> None:
    stats, seen = {"calls": 0, "now": 0, "most": 0, "doubled": 0}, set[int]()

    async def complete(asked: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        words = ['{"label": "chat", "confidence": 1.0}'] if asked.get("response_format") else None
        words = words or [f"word{number} " for number in range(pieces)]
        usage = {"prompt_tokens": 100, "completion_tokens": len(words), "total_tokens": 100 + len(words)}
        await asyncio.sleep(think_s)
        if not asked.get("stream"):
            message = {"role": "assistant", "content": "".join(words), "tool_calls": _calls(asked)}
            finish = "tool_calls" if message["tool_calls"] else "stop"
            whole = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": usage}
            writer.write(_answer({**whole, "choices": [{"index": 0, "message": message, "finish_reason": finish}]}))
            return
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        began = asyncio.get_running_loop().time()
        for number, word in enumerate(words):
            writer.write(_chunk(_piece({"content": word})))
            await writer.drain()
            await asyncio.sleep(max(0.0, began + (number + 1) * gap_s - asyncio.get_running_loop().time()))
        end = {**_piece({}), "choices": [], "usage": usage}
        writer.write(_chunk(_piece({}, "stop")) + _chunk(end) + _chunk(b"[DONE]") + b"0\r\n\r\n")

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                length = [line[15:] for line in head.split("\r\n") if line.startswith("content-length:")]
                body = await reader.readexactly(int(length[0])) if length else b""
                if head.startswith("get /stats"):
                    writer.write(_answer(stats))
                    continue
                if head.startswith("get"):
                    writer.write(_answer({"object": "list", "data": [{"id": "m", "object": "model"}]}))
                    continue
                seen.add(hash(body))
                stats["calls"] += 1
                stats["now"] += 1
                stats.update(most=max(stats["most"], stats["now"]), doubled=stats["calls"] - len(seen))
                try:
                    await complete(json.loads(body), writer)
                finally:
                    stats["now"] -= 1
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", port, backlog=4096, limit=1 << 24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@dataclass(slots=True)
class Provider:
    think_s: float
    pieces: int
    gap_ms: float
    port: int = 0
    process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        words = [str(one) for one in (self.think_s, self.pieces, self.gap_ms, self.port)]
        command = [sys.executable, "-m", "bench.waiting.provider", *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.kill()
        with self.process:  # its pipe is closed, and it is waited for
            pass

    def stats(self) -> dict[str, int]:
        with urllib.request.urlopen(f"{self.url}/stats", timeout=30) as answer:
            return json.loads(answer.read())

    def settings(self) -> dict[str, Any]:
        instance = {
            "kind": "openai", "base_url": f"{self.url}/v1", "key": None, "any_model": True, "models": [],
            "concurrency_max": None, "max_tokens_field": "max_tokens", "structured": "json_schema", "omit": [],
        }  # fmt: skip
        shipped = shipped_snapshot().config.gateway.providers["offline"].model_dump(mode="json")
        providers = {"offline": shipped, "slow": instance}
        return {"gateway.providers": providers, "gateway.default_route": {"provider_id": "slow", "model_id": "m"}}


@contextmanager
def provider(think_s: float, pieces: int = 1, gap_ms: float = 0.0) -> Iterator[Provider]:
    made = Provider(think_s, pieces, gap_ms)
    made.start()
    try:
        yield made
    finally:
        made.kill()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1000, int(sys.argv[4])))
