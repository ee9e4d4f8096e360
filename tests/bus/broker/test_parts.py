"""The small tables: fair queues, waiting rooms, sticky keys, the deadline heap, admission."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.broker.admission import find_denial, find_frame_row
from hobus.bus.broker.peers import BoundPeer, OpenRequest
from hobus.bus.broker.sticky import StickyTable, choose_owner
from hobus.bus.broker.waiting import ANYBODY, WaitingRoom
from hobus.bus.catalog import ROLES, ROWS, map_rows
from hobus.bus.envelope import Kind, make_header
from hobus.bus.lanes import INSTANCE_PATTERN, is_foreign

ROW = map_rows("ho1")["wo.execute"]


def requester(name="ho2/1@a"):
    return BoundPeer(name.encode(), name, "ho2", 0.0)


def pending(message_id, sender="ho2/1@a", row=ROW):
    """A request of this sender, bound to nothing."""
    frame = make_header(Kind.REQUEST, message_id, type="wo.execute", destination="ho1")
    asks = requester(sender)
    return OpenRequest(
        frame,
        b"",
        row,
        service=None,
        requester=asks,
        principal=asks.principal,
        deadline=1.0,
        came_at=0.0,
    )


@given(steps=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["add", "take", "drop"])), max_size=60))
def test_a_waiting_room_loses_nothing_and_counts_right(steps):
    room, inside, made = WaitingRoom(), {}, 0
    for sender, what in steps:
        if what == "add":
            made += 1
            item = pending(f"m{made}", sender)
            room.add(item, ANYBODY)
            inside[item.header.message_id] = item
        elif what == "take":
            item = room.take("w", slotted=True)
            assert (item is None) == (not inside)
            if item is not None:
                del inside[item.header.message_id]
        elif inside:
            _, item = inside.popitem()
            room.remove(item)
        assert room.count == len(inside) == len(room.list_all())


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=40))
def test_no_sender_is_served_twice_while_another_one_waits_for_its_first(senders):
    room = WaitingRoom()
    for number, sender in enumerate(senders):
        room.add(pending(f"m{number}", f"door/{sender}@e"), ANYBODY)
    served = []
    while (item := room.take("w", slotted=True)) is not None:
        served.append(item.requester.name.removeprefix("door/"))
    rounds = len(set(senders))
    assert sorted(served[:rounds]) == sorted(set(senders))
    assert sorted(served) == sorted(senders)


def test_what_waits_for_one_instance_is_not_given_to_another():
    room = WaitingRoom()
    for number in range(4):
        room.add(pending(f"mine{number}"), "w1")
        room.add(pending(f"shared{number}"), ANYBODY)
    taken = [room.take("w1", slotted=True).header.message_id for _ in range(4)]
    assert sum(name.startswith("shared") for name in taken) == 2
    others = [room.take("w2", slotted=True).header.message_id for _ in range(2)]
    assert all(name.startswith("shared") for name in others)
    assert room.take("w2", slotted=True) is None
    assert room.take("w1", slotted=False) is None


def test_a_first_owner_is_stable_when_others_come_and_go():
    peers = [BoundPeer(b"", f"ho2/{n}@a", "ho2", 0.0) for n in range(4)]
    owners = {f"k{i}": choose_owner(f"k{i}", peers) for i in range(100)}
    for key, owner in owners.items():
        if owner is not peers[0]:
            assert choose_owner(key, peers[1:]) is owner
    reborn = [BoundPeer(b"", f"ho2/{n}@b", "ho2", 0.0) for n in range(4)]
    assert all(choose_owner(key, reborn).name == owner.name for key, owner in owners.items())


def test_keys_become_idle_in_order_and_release_their_peer():
    table, peer = StickyTable(10, 100), BoundPeer(b"", "ho2/1@a", "ho2", 0.0)
    table.assign("a", peer, 0.0)
    table.assign("b", peer, 5.0)
    table.expire(9.99)
    assert list(peer.keys) == ["a", "b"]
    table.expire(10.0)
    assert list(peer.keys) == ["b"]
    assert table.owner("b", 15.0) is None
    assert len(table) == 0 and not peer.keys


def test_work_of_a_former_owner_does_not_make_a_key_idle():
    """The key moved while the old owner still worked: its end is not the new owner's."""
    table = StickyTable(10, 100)
    old, new = (BoundPeer(b"", f"ho2/{n}@a", "ho2", 0.0) for n in (1, 2))
    table.assign("k", old, 0.0)
    table.started("k", old)
    table.release(old)
    table.assign("k", new, 1.0)
    table.started("k", new)
    table.ended("k", old, 2.0)
    table.expire(100.0)
    assert table.owner("k", 100.0) is new


