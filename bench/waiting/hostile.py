"""Who asks for too much, reads too slowly, or never answers; and whether anybody else waits for that ("Bad input", P22)."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

from bench.cluster import cluster, temporary
from bench.outside import asking_for, with_outside
from bench.turn import QUESTION
from bench.waiting.clients import Door, Heard, said_of
from bench.waiting.provider import provider
from bench.waiting.rows import OWN, QUICK, Row, Sizes, door_of
from hobus.config.files import SHIPPED_ROOT

_READERS, _PIECES, _GAP_MS = 20, 1000, 10.0
"""Of the answers that are read a byte a second."""
_BEGINS_S = 0.5
"""A burden has begun by then; a tool that blocks is not known to do so yet."""


def hostile(sizes: Sizes, *, has_peer: bool) -> Iterator[Row]:
    """Another person's turns, one after the other, beside each; the model answers at once."""
    del has_peer
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    shipped = json.loads((SHIPPED_ROOT / "agents" / "ADMIN.json").read_text())
    with provider(3600.0) as hung, provider(0.0, _PIECES, _GAP_MS) as talker:
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
            theirs = door_of(found, str(QUICK["agent_id"]))
            mine = door_of(found, theirs.model)
            burdens = {
                f"a person opens {sizes.hostile_turns} turns": (_flood, mine, sizes.hostile_turns),
                f"{_READERS} streams read a byte a second": (_read_slowly, replace(mine, model="TALKER"), _READERS),
                "a provider hangs for 100 turns": (_flood, replace(mine, model="HUNG"), 100),
            }
            for what, burden in burdens.items():
                yield asyncio.run(_beside(what, _apart(*burden), theirs, QUESTION, sizes.hostile_s))
    with temporary("bench-tools") as directory:
        outside, with_tools = with_outside(directory, {})
        (outside.root / "seen" / "sleep_s").write_text(f"{sizes.hostile_s:g}")
        try:
            with_tools.up("--http", "127.0.0.1:0")
            theirs = door_of(with_tools)
            mine = door_of(with_tools)
            block = _apart(_flood, mine, 1, asking_for("block_async"))
            yield asyncio.run(
                _beside("a tool blocks its loop", block, theirs, asking_for("short_async"), sizes.hostile_s)
            )
        finally:
            with_tools.end()


async def _beside(what: str, burden: AbstractContextManager[None], door: Door, text: str, seconds: float) -> Row:
    """Say how long turns of this door take alone, and beside the burden."""
    alone = [await door.ask(text) for _ in range(10)]
    beside: list[Heard] = []
    with burden:
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


# --- burdens, each in a process of its own: else the other person's client would wait for it, and not its turn ---------


@contextmanager
def _apart(burden: Callable[..., Coroutine[Any, Any, object]], *given: Any) -> Generator[None]:
    process = get_context("spawn").Process(target=_run_burden, args=(burden, *given), daemon=True)
    process.start()
    time.sleep(_BEGINS_S)
    try:
        yield
    finally:
        process.kill()
        process.join()


def _run_burden(burden: Callable[..., Coroutine[Any, Any, object]], *given: Any) -> None:
    asyncio.run(burden(*given))


async def _flood(door: Door, number: int, text: str = QUESTION) -> None:
    """So many turns at once; who is refused does not come back."""
    await asyncio.gather(*(door.ask(text) for _ in range(number)))


async def _read_slowly(door: Door, number: int) -> None:
    await asyncio.gather(*(_read_a_byte_a_second(door) for _ in range(number)))


async def _read_a_byte_a_second(door: Door) -> None:
    loop = asyncio.get_running_loop()
    with socket.socket() as asking:
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        asking.settimeout(0)
        await loop.sock_connect(asking, ("127.0.0.1", door.port))
        await loop.sock_sendall(asking, door.request("tell me a story", stream=True))
        while await loop.sock_recv(asking, 1):
            await asyncio.sleep(1)
