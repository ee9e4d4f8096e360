"""One contract for both transports: what a request, a cancel, a deadline, a duplicate, a slot, a key and garbage mean."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from hobus.bus import catalog, limits
from hobus.bus.codec import pack_header
from hobus.bus.envelope import Kind, make_header
from hobus.bus.errors import BusError, MessageTooLarge, RuntimeFault
from hobus.bus.limits import BODY_MAX_BYTES
from hobus.bus.messages.control import LaneFrame, LaneFrames, Probe, Probed, ServiceGivenUp
from hobus.bus.messages.gateway import (
    Breakers,
    Budget,
    DegradedPrompt,
    Prompt,
    PromptResponse,
    ReadBreakers,
    ReadBudget,
)
from hobus.bus.messages.ledger import Body, GetBody
from hobus.bus.messages.session import ReadSession, SessionView
from hobus.bus.peer import Peer
from tests.conformance.clusters import Cluster, RealCluster, SimCluster, bus_settings
from tests.conformance.desk import Desk, Shelf, prompt
from tests.played import played

SETTINGS = bus_settings(service_grace_ms=400)


OPEN_MAX = 64


@pytest.fixture(autouse=True)
def few_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one principal no more requests may be open than half a mailbox takes."""
    monkeypatch.setattr(limits, "OPEN_MAX", OPEN_MAX)
    monkeypatch.setattr(limits, "MAILBOX_MAX", 2 * OPEN_MAX)


@pytest.fixture(params=["simulated", pytest.param("zeromq", marks=pytest.mark.process)])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One transport."""
    made = SimCluster(SETTINGS) if request.param == "simulated" else RealCluster(SETTINGS)
    yield made
    made.close()


async def until(condition) -> None:
    """Waits for what must come soon; pytest's time-out is the limit."""
    while not condition():
        await asyncio.sleep(0.005)


async def ask(peer, script: str, *, timeout_s: float = 5.0, **options) -> PromptResponse:
    """Asks the gateway to do what the script says."""
    return await peer.request("gateway", prompt(script), expect=PromptResponse, timeout_s=timeout_s, **options)


async def code_of(awaitable) -> str:
    """The fault's code."""
    with pytest.raises(RuntimeFault) as caught:
        await awaitable
    return caught.value.code


@played
async def test_a_request_gets_its_reply_and_the_handler_sees_a_stamped_sender(cluster: Cluster) -> None:
    """What the client sends arrives, what the handler answers comes back, and the sender is who the broker says it is."""
    desk = Desk()
    await cluster.start(desk, role="gateway", slots=1)
    worker = await cluster.start(None, role="ho1")
    assert (await ask(worker, "echo hello", key="k", trace="t-1", attempt=3)).content == "hello"
    (call,) = desk.calls
    assert (call.sender, call.role, call.key, call.trace, call.attempt, call.lane) == (
        worker.instance, "ho1", "k", "t-1", 3, "",
    )  # fmt: skip
    assert call.deadline is not None
    assert 4.0 < call.remaining_s(worker.clock.monotonic()) <= 5.0


@played
async def test_a_handlers_fault_arrives_with_code_and_facts(cluster: Cluster) -> None:
    """Failure crosses the wire as one shape and comes out as a fault that knows whether a retry may help."""
    await cluster.start(Desk(), role="gateway", slots=1)
    worker = await cluster.start(None, role="ho1")
    with pytest.raises(RuntimeFault) as caught:
        await ask(worker, "refuse")
    assert (caught.value.code, caught.value.retryable) == ("RATE_LIMITED", True)
    assert caught.value.facts == {"retry_after_ms": 5}


@played
async def test_a_programming_error_is_internal_and_says_nothing_it_should_not(cluster: Cluster) -> None:
    """Class and place, never the text, which may hold a prompt; and the worker goes on."""
    await cluster.start(Desk(), role="gateway", slots=1)
    worker = await cluster.start(None, role="ho1")
    with pytest.raises(BusError) as caught:
        await ask(worker, "crash")
    assert caught.value.code == "internal"
    assert "ValueError" in caught.value.detail
    assert "secret" not in caught.value.detail
    assert (await ask(worker, "echo on")).content == "on"


