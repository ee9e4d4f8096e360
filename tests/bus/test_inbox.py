"""What a receiver takes in of one principal, and whose handler begins next; a real shell on the simulated transport."""

from __future__ import annotations

import asyncio

import pytest

from bus.dispatch import Actor, Call
from bus.errors import BusError
from bus.messages.ledger import Body, GetBody
from tests.conformance.clusters import SimCluster, bus_settings

SETTINGS = bus_settings(client_open_max=8, busy_retry_ms=90)


class Shelf(Actor):
    """Notes in which order its handlers begin."""

    service = "ledger"

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.go = asyncio.Event()

    async def on_get_body(self, message: GetBody, call: Call) -> Body:
        self.begun.append(call.sender.partition("@")[0])
        await self.go.wait()
        return Body(ref=message.ref, data=b"")


@pytest.fixture
def cluster():
    """In virtual time."""
    found = SimCluster(SETTINGS)
    yield found
    found.close()


def asked(peer, count):
    """So many questions, all handed over at once."""
    return [
        asyncio.ensure_future(peer.request("ledger", GetBody(ref=f"{n}"), expect=Body, timeout_s=10))
        for n in range(count)
    ]


def test_a_clients_burst_does_not_begin_before_anothers_first(cluster):
    """Seven came before it in one piece; the other client's only one begins second or third."""

    async def scenario():
        shelf = Shelf()
        await cluster.start(shelf, role="ledger")
        greedy, polite = [await cluster.start(None, role="door") for _ in range(2)]
        burst = asked(greedy, 7)
        await asyncio.sleep(0)
        one = asked(polite, 1)
        while len(shelf.begun) < 8:
            await asyncio.sleep(0.001)
        assert polite.instance.partition("@")[0] in shelf.begun[:3]
        shelf.go.set()
        await asyncio.gather(*burst, *one)

    cluster.run(scenario())


def test_a_client_that_has_its_share_open_at_a_lane_is_told_when_to_come_again(cluster):
    """Typed, and only it: another client's request is taken in."""

    async def scenario():
        shelf = Shelf()
        await cluster.start(shelf, role="ledger")
        greedy, polite = [await cluster.start(None, role="door") for _ in range(2)]
        burst = asked(greedy, 8)
        while len(shelf.begun) < 8:
            await asyncio.sleep(0.001)
        with pytest.raises(BusError) as caught:
            await asked(greedy, 1)[0]
        assert (caught.value.code, caught.value.retryable, caught.value.retry_after_ms) == ("busy", True, 90)
        assert 0.09 <= caught.value.pause_s(0.01, 0.5) <= 0.135
        others = asked(polite, 1)
        await asyncio.sleep(0.1)
        shelf.go.set()
        await asyncio.gather(*burst, *others)

    cluster.run(scenario())


def test_what_a_client_asked_before_it_left_is_not_worked_off(cluster):
    """What has not begun never begins; another client's question does."""

    async def scenario():
        shelf = Shelf()
        await cluster.start(shelf, role="ledger")
        leaving, staying = [await cluster.start(None, role="door") for _ in range(2)]
        questions = asked(leaving, 8)
        await asyncio.sleep(0)
        leaving.close()
        await asyncio.gather(*questions, return_exceptions=True)
        one = asked(staying, 1)
        shelf.go.set()
        await asyncio.gather(*one)
        assert len(shelf.begun) < 5, shelf.begun

    cluster.run(scenario())


def test_a_handlers_busy_says_when_to_come_again(cluster):
    """Whoever raises it, as the bus itself says it."""

    class Full(Actor):
        service = "ledger"

        async def on_get_body(self, message: GetBody, _call: Call) -> Body:
            raise BusError("busy", f"no room for {message.ref}")

    async def scenario():
        await cluster.start(Full(), role="ledger")
        client = await cluster.start(None, role="door")
        with pytest.raises(BusError) as caught:
            await asked(client, 1)[0]
        assert (caught.value.code, caught.value.retry_after_ms) == ("busy", 90)

    cluster.run(scenario())