def test_beyond_its_bound_the_key_unused_longest_has_no_owner():
    """`limits.STICKY_KEYS_MAX`; one that is being worked on stays, whatever comes."""
    table, peer = StickyTable(10, 3), BoundPeer(b"", "ho2/1@a", "ho2", 0.0)
    table.assign("worked on", peer, 0.0)
    table.started("worked on", peer)
    for number in range(50):
        table.assign(f"{number}", peer, 1.0)
        assert table.owner(f"{number}", 1.0) is peer
    assert sorted(peer.keys) == ["48", "49", "worked on"] and len(table) == 3
    assert table.owner("worked on", 1.0) is peer and table.owner("47", 1.0) is None


def test_a_claimed_key_does_not_take_it_from_its_owner():
    """Re-announcing is no way to steal."""
    table = StickyTable(10, 100)
    owner, other = (BoundPeer(b"", f"ho2/{n}@a", "ho2", 0.0) for n in (1, 2))
    table.claim("k", owner, 0.0)
    table.claim("k", other, 1.0)
    assert table.owner("k", 2.0) is owner


def test_every_row_and_role_pair_is_allowed_exactly_as_the_catalog_says():
    for row in ROWS:
        kind = Kind.REQUEST if row.reply is not None else Kind.POST
        wrong = Kind.POST if row.reply is not None else Kind.REQUEST
        for role in ROLES:
            frame = make_header(kind, "m", type=row.cls.TYPE, destination=row.service)
            denial = find_denial(find_frame_row(row.service, frame), role, frame)
            assert (denial == "") == (role in row.senders)
            if role in row.senders:
                assert find_denial(row, role, frame._replace(kind=int(wrong))) == "wrong_kind"


@pytest.mark.parametrize(
    ("message_id", "instance", "expected"),
    [
        ("ho1/3@1a2b3c:7", "ho1/3@1a2b3c", False),
        ("ho1/3@1a2b3c:7", "ho2/1@1a2b3c", True),
        ("ho1/3@1a2b3c:7", "ho1/4@1a2b3c", True),
        ("ho1/3@1a2b3c:7", "ho1/3@1a2b", True),
        ("ho1/3@1a2b3c:7", "ho1/3@other", True),
        ("door/a@b:1", "door/c@b", True),
        ("WO-6a3f-1.1.1", "ho1/3@1a2b3c", False),
        ("ho1/3@1a2b3c/7", "ho2/1@a", False),
        ("RunRequested:x", "ho2/1@a", False),
    ],
)
def test_counted_ids_belong_to_who_counted_them(message_id, instance, expected):
    assert is_foreign(message_id, instance) is expected


@pytest.mark.parametrize(
    "name", ["ho1/1", "ho1/1@", "/1@a", "HO1/1@a", "ho1/1@a/b", "ho1/1@a\n", "ho1/../x@a", "ho1//@a"]
)
def test_what_is_no_instance_name_is_not_taken_for_one(name):
    """Names become file names of tokens, so nothing else may match."""
    assert INSTANCE_PATTERN.fullmatch(name) is None
