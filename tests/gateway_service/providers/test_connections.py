"""Connections to a provider: as many as there are requests, kept for the next ones."""

from __future__ import annotations

import asyncio

import pytest

from bench.gateway.servers import OPENAI, instance

pytestmark = pytest.mark.slow

_MANY = 200


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
                writer.write(b'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"data":[]}')
        except (asyncio.IncompleteReadError, ConnectionError):
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
    server = Server()
    listening = await asyncio.start_server(server, "127.0.0.1", 0, backlog=_MANY)
    provider = instance(OPENAI, f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}")
    async with listening:
        yield server, lambda: provider.models(timeout_s=20)
        await provider.close()
        await server.until(open=0)


async def test_many_at_once_have_a_connection_each_which_later_ones_use(served):
    server, ask = served
    asking = [asyncio.create_task(ask()) for _ in range(_MANY)]
    await server.until(asked=_MANY)
    server.answer.set()
    assert [await one for one in asking] == [{}] * _MANY
    for _ in range(3):
        assert await ask() == {}
    assert server.accepted == server.open == _MANY


async def test_who_gives_up_takes_the_connection_along(served):
    """Before an answer began: what comes on it later is nobody's."""
    server, ask = served
    asking = [asyncio.create_task(ask()) for _ in range(10)]
    await server.until(asked=10)
    for one in asking:
        one.cancel()
    await asyncio.wait(asking)
    server.answer.set()
    await server.until(open=0)
