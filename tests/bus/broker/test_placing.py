"""Who gets a request: credit, load, idleness, stickiness, priority, fairness."""

from __future__ import annotations

from collections import OrderedDict

import pytest

from hobus.bus import limits
from hobus.bus.broker.peers import BoundPeer
from hobus.bus.broker.placing import choose_least_loaded
from hobus.bus.catalog import map_rows
from tests.bus.broker.rig import Rig


def peer(name, *, slots=4, used=0, immediate=0, state="ready"):
    """A worker in this condition."""
    made = BoundPeer(name.encode(), f"{name}@a", "ho1", 0.0)
    made.slots, made.used, made.immediate, made.ready_state = slots, used, immediate, state
    made.judge()
    return made


def test_least_loaded_then_first():
    """Load is the share of slots taken; equal load goes to the first, who has been idle longest."""
    busy, idler, idle = peer("a", used=2), peer("b", used=1), peer("c", used=1)
    assert choose_least_loaded([busy, idler, idle], slotted=True, mailbox_max=9) is idler
    wide = peer("d", slots=100, used=10)
    assert choose_least_loaded([idler, wide], slotted=True, mailbox_max=9) is wide


def test_one_without_work_ends_the_search():
    def offering():
        yield from (peer("a", state="starting"), peer("b", used=1), peer("c"))
        pytest.fail("looked on")

    assert choose_least_loaded(offering(), slotted=True, mailbox_max=9).name == "c"


def test_orders_go_round_those_who_are_idle(rig):
    """Whoever got one or answered one last comes last, at one moment of the clock too; a lost one does not come back."""
    ho2, names = rig.client("ho2/1@a"), [f"ho1/{number}@a" for number in (1, 2, 3)]
    one, two, three = (rig.worker(name) for name in names)
    rig.order(ho2, "WO-1")
    rig.order(ho2, "WO-2")
    rig.reply(two, "WO-2")
    rig.reply(one, "WO-1")
    rig.lost(two)
    for number, worker in ((3, three), (4, one)):
        rig.got(worker)
        rig.order(ho2, f"WO-{number}")
        assert rig.requests(worker) == [f"WO-{number}"]


def test_an_order_among_many_idle_workers_looks_at_few(rig):
    """Of a hundred, one: whatever is asked of everybody costs the broker's one thread, for each order."""
    looked = []

    class Seen(OrderedDict):
        def __iter__(self):
            return (looked.append(peer) or peer for peer in super().__iter__())

    ho2, workers = rig.client("ho2/1@a"), [rig.worker(f"ho1/{number}@a") for number in range(100)]
    service = next(one for one in rig.core._services if one.name == "ho1")
    service.offering = Seen(service.offering)
    looked.clear()
    rig.order(ho2, "WO-1")
    rig.reply(workers[0], "WO-1")
    assert [peer.name for peer in looked] == ["ho1/0"]


@pytest.mark.parametrize("state", ["starting", "draining"])
def test_nobody_who_is_not_routable_is_chosen(state):
    """Starting and draining peers get nothing; a degraded one does."""
    assert choose_least_loaded([peer("a", state=state)], slotted=True, mailbox_max=9) is None
    degraded = peer("a", state="degraded")
    assert choose_least_loaded([degraded], slotted=True, mailbox_max=9) is degraded


def test_full_slots_and_a_full_mailbox_are_two_limits():
    """Slots bound slot requests only, the mailbox bounds immediate ones only."""
    full = peer("a", slots=2, used=2, immediate=0)
    assert choose_least_loaded([full], slotted=True, mailbox_max=1) is None
    assert choose_least_loaded([full], slotted=False, mailbox_max=1) is full
    boxed = peer("b", slots=2, used=0, immediate=1)
    assert choose_least_loaded([boxed], slotted=False, mailbox_max=1) is None
    assert choose_least_loaded([boxed], slotted=True, mailbox_max=1) is boxed


def test_credit_frames_change_the_number_of_slots(rig):
    """More credit delivers what waits; credit 0 stops delivery without harming what runs."""
    ho2, ho1 = rig.client("ho2/1@a"), rig.worker("ho1/1@a", slots=0)
    for number in range(3):
        rig.order(ho2, f"WO-{number}")
    assert rig.requests(ho1) == []
    rig.credit(ho1, 2)
    assert rig.requests(ho1) == ["WO-0", "WO-1"]
    rig.credit(ho1, 0)
    rig.reply(ho1, "WO-0")
    assert rig.requests(ho1) == []
    assert rig.answers(ho2) == [("WO-0", "")]


def test_immediate_requests_take_no_slot_and_wait_for_nothing_but_the_mailbox(monkeypatch: pytest.MonkeyPatch):
    """A worker whose slots are taken still answers immediate requests, up to its mailbox."""
    monkeypatch.setattr(limits, "MAILBOX_MAX", 1)
    rig = Rig()
    ho1 = rig.client("ho1/1@a")
    gateway = rig.worker("gateway/1@a", slots=1)
    rig.ask(ho1, "prompt-1", "gateway", "gateway.prompt")
    rig.ask(ho1, "prompt-2", "gateway", "gateway.prompt")
    rig.ask(ho1, "budget-1", "gateway", "gateway.read_budget")
    rig.ask(ho1, "budget-2", "gateway", "gateway.read_budget")
    assert rig.requests(gateway) == ["prompt-1", "budget-1"]
    rig.reply(gateway, "budget-1", b"", "gateway.budget")
    assert rig.requests(gateway) == ["budget-2"]


