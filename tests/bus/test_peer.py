"""The shell's own promises, beyond the transport contract: standstill, silence, refusal, readiness, stopping."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from hobus.bus import catalog, limits
from hobus.bus.codec import encode, pack_header, unpack_header
from hobus.bus.dispatch import Actor, Call
from hobus.bus.envelope import Kind, make_header
from hobus.bus.errors import BusError, LedgerError, RuntimeFault
from hobus.bus.inbox import CAUSE
from hobus.bus.messages.control import PeerRow, Peers, ReadPeer, ReadPeers
from hobus.bus.messages.gateway import Budget, Prompt, PromptResponse, ReadBudget
from hobus.bus.messages.ids import RunId
from hobus.bus.messages.ledger import Body, GetBody
from hobus.bus.messages.session import Consolidate, EndSession, ProcessTurn, SessionClosed, TurnResult
from hobus.bus.sim.network import DELAY_S
from hobus.bus.sim.world import World
from tests.conformance.clusters import bus_settings
from tests.conformance.desk import Desk, Shelf, prompt
from tests.played import played

SETTINGS = bus_settings(service_grace_ms=400)
SESSION = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def world() -> Iterator[World]:
    """A simulated cluster."""
    with World(SETTINGS) as made:
        yield made


async def ask(peer, script: str, *, timeout_s: float = 30.0, **options) -> PromptResponse:
    return await peer.request("gateway", prompt(script), expect=PromptResponse, timeout_s=timeout_s, **options)


async def row_of(world: World, operator, instance: str) -> PeerRow:
    """What the broker knows of an instance."""
    return await operator.request("broker", ReadPeer(instance=instance), expect=PeerRow, timeout_s=1)


# --- standstill and silence -----------------------------------------------------------------------------------------


def test_after_a_standstill_nothing_is_sent_before_the_brokers_answer(world: World) -> None:
    """The first frame of a thawed process is its hello, although a handler was about to send."""
    sent: list[int] = []
    world.run(world.settled())
    operator = world.client("operator")
    world.run(world.settled())
    connection = operator._broker
    connection.link = _Spy(connection.link, sent.append)
    world.loop.advance(5.0)  # the process was frozen, and wakes in the middle of a handler:
    peers = world.run(operator.request("broker", ReadPeers(), expect=Peers, timeout_s=1))
    assert operator.instance in [row.instance for row in peers.peers]
    assert sent[0] == Kind.HELLO
    assert sent.index(Kind.REQUEST) > sent.index(Kind.HELLO)


class _Spy:
    """A link that tells the kind of every frame."""

    def __init__(self, link, tell) -> None:
        self._link = link
        self._tell = tell

    def send(self, head: bytes, body: bytes) -> None:
        self._tell(unpack_header(head).kind)
        self._link.send(head, body)

    def __getattr__(self, name: str):
        return getattr(self._link, name)


@played
async def test_after_a_standstill_what_was_not_started_is_discarded_and_comes_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queued behind another request of its key: forgotten, re-delivered by the broker, run once."""
    row = catalog.map_rows("gateway")[Prompt.TYPE]
    monkeypatch.setitem(catalog.map_rows("gateway"), Prompt.TYPE, row._replace(mode="ordered"))
    desk = Desk()
    peer = world.start(desk, role="gateway", slots=9)
    worker = world.client("ho1")
    await world.settled()
    first = asyncio.ensure_future(ask(worker, "hold", key="k"))
    second = asyncio.ensure_future(ask(worker, "echo second", key="k"))
    await asyncio.sleep(1)
    assert len(peer._inbox) == 2
    world.loop.advance(2.0)
    await asyncio.sleep(1)
    assert peer._inbox.counters["discarded"] >= 1
    desk.go.set()
    assert (await first).outcome == "SUCCESS"
    assert (await second).content == "second"
    assert desk.begun == ["hold", "echo second"]


@played
async def test_what_is_answered_between_hello_and_welcome_arrives(world: World) -> None:
    """The hello announced it as at work, so the broker waits for exactly this answer; it is not lost on the way."""
    desk = Desk()
    peer = world.start(desk, role="gateway", slots=1)
    worker = world.client("ho1")
    await world.settled()
    asked = asyncio.ensure_future(ask(worker, "hold", timeout_s=5))
    await asyncio.sleep(0.5)
    peer._conversation._say_hello(peer._broker, world.loop.time())
    desk.go.set()  # the handler ends before the welcome comes
    assert (await asked).outcome == "SUCCESS"
    assert desk.begun == ["hold"]


