"""Commands at a running session: pause, resume, steer, cancel, approve; recorded, idempotent, and alive after a kill."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache

import pytest

from hobus.bus.errors import SessionFault
from hobus.bus.messages.ids import derive_held_id, format_iso, get_position
from hobus.bus.messages.session import (
    Approve,
    Cancel,
    Deny,
    FollowUp,
    LeaseHeartbeat,
    Pause,
    Resume,
    SessionView,
    Steer,
    TurnReply,
    TurnResult,
)
from hobus.bus.messages.work_order import WorkOrder, WorkOrderError
from hobus.bus.record.journal import read_event
from tests.actors.ho2_supervisor.rig import SESSION, Answer, Rig, calls, classified, degraded_entry, one_tool, text_of
from tests.rig import names
from tests.sessions import facts

pytestmark = pytest.mark.slow

QUESTION = "what packages are installed?"


def slow(delay_s: float, wo_type: str = "synthesize") -> Callable[[WorkOrder], float]:
    """Orders of one type take a while, so that there is a middle to speak into."""
    return lambda order: delay_s if order.wo_type == wo_type else 0.0


def at_work(view: SessionView) -> bool:
    """An order is on its way in the first round towards the answer."""
    return view.run is not None and view.run.rounds >= 2 and view.run.in_flight > 0


def waits(view: SessionView) -> bool:
    """The run stands still."""
    return view.lifecycle in ("Paused", "WaitingInput")


def echo(order: WorkOrder) -> Answer:
    """Answers with everything that was said."""
    if order.wo_type == "classify":
        return classified()
    return f"{text_of(order, 'user_input')}|{text_of(order, 'steer')}|{text_of(order, 'draft')}"


# --- pause and resume -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_killed", [False, True])
def test_paused_run_stands_still_and_goes_on_from_where_it_was(is_killed: bool) -> None:
    """Whoever asked is told at once; past its deadline nothing was issued, and the answer comes after the resume."""
    with Rig(script=one_tool) as rig:
        rig.pool.delay_s = slow(1.0)

        async def run() -> TurnResult:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                turn = group.create_task(rig.asked("i1", QUESTION, timeout_s=5.0))
                await rig.until(at_work)
                assert (await rig.command(Pause())).outcome == "applied"
                reply = await turn
            assert (reply.result, reply.waiting) == (None, "Paused")
            sent = len(rig.pool.received)
            if is_killed:
                rig.world.kill(rig.instances[0])
                rig.supervise()
            await rig.host.sleep(8)
            assert (await rig.view()).lifecycle == "Paused"
            assert len(rig.pool.received) == sent
            async with asyncio.TaskGroup() as group:
                turn = group.create_task(rig.asked("i1", QUESTION, waiting="Paused"))
                await rig.host.sleep(1)
                assert not turn.done()
                assert (await rig.command(Resume())).lifecycle == "Running"
            assert (turn.result().result, turn.result().waiting) == (None, None)  # it goes on
            return await rig.turn("i1", QUESTION)

        result = rig.run(run())
        assert result.response.startswith("from tools: result of list_packages")
        journal = rig.run(rig.entries())
        assert names(journal).count("LifecycleChanged") == names(journal).count("RunCompleted") == 1
        assert len(rig.pool.executed) == len(set(rig.pool.executed)) == 6


def test_pause_before_the_answer_counts_holds_the_answer_back() -> None:
    """Asked for while the last order is on its way, it begins before RunCompleted."""
    with Rig() as rig:
        rig.pool.delay_s = slow(1.0)

        async def run() -> TurnResult:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                group.create_task(rig.asked("i1", "hello"))
                await rig.until(at_work)
                await rig.command(Pause())
            assert "RunCompleted" not in names(await rig.entries())
            await rig.command(Resume())
            return await rig.turn("i1", "hello")

        assert rig.run(run()).response == "answer to hello"


@pytest.mark.parametrize(("answer_s", "ends"), [(1.0, "RunCompleted"), (4.0, "RunFailed")])
def test_paused_time_is_not_taken_from_the_deadline(answer_s: float, ends: str) -> None:
    """A run that has two seconds left has as many after a pause of eight, and fails when they are over."""
    with Rig() as rig:
        rig.pool.delay_s = lambda order: 1.0 if order.wo_type == "classify" else answer_s

        async def run() -> None:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                group.create_task(rig.asked("i1", "hello", timeout_s=3.0))
                await rig.until(lambda view: view.run is not None)
                await rig.command(Pause())
            await rig.host.sleep(8)
            await rig.command(Resume())
            await rig.host.sleep(3)

        rig.run(run())
        assert names(rig.run(rig.entries()))[-1] == ends


def test_session_whose_run_stands_still_may_leave_memory() -> None:
    """Others need the place: who waits for it is sent on, and it goes on from the record when it is told to."""
    with Rig(sessions_max=1) as rig:
        rig.pool.delay_s = slow(1.0)

        async def run() -> TurnResult:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                group.create_task(rig.asked("i1", "hello"))
                await rig.until(at_work)
                await rig.command(Pause())
            waiting = asyncio.ensure_future(rig.asked("i1", "hello", waiting="Paused"))
            await rig.host.sleep(0.1)
            await rig.start_session("22222222-2222-5333-8444-555555555555")
            with pytest.raises(SessionFault) as moved:
                await waiting
            assert moved.value.code == "moved"
            assert (await rig.view()).lifecycle == "Paused"
            assert (await rig.command(Resume())).outcome == "applied"
            return await rig.turn("i1", "hello")

        assert rig.run(run()).response == "answer to hello"
        assert names(rig.run(rig.entries())).count("TookOver") == 2


# --- steer ------------------------------------------------------------------------------------------------------------


def test_steer_is_observed_by_the_next_round_and_every_later_one() -> None:
    """In order, each behind a dash, in its words with a ref to where it was said; an answer that it meets is a draft."""
    with Rig(script=echo) as rig:
        rig.pool.delay_s = slow(0.2)

        async def run() -> TurnResult:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                turn = group.create_task(rig.turn("i1", "hello"))
                await rig.until(at_work)
                await rig.command(Steer(text="be brief"), "s1")
                await rig.command(Steer(text="in Welsh"), "s2")
                await rig.until(lambda view: view.run is not None and view.run.rounds == 3)
                await rig.command(Steer(text="no, in Irish"), "s3")
            return turn.result()

        steers = "be briefin Welsh"
        assert rig.run(run()).response.startswith(f"hello|{steers}no, in Irish|hello||hello|{steers}|")
        spoken = [s for one in rig.pool.orders[-1].exchanges for s in one.said if s.name == "steer"]
        assert [s.ref for s in spoken] == [f"HostCommandReceived:{SESSION}/s{n}/1" for n in (1, 2, 3)]
        started = [fact for fact in facts(rig.run(rig.entries())) if fact.kind == "StepStarted"]
        assert len(started) == 4


def test_what_was_said_over_a_draft_stays_in_the_conversation() -> None:
    """A later turn is shown it as its person's; the draft, which nobody was sent, is gone."""
    with Rig(script=echo) as rig:
        rig.pool.delay_s = slow(0.2)

        async def run() -> None:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                group.create_task(rig.turn("i1", "write a poem"))
                await rig.until(at_work)
                await rig.command(Steer(text="my dog is called Rex"), "s1")
            await rig.turn("i2", "what is my dog called?")

        rig.run(run())
        told = text_of(rig.pool.orders[-1], "history")
        assert told.startswith("user: write a poem\nuser: my dog is called Rex\nassistant: ")
        assert told.count("assistant: ") == 1


