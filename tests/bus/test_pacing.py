"""Token buckets between principals: nobody alone waits, nothing is lost or out of order, the rate is the rate."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import strategies as st

from hobus.bus.fair import Shares
from hobus.bus.pacing import Others, PacedIntake, Rate, client_rate_of, may_wait_whole
from hobus.bus.sim.loop import VirtualLoop
from hobus.bus.turnstile import Turnstile
from tests.conformance.clusters import bus_settings
from tests.laws import law

RATE = Rate(per_s=10, burst=2, waiting_max=5, dropped_max_bytes=100)


def in_virtual_time(scenario):
    """Run in virtual time: whoever waits is let go on when nobody else has anything to do."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario)


def intake(rate=RATE, *, contended=True):
    """Whose rate holds for everybody, or for nobody."""
    return PacedIntake(rate, shares_max=8, is_contended=lambda _principal, _now: contended)


def asked(pacing, key, now, share="client/1", units=1):
    """Goes on at once (charged), or waits."""
    if pacing.arrives(share, share, now):
        pacing.charge(share, share, units, now)
        return "goes on"
    return pacing.wait(share, key, key)


def test_a_burst_goes_on_and_the_rest_at_the_rate_in_order():
    """Two saved up, one on credit, then one each tenth of a second."""
    pacing = intake()
    assert [asked(pacing, f"r{n}", 0.0) for n in range(6)] == ["goes on"] * 3 + ["waits"] * 3
    taken = []
    while (at := pacing.next_at()) is not None:
        for key in pacing.take(at):
            taken.append((round(at, 6), key))
            pacing.charge("client/1", "client/1", 1, at)
    assert taken == [(0.1, "r3"), (0.2, "r4"), (0.3, "r5")]


def test_what_costs_more_is_followed_later():
    """The bucket goes into debt by what was done, also for an answer."""
    pacing = intake()
    assert asked(pacing, "a", 0.0, units=5) == "goes on"
    assert asked(pacing, "b", 0.0) == "waits"
    assert pacing.next_at() == pytest.approx(0.3)
    pacing.charge("client/1", "client/1", 10, 0.0)
    assert pacing.next_at() == pytest.approx(1.3)


def test_shares_wait_apart():
    """What one has to wait for delays no other."""
    pacing = intake()
    assert [asked(pacing, f"r{n}", 0.0) for n in range(4)][-1] == "waits"
    assert asked(pacing, "about", 0.0, share="client/1:about") == "goes on"
    assert asked(pacing, "other", 0.0, share="client/2") == "goes on"


def test_who_is_alone_never_waits_and_owes_nothing_afterwards():
    """Nothing is written down of it."""
    pacing = intake(contended=False)
    assert {asked(pacing, f"r{n}", 0.0, units=50) for n in range(99)} == {"goes on"}
    assert pacing.next_at() is None and len(pacing) == 0


def test_what_waits_goes_on_once_its_principal_is_alone():
    """Not at the rate any more: as fast as the caller takes it."""
    about = [True]
    pacing = PacedIntake(RATE, shares_max=8, is_contended=lambda *_: about[0])
    for n in range(6):
        asked(pacing, f"r{n}", 0.0)
    about[0] = False
    at, taken = pacing.next_at(), []
    while found := pacing.take(at):
        taken += found
    assert taken == ["r3", "r4", "r5"] and at == pytest.approx(0.1)


def test_too_many_are_refused_and_then_it_is_cut_off():
    """As many again as may wait are borne; what comes again under its key takes no second place."""
    pacing = intake()
    said = [asked(pacing, f"r{n}", 0.0) for n in range(3 + 5 + 5 + 1)]
    assert said == ["goes on"] * 3 + ["waits"] * 5 + ["full"] * 5 + ["cut off"]
    assert asked(pacing, "r3", 0.0) == "waits"
    assert len(pacing) == 5


