"""What a receiver takes in of one principal, and whose handler begins next; a real shell on the simulated transport."""

from __future__ import annotations

import asyncio
import gc
import itertools
import sys
from typing import ClassVar

import pytest

from hobus.bus import limits
from hobus.bus.codec import encode
from hobus.bus.dispatch import Actor, Call
from hobus.bus.envelope import Kind, make_header
from hobus.bus.errors import BusError
from hobus.bus.inbox import ReplyRoute
from hobus.bus.messages.failure import Failure
from hobus.bus.messages.ids import RunId
from hobus.bus.messages.ledger import Body, GetBody
from hobus.bus.messages.session import Consolidate
from hobus.bus.promise import Promise
from tests.conformance.clusters import SimCluster, bus_settings
from tests.played import played

SETTINGS = bus_settings()


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
def few_bytes(monkeypatch):
    """Two of the questions of a principal, and little more of all."""
    monkeypatch.setattr(limits, "CLIENT_OPEN_MAX_BYTES", 1816)
    monkeypatch.setattr(limits, "CLIENTS_OPEN_MAX_BYTES", 2000)


@pytest.fixture
def cluster(request):
    """In virtual time."""
    found = SimCluster(getattr(request, "param", SETTINGS))
    yield found
    found.close()


def asked(peer, count):
    """So many questions, all handed over at once."""
    return [
        asyncio.ensure_future(peer.request("ledger", GetBody(ref=f"{n}"), expect=Body, timeout_s=10))
        for n in range(count)
    ]


@played
async def test_a_clients_burst_does_not_begin_before_anothers_first(cluster):
    """Seven came before it in one piece; the other client's only one begins second or third."""
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


@played
async def test_a_client_that_has_as_much_open_at_a_lane_as_it_may_is_told_when_to_come_again(cluster, monkeypatch):
    monkeypatch.setattr(limits, "OPEN_MAX", 8)
    shelf = Shelf()
    await cluster.start(shelf, role="ledger")
    greedy, polite = [await cluster.start(None, role="door") for _ in range(2)]
    burst = asked(greedy, 8)
    while len(shelf.begun) < 8:
        await asyncio.sleep(0.001)
    with pytest.raises(BusError) as caught:
        await asked(greedy, 1)[0]
    assert (caught.value.code, caught.value.retryable, caught.value.retry_after_ms) == ("busy", True, 250)
    assert 0.25 <= caught.value.pause_s(0.01, 0.5) <= 0.375
    others = asked(polite, 1)
    await asyncio.sleep(0.1)
    shelf.go.set()
    await asyncio.gather(*burst, *others)


@pytest.mark.usefixtures("few_bytes")
@played
async def test_a_principal_has_a_bounded_number_of_bytes_open_at_a_lane(cluster):
    shelf = Shelf()
    await cluster.start(shelf, role="ledger")
    greedy, polite = [await cluster.start(None, role=role) for role in ("ho1", "ho1")]

    def ask(peer, size):
        question = GetBody(ref="r" * size)
        return asyncio.ensure_future(peer.request("ledger", question, expect=Body, timeout_s=10))

    room = len(encode(GetBody(ref="r" * 900), 1000))
    assert 2 * room == limits.CLIENT_OPEN_MAX_BYTES
    burst = [ask(greedy, 900), ask(greedy, 900)]
    while len(shelf.begun) < 2:
        await asyncio.sleep(0.001)
    with pytest.raises(BusError, match="bytes of ho1/1 are open") as caught:
        await ask(greedy, 1)
    assert (caught.value.code, caught.value.retry_after_ms) == ("busy", 250)
    burst.append(ask(polite, 900))
    while len(shelf.begun) < 3:
        await asyncio.sleep(0.001)
    with pytest.raises(BusError, match="bytes are open"):
        await ask(polite, 1)
    shelf.go.set()
    await asyncio.gather(*burst)


@played
async def test_what_a_principal_asks_that_has_too_much_to_read_waits_and_is_answered_later(cluster):
    """Nothing is refused or lost; another one is answered meanwhile; what it asks in vain ends by its deadline."""
    shelf = Shelf()
    shelf.go.set()
    peer = await cluster.start(shelf, role="ledger")
    slow, polite = [await cluster.start(None, role="door") for _ in range(2)]
    behind = {slow.principal}
    peer._inbox.beginnings.is_behind = lambda principal: principal in behind
    waiting = asked(slow, 5)
    gives_up = asyncio.ensure_future(slow.request("ledger", GetBody(ref="g"), expect=Body, timeout_s=0.5))
    await asyncio.gather(*asked(polite, 5))
    assert len(shelf.begun) == 5 and not any(one.done() for one in waiting)
    with pytest.raises(BusError) as caught:
        await gives_up
    assert caught.value.code == "expired"
    behind.clear()
    answers = await asyncio.gather(*waiting)
    assert [answer.ref for answer in answers] == [f"{n}" for n in range(5)] and len(shelf.begun) == 10
    await asyncio.gather(*asked(slow, 5))