@cache
def orders_of_a_steered_run(killed_in: int | None) -> dict[str, list[tuple[str, str]]]:
    """What each showed, whichever owner sent it; killed as soon as so many rounds have begun, or not at all."""
    with Rig(script=echo) as rig:
        rig.pool.delay_s = slow(0.2)

        async def run() -> TurnResult:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                turn = group.create_task(rig.turn("i1", "hello"))
                await rig.until(at_work)
                await rig.command(Steer(text="be brief"), "s1")
                if killed_in is not None:
                    await rig.until(lambda view, begun=killed_in: view.run is not None and view.run.rounds >= begun)
                    rig.supervise()
                    rig.world.kill(rig.instances[0])
            return turn.result()

        assert rig.run(run()).response == "hello|be brief|hello||"
        rounds = {o.wo_id: [s for one in o.exchanges for s in (one.text, *one.said)] for o in rig.pool.orders}
        return {o.wo_id: [(s.name, s.text) for s in (*o.input_context, *rounds[o.wo_id])] for o in rig.pool.orders}


@pytest.mark.parametrize("number", [2, 3])
def test_steered_run_is_driven_on_with_the_same_bytes(number: int) -> None:
    """Killed in the round that it was steered in, or the one after: the successor's orders are those of the dead owner."""
    assert orders_of_a_steered_run(number) == orders_of_a_steered_run(None)