@pytest.mark.parametrize("state", ["starting", "draining"])
def test_a_worker_that_is_not_routable_gets_nothing_until_it_is_ready(rig, state):
    ho2, ho1 = rig.client("ho2/1@a"), rig.worker("ho1/1@a", state="starting")
    if state == "draining":
        rig.ready(ho1, "draining")
    rig.order(ho2, "WO-1")
    assert rig.requests(ho1) == []
    rig.ready(ho1, "degraded")
    assert rig.requests(ho1) == ["WO-1"]


def test_keys_spread_over_the_workers(rig):
    host = rig.client("host/1@a")
    workers = [rig.worker(f"ho2/{n}@a") for n in range(3)]
    for number in range(60):
        rig.ask(host, f"t{number}", "ho2", "ho2.turn", key=f"session-{number}")
    assert all(len(rig.requests(worker)) >= 8 for worker in workers)


def prompt(rig, client, message_id, **fields):
    """A type that takes a slot and sticks by its key."""
    rig.ask(client, message_id, "gateway", "gateway.prompt", **fields)


def test_a_keyed_request_waits_for_its_owner_and_holds_up_nobody_else(rig):
    """The owner has no room: its keyed request waits; one without a key goes to another worker meanwhile."""
    ho1 = rig.client("ho1/1@a")
    workers = [rig.worker(f"gateway/{n}@a", slots=1) for n in range(2)]
    prompt(rig, ho1, "WO-1", key="k")
    owner, other = workers if rig.requests(workers[0]) else reversed(workers)
    prompt(rig, ho1, "WO-2", key="k")
    prompt(rig, ho1, "WO-3")
    assert rig.requests(other) == ["WO-3"]
    rig.reply(other, "WO-3", type_name="gateway.response")
    assert rig.requests(other) == []
    rig.reply(owner, "WO-1", type_name="gateway.response")
    assert rig.requests(owner) == ["WO-2"]


@pytest.mark.parametrize("how", ["lost", "draining", "say_bye"])
def test_a_key_gets_a_new_owner_when_the_old_one_leaves(rig, how):
    """Gone or draining, it owns nothing any more, and what waited for it goes to the new owner."""
    ho1 = rig.client("ho1/1@a")
    workers = [rig.worker(f"gateway/{n}@a", slots=1) for n in range(2)]
    prompt(rig, ho1, "WO-1", key="k")
    owner, other = workers if rig.requests(workers[0]) else reversed(workers)
    prompt(rig, ho1, "WO-2", key="k")
    if how == "draining":
        rig.ready(owner, "draining")
        assert rig.requests(other) == ["WO-2"]
        rig.reply(owner, "WO-1", type_name="gateway.response")
        assert rig.answers(ho1) == [("WO-1", "")]
    else:
        getattr(rig, how)(owner)
        assert rig.requests(other) == ["WO-1"]
        rig.reply(other, "WO-1", type_name="gateway.response")
        assert rig.requests(other) == ["WO-2"]


def test_an_idle_key_is_forgotten_but_not_one_that_is_worked_on(monkeypatch):
    monkeypatch.setattr(limits, "STICKY_IDLE_S", 10)
    rig = Rig()
    ho1 = rig.client("ho1/1@a")
    gateway = rig.worker("gateway/1@a", slots=2)
    prompt(rig, ho1, "WO-1", key="idle")
    prompt(rig, ho1, "WO-2", key="busy")
    rig.reply(gateway, "WO-1", type_name="gateway.response")
    rig.advance(11)
    assert rig.core._state.services["gateway"].sticky._owners.keys() == {"busy"}
    rig.reply(gateway, "WO-2", type_name="gateway.response")
    rig.advance(11)
    assert not rig.core._state.services["gateway"].sticky._owners


def test_low_priority_waits_behind_other_work(rig, monkeypatch):
    """A type marked low in the catalog is delivered only when nothing else waits."""
    low = map_rows("ho1")["wo.execute"]._replace(low=True)
    real = map_rows("ho1")["wo.execute"]
    monkeypatch.setattr(
        "hobus.bus.broker.delivery.find_frame_row", lambda _service, frame: low if frame.trace == "low" else real
    )
    ho2, ho1 = rig.client("ho2/1@a"), rig.worker("ho1/1@a", slots=1)
    rig.order(ho2, "WO-0")
    rig.order(ho2, "LOW", trace="low")
    rig.order(ho2, "WO-1")
    rig.order(ho2, "WO-2")
    seen = []
    while wanted := rig.requests(ho1):
        seen += wanted
        rig.reply(ho1, wanted[-1])
    assert seen == ["WO-0", "WO-1", "WO-2", "LOW"]


def test_a_keyed_request_waiting_for_anybody_goes_to_the_owner_chosen_when_somebody_is_ready(rig):
    host = rig.client("host/1@a")
    for number in range(3):
        rig.ask(host, f"t{number}", "ho2", "ho2.turn", key="s")
    first, second = rig.worker("ho2/1@a"), rig.worker("ho2/2@a", state="starting")
    rig.ready(second)
    counts = [len(rig.inbox.get(worker, [])) for worker in (first, second)]
    assert counts[1] == 0  # the first to be ready became the owner; its inbox was emptied by the rig
    rig.ask(host, "t3", "ho2", "ho2.turn", key="s")
    assert rig.requests(first) == ["t3"]


def test_a_probe_reaches_an_instance_in_any_state(rig):
    operator = rig.client("operator/1@a")
    ho1 = rig.worker("ho1/1@a", state="starting")
    rig.ask(operator, "q", "ho1/1@a", "bus.probe")
    assert rig.requests(ho1) == ["q"]
    rig.reply(ho1, "q", b"", "bus.probed")
    assert rig.answers(operator) == [("q", "")]