@played
async def test_a_cancel_that_cannot_leave_waits_for_the_welcome(world: World) -> None:
    desk = Desk()
    world.start(desk, role="gateway", slots=1)
    worker = world.client("ho1")
    await world.settled()
    asked = asyncio.ensure_future(ask(worker, "hold"))
    await asyncio.sleep(0.5)
    worker._conversation._say_hello(worker._broker, world.loop.time())
    asked.cancel()
    await asyncio.sleep(0.5)
    assert desk.ended == ["hold"]


@played
async def test_what_was_given_up_is_forgotten_once_its_time_is_over(world: World) -> None:
    """Its cancel need not be said again: memory follows from how much is given up at once, not from how long it runs."""
    world.start(Desk(), role="gateway", slots=9)
    worker = world.client("ho1")
    await world.settled()
    for _ in range(20):
        asked = asyncio.ensure_future(ask(worker, "hold", timeout_s=3))
        await asyncio.sleep(1)
        asked.cancel()
    await asyncio.sleep(0.5)
    assert 1 <= len(worker._outbox._cancels) <= 3


@pytest.mark.parametrize("delays", [0, 0.5])
@played
async def test_a_cancel_while_the_broker_restarts_stops_the_handler(world: World, delays: float) -> None:
    """Said to the broker that dies, or to none: the new one passes it on to whoever announced the request."""
    desk = Desk()
    world.start(desk, role="gateway", slots=1)
    worker = world.client("ho1")
    await world.settled()
    asked = asyncio.ensure_future(ask(worker, "hold"))
    await asyncio.sleep(0.5)
    asked.cancel()
    await asyncio.sleep(delays * DELAY_S)  # the cancel is on its way to the old broker
    world.network.start_broker("sim2")
    await asyncio.sleep(3)
    assert desk.ended == ["hold"]


@pytest.mark.parametrize("delays", [0, 0.5, 1.5, 2.5, 3.5, 4.5])
@pytest.mark.parametrize("service", ["gateway", "ledger"])
@played
async def test_asking_again_after_giving_up_is_never_answered_with_the_cancellation(
    world: World, service: str, delays: float
) -> None:
    """Wherever the first one's end is by then: at the worker, at the broker, or on its way back; also on a lane."""
    desk, shelf = Desk(), Shelf()
    world.start(desk, role="gateway", slots=1)
    world.start(shelf, role="ledger")
    worker = world.client("ho1")
    await world.settled()

    async def once() -> object:
        if service == "gateway":
            return await ask(worker, "hold", message_id="G-1")
        return await worker.request("ledger", GetBody(ref="hold"), expect=Body, timeout_s=5, message_id="G-1")

    first = asyncio.ensure_future(once())
    await asyncio.sleep(0.1)
    first.cancel()
    await asyncio.sleep(delays * DELAY_S)
    second = asyncio.ensure_future(once())
    await asyncio.sleep(0.1)
    desk.go.set()
    shelf.go.set()
    assert await second


@played
async def test_a_silent_lane_is_down_until_it_welcomes_again(world: World) -> None:
    """Requests are held, not lost, and leave with the next welcome; the beat notices within the time-out."""
    ledger = world.start(Shelf(), role="ledger")
    worker = world.client("ho1")
    await world.settled()
    await worker.request("ledger", GetBody(ref="a"), expect=Body, timeout_s=1)
    world.kill(ledger.instance)
    await asyncio.sleep(SETTINGS.peer_timeout_ms / 1000 + 0.5)
    assert not worker._connections["ledger"].is_bound
    held = asyncio.ensure_future(worker.request("ledger", GetBody(ref="b"), expect=Body, timeout_s=20))
    await asyncio.sleep(0.1)
    world.start(Shelf(), role="ledger")
    assert (await held).ref == "b"