def test_steer_for_which_no_round_is_left_is_named_in_the_record() -> None:
    """The answer counts as it is; what nobody observed is not silently gone."""
    with Rig(("budget.turn_limit", 2), script=echo) as rig:
        rig.pool.delay_s = slow(1.0)

        async def run() -> TurnResult:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                turn = group.create_task(rig.turn("i1", "hello"))
                await rig.until(at_work)
                assert (await rig.command(Steer(text="be brief"), "s1")).outcome == "applied"
            await rig.host.sleep(1)
            return turn.result()

        assert rig.run(run()).response == "hello||"
        assert read_event(rig.run(rig.entries())[-1]).event.steers_unobserved == [f"HostCommandReceived:{SESSION}/s1/1"]


# --- cancel -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wo_type", ["classify", "tool_call", "synthesize"])
def test_cancelled_run_ends_at_once_and_the_next_one_works(wo_type: str) -> None:
    """Whoever waits is told; every open order has an end, every call is terminal; a late result changes nothing."""
    with Rig(script=one_tool) as rig:
        rig.pool.delay_s = slow(3.0, wo_type)

        async def run() -> tuple[TurnResult, float]:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                turn = group.create_task(rig.turn("i1", QUESTION))
                await rig.until(lambda view: view.run is not None and view.run.in_flight > 0 and is_there())
                started = rig.host.clock.monotonic()
                verdict = await rig.command(Cancel(reason="wrong question"))
                assert (verdict.outcome, verdict.lifecycle) == ("applied", "Cancelling")
            return turn.result(), rig.host.clock.monotonic() - started

        def is_there() -> bool:
            return any(order.wo_type == wo_type for order in rig.pool.orders)

        result, took_s = rig.run(run())
        assert (result.outcome, result.code) == ("error", "cancelled")
        assert result.response == "The turn was cancelled: wrong question."
        assert took_s < 1.0
        journal = rig.run(rig.entries())
        dispatched = [e.submission_id.split(":", 1)[1] for e in journal if e.event_type == "WO_DISPATCHED"]
        ended = [e.submission_id.split(":", 1)[1] for e in journal if e.event_type == "OrderEnded"]
        assert sorted(dispatched) == sorted(ended)
        assert names(journal)[-1] == "RunCancelled"
        if wo_type == "tool_call":
            assert [call.status for call in result.tool_calls] == ["IgnoredStale"] * 3
        rig.pool.delay_s = lambda _: 0.0
        assert rig.run(rig.turn("i1", QUESTION)).code == "cancelled"
        assert rig.run(rig.turn("i2", QUESTION)).response.startswith("from tools")


@pytest.mark.parametrize("state", ["Paused", "WaitingInput"])
def test_run_that_stands_still_is_cancelled_at_once(state: str) -> None:
    """Nothing is in flight; held calls are closed, and the input is answered."""
    changes = [("tools.approval", ("list_*",))] if state == "WaitingInput" else []
    with Rig(*changes, script=one_tool) as rig:

        async def run() -> TurnResult:
            await rig.start_session()
            if state == "Paused":
                rig.pool.delay_s = slow(1.0)
                async with asyncio.TaskGroup() as group:
                    group.create_task(rig.asked("i1", QUESTION))
                    await rig.until(at_work)
                    await rig.command(Pause())
            else:
                await rig.asked("i1", QUESTION)
            assert (await rig.view()).lifecycle == state
            await rig.command(Cancel())
            return await rig.turn("i1", QUESTION)

        assert rig.run(run()).code == "cancelled"
        view = rig.run(rig.view())
        assert (view.lifecycle, view.run, view.status) == ("Idle", None, "open")


