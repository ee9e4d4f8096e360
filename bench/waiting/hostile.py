"""Who asks for too much, reads too slowly, or never answers; and whether anybody else waits for that ("Bad input", P22)."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import time
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any

from bench.cluster import cluster, temporary
from bench.outside import asking_for, with_outside
from bench.turn import QUESTION
from bench.waiting.clients import Door, Heard, said_of
from bench.waiting.provider import provider
from bench.waiting.rows import OWN, QUICK, Row, Sizes, door_of, key_of
from hobus.config.files import SHIPPED_ROOT

Burden = AbstractAsyncContextManager[None]
_PIECES = 4000
"""Of the answer that is read a byte a second: more than sockets on the way hold."""


def hostile(sizes: Sizes, *, has_peer: bool) -> Iterator[Row]:
    """Another person's turns, one after the other, beside each; the model answers at once."""
    del has_peer
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    shipped = json.loads((SHIPPED_ROOT / "agents" / "ADMIN.json").read_text())
    with provider(3600.0) as hung, provider(0.0, _PIECES) as talker:
        providers = hung.settings()["gateway.providers"]
        providers = {
            "quick": providers["offline"],
            **providers,
            "talker": talker.settings()["gateway.providers"]["slow"],
        }
        agents = [
            shipped | OWN | {"agent_id": name, "model": {"provider_id": provider_id, "model_id": "m"}}
            for name, provider_id in (("HUNG", "slow"), ("TALKER", "talker"))
        ]
        with cluster(
            {"gateway.providers": providers}, "--http", "127.0.0.1:0", agents=[shipped | QUICK, *agents]
        ) as found:
            theirs = door_of(found, QUICK["agent_id"])
            mine = replace(theirs, key=key_of(found))
            burdens: dict[str, Burden] = {
                f"a person opens {sizes.hostile_turns} turns": _flood(mine, sizes.hostile_turns),
                "50 streams read a byte a second": _read_slowly(replace(mine, model="TALKER"), 50),
                "a provider hangs for 100 turns": _flood(replace(mine, model="HUNG"), 100),
            }
            for what, burden in burdens.items():
                yield asyncio.run(_beside(what, burden, theirs, QUESTION, sizes.hostile_s))
    with temporary("bench-tools") as directory:
        outside, with_tools = with_outside(directory, {})
        (outside.root / "seen" / "sleep_s").write_text(f"{sizes.hostile_s:g}")
        try:
            with_tools.up("--http", "127.0.0.1:0")
            theirs = door_of(with_tools)
            mine = replace(theirs, key=key_of(with_tools))
            block = _flood(mine, 1, asking_for("block_async"))
            yield asyncio.run(
                _beside("a tool blocks its loop", block, theirs, asking_for("short_async"), sizes.hostile_s)
            )
        finally:
            with_tools.end()


async def _beside(what: str, burden: Burden, door: Door, text: str, seconds: float) -> Row:
    """Say how long turns of this door take alone, and beside the burden."""
    alone = [await door.ask(text) for _ in range(10)]
    beside: list[Heard] = []
    async with burden:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            beside.append(await door.ask(text))
    said = said_of(beside, seconds)
    worst_s, usual_s = max(one.took_s for one in beside), max(one.took_s for one in alone)
    said |= {"alone_s": round(usual_s, 2), "worst_s": round(worst_s, 2)}
    row = Row("hostile", what, said, goal="nobody else is later than 1 s for it")
    row.must(said["right"] == said["asked"], f"{said['outcomes']}")
    row.must(worst_s <= usual_s + 1, f"{worst_s - usual_s:.2f} s later")
    return row


@asynccontextmanager
async def _flood(door: Door, number: int, text: str = QUESTION) -> AsyncGenerator[None]:
    """So many turns at once; who is refused does not come back. What is left of them is given up afterwards."""
    tasks = [asyncio.create_task(door.ask(text)) for _ in range(number)]
    await asyncio.sleep(0.2)
    yield
    await _end(tasks)


@asynccontextmanager
async def _read_slowly(door: Door, number: int) -> AsyncGenerator[None]:
    tasks = [asyncio.create_task(_read_a_byte_a_second(door)) for _ in range(number)]
    yield
    await _end(tasks)


async def _read_a_byte_a_second(door: Door) -> None:
    loop = asyncio.get_running_loop()
    with socket.socket() as asking:
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        asking.settimeout(0)
        await loop.sock_connect(asking, ("127.0.0.1", door.port))
        await loop.sock_sendall(asking, door.request("tell me a story", stream=True))
        while await loop.sock_recv(asking, 1):
            await asyncio.sleep(1)


async def _end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