@played
async def test_answers_that_may_be_given_anew_are_not_kept(cluster):
    """What only reads is answered again by its handler: nothing of its answer stays."""
    shelf = Shelf()
    shelf.go.set()
    peer = await cluster.start(shelf, role="ledger")
    client = await cluster.start(None, role="door")
    await asyncio.gather(*asked(client, 3))
    assert len(shelf.begun) == 3 and len(peer._inbox.window) == 0


@played
async def test_what_a_client_asked_before_it_left_is_not_worked_off(cluster):
    """What has not begun never begins; another client's question does."""
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


@played
async def test_a_handlers_busy_says_when_to_come_again(cluster):
    class Full(Actor):
        service = "ledger"

        async def on_get_body(self, message: GetBody, _call: Call) -> Body:
            raise BusError("busy", f"no room for {message.ref}")

    await cluster.start(Full(), role="ledger")
    client = await cluster.start(None, role="door")
    with pytest.raises(BusError) as caught:
        await asked(client, 1)[0]
    assert (caught.value.code, caught.value.retry_after_ms) == ("busy", 250)


def test_nothing_of_a_request_that_is_over_stays_until_the_collector_comes(cluster):
    """A body of 8 MB each: refused by its handler, and given up before it began."""

    class Busy(Actor):
        service = "ledger"
        asked: ClassVar[list[GetBody]] = []

        async def on_get_body(self, message: GetBody, _call: Call) -> Body:
            self.asked.append(message)
            raise BusError("busy", "no room")

    async def scenario():
        peer = await cluster.start(Busy(), role="ledger")
        client = await cluster.start(None, role="door")
        for one in asked(client, 3):
            with pytest.raises(BusError):
                await one
        await asyncio.sleep(0.1)
        assert [sys.getrefcount(Busy.asked[n]) for n in range(3)] == [2] * 3  # this list, and the question itself
        head = make_header(
            Kind.REQUEST, "m1", type=GetBody.TYPE, destination="ledger", deadline_ms=1000, sender="door/1@a"
        )
        peer._inbox.receive(head, encode(GetBody(ref="r"), 1000), peer._route)
        (unstarted,) = [one.message for one in peer._inbox._running.values()]
        peer._inbox.discard_unstarted()
        await asyncio.sleep(0.1)
        assert sys.getrefcount(unstarted) == 2

    gc.disable()
    try:
        cluster.run(scenario())
    finally:
        gc.enable()


async def received(peer, *questions, sender="ho1/1@a", names="q"):
    """What was answered, by id, once these have come in one piece from this sender; and what a moment later."""
    answers = []
    route = ReplyRoute("", lambda request, _answer: answers.append(request.message_id))
    loop = asyncio.get_running_loop()
    over = loop.create_future()

    def arrive():
        for number, question in enumerate(questions):
            head = make_header(
                Kind.REQUEST, f"{names}{number}", type=question.TYPE, destination="ledger", deadline_ms=1000,
                sender=sender,
            )  # fmt: skip
            peer._inbox.receive(head, encode(question, 1000), route)
        loop.call_later(0.01, over.set_result, list(answers))

    loop.call_soon(arrive)
    return await over, answers


def turns_of_the_loop():
    """So many have begun, of the next hundred."""
    loop, count = asyncio.get_running_loop(), itertools.count()
    turns = [0]

    def turn():
        turns[0] = next(count)
        if turns[0] < 100:
            loop.call_soon(turn)

    turn()
    return lambda: turns[0]


@pytest.mark.parametrize("sender", ["door/1@a", "ho1/1@a"])
@played
async def test_of_clients_and_of_reads_one_begins_in_each_turn_of_the_loop(cluster, sender):
    """What a principal has to read yet is looked at in between."""
    shelf, turns = Shelf(), []
    shelf.go.set()
    peer = await cluster.start(shelf, role="ledger")
    turn = turns_of_the_loop()
    shelf.begun = Noting(lambda: turns.append(turn()))
    _, in_all = await received(peer, *(GetBody(ref=f"{n}") for n in range(3)), sender=sender)
    assert in_all == ["q0", "q1", "q2"]
    assert [at - turns[0] for at in turns] == [0, 1, 2]
    assert len(peer._inbox) == len(peer._inbox.deadlines) == 0 and peer._inbox.tasks() == []


@played
async def test_a_handler_that_waits_keeps_its_deadline(cluster):
    shelf = Shelf()
    peer = await cluster.start(shelf, role="ledger")
    at_once, _ = await received(peer, GetBody(ref="1"))
    assert at_once == [] and len(shelf.begun) == 1 and len(peer._inbox.deadlines) == len(peer._inbox.tasks()) == 1
    await asyncio.sleep(1.1)
    assert len(peer._inbox) == len(peer._inbox.deadlines) == 0


class Promising(Actor):
    """Promises its replies, and keeps the promises in hand."""

    service = "ledger"

    def __init__(self) -> None:
        self.given: dict[str, Promise[Body]] = {}

    def on_get_body(self, message: GetBody, _call: Call) -> Promise[Body]:
        if message.ref == "bug":
            raise ValueError(message.ref)
        if message.ref == "refused":
            raise BusError("rejected", "not this one")
        promise = self.given[message.ref] = Promise[Body]()
        if message.ref == "at once":
            promise.settle(Body(ref="at once", data=b""))
        return promise

    def on_nothing(self, message: GetBody, _call: Call) -> None:
        """No handler: it promises nothing."""


