"""Turns between principals: nobody starves, waits are bounded, nothing is lost; shares count what is open."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.fair import FairQueue, Shares, compute_cost, get_principal, get_weight, is_client

NAMES = "abcd"
STEPS = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(1, 9)), max_size=60)
"""(principal, cost) in the order in which they come."""


def filled(steps, weights):
    """A queue with these items: each is (principal, number of its coming, cost)."""
    queue = FairQueue(weights.__getitem__)
    for number, (principal, cost) in enumerate(steps):
        queue.add(principal, number, (principal, number, cost), cost)
    return queue


def drained(queue):
    """All items in the order in which they are taken."""
    taken = []
    while (found := queue.take()) is not None:
        assert found[0] == found[1][0]
        taken.append(found[1])
    return taken


@given(STEPS, st.fixed_dictionaries({name: st.integers(1, 4) for name in NAMES}))
def test_everything_is_taken_once_and_each_principals_in_order(steps, weights):
    """Nothing is lost or doubled, and no principal's own requests overtake each other."""
    taken = drained(filled(steps, weights))
    assert sorted(number for _, number, _ in taken) == list(range(len(steps)))
    for name in NAMES:
        own = [number for principal, number, _ in taken if principal == name]
        assert own == sorted(own)


@given(STEPS, st.fixed_dictionaries({name: st.integers(1, 4) for name in NAMES}), st.sampled_from(NAMES))
def test_whoever_comes_waits_for_one_turn_of_every_other_at_most(steps, weights, comer):
    """Before a newcomer's first item each other principal gets at most its weight and the rest of one item."""
    queue = filled([step for step in steps if step[0] != comer], weights)
    queue.take()  # somebody is in the middle of a turn
    queue.add(comer, -1, (comer, -1, 1), 1)
    before = []
    while (found := queue.take()) is not None and found[0] != comer:
        before.append(found[1])
    for name in NAMES:
        costs = [cost for principal, _, cost in before if principal == name]
        assert sum(costs[:-1]) < weights[name] or not costs


@given(STEPS)
def test_over_a_long_time_each_gets_its_part(steps):
    """While two principals have something waiting, what they were served differs by one item and one turn at most."""
    costs = dict.fromkeys(NAMES, 0)
    queue = filled(steps, dict.fromkeys(NAMES, 1))
    left = {name: sum(1 for principal, _ in steps if principal == name) for name in NAMES}
    busy = {name for name in NAMES if left[name]}
    for principal, _, cost in drained(queue):
        if all(left[name] for name in busy):
            served = [costs[name] for name in busy]
            assert max(served, default=0) - min(served, default=0) <= 9 + 1
        costs[principal] += cost
        left[principal] -= 1


@given(st.lists(st.tuples(st.sampled_from(["add", "take", "drop", "hold", "release"]), st.sampled_from(NAMES))))
def test_a_queue_keeps_nothing_of_who_has_nothing_in_it(steps):
    queue, inside = FairQueue(lambda _: 1), {}
    for number, (what, name) in enumerate(steps):
        if what == "add":
            queue.add(name, number, number)
            inside[number] = name
        elif what == "take" and (found := queue.take()) is not None:
            assert inside.pop(found[1]) == found[0]
        elif what == "drop" and name in inside.values():
            key = next(key for key, owner in inside.items() if owner == name)
            queue.remove(name, key)
            del inside[key]
        elif what == "hold":
            queue.hold(name)
        elif what == "release":
            queue.release(name)
        assert sorted(queue) == sorted(inside)
        assert bool(queue) == bool(inside)
        assert len(queue._flows) + len(queue._held) == len(set(inside.values()))


@pytest.mark.parametrize(
    ("instance", "principal"),
    [
        ("door/41@a", "client/41"),
        ("operator/41.2@b", "client/41"),
        ("door/414@a", "client/414"),
        ("ho2/1@a", "ho2/1"),
        ("ho1/box.1@a", "ho1/box.1"),
    ],
)
def test_all_connections_of_a_clients_process_are_one_principal(instance, principal):
    """Both client roles and further connections count together; services are who they are."""
    assert get_principal(instance) == principal
    assert is_client(principal) == principal.startswith("client/")


def test_weights_and_costs_are_those_of_the_configuration():
    assert (get_weight("client/1"), get_weight("ho2/1")) == (1, 8)
    assert [compute_cost(size) for size in (0, 65_535, 65_536, 655_360)] == [1, 1, 2, 11]


@given(taken=st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 50)), max_size=30), order=st.randoms())
def test_shares_count_what_is_open_and_forget_who_has_nothing(taken, order):
    shares, open_now = Shares(), list(taken)
    for principal, size in taken:
        shares.take(principal, size)
    order.shuffle(open_now)
    while True:
        for name in NAMES:
            sizes = [size for principal, size in open_now if principal == name]
            assert (shares.of(name).count, shares.of(name).size_bytes) == (len(sizes), sum(sizes))
        assert shares.size_bytes == sum(size for _, size in open_now)
        assert len(shares) == len({principal for principal, _ in open_now})
        if not open_now:
            return
        shares.give_back(*open_now.pop())