@played
async def test_a_client_says_hello_to_a_lane_when_it_first_asks_there(world: World) -> None:
    """Most never do: the lane's server then never hears of them. From then on it is a connection like any other."""
    ledger = world.start(Shelf(), role="ledger")
    client = world.client("operator")
    await world.settled()
    lane = client._connections["ledger"]
    await asyncio.sleep(2 * SETTINGS.peer_timeout_ms / 1000)
    assert lane.hello_at is None and not lane.is_bound
    assert (await client.request("ledger", GetBody(ref="a"), expect=Body, timeout_s=1)).ref == "a"
    assert lane.is_bound
    world.kill(ledger.instance)
    world.start(Shelf(), role="ledger")
    assert (await client.request("ledger", GetBody(ref="b"), expect=Body, timeout_s=20)).ref == "b"


@played
async def test_without_any_answer_the_guard_expires_a_request(world: World) -> None:
    worker = world.client("ho1")
    await world.settled()
    began = world.loop.time()
    with pytest.raises(BusError, match="the ledger lane does not answer") as caught:
        await worker.request("ledger", GetBody(ref="a"), expect=Body, timeout_s=2)
    assert caught.value.code == "expired"
    assert world.loop.time() - began == pytest.approx(2.0, abs=0.01)


# --- hello ----------------------------------------------------------------------------------------------------------


@played
async def test_a_refused_instance_does_not_start(world: World) -> None:
    peer = world.client("ho1")
    peer._hello = peer._hello.model_copy(update={"token": "stolen"})
    with pytest.raises(BusError, match="bad_token") as caught:
        await world.processes[peer.instance].starting
    assert caught.value.code == "denied"
    world.errors.clear()


class DeafBroker:
    """A broker that hears and never answers."""

    def step(self, event, now) -> list:
        return []

    def next_wakeup(self) -> None:
        return None


@played
async def test_a_peer_whose_broker_does_not_answer_says_so_in_time(world: World) -> None:
    world.network.broker = DeafBroker()
    peer = world.start(None, role="operator", start_timeout_s=1.0)
    with pytest.raises(BusError, match=r"the broker does not answer within 1\.0 s") as caught:
        await world.processes[peer.instance].starting
    assert caught.value.code == "no_route"
    world.errors.clear()


@played
async def test_a_fenced_incarnation_is_told_that_it_cannot_go_on(world: World) -> None:
    old = world.start(None, role="ho2", instance="ho2/1@old")
    await world.settled()
    world.start(None, role="ho2", instance="ho2/1@new")
    reason = await old.failed()
    assert isinstance(reason, RuntimeFault)
    assert "name_taken" in str(reason)


# --- readiness ------------------------------------------------------------------------------------------------------


class Waking(Actor):
    """Degraded until its dependency is there; slow to start."""

    service = "gateway"

    def __init__(self) -> None:
        self.dependency_is_there = False
        self.asked = 0

    async def start(self, bus) -> None:
        await bus.sleep(0.5)
        self.started = True

    async def ready(self) -> str:
        self.asked += 1
        if self.asked == 1:
            raise LedgerError("unavailable", "the ledger is away")
        return "" if self.dependency_is_there else "waiting"

    def counters(self) -> dict[str, int]:
        return {"asked": self.asked}

    async def on_budget(self, message: ReadBudget, call: Call) -> Budget:
        assert self.started
        return Budget(mode="off", scopes=[])


class Reading(Actor):
    """Reads for a while before it is ready, and says how far it is."""

    service = "gateway"

    async def start(self, bus) -> None:
        self.bus = bus

    def starting(self) -> str:
        return "reads entry 1 of 2"

    async def ready(self) -> str:
        await self.bus.sleep(1.0)
        return ""


@played
async def test_an_actor_that_is_not_ready_yet_says_how_far_it_is(world: World) -> None:
    peer, operator = world.start(Reading(), role="gateway"), world.client("operator")
    await asyncio.sleep(0.6)
    row = await row_of(world, operator, peer.instance)
    assert (row.state, row.reason) == ("starting", "reads entry 1 of 2")
    await asyncio.sleep(1.0)
    row = await row_of(world, operator, peer.instance)
    assert (row.state, row.reason) == ("ready", "")


