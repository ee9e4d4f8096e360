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

from bench.outside import asking_for
from bench.turn import QUESTION
from bench.waiting.clients import Door, Heard, said_of
from bench.waiting.provider import provider
from bench.waiting.rows import OWN, QUICK, Row, Sizes, door_of, doored, with_tools
from hobus.config.files import SHIPPED_ROOT

_READERS, _PIECES, _GAP_MS = 20, 1000, 10.0  # of the answers that are read a byte a second
_BEGINS_S = 0.5  # a burden has begun by then; a tool that blocks is not known to do so yet


def hostile(sizes: Sizes, *, has_peer: bool) -> Iterator[Row]:
    """Another person's turns, one after the other, beside each; the model answers at once."""
    del has_peer
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    shipped = json.loads((SHIPPED_ROOT / "agents" / "ADMIN.json").read_text())
    with provider(3600.0) as hung, provider(0.0, _PIECES, _GAP_MS) as talker:
        (_, quick), (_, slow) = hung.settings()["gateway.providers"].items()
        providers = {"quick": quick, "hung": slow, "talker": talker.settings()["gateway.providers"]["slow"]}
        models = {name: {"provider_id": name, "model_id": "m"} for name in ("hung", "talker")}
        agents = [OWN | {"agent_id": name.upper(), "model": model} for name, model in models.items()]
        agents = [shipped | one for one in (QUICK, *agents)]
        with doored({"gateway.providers": providers | {"offline": quick}}, agents) as (found, theirs):
            mine = door_of(found, theirs.model)
            burdens = {
                f"a person opens {sizes.hostile_turns} turns": (_flood, mine, sizes.hostile_turns),
                f"{_READERS} streams read a byte a second": (_read_slowly, replace(mine, model="TALKER"), _READERS),
                "a provider hangs for 100 turns": (_flood, replace(mine, model="HUNG"), 100),
            }
            for what, burden in burdens.items():
                yield asyncio.run(_beside(what, _apart(*burden), theirs, QUESTION, sizes.hostile_s))
    with with_tools(sizes.hostile_s) as found:
        block, text = _apart(_flood, door_of(found), 1, asking_for("block_async")), asking_for("short_async")
        yield asyncio.run(_beside("a tool blocks its loop", block, door_of(found), text, sizes.hostile_s))


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
    async def read_a_byte_a_second() -> None:
        loop = asyncio.get_running_loop()
        with socket.socket() as asking:
            asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            asking.settimeout(0)
            await loop.sock_connect(asking, ("127.0.0.1", door.port))
            await loop.sock_sendall(asking, door.request("tell me a story", stream=True))
            while await loop.sock_recv(asking, 1):
                await asyncio.sleep(1)

    await asyncio.gather(*(read_a_byte_a_second() for _ in range(number)))