async def outcomes(peer, *refs, timeout_s=10.0):
    """The data, or the code of the fault."""

    async def one(ref):
        try:
            body = await peer.request("ledger", GetBody(ref=ref), expect=Body, timeout_s=timeout_s)
        except BusError as fault:
            return fault.code
        return body.ref

    return await asyncio.gather(*map(one, refs))


@played
async def test_a_reply_that_is_promised_needs_no_task(cluster):
    """It leaves as soon as it is there; a fault in its place, or of the handler, is the answer as ever."""
    actor = Promising()
    peer = await cluster.start(actor, role="ledger")
    client = await cluster.start(None, role="ho1")
    asking = asyncio.ensure_future(outcomes(client, "a", "b", "c", "at once", "bug", "refused"))
    while len(actor.given) < 4:
        await asyncio.sleep(0.01)
    assert peer._inbox.tasks() == [] and len(peer._inbox) == 3
    actor.given["b"].settle(Body(ref="b", data=b""))
    actor.given["a"].settle(BusError("not_found", "a"))
    actor.given["c"].settle(Failure(code="internal", retryable=False, detail=""))  # of no type that answers
    assert await asking == ["not_found", "b", "internal", "at once", "internal", "rejected"]
    assert len(peer._inbox) == len(peer._inbox.deadlines) == 0


@played
async def test_who_gives_up_a_promised_reply_is_answered_and_it_counts_for_nothing_any_more(cluster):
    actor = Promising()
    peer = await cluster.start(actor, role="ledger")
    client = await cluster.start(None, role="ho1")
    assert await outcomes(client, "late", timeout_s=0.5) == ["expired"]
    given_up = asyncio.ensure_future(outcomes(client, "given up"))
    await asyncio.sleep(0.1)
    given_up.cancel()
    await asyncio.sleep(0.1)
    assert len(peer._inbox) == len(peer._inbox.deadlines) == 0
    first = dict(actor.given)
    for ref, promise in first.items():
        promise.settle(Body(ref=ref, data=b""))
    again = asyncio.ensure_future(outcomes(client, "late"))
    await asyncio.sleep(0.1)
    assert actor.given["late"] is not first["late"]
    actor.given["late"].settle(Body(ref="late", data=b""))
    assert await again == ["late"]
    assert client.counters()["late"] == 1  # the end of what was given up


@pytest.mark.parametrize(("sender", "begun_at"), [("ho1/1@a", [0, 0, 0]), ("door/1@a", [0, 1, 2])])
@played
async def test_a_clients_promised_replies_keep_their_turns(cluster, sender, begun_at):
    """A burst of them does not stand before what others ask."""
    actor, turns = Promising(), []
    peer = await cluster.start(actor, role="ledger")
    turn = turns_of_the_loop()
    handler = actor.on_get_body

    def noted(message, call):
        turns.append(turn())
        return handler(message, call)

    peer._inbox._taken[GetBody.TYPE] = (*peer._inbox._taken[GetBody.TYPE][:2], noted, True)
    await received(peer, *(GetBody(ref=f"{n}") for n in range(3)), sender=sender)
    assert [at - turns[0] for at in turns] == begun_at


class Noting(list):
    """Calls back for everything that is added to it."""

    def __init__(self, on_append):
        super().__init__()
        self.on_append = on_append

    def append(self, value):
        super().append(value)
        self.on_append()


class Learner(Actor):
    """Takes one consolidation at a time."""

    service = "ho2"

    def __init__(self) -> None:
        self.begun = 0
        self.go = asyncio.Event()

    async def consolidate(self, message: Consolidate, call: Call) -> None:
        del message, call
        self.begun += 1
        await self.go.wait()


@played
async def test_of_posts_that_wait_behind_each_other_there_is_a_bounded_number(cluster):
    """While one does not end, the bound waits behind it, further ones are refused; then all that wait are handled."""
    learner = Learner()
    peer = await cluster.start(learner, role="ho2")
    host = await cluster.start(None, role="host")
    run_id = RunId(session_id="00000000-0000-0000-0000-000000000000", run_seq=1)
    for _ in range(3 * limits.ORDERED_POSTS_MAX):
        await host.post(
            "ho2", Consolidate(session_id=run_id.session_id, run_id=run_id, agent_id="A", signal_ids=["s"]), key="A"
        )
        await asyncio.sleep(0.1)
    assert (learner.begun, len(peer._inbox)) == (1, 1 + limits.ORDERED_POSTS_MAX)
    assert peer._inbox.counters["refused"] == 2 * limits.ORDERED_POSTS_MAX - 1
    learner.go.set()
    await asyncio.sleep(1)
    assert (learner.begun, len(peer._inbox)) == (1 + limits.ORDERED_POSTS_MAX, 0)