@played
async def test_readiness_is_told_at_every_change_and_degraded_actors_serve(world: World) -> None:
    """Starting -> degraded(reason) -> degraded(other) -> ready; asked again until ready, then no more."""
    actor = Waking()
    peer = world.start(actor, role="gateway")
    operator = world.client("operator")
    await asyncio.sleep(0.35)
    assert (await row_of(world, operator, peer.instance)).state == "starting"
    await asyncio.sleep(0.25)
    row = await row_of(world, operator, peer.instance)
    assert (row.state, row.reason) == ("degraded", "unavailable: the ledger is away")
    assert (await operator.request("gateway", ReadBudget(), expect=Budget, timeout_s=1)).mode == "off"
    await asyncio.sleep(0.4)
    assert (await row_of(world, operator, peer.instance)).reason == "waiting"
    actor.dependency_is_there = True
    await asyncio.sleep(0.5)
    row = await row_of(world, operator, peer.instance)
    assert (row.state, row.reason) == ("ready", "")
    asked = actor.asked
    await asyncio.sleep(2)
    assert actor.asked == asked
    assert (await row_of(world, operator, peer.instance)).counters["asked"] == asked


@played
async def test_a_peer_hears_when_the_brokers_word_is_another_one_and_not_at_each_beat(world: World) -> None:
    told: list[int] = []
    launcher = world.client("launcher")
    await asyncio.sleep(SETTINGS.reannounce_grace_ms / 1000 + 1)  # by then the broker knows whoever is there
    launcher.on_word = lambda word: told.append(word.ready_count)
    await asyncio.sleep(5 * SETTINGS.beat_interval_ms / 1000)
    assert not told
    actor = Waking()
    actor.dependency_is_there = True
    peer = world.start(actor, role="gateway")
    while peer.state[0] != "ready":
        assert not told
        await asyncio.sleep(0.01)
    await world.settled()
    assert told == [2]


@played
async def test_a_bug_in_ready_ends_the_incarnation(world: World) -> None:
    class Buggy(Waking):
        async def ready(self) -> str:
            raise KeyError("bug")

    peer = world.start(Buggy(), role="gateway")
    assert isinstance(await peer.failed(), KeyError)


@played
async def test_a_lane_request_that_comes_before_the_actor_started_waits_for_it(world: World) -> None:
    """Bound first, served when started, in order."""

    class Slow(Shelf):
        async def start(self, bus) -> None:
            await bus.sleep(1)

    shelf = Slow()
    world.start(shelf, role="ledger")
    worker = world.client("ho1")
    asked = [
        asyncio.ensure_future(worker.request("ledger", GetBody(ref=name), expect=Body, timeout_s=5)) for name in "abc"
    ]
    await asyncio.sleep(0.5)
    assert shelf.asked == []
    for one in asked:
        await one
    assert shelf.asked == ["a", "b", "c"]


# --- handlers -------------------------------------------------------------------------------------------------------


class Relay(Actor):
    """A host that passes a request on, as the session host does."""

    service = "host"

    async def start(self, bus) -> None:
        self.bus = bus

    async def on_end(self, message: EndSession, call: Call) -> SessionClosed:
        self.cause = CAUSE.get()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(
                self.bus.request(
                    "ho2", message, expect=SessionClosed, timeout_s=call.remaining_s(self.bus.clock.monotonic())
                )
            )
        return task.result()


class Owner(Actor):
    """An HO2 that says what it was asked."""

    service = "ho2"

    def __init__(self) -> None:
        self.calls: list[Call] = []

    async def on_end(self, message: EndSession, call: Call) -> SessionClosed:
        self.calls.append(call)
        return SessionClosed(session_id=message.session_id, turn_count=1)


@played
async def test_what_a_handler_sends_names_its_cause_and_carries_its_trace(world: World) -> None:
    """Causation and trace pass through TaskGroups without anybody handing them on."""
    causes: list[tuple[str, str]] = []
    owner = Owner()
    world.start(Relay(), role="host", slots=1)
    ho2 = world.start(owner, role="ho2", slots=1)
    door = world.client("door")
    await world.settled()
    original = ho2._inbox.receive

    def receive(head, body, route) -> None:
        causes.append((head.causation_id, head.trace))
        original(head, body, route)

    ho2._inbox = _Watched(ho2._inbox, receive)
    asked = EndSession(session_id=SESSION)
    await door.request("host", asked, expect=SessionClosed, timeout_s=5, message_id="END-1", trace="tr-1")
    assert causes == [("END-1", "tr-1")]
    assert owner.calls[0].trace == "tr-1"
    assert owner.calls[0].remaining_s(door.clock.monotonic()) < 5


