"""What a door refuses by itself, and for how long."""

import asyncio
import math
from contextlib import ExitStack

import pytest

from hobus.launch.http.context import Turnstile
from hobus.launch.http.limits import KEY_SHARE, REFUSED_FOR_S
from hobus.launch.http.problems import Problem


def test_its_own_refusals_do_not_prolong_those_of_the_cluster(door):
    made = door.doors[0]
    bus = made.bus

    async def asked():
        made.note_refusal("ann", Problem(429, "busy", "of the cluster"))
        for _ in range(2):
            await bus.sleep(0.4 * REFUSED_FOR_S)
            with pytest.raises(Problem) as refused:
                made.require_room("ann")
            made.note_refusal("ann", refused.value)
            made.require_room("bob")
        await bus.sleep(0.2 * REFUSED_FOR_S)
        made.require_room("ann")

    door.run(asked())


def test_one_keys_requests_leave_connections_to_others(door):
    """Three quarters are anybody's own; one that ends makes room for the next, and no name is kept."""
    made = door.doors[0]
    with ExitStack() as requests:
        for _ in range(math.ceil(KEY_SHARE * made.config.http.connections_max)):
            requests.enter_context(made.request_of("ann"))
        with pytest.raises(Problem) as refused, made.request_of("ann"):
            pass
        assert (refused.value.status, refused.value.headers["connection"]) == (429, "close")
        with made.request_of("bob"):
            pass
    with made.request_of("ann"):
        pass


async def test_a_crowd_of_one_person_stands_before_nobody_else():
    """Fifty requests came first, of which one has gone away again: the other person's goes on among the first."""
    turnstile, went = Turnstile(), []

    async def ask(person):
        await turnstile.wait(person)
        went.append(person)

    crowd = [asyncio.create_task(ask("ann")) for _ in range(50)]
    await asyncio.sleep(0)
    crowd[1].cancel()
    other = asyncio.create_task(ask("bob"))
    await asyncio.gather(*crowd, other, return_exceptions=True)
    assert "bob" in went[:4] and went.count("ann") == 49
    await asyncio.wait_for(turnstile.wait("ann"), 1)  # nobody is left in the way