# --- approvals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_killed", [False, True])
def test_held_calls_run_when_they_are_approved_and_others_at_once(is_killed: bool) -> None:
    """Results stand in call order; a denied call never ran, and the model reads why."""

    def script(order: WorkOrder) -> Answer:
        if order.wo_type == "synthesize" and not order.exchanges:
            return calls("list_tools", "list_packages", "list_tools")
        return one_tool(order)

    with Rig(("tools.approval", ("list_t*",)), script=script) as rig:

        async def run() -> TurnResult:
            await rig.start_session()
            reply: TurnReply = await rig.asked("i1", QUESTION)
            assert reply.waiting == "WaitingInput"
            first, third = reply.held_calls
            assert [(call.call_id[:4], call.tool_id) for call in (first, third)] == [
                ("001-", "list_tools"),
                ("003-", "list_tools"),
            ]
            if is_killed:
                rig.supervise()
                rig.world.kill(rig.instances[0])
            assert (await rig.command(Approve(call_id="002"))).reason.startswith("call_not_open")
            for stale in (
                "001",
                "003",
                derive_held_id("001", "list_tools", {"name": "x"}, "1.2"),
                derive_held_id("001", "rm", {}, "1.2"),
            ):
                assert (await rig.command(Approve(call_id=stale), stale)).reason.startswith("call_not_open"), stale
            assert (await rig.command(Deny(call_id=first.call_id, reason="not today"))).lifecycle == "WaitingInput"
            assert (await rig.command(Approve(call_id=first.call_id), "again")).outcome == "rejected"
            assert (await rig.command(Approve(call_id=third.call_id), "go")).lifecycle == "Running"
            return await rig.turn("i1", QUESTION)

        result = rig.run(run())
        assert result.response == (
            "from tools: error denied: the operator refused this call: not today, result of list_packages, "
            "result of list_tools"
        )
        assert [call.status for call in result.tool_calls] == ["Failed", "Succeeded", "Succeeded"]
        assert [o.tool_call.call_id for o in rig.pool.orders if o.tool_call is not None] == ["002", "003"]


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_rule_says_which_calls_of_a_tool_are_held(is_killed: bool) -> None:
    """One that says false lets its call pass; one that says anything else, or fails, lets none. It is recorded."""

    def script(order: WorkOrder) -> Answer:
        if order.tool_call is not None and order.tool_call.tool_id == "is_risky":
            said: dict[int, Answer] = {1: "true", 2: "false", 3: WorkOrderError(code="tool_failed", message="broke")}
            return said[order.tool_call.arguments["n"]]
        if order.wo_type == "synthesize" and not order.exchanges:
            return calls("list_tools", "list_tools", "list_tools", "list_packages")
        return one_tool(order)

    changes = [("tools.approval", ("list_t* if is_risky",)), ("tools.entry_points", ("is_risky",))]
    with Rig(*changes, script=script, tools=["list_tools", "list_packages", "is_risky"]) as rig:

        async def run() -> TurnResult:
            await rig.start_session()
            held = (await rig.asked("i1", QUESTION)).held_calls
            assert [get_position(call.call_id) for call in held] == ["001", "003"]
            if is_killed:
                rig.supervise()
                rig.world.kill(rig.instances[0])
            for number, call in enumerate(held):
                assert (await rig.command(Approve(call_id=call.call_id), f"a{number}")).outcome == "applied"
            return await rig.turn("i1", QUESTION)

        result = rig.run(run())
        assert [call.tool_id for call in result.tool_calls] == ["list_tools"] * 3 + ["list_packages"]
        ran = [one.tool_call for one in rig.pool.orders if one.tool_call is not None]
        assert [(one.call_id, one.tool_id) for one in ran] == [
            ("001.1", "is_risky"), ("002.1", "is_risky"), ("003.1", "is_risky"),
            ("002", "list_tools"), ("004", "list_packages"), ("001", "list_tools"), ("003", "list_tools"),
        ]  # fmt: skip


def test_an_approval_releases_no_equal_call_of_a_later_round() -> None:
    """One that comes twice, under another command's id, is of a call that is over."""

    def script(order: WorkOrder) -> Answer:
        if order.wo_type == "synthesize" and len(order.exchanges) < 2:
            return calls("list_tools")
        return one_tool(order)

    with Rig(("tools.approval", ("list_t*",)), script=script) as rig:
        rig.run(rig.start_session())
        (first,) = rig.run(rig.asked("i1", QUESTION)).held_calls
        assert rig.run(rig.command(Approve(call_id=first.call_id), "a")).outcome == "applied"
        (second,) = rig.run(rig.asked("i1", QUESTION)).held_calls
        assert (second.tool_id, second.arguments) == (first.tool_id, first.arguments)
        assert rig.run(rig.command(Approve(call_id=first.call_id), "b")).reason.startswith("call_not_open")
        assert rig.run(rig.command(Approve(call_id=second.call_id), "c")).outcome == "applied"


