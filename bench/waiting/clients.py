"""Many clients at once, in this process: chat completions of an HTTP door, whole and streamed, by bare sockets."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.report import percentile


@dataclass(slots=True)
class Heard:
    """What became of one request. `outcome`: success, degraded, the code of an error, or `cut`: it ended without a word."""

    outcome: str
    took_s: float
    ended_at: float
    status: int = 0
    first_s: float | None = None
    words: int = 0

    @property
    def is_right(self) -> bool:
        return self.outcome == "success"

    @property
    def is_refused(self) -> bool:
        """Told to come back later."""
        return self.status in (429, 503) or self.outcome == "busy"


@dataclass(frozen=True, slots=True)
class Door:
    port: int
    key: str
    model: str

    async def ask(self, text: str, *, stream: bool = False, timeout_s: float = 600.0) -> Heard:
        """One request over a connection of its own."""
        began = time.monotonic()
        heard = Heard("cut", 0.0, 0.0)
        try:
            async with asyncio.timeout(timeout_s):
                await self._ask(heard, text, began, stream=stream)
        except (OSError, EOFError, ValueError, TimeoutError) as error:
            heard.outcome = "cut" if stream else type(error).__name__
        heard.ended_at = time.monotonic()
        heard.took_s = heard.ended_at - began
        return heard

    def request(self, text: str, *, stream: bool) -> bytes:
        """Its bytes."""
        body = json.dumps({"model": self.model, "stream": stream, "messages": [{"role": "user", "content": text}]})
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self.key}\r\n"
        head += f"Content-Type: application/json\r\nConnection: close\r\nContent-Length: {len(body.encode())}\r\n\r\n"
        return (head + body).encode()

    async def _ask(self, heard: Heard, text: str, began: float, *, stream: bool) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)
        try:
            writer.write(self.request(text, stream=stream))
            await writer.drain()
            head = (await reader.readuntil(b"\n")).split()  # an EOFError where it was cut off before any
            heard.status = int(head[1])
            headers: dict[str, str] = {}
            while line := (await reader.readline()).decode("latin-1").strip():
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
            if stream and heard.status == 200:
                await _read_stream(reader, heard, began)
                return
            found = json.loads(await _body(reader, headers))
            is_answer = heard.status == 200
            heard.outcome = headers.get("x-hobus-outcome", "success") if is_answer else str(found["error"].get("code"))
        finally:
            writer.close()


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "content-length" in headers:
        return await reader.readexactly(int(headers["content-length"]))
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    return body


async def _read_stream(reader: asyncio.StreamReader, heard: Heard, began: float) -> None:
    """Words are counted, not pieces: several may come in one."""
    async for line in reader:
        if line.startswith(b"data: [DONE]"):
            return
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        if "error" in event:
            heard.outcome = str(event["error"].get("code"))
            continue
        choice = (event.get("choices") or [{}])[0]
        if said := choice.get("delta", {}).get("content"):
            heard.first_s = heard.first_s or time.monotonic() - began
            heard.words += said.count("word")
        if choice.get("finish_reason"):
            heard.outcome = "success"


async def at_once(asks: Iterable[Awaitable[Heard]]) -> tuple[list[Heard], float]:
    """All of them, and the seconds until the last one has ended."""
    began = time.monotonic()
    heard = await asyncio.gather(*asks)
    return heard, time.monotonic() - began


def said_of(heard: Sequence[Heard], took_s: float) -> dict[str, Any]:
    times = [one.took_s for one in heard]
    firsts = [one.first_s for one in heard if one.first_s is not None]
    refused_s = [one.took_s for one in heard if one.is_refused and not one.is_right]
    return {
        "took_s": round(took_s, 1), "p50_s": round(percentile(times, 50), 2),
        "p99_s": round(percentile(times, 99), 2), "asked": len(heard), "right": sum(one.is_right for one in heard),
        "degraded": sum(one.outcome == "degraded" for one in heard), "refused": len(refused_s),
        "refused_after_s": round(percentile(refused_s, 99), 2), "first_words_p50_s": round(percentile(firsts, 50), 2),
        "first_words_max_s": round(max(firsts, default=0.0), 2),
        "outcomes": dict(Counter(one.outcome for one in heard).most_common()),
    }  # fmt: skip