@played
async def test_what_the_catalog_does_not_allow_is_denied(cluster: Cluster) -> None:
    """HO2 may not prompt the gateway."""
    desk = Desk()
    await cluster.start(desk, role="gateway", slots=1)
    supervisor = await cluster.start(None, role="ho2")
    assert await code_of(ask(supervisor, "echo x")) == "denied"
    assert desk.begun == []


@played
async def test_a_service_that_nobody_offers_is_no_route_after_the_grace(cluster: Cluster) -> None:
    """The request waits for a restart, then fails well before its own deadline."""
    operator = await cluster.start(None, role="operator")
    began = operator.clock.monotonic()
    asked = ReadSession(session_id="00000000-0000-0000-0000-000000000000")
    assert await code_of(operator.request("ho2", asked, expect=SessionView, timeout_s=5)) == "no_route"
    assert operator.clock.monotonic() - began < 2


@played
async def test_a_request_waits_for_a_service_that_comes_within_the_grace(cluster: Cluster) -> None:
    """A restart is survived by waiting."""
    worker = await cluster.start(None, role="ho1")
    asked = asyncio.ensure_future(ask(worker, "echo late"))
    await asyncio.sleep(0.05)
    await cluster.start(Desk(), role="gateway", slots=1)
    assert (await asked).content == "late"


@played
async def test_cancelling_the_awaiting_task_cancels_the_handler(cluster: Cluster) -> None:
    """Structured cancellation across the bus; the slot is free again."""
    desk = Desk()
    await cluster.start(desk, role="gateway", slots=1)
    worker = await cluster.start(None, role="ho1")
    asked = asyncio.ensure_future(ask(worker, "hold"))
    await until(lambda: desk.begun)
    asked.cancel()
    await until(lambda: desk.ended == ["hold"])
    assert (await ask(worker, "echo next")).content == "next"


@played
async def test_a_request_that_waits_for_a_slot_can_be_cancelled(cluster: Cluster) -> None:
    """It leaves the queue and is never begun."""
    desk = Desk()
    await cluster.start(desk, role="gateway", slots=1)
    worker = await cluster.start(None, role="ho1")
    first = asyncio.ensure_future(ask(worker, "hold"))
    await until(lambda: desk.begun)
    second = asyncio.ensure_future(ask(worker, "echo never"))
    await asyncio.sleep(0.02)
    second.cancel()
    await asyncio.sleep(0.02)
    desk.go.set()
    await first
    assert (await ask(worker, "echo third")).content == "third"
    assert desk.begun == ["hold", "echo third"]


@played
async def test_the_deadline_ends_a_request_at_the_requester_and_in_the_handler(cluster: Cluster) -> None:
    """Expired within 50 ms of the deadline, and the handler stops as well."""
    desk = Desk()
    await cluster.start(desk, role="gateway", slots=1)
    worker = await cluster.start(None, role="ho1")
    await ask(worker, "echo warm")  # a broker that has just started collects hellos first
    began = worker.clock.monotonic()
    assert await code_of(ask(worker, "sleep 30", timeout_s=0.2)) == "expired"
    assert 0.19 <= worker.clock.monotonic() - began <= 0.25
    await until(lambda: desk.ended == ["echo warm", "sleep 30"])
    assert (await ask(worker, "echo next")).content == "next"


@played
async def test_a_duplicate_is_answered_from_the_window(cluster: Cluster) -> None:
    """The same id again, later: the recorded reply, no second run."""
    desk = Desk()
    await cluster.start(desk, role="gateway", slots=1)
    worker = await cluster.start(None, role="ho1")
    for _ in range(2):
        assert (await ask(worker, "echo once", message_id="WO-1#1")).content == "once"
    assert desk.begun == ["echo once"]


@played
async def test_a_retryable_failure_is_not_kept_for_duplicates(cluster: Cluster) -> None:
    """Asking again under the same id is a new attempt when the fault said that it may help."""
    desk = Desk()
    await cluster.start(desk, role="gateway", slots=1)
    worker = await cluster.start(None, role="ho1")
    for _ in range(2):
        assert await code_of(ask(worker, "refuse", message_id="WO-1#1")) == "RATE_LIMITED"
    assert desk.begun == ["refuse", "refuse"]