# --- follow-ups -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_killed", [False, True])
def test_follow_ups_run_one_after_another_and_are_answered_by_their_input_ids(is_killed: bool) -> None:
    """Each begins by itself when the run before it is over; a client asks under `followup:<command id>`."""
    with Rig() as rig:
        rig.pool.delay_s = slow(1.0)

        async def run() -> list[TurnResult]:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                turn = group.create_task(rig.turn("i1", "first"))
                await rig.until(at_work)
                one = await rig.command(FollowUp(text="second"), "f1")
                two = await rig.command(FollowUp(text="third"), "f2")
                if is_killed:
                    rig.supervise()
                    rig.world.kill(rig.instances[0])
                later = group.create_task(rig.turn(two.input_id or "", "third"))
            return [turn.result(), await rig.turn(one.input_id or "", "second"), later.result()]

        results = rig.run(run())
        assert [result.response for result in results] == [f"answer to {n}" for n in ("first", "second", "third")]
        assert [result.run_id.run_seq for result in results if result.run_id] == [1, 2, 3]
        assert text_of(rig.pool.orders[-1], "history").count("user: ") == 2


def test_follow_up_of_an_idle_session_begins_at_once_and_too_many_are_refused() -> None:
    """Nobody has to ask for it; the queue has a bound."""
    with Rig(("sessions.pending_max", 1)) as rig:
        rig.run(rig.start_session())
        rig.run(rig.command(FollowUp(text="hello"), "f1"))
        rig.run(rig.until(lambda view: view.turn_count == 1))
        rig.pool.delay_s = slow(1.0)
        rig.run(rig.command(FollowUp(text="again"), "f2"))
        rig.run(rig.until(at_work))
        verdicts = [rig.run(rig.command(FollowUp(text=text), f"q{n}")) for n, text in enumerate(("a", "b", "\u200b"))]
        assert [verdict.reason.partition(":")[0] for verdict in verdicts] == ["", "too_many", "blank"]


# --- leases -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_killed", [False, True])
def test_leased_run_ends_when_nobody_renews_it(is_killed: bool) -> None:
    """It goes on past its first expiry while a client waits, or beats; silent for `lease_heartbeat_timeout_s` it is cancelled, once."""
    with Rig(("sessions.lease_heartbeat_timeout_s", 3)) as rig:
        rig.pool.delay_s = slow(60.0)

        async def run() -> TurnResult:
            await rig.start_session()
            asked = asyncio.create_task(rig.asked("i1", "hello", lease=True, timeout_s=100))
            leased = await rig.until(lambda view: view.run is not None and view.run.lease_id is not None)
            assert leased.run is not None and leased.run.lease_id
            await rig.host.sleep(10)
            asked.cancel()
            for beat in range(4):
                heartbeat = LeaseHeartbeat(lease_id=leased.run.lease_id, heartbeat_at=format_iso(rig.host.now()))
                assert (await rig.command(heartbeat, f"beat-{beat}")).outcome == "applied"
                await rig.host.sleep(2)
            if is_killed:
                rig.supervise()
                rig.world.kill(rig.instances[0])
            await rig.host.sleep(20)
            return await rig.turn("i1", "hello", timeout_s=100)

        assert rig.run(run()).code == "cancelled"
        entries = rig.run(rig.entries())
        assert names(entries).count("TimePassed") == 1


def test_who_comes_back_for_a_leased_run_keeps_it() -> None:
    """Also without a lease of its own: somebody waits for the answer."""
    with Rig(("sessions.lease_heartbeat_timeout_s", 3)) as rig:
        rig.pool.delay_s = slow(30.0)

        async def run() -> TurnResult | None:
            await rig.start_session()
            asked = asyncio.create_task(rig.asked("i1", "hello", lease=True, timeout_s=100))
            await rig.host.sleep(2)
            asked.cancel()
            return (await rig.asked("i1", "hello", client=rig.host.instance, timeout_s=100)).result

        result = rig.run(run())
        assert result is not None and result.outcome == "success"