class Following(Actor):
    """A host that does something after its reply, or fails and must not."""

    service = "host"

    def __init__(self) -> None:
        self.done: list[str] = []
        self.fault: RuntimeFault | None = None

    async def start(self, bus) -> None:
        self.bus = bus

    async def on_end(self, message: EndSession, call: Call) -> SessionClosed:
        async def first() -> None:
            self.done.append("first")
            raise BusError("busy", "a step may fail")

        async def second() -> None:
            self.done.append("second")
            await self.bus.post("ho2", CONSOLIDATE, key="ADMIN")

        call.after_reply(first)
        call.after_reply(second)
        await self.bus.sleep(0.01)
        assert self.done == []
        if self.fault is not None:
            raise self.fault
        return SessionClosed(session_id=message.session_id, turn_count=0)


CONSOLIDATE = Consolidate(
    session_id=SESSION, run_id=RunId(session_id=SESSION, run_seq=1), agent_id="ADMIN", signal_ids=["task:plan"]
)


def test_what_follows_a_reply_happens_after_it_left(world: World) -> None:
    """The reply is handed over before the first step runs; a step that fails stops neither the next one nor the peer."""
    sent: list[int] = []
    host = Following()
    connection = world.start(host, role="host")._broker
    door = world.client("door")
    world.run(world.settled())
    connection.link = _Spy(connection.link, sent.append)
    for _ in range(2):
        world.run(door.request("host", EndSession(session_id=SESSION), expect=SessionClosed, timeout_s=5))
        world.run(asyncio.sleep(0.1))
        assert host.done == ["first", "second"]
        host.done.clear()
    assert [kind for kind in sent if kind in (Kind.REPLY, Kind.POST)] == [Kind.REPLY, Kind.POST] * 2


@pytest.mark.parametrize("how", ["fault", "cancelled"])
@played
async def test_nothing_follows_a_handler_that_did_not_reply(world: World, how: str) -> None:
    host = Following()
    world.start(host, role="host")
    door = world.client("door")
    await world.settled()
    host.fault = LedgerError("damaged", "no") if how == "fault" else None
    asking = asyncio.ensure_future(
        door.request("host", EndSession(session_id=SESSION), expect=SessionClosed, timeout_s=5)
    )
    await asyncio.sleep(0.005)
    if how == "cancelled":
        asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await asyncio.sleep(1)
    assert host.done == []


class _Watched:
    """An inbox whose arrivals are seen."""

    def __init__(self, inbox, receive) -> None:
        self._inbox = inbox
        self.receive = receive

    def __getattr__(self, name: str):
        return getattr(self._inbox, name)

    def __len__(self) -> int:
        return len(self._inbox)


@played
async def test_asking_again_for_what_is_being_cancelled_runs_it_anew(world: World) -> None:
    class Lingering(Shelf):
        async def start(self, bus) -> None:
            self.bus = bus

        async def on_get_body(self, message: GetBody, call: Call) -> Body:
            try:
                return await super().on_get_body(message, call)
            except asyncio.CancelledError:
                await self.bus.sleep(0.5)  # a handler that has something to clean up
                raise

    shelf = Lingering()
    world.start(shelf, role="ledger")
    worker = world.client("ho1")
    await world.settled()

    async def read() -> Body:
        return await worker.request("ledger", GetBody(ref="hold"), expect=Body, timeout_s=5, message_id="G-1")

    first = asyncio.ensure_future(read())
    await asyncio.sleep(0.1)
    first.cancel()
    await asyncio.sleep(0.1)
    shelf.go.set()
    assert (await read()).ref == "hold"
    assert shelf.asked == ["hold", "hold"]


@played
async def test_a_late_reply_is_counted_and_dropped(world: World) -> None:
    worker = world.client("ho1")
    await world.settled()
    late = make_header(Kind.REPLY, "x", correlation_id="never-asked", type="gateway.response")
    worker._conversation._receive(worker._broker, pack_header(late), b"")
    assert worker._outbox.counters["late"] == 1


@played
async def test_a_reply_of_another_type_is_malformed(world: World) -> None:
    world.start(Desk(), role="gateway", slots=1)
    worker = world.client("ho1")
    with pytest.raises(BusError) as caught:
        await worker.request("gateway", ReadBudget(), expect=PromptResponse, timeout_s=2)
    assert caught.value.code == "malformed"