@played
async def test_one_id_asked_twice_at_once_runs_once_and_answers_both(cluster: Cluster) -> None:
    """Two tasks of one requester join."""
    desk = Desk()
    await cluster.start(desk, role="gateway", slots=2)
    worker = await cluster.start(None, role="ho1")
    asked = [asyncio.ensure_future(ask(worker, "hold", message_id="WO-1#1")) for _ in range(2)]
    await until(lambda: desk.begun)
    desk.go.set()
    assert [(await one).outcome for one in asked] == ["SUCCESS", "SUCCESS"]
    assert desk.begun == ["hold"]


@played
async def test_a_successor_joins_the_request_of_a_dead_requester(cluster: Cluster) -> None:
    """Losing a requester does not cancel its request; the next of its role gets the answer."""
    desk = Desk()
    await cluster.start(desk, role="gateway", slots=2)
    first = await cluster.start(None, role="ho1")
    asked = asyncio.ensure_future(ask(first, "hold", message_id="WO-1#1"))
    await until(lambda: desk.begun)
    cluster.kill(first)
    asked.cancel()
    second = await cluster.start(None, role="ho1")
    joined = asyncio.ensure_future(ask(second, "hold", message_id="WO-1#1"))
    await asyncio.sleep(0.05)
    desk.go.set()
    assert (await joined).outcome == "SUCCESS"
    assert desk.begun == ["hold"]


@played
async def test_a_worker_gets_no_more_than_its_slots_at_once(cluster: Cluster) -> None:
    """Credit: the rest waits at the broker, and everything is done in the end."""
    desk = Desk()
    await cluster.start(desk, role="gateway", slots=2)
    worker = await cluster.start(None, role="ho1")
    asked = [asyncio.ensure_future(ask(worker, f"hold {number}")) for number in range(5)]
    await until(lambda: len(desk.begun) == 2)
    await asyncio.sleep(0.05)
    assert desk.begun == ["hold 0", "hold 1"]
    desk.go.set()
    assert [(await one).content for one in asked] == ["0", "1", "2", "3", "4"]


@played
async def test_immediate_requests_pass_while_all_slots_are_taken(cluster: Cluster) -> None:
    """A command never waits behind the run that it is about."""
    desk = Desk()
    await cluster.start(desk, role="gateway", slots=1)
    worker = await cluster.start(None, role="ho1")
    asked = asyncio.ensure_future(ask(worker, "hold"))
    await until(lambda: desk.begun)
    budget = await worker.request("gateway", ReadBudget(session_id="s"), expect=Budget, timeout_s=1)
    assert budget.scopes[0].scope == "s"
    desk.go.set()
    await asked