def test_bodies_without_room_are_borne_up_to_a_bound():
    """They are counted from the first one that waits; once nothing waits any more that is forgotten."""
    pacing = intake()
    for n in range(3):
        asked(pacing, f"r{n}", 0.0)
    assert pacing.wait("client/1", "a", "a", dropped_bytes=60) == "waits"
    assert pacing.wait("client/1", "b", "b", dropped_bytes=40) == "waits"
    assert pacing.wait("client/1", "c", "c", dropped_bytes=1) == "cut off"
    assert pacing.take(5.0) == ["a"] and pacing.take(5.0) == ["b"] and pacing.take(5.0) == []
    pacing.charge("client/1", "client/1", 9, 5.0)
    assert pacing.wait("client/1", "d", "d", dropped_bytes=60) == "waits"


def test_sizes_are_those_of_what_waits():
    """Whatever way it leaves, or is sent again with another body."""
    pacing = intake()
    for n in range(3):
        asked(pacing, f"r{n}", 0.0)
    for key, size in (("a", 10), ("b", 20), ("a", 5), ("c", 7)):
        assert pacing.wait("client/1", key, key, size) == "waits"
    assert pacing.sizes.size_bytes == 32
    assert pacing.leave("client/1", "b") == "b" and pacing.leave("client/1", "b") is None
    assert pacing.first_of("client/1") == "a"
    assert pacing.sizes.size_bytes == 7
    assert pacing.take(9.0) == ["c"] and pacing.sizes.size_bytes == 0 and pacing.next_at() is None


@law(20, 100, steps=st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 0.2), st.integers(1, 9)), max_size=60))
def test_each_share_is_served_in_order_once_and_no_faster_than_its_rate(steps):
    """In any second at most the burst, a second's units, and one request on credit."""
    pacing = intake(Rate(per_s=10, burst=4, waiting_max=math.inf))
    now, came, served = 0.0, [], []
    costs = {}

    def serve(key, share, at):
        served.append((at, share, key))
        pacing.charge(share, share, costs[key], at)

    def release(until):
        while (at := pacing.next_at()) is not None and at <= until:
            for share, key in pacing.take(at):
                serve(key, share, at)

    for number, (share, pause, units) in enumerate(steps):
        now += pause
        release(now)
        costs[number] = units
        came.append((share, number))
        if pacing.arrives(share, share, now):
            serve(number, share, now)
        else:
            pacing.wait(share, str(number), (share, number))
    release(math.inf)
    for share in "ab":
        mine = [(at, key) for at, one, key in served if one == share]
        assert [key for _, key in mine] == [number for one, number in came if one == share]
        for position, (start, _) in enumerate(mine):
            within = [costs[key] for at, key in mine[position:] if at < start + 1.0]
            assert sum(within[:-1]) <= 4 + 10 + 1e-6


def test_another_one_counts_for_a_while_and_as_long_as_it_has_something_open():
    """One's own requests make nobody wait."""
    open_now = Shares()
    others = Others(1.0, open_now.has_others)
    others.heard("client/1", 0.0)
    others.heard("client/1", 0.5)
    assert not others.are_about("client/1", 0.6) and others.are_about("client/2", 0.6)
    others.heard("client/2", 2.0)
    others.heard("client/1", 2.5)
    assert others.are_about("client/1", 2.9) and not others.are_about("client/1", 3.0)
    open_now.take("client/2", 0)
    assert others.are_about("client/1", 9.0) and not others.are_about("client/2", 9.0)


def test_what_may_wait_whole_is_bounded_for_each_and_for_all():
    """In bytes; the figures are the configuration's."""
    settings = bus_settings(client_open_max_bytes=100, clients_open_max_bytes=150)
    sizes = Shares()
    sizes.take("client/1", 80)
    assert may_wait_whole(sizes, "client/1", 20, settings) and not may_wait_whole(sizes, "client/1", 21, settings)
    assert may_wait_whole(sizes, "client/2", 70, settings) and not may_wait_whole(sizes, "client/2", 71, settings)


def test_the_rate_is_the_configurations():
    """Every figure of it."""
    settings = bus_settings(client_rate=7, client_burst=3, client_waiting_max=9, client_dropped_max_bytes=11)
    assert client_rate_of(settings) == Rate(7, 3, 9, 11)