@played
async def test_a_malformed_body_never_reaches_a_handler(world: World) -> None:
    """Strictly validated at the receiving edge; the answer names fields, never values."""
    desk = Desk()
    peer = world.start(desk, role="gateway", slots=1)
    worker = world.client("ho1")
    await world.settled()
    body = encode(ReadBudget(session_id="private text"), 1000)
    waiting = asyncio.ensure_future(ask(worker, "echo x", message_id="M"))
    await asyncio.sleep(0)
    pending = worker._outbox._pending.get("M")
    assert pending is not None
    bad = pending.header._replace(deadline_ms=1000, message_id="BAD")
    worker._broker.link.send(pack_header(bad), body)
    await waiting
    await asyncio.sleep(0.4)
    assert desk.begun == ["echo x"]
    assert peer._inbox.counters["refused"] == 1


@played
async def test_nothing_is_sent_after_a_stop(world: World) -> None:
    world.start(Desk(), role="gateway", slots=1)
    worker = world.client("ho1")
    await world.settled()
    waiting = asyncio.ensure_future(ask(worker, "hold"))
    await asyncio.sleep(0.5)
    await worker.stop(0.1)
    for one in (waiting, ask(worker, "echo x")):
        with pytest.raises(BusError) as caught:
            await one
        assert caught.value.code == "cancelled"


@played
async def test_a_client_that_stops_says_goodbye_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it said before that made the broker speak to a connection that is closed by then, and deny the goodbye."""
    worker, said = world.client("ho1"), list[Kind]()
    await world.settled()
    monkeypatch.setattr(worker._conversation, "say", lambda _connection, kind, _message: said.append(kind))
    await worker.stop(0.1)
    assert {*said} == {Kind.BYE}  # to the broker and to each lane


@played
async def test_a_stop_gives_back_what_does_not_end_in_time(world: World) -> None:
    """The handler is cancelled without an answer; the broker gives the request to another worker."""
    desks = [Desk(), Desk()]
    first = world.start(desks[0], role="gateway", slots=1)
    worker = world.client("ho1")
    await world.settled()
    asked = asyncio.ensure_future(ask(worker, "hold"))
    await asyncio.sleep(0.5)
    desks[1].go.set()
    world.start(desks[1], role="gateway", slots=1)
    await world.stop(first.instance, 0.3)
    assert (await asked).outcome == "SUCCESS"
    assert (desks[0].ended, desks[1].begun) == (["hold"], ["hold"])


def test_a_client_holds_back_what_would_be_too_much_and_all_of_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than `limits.CLIENT_OPEN_MAX_BYTES` under way: nobody is told `busy`, nobody cut off, nor when all is asked anew."""

    class Host(Actor):
        service = "host"
        at_once = most = 0

        async def on_turn(self, _message: ProcessTurn, _call: Call) -> TurnResult:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            await asyncio.sleep(0.05)
            self.at_once -= 1
            raise BusError("rejected", "no turns here")

    monkeypatch.setattr(limits, "CLIENT_OPEN_MAX_BYTES", 2500)
    settings = bus_settings()
    with World(settings) as world:
        host = Host()
        world.start(host, role="host", slots=0)
        client, other = world.client("door"), world.client("door")

        async def ask(peer, text: str) -> str:
            turn = ProcessTurn(session_id=None, input_id=text[:8], text=text)
            with pytest.raises(BusError) as caught:
                await peer.request("host", turn, expect=TurnResult, timeout_s=30)
            return caught.value.code

        async def scenario() -> None:
            asks = [asyncio.ensure_future(ask(client, f"{n:08}" + "x" * 1_000)) for n in range(20)]
            asks.append(asyncio.ensure_future(ask(other, "other")))
            await asyncio.sleep(0.12)
            asks[5].cancel()
            world.network.kill_broker()
            await asyncio.sleep(0.5)
            world.network.start_broker("sim2")
            said = await asyncio.gather(*asks, return_exceptions=True)
            assert [code for code in said if code != "rejected"] == [said[5]]
            assert isinstance(said[5], asyncio.CancelledError)
            assert host.most == 3  # two of the one, one of the other

        world.run(scenario())