def test_a_lease_goes_on_in_few_entries_and_without_asking_again() -> None:
    """A thousand that wait for slow models cost their supervisor little: half of a lease passes between two renewals."""
    with Rig(("sessions.lease_heartbeat_timeout_s", 8)) as rig:
        rig.pool.delay_s = slow(15.0)
        rig.run(rig.start_session())
        result = rig.run(rig.asked("i1", "hello", lease=True, client=rig.host.instance, timeout_s=100)).result
        assert result is not None and result.outcome == "success"
        entries = rig.run(rig.entries())
        assert 1 < names(entries).count("HostCommandApplied") <= 2 * 15 / 8


# --- idempotency and faults -------------------------------------------------------------------------------------------


def test_command_is_applied_once_and_its_id_takes_no_other_content() -> None:
    """The same verdict again, from memory and, after a kill, from the record; another content is refused."""
    with Rig() as rig:
        rig.pool.delay_s = slow(20.0)

        async def run() -> None:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                group.create_task(rig.turn("i1", "hello"))
                await rig.until(at_work)
                for is_repeat in (False, True):
                    verdict = await rig.command(Steer(text="be brief"), "s1")
                    assert (verdict.outcome, verdict.is_repeat) == ("applied", is_repeat)
                other = await rig.command(Steer(text="be long"), "s1")
                assert (other.outcome, other.reason.partition(":")[0]) == ("rejected", "command_conflict")
                stale = await rig.command(Pause(), expected_session_epoch=7)
                assert stale.reason.startswith("stale_epoch")
                rig.supervise()
                rig.world.kill(rig.instances[0])
                again = await rig.command(Steer(text="be brief"), "s1")
                assert (again.outcome, again.is_repeat) == ("applied", True)
                assert (await rig.command(Pause(), expected_session_epoch=7)).reason == stale.reason
                await rig.command(Cancel())

        rig.run(run())
        journal = rig.run(rig.entries())
        assert names(journal).count("HostCommandReceived") == 3
        assert names(journal).count("HostCommandApplied") == 2


def test_two_contents_under_one_id_at_the_same_moment_are_not_both_applied() -> None:
    """Whichever comes second meets the first one before that is durable, and is refused all the same."""
    with Rig() as rig:
        rig.pool.delay_s = slow(20.0)

        async def run() -> None:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                group.create_task(rig.turn("i1", "hello"))
                await rig.until(at_work)
                said = [group.create_task(rig.command(Steer(text=text), "s1")) for text in ("be brief", "be long")]
                verdicts = [await one for one in said]
                await rig.command(Cancel())
            assert sorted(one.outcome for one in verdicts) == ["applied", "rejected"]
            assert [one.reason.partition(":")[0] for one in verdicts if one.reason] == ["command_conflict"]

        rig.run(run())
        assert names(rig.run(rig.entries())).count("HostCommandReceived") == 2


@pytest.mark.parametrize(
    "command",
    [
        Cancel(reason="x" * 8_050_000),
        Deny(call_id="1" * 5_000),
        LeaseHeartbeat(lease_id="x" * 5_000, heartbeat_at=format_iso(1)),
    ],
    ids=lambda command: command.kind,
)
def test_command_that_brings_too_much_is_refused_and_the_run_goes_on(command: Cancel | Deny | LeaseHeartbeat) -> None:
    """It stands in the record by its beginning, under its id; a record that cannot take it would end the run."""
    with Rig() as rig:
        rig.pool.delay_s = slow(2.0)

        async def run() -> TurnResult:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                turn = group.create_task(rig.turn("i1", "hello"))
                await rig.until(at_work)
                for is_repeat in (False, True):
                    verdict = await rig.command(command, "big")
                    assert (verdict.outcome, verdict.reason.partition(":")[0]) == ("rejected", "too_large")
                    assert verdict.is_repeat == is_repeat
            return turn.result()

        assert rig.run(run()).response == "answer to hello"
        journal = rig.run(rig.entries())
        assert names(journal).count("HostCommandReceived") == names(journal).count("HostCommandRejected") == 1
        received = next(entry for entry in journal if entry.event_type == "HostCommandReceived")
        assert len(received.bodies[0] or b"") < 1_000


