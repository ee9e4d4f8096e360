"""Connections to a provider: many at once, without each being looked through by all others."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from hobus.gateway_service.limits import POOL_REQUESTS_MAX
from hobus.gateway_service.providers.http.clients import PooledTransport

_MANY = 3 * POOL_REQUESTS_MAX + 1


class Server:
    """Answers each request once `answer` is set; `open` are the connections that stand."""

    def __init__(self) -> None:
        self.answer, self.changed = asyncio.Event(), asyncio.Condition()
        self.accepted = self.open = self.asked = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.count(accepted=1, open=1)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await self.count(asked=1)
                await self.answer.wait()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()
            await self.count(open=-1)

    async def count(self, **changes: int) -> None:
        async with self.changed:
            for name, by in changes.items():
                setattr(self, name, getattr(self, name) + by)
            self.changed.notify_all()

    async def until(self, **counts: int) -> None:
        async with self.changed, asyncio.timeout(20):
            await self.changed.wait_for(lambda: all(getattr(self, name) == count for name, count in counts.items()))


@pytest.fixture
async def served():
    made: list[httpx2.AsyncHTTPTransport] = []

    def make_pool() -> httpx2.AsyncHTTPTransport:
        made.append(httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_connections=None), trust_env=False))
        return made[-1]

    server = Server()
    listening = await asyncio.start_server(server, "127.0.0.1", 0, backlog=_MANY)
    address = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
    async with (
        listening,
        httpx2.AsyncClient(transport=PooledTransport(make_pool), trust_env=False, timeout=20) as client,
    ):
        yield server, made, lambda: client.get(address)
        await client.aclose()
        await server.until(open=0)


async def test_many_at_once_have_pools_of_their_own_and_leave_one(served):
    server, made, ask = served
    asking = [asyncio.create_task(ask()) for _ in range(_MANY)]
    await server.until(asked=_MANY)
    assert len(made) == _MANY // POOL_REQUESTS_MAX + 1
    server.answer.set()
    assert {(await one).text for one in asking} == {"ok"}
    await server.until(open=POOL_REQUESTS_MAX)
    for _ in range(3):
        assert (await ask()).text == "ok"
    assert server.accepted == _MANY and len(made) == _MANY // POOL_REQUESTS_MAX + 1


async def test_who_gives_up_makes_room(served):
    """Before an answer began."""
    server, made, ask = served
    for _ in range(3):
        asking = [asyncio.create_task(ask()) for _ in range(POOL_REQUESTS_MAX)]
        await server.until(open=POOL_REQUESTS_MAX)
        for one in asking:
            one.cancel()
        await asyncio.wait(asking)
        await server.until(open=0)
    assert len(made) == 1