@played
async def test_ordered_requests_of_one_key_run_one_at_a_time(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another key does not wait; the same key does, in the order of sending."""
    row = catalog.map_rows("gateway")[Prompt.TYPE]
    monkeypatch.setitem(catalog.map_rows("gateway"), Prompt.TYPE, row._replace(mode="ordered"))
    desk = Desk()
    await cluster.start(desk, role="gateway", slots=9)
    worker = await cluster.start(None, role="ho1")
    asked = [asyncio.ensure_future(ask(worker, f"hold {name}", key=name[0])) for name in ("a1", "a2", "b1", "a3", "b2")]
    await until(lambda: len(desk.begun) == 2)
    await asyncio.sleep(0.05)
    assert desk.begun == ["hold a1", "hold b1"]
    desk.go.set()
    for one in asked:
        await one
    assert [begun for begun in desk.begun if " a" in begun] == ["hold a1", "hold a2", "hold a3"]


@played
async def test_a_routing_key_stays_with_its_owner(cluster: Cluster) -> None:
    """Whatever the load: the same key, the same instance, until it is gone; then another one takes over for good."""
    desks = [Desk(), Desk()]
    peers = [await cluster.start(desk, role="gateway", slots=4) for desk in desks]
    worker = await cluster.start(None, role="ho1")
    answers = {(await ask(worker, "echo", key="session-1")).content for _ in range(6)}
    assert len(answers) == 1
    (owner,) = answers
    (gone,) = [peer for peer in peers if peer.instance == owner]
    cluster.kill(gone)
    after = {(await ask(worker, "echo", key="session-1")).content for _ in range(4)}
    assert len(after) == 1
    assert owner not in after


@played
async def test_a_lost_workers_request_goes_to_another_one_as_the_next_attempt(cluster: Cluster) -> None:
    """At least once while the deadline lasts; told within a second of the kill."""
    desks = [Desk(), Desk()]
    peers = [await cluster.start(desk, role="gateway", slots=4) for desk in desks]
    worker = await cluster.start(None, role="ho1")
    asked = asyncio.ensure_future(ask(worker, "hold"))
    await until(lambda: any(desk.begun for desk in desks))
    hit = next(number for number, desk in enumerate(desks) if desk.begun)
    other = desks[1 - hit]
    other.go.set()
    cluster.kill(peers[hit])
    assert (await asked).outcome == "SUCCESS"
    assert [call.attempt for call in other.calls] == [2]


@played
async def test_a_post_returns_at_once_though_nobody_takes_it(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fire and forget: handed over, held, then a dead letter; its sender goes on undisturbed."""
    row = catalog.Row(ServiceGivenUp, "ho3", None, frozenset({"operator"}), redeliver=False)
    monkeypatch.setitem(catalog.map_rows("ho3"), ServiceGivenUp.TYPE, row)
    await cluster.start(Desk(), role="gateway", slots=1)
    operator = await cluster.start(None, role="operator")
    await operator.post("ho3", ServiceGivenUp(service="x", given_up=True))
    budget = await operator.request("gateway", ReadBudget(), expect=Budget, timeout_s=1)
    assert budget.mode == "off"


@played
async def test_the_size_limit_holds_on_both_ways(cluster: Cluster) -> None:
    """Near the limit passes; over it is named before anything is sent, in a reply as well as in a request."""
    desk = Desk()
    await cluster.start(desk, role="gateway", slots=1)
    worker = await cluster.start(None, role="ho1")
    near = BODY_MAX_BYTES - 2000
    assert len((await ask(worker, f"big {near}")).content) == near
    assert await code_of(ask(worker, f"big {BODY_MAX_BYTES}")) == "too_large"
    with pytest.raises(MessageTooLarge):
        await ask(worker, "echo " + "x" * BODY_MAX_BYTES)
    assert len(desk.begun) == 2


@played
async def test_garbage_harms_nobody_but_its_sender(cluster: Cluster) -> None:
    """Bytes that are no header, a header of the wrong shape, no hello at all: broker and lane serve the others."""
    await cluster.start(Desk(), role="gateway", slots=1)
    await cluster.start(Shelf(), role="ledger")
    worker = await cluster.start(None, role="ho1")
    for server in ("", "ledger"):
        stranger = cluster.raw(server)
        for data in (b"", b"\xff\xff", b"\x93\x01\x02\x03", bytes(5000), b"\x9e" + b"\x01" * 14):
            stranger.send(data, b"garbage")
    await asyncio.sleep(0.05)
    assert (await ask(worker, "echo fine")).content == "fine"
    assert (await worker.request("ledger", GetBody(ref="r"), expect=Body, timeout_s=1)).data == b"r"


@played
async def test_a_probe_is_answered_by_the_shell(cluster: Cluster) -> None:
    """Readiness of any instance, whatever its actor does."""
    desk = await cluster.start(Desk(), role="gateway", slots=1)
    operator = await cluster.start(None, role="operator")
    probed = await operator.request(desk.instance, Probe(), expect=Probed, timeout_s=1)
    assert (probed.instance, probed.state) == (desk.instance, "ready")


@played
async def test_the_ledger_is_reached_by_its_lane_under_the_same_identity(cluster: Cluster) -> None:
    """The handler sees the lane and the stamped sender."""
    shelf = Shelf()
    await cluster.start(shelf, role="ledger")
    worker = await cluster.start(None, role="ho1")
    assert (await worker.request("ledger", GetBody(ref="r"), expect=Body, timeout_s=1)).data == b"r"
    assert [(call.lane, call.sender) for call in shelf.calls] == [("ledger", worker.instance)]


@played
async def test_requests_by_a_lane_survive_a_restart_of_its_service(cluster: Cluster) -> None:
    """Pending ones are sent again to the next incarnation, in order."""
    first = Shelf()
    peer = await cluster.start(first, role="ledger")
    worker = await cluster.start(None, role="ho1")
    asked = [
        asyncio.ensure_future(worker.request("ledger", GetBody(ref=f"hold {n}"), expect=Body, timeout_s=10))
        for n in range(3)
    ]
    await until(lambda: len(first.asked) == 3)
    cluster.kill(peer)
    second = Shelf()
    second.go.set()
    await cluster.start(second, role="ledger")
    assert [(await one).ref for one in asked] == ["hold 0", "hold 1", "hold 2"]
    assert second.asked == ["hold 0", "hold 1", "hold 2"]


@played
async def test_a_restart_of_the_broker_loses_nothing_but_time(cluster: Cluster) -> None:
    """A request at work is attached to its worker again, one that was answered meanwhile comes from the window."""
    desk = Desk()
    await cluster.start(desk, role="gateway", slots=4)
    worker = await cluster.start(None, role="ho1")
    at_work = asyncio.ensure_future(ask(worker, "hold", timeout_s=20))
    answered = asyncio.ensure_future(ask(worker, "sleep 0.1", timeout_s=20))
    await until(lambda: len(desk.begun) == 2)
    await cluster.restart_broker()
    await until(lambda: "sleep 0.1" in desk.ended)
    desk.go.set()
    assert (await at_work).outcome == "SUCCESS"
    assert (await answered).outcome == "SUCCESS"
    assert sorted(desk.begun) == ["hold", "sleep 0.1"]
    assert (await ask(worker, "echo after")).content == "after"


@played
async def test_an_orderly_stop_finishes_what_runs_and_hands_over_the_rest(cluster: Cluster) -> None:
    """Draining takes no new work; another worker gets it without any failure."""
    desks = [Desk(), Desk()]
    first = await cluster.start(desks[0], role="gateway", slots=1)
    worker = await cluster.start(None, role="ho1")
    running = asyncio.ensure_future(ask(worker, "hold"))
    await until(lambda: desks[0].begun)
    stopping = asyncio.ensure_future(first.stop(2.0))
    await asyncio.sleep(0.02)
    await cluster.start(desks[1], role="gateway", slots=1)
    assert (await ask(worker, "echo elsewhere")).content == "elsewhere"
    desks[0].go.set()
    assert (await running).outcome == "SUCCESS"
    await stopping
    assert desks[0].begun == ["hold"]


@played
async def test_a_principal_that_fills_its_part_of_a_mailbox_keeps_nobody_else_out(cluster: Cluster) -> None:
    """On a lane the service itself says busy, at once, to the one that has too much there; the next sender is served."""
    shelf = Shelf()
    await cluster.start(shelf, role="ledger")
    greedy, modest = [await cluster.start(None, role="ho1") for _ in range(2)]
    held = await hold(shelf, greedy, OPEN_MAX)
    assert await code_of(greedy.request("ledger", GetBody(ref="more"), expect=Body, timeout_s=10)) == "busy"
    assert (await modest.request("ledger", GetBody(ref="mine"), expect=Body, timeout_s=10)).ref == "mine"
    shelf.go.set()
    for one in held:
        await one
    assert (await greedy.request("ledger", GetBody(ref="again"), expect=Body, timeout_s=10)).ref == "again"


@played
async def test_the_mailbox_bound_is_busy_at_once(cluster: Cluster) -> None:
    """On a lane the service itself says so; nobody waits, whoever filled it."""
    shelf = Shelf()
    await cluster.start(shelf, role="ledger")
    workers = [await cluster.start(None, role="ho1") for _ in range(3)]
    held = [one for worker in workers[:2] for one in await hold(shelf, worker, OPEN_MAX)]
    assert len(held) == limits.MAILBOX_MAX
    assert await code_of(workers[2].request("ledger", GetBody(ref="more"), expect=Body, timeout_s=10)) == "busy"
    shelf.go.set()
    for one in held:
        await one


async def hold(shelf: Shelf, worker: Peer, count: int) -> list[asyncio.Task[Body]]:
    """So many requests of this worker that wait in the service's hands."""
    before = len(shelf.asked)
    held = [
        asyncio.ensure_future(worker.request("ledger", GetBody(ref=f"hold {n}"), expect=Body, timeout_s=10))
        for n in range(count)
    ]
    await until(lambda: len(shelf.asked) == before + count)
    return held


@played
async def test_a_thousand_concurrent_requests_each_get_their_own_answer(cluster: Cluster) -> None:
    """No mix-up, none lost, none twice."""
    desk = Desk()
    await cluster.start(desk, role="gateway", slots=64)
    workers = [await cluster.start(None, role="ho1") for _ in range(3)]
    asked = [asyncio.ensure_future(ask(workers[n % 3], f"echo {n}", timeout_s=20)) for n in range(1000)]
    assert [(await one).content for one in asked] == [str(n) for n in range(1000)]
    assert len(desk.begun) == 1000


@played
async def test_immediate_requests_are_bounded_at_the_broker(cluster: Cluster) -> None:
    """Beyond the mailbox of the only instance requests wait their turn; all are answered."""
    desk = Desk()
    await cluster.start(desk, role="gateway", slots=1)
    workers = [await cluster.start(None, role="ho1") for _ in range(3)]
    asked = [
        asyncio.ensure_future(workers[n % 3].request("gateway", ReadBreakers(), expect=Breakers, timeout_s=20))
        for n in range(limits.MAILBOX_MAX + 10)
    ]
    await until(lambda: len(desk.calls) == limits.MAILBOX_MAX)
    desk.go.set()
    for one in asked:
        await one
    assert len(desk.calls) == limits.MAILBOX_MAX + 10


# --- the tap --------------------------------------------------------------------------------------------------------


async def ask_degraded(host, script: str) -> str:
    """The session host's last resort, over the gateway's own lane."""
    message = DegradedPrompt(prompt=prompt(script))
    return (await host.request("gateway", message, expect=PromptResponse, timeout_s=5, trace="t-1")).content


@played
async def test_frames_of_the_gateways_lane_are_on_the_tap_and_those_of_the_ledgers_are_not(cluster: Cluster) -> None:
    """Header, size and hash, marked as direct, in the broker's one sequence; the body stays where it was."""
    desk = Desk()
    gateway = await cluster.start(desk, role="gateway", slots=1)
    await cluster.start(Shelf(), role="ledger")
    host = await cluster.start(None, role="host")
    tapped = await cluster.tap()
    await host.request("ledger", GetBody(ref="x"), expect=Body, timeout_s=5)
    assert await ask_degraded(host, "echo last resort") == "last resort"
    await until(lambda: sum(record.lane == "direct" for record in tapped) == 2)
    asked, answered = [record for record in tapped if record.lane == "direct"]
    assert (asked.type, asked.kind, asked.verdict) == (DegradedPrompt.TYPE, "request", "delivered")
    assert (asked.sender, asked.worker, asked.trace) == (host.instance, gateway.instance, "t-1")
    assert (answered.type, answered.kind, answered.sender) == (PromptResponse.TYPE, "reply", gateway.instance)
    assert (answered.destination, answered.correlation_id) == (host.instance, asked.message_id)
    assert all(
        record.size > 0 and len(record.body_sha256) == 64 and record.body is None for record in (asked, answered)
    )
    assert asked.sensitive and answered.sensitive
    assert not {"broker.lane_frames", GetBody.TYPE, Body.TYPE} & {record.type for record in tapped}
    numbers = [record.sequence for record in tapped]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert desk.calls[0].lane == "gateway"


@played
async def test_the_lane_works_while_its_frames_cannot_be_told(cluster: Cluster) -> None:
    """A broker that goes away takes the tap with it, not the last resort."""
    await cluster.start(Desk(), role="gateway", slots=1)
    host = await cluster.start(None, role="host")
    await cluster.restart_broker()
    assert await ask_degraded(host, "echo still here") == "still here"


@played
async def test_nobody_but_the_gateway_tells_of_lane_frames(cluster: Cluster) -> None:
    """A forged frame on the tap would be a lie of the broker's; what is no header is refused too."""
    gateway = await cluster.start(Desk(), role="gateway", slots=1)
    ho2 = await cluster.start(None, role="ho2")
    tapped = await cluster.tap()
    head = pack_header(make_header(Kind.REQUEST, "m"))
    good = LaneFrame(ago_us=1, verdict="delivered", header=head, size=1, sha256=bytes(32))
    await ho2.post("broker", LaneFrames(frames=[good]))
    for bad in (
        [good, good.model_copy(update={"header": b"nonsense"})],
        [good, good.model_copy(update={"verdict": "splendid"})],
        [good] * (limits.LANE_FRAMES_MAX + 1),
    ):
        await gateway.post("broker", LaneFrames(frames=bad))
    await until(lambda: sum(record.type == LaneFrames.TYPE for record in tapped) == 4)
    verdicts = [record.verdict for record in tapped if record.type == LaneFrames.TYPE]
    assert verdicts == ["denied", "malformed", "malformed", "failed"]
    assert not any(record.lane == "direct" for record in tapped)