@pytest.mark.parametrize("moment", ["waiting", "running", "standing still"])
def test_follow_ups_that_nobody_asks_for_outlive_their_owner(moment: str) -> None:
    """Killed while they wait behind a run, in the middle of one, or while one is paused: the next owner drives them on."""
    with Rig() as rig:
        rig.pool.delay_s = slow(0.5)

        async def run() -> None:
            await rig.start_session()
            first = asyncio.ensure_future(rig.asked("i1", "hello"))
            await rig.until(at_work)
            for number in (1, 2):
                await rig.command(FollowUp(text=f"and {number}"), f"f{number}")
            if moment != "waiting":
                await first
                await rig.until(lambda view: at_work(view) and view.run is not None and view.run.run_id.run_seq == 2)
            if moment == "standing still":
                await rig.command(Pause())
                await rig.until(waits)
                await rig.host.sleep(1)
            rig.supervise()
            rig.world.kill(rig.instances[0])
            if moment == "standing still":
                await rig.host.sleep(1)
                await rig.command(Resume())
            await rig.host.sleep(5)

        rig.run(run())
        journal = names(rig.run(rig.entries()))
        assert journal.count("RunCompleted") == 3
        assert journal.count("TookOver") == 2


@pytest.mark.parametrize("what", ["the ledger is away for long", "another session needs its place"])
def test_a_follow_up_that_could_not_begin_at_once_begins_later(what: str) -> None:
    """Its owner lives, and nobody asks for the session again."""
    with Rig(snapshot_entries=5, sessions_max=1) as rig:
        rig.pool.delay_s = slow(1.0)

        async def run() -> None:
            await rig.start_session()
            first = asyncio.ensure_future(rig.asked("i1", "hello"))
            await rig.until(at_work)
            await rig.command(FollowUp(text="and more"), "f1")
            await first  # the snapshot is being written
            if what == "the ledger is away for long":
                rig.kill_ledger()
                await rig.host.sleep(20)
                rig.start_ledger()
            else:
                await rig.start_session("22222222-2222-5333-8444-555555555555")
            await rig.host.sleep(5)

        rig.run(run())
        assert names(rig.run(rig.entries())).count("RunCompleted") == 2


def test_a_follow_up_whose_sender_goes_away_before_the_verdict_begins_all_the_same() -> None:
    """At whatever moment: as soon as it is in the record it has its run."""
    outcomes: set[int] = set()
    for moment in range(1, 6):
        with Rig() as rig:

            async def run(rig: Rig = rig, gone_after_s: float = moment * 0.0002) -> None:
                await rig.start_session()
                said = asyncio.ensure_future(rig.command(FollowUp(text="hello"), "f1"))
                await rig.host.sleep(gone_after_s)
                said.cancel()
                await rig.host.sleep(2)

            rig.run(run())
            journal = names(rig.run(rig.entries()))
            assert journal.count("HostCommandReceived") == journal.count("RunCompleted"), (moment, journal)
            outcomes.add(journal.count("RunCompleted"))
    assert 1 in outcomes


def test_a_follow_up_that_the_host_answered_while_it_waited_begins_no_run() -> None:
    """Its answer stands; a run of its own could only lose against that, again and again."""
    with Rig() as rig:
        rig.pool.delay_s = slow(1.0)

        async def run() -> SessionView:
            await rig.start_session()
            first = asyncio.ensure_future(rig.asked("i1", "hello"))
            await rig.until(at_work)
            await rig.command(FollowUp(text="and more"), "f1")
            await rig.write(degraded_entry("followup:f1", "and more", "reduced"))
            await first
            await rig.host.sleep(5)
            return await rig.view()

        view = rig.run(run())
        journal = names(rig.run(rig.entries()))
        assert (view.pending_follow_ups, view.run) == (0, None)
        assert journal.count("RunRequested") == journal.count("RunCompleted") == 1
        assert journal.count("TookOver") == 1


@pytest.mark.parametrize("after_s", [0.05, 0.2])
def test_a_cancelled_run_is_over_also_when_the_ledger_is_away_for_long_meanwhile(after_s: float) -> None:
    """What its orders became is asked of the record; while that is silent nobody may take the session for well kept."""
    with Rig() as rig:
        rig.pool.delay_s = slow(60.0)

        async def run() -> SessionView:
            await rig.start_session()
            turn = asyncio.ensure_future(rig.asked("i1", "hello", timeout_s=100.0))
            await rig.until(at_work)
            turn.cancel()
            cancel = asyncio.ensure_future(rig.command(Cancel(), "c1"))
            await rig.host.sleep(after_s)
            rig.kill_ledger()
            await rig.host.sleep(14)
            rig.start_ledger()
            await rig.host.sleep(10)
            await asyncio.gather(cancel, return_exceptions=True)
            return await rig.view()

        view = rig.run(run())
        assert (view.lifecycle, view.run) == ("Idle", None)