def test_a_turnstile_begins_one_clients_beside_each_other_at_its_rate_while_others_are_about():
    """Each after the other at any speed; alone as many at once as the gate allows; a service is no client."""

    async def scenario():
        loop = asyncio.get_running_loop()
        turnstile = Turnstile(
            each_max=8, all_max=64, settings=bus_settings(contended_ms=200), beside=Rate(20, 1, math.inf)
        )

        async def hold(principal, number):
            """So many of it ask; those that have gone on, at once and within 0.25 s."""
            tickets = [turnstile.ticket(principal) for _ in range(number)]
            began: list[float] = []

            async def one(ticket):
                await ticket.turn()
                began.append(loop.time())

            tasks = [asyncio.ensure_future(one(ticket)) for ticket in tickets]
            await asyncio.sleep(0.01)
            at_once = len(began)
            await asyncio.sleep(0.24)
            for task in tasks:
                task.cancel()
            return tickets, at_once, len(began)

        alone, at_once, _ = await hold("client/1", 6)
        assert at_once == 6
        for ticket in alone[1:]:
            ticket.leave()
        other, at_once, within = await hold("client/2", 9)
        assert at_once == 3  # one, one saved up, one on credit
        assert within == 7  # and one each 50 ms
        services, at_once, _ = await hold("ho2/1", 6)
        assert at_once == 6
        for ticket in (*alone, *other, *services):
            ticket.leave()
        polite = [turnstile.ticket("client/3") for _ in range(9)]
        for ticket in polite:
            await asyncio.wait_for(ticket.turn(), 0.01)
            ticket.leave()
        assert len(turnstile) == 0

    in_virtual_time(scenario())


def test_a_ticket_that_waits_for_the_rate_can_leave_and_the_last_one_at_work_lets_the_next_go_on():
    """Nobody waits for a place that nobody has."""

    async def scenario():
        turnstile = Turnstile(
            each_max=8, all_max=64, settings=bus_settings(contended_ms=60_000), beside=Rate(0.001, 0, math.inf)
        )
        other = turnstile.ticket("client/2")
        await other.turn()
        tickets = [turnstile.ticket("client/1") for _ in range(5)]
        waits = [asyncio.ensure_future(ticket.turn()) for ticket in tickets]
        await asyncio.sleep(0)
        assert [wait.done() for wait in waits] == [True, True, False, False, False]  # the second one on credit
        tickets[2].leave()
        tickets[0].leave()
        await asyncio.sleep(0)
        assert not waits[3].done()
        tickets[1].leave()
        await asyncio.wait_for(waits[3], 1)
        tickets[3].leave()
        await asyncio.wait_for(waits[4], 1)
        tickets[4].leave()
        other.leave()
        assert len(turnstile) == 0

    in_virtual_time(scenario())


def test_what_has_gone_on_asks_again_for_its_next_part_and_is_slowed_down_once_another_comes():
    """Alone at any speed; beside another one at the rate, the only one at work at once; one that left is never kept."""

    async def scenario():
        loop = asyncio.get_running_loop()
        turnstile = Turnstile(
            each_max=8, all_max=64, settings=bus_settings(contended_ms=60_000), beside=Rate(20, 1, math.inf)
        )
        tickets = [turnstile.ticket("client/1") for _ in range(8)]
        for _ in range(3):
            for ticket in tickets:
                await asyncio.wait_for(ticket.turn(), 0.01)
        other = turnstile.ticket("client/2")
        await other.turn()
        began = loop.time()
        waits = [asyncio.ensure_future(ticket.turn()) for ticket in tickets]
        await asyncio.sleep(0)
        # One saved up, one on credit: the others of its client are at work still.
        assert [wait.done() for wait in waits] == [True, True, False, False, False, False, False, False]
        waits[2].cancel()
        tickets[2].leave()
        tickets[3].leave()
        await asyncio.wait_for(waits[3], 0.01)  # it has left, and may end
        await asyncio.gather(*waits[4:])
        assert loop.time() - began == pytest.approx(4 / 20)
        for ticket in (*tickets[1:], other):
            ticket.leave()
        again = loop.time()
        for _ in range(50):
            await tickets[0].turn()
        assert loop.time() == again
        tickets[0].leave()
        assert len(turnstile) == 0

    in_virtual_time(scenario())
