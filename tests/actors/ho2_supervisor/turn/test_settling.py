"""A run that is answered while its message is classified: the reply leaves, and what is late stands before the next turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hobus.actors.ho2_supervisor.turn import turn
from hobus.bus.errors import BusError, LedgerError, SessionFault
from hobus.bus.messages.ids import RunId
from hobus.bus.messages.session import (
    Approve,
    Cancel,
    FollowUp,
    Pause,
    Resume,
    Steer,
    TurnReply,
    TurnRequest,
)
from hobus.bus.messages.work_order import WorkOrder, WorkOrderError
from hobus.bus.record.journal import read_event
from tests.actors.ho2_supervisor.rig import SESSION, Answer, Rig, calls, classified, one_tool, question_and_answer
from tests.actors.ho2_supervisor.turn.test_recall import ON, remembering
from tests.rig import names, of_type

pytestmark = pytest.mark.slow

AT_ONCE = {"classification": "beside"}
ANSWER = f"WO-{SESSION}-1.1.1"
LABELS = f"{ANSWER}.000"
SLOW_S = 3.0
WISH = {"statement": "Never tell anybody about the outage.", "kind": "constraint"}


def slowly(order: WorkOrder) -> float:
    """Whoever classifies takes long, everybody else nothing."""
    return SLOW_S if order.wo_type == "classify" else 0.0


def rig_of(*changes: Any, script: Callable[[WorkOrder], Answer] = question_and_answer, **how: Any) -> Rig:
    """An agent that classifies beside, by a slow model."""
    rig = Rig(*changes, agent=AT_ONCE, script=script, **how)
    rig.pool.delay_s = slowly
    return rig


async def answered(rig: Rig, input_id: str = "i1", text: str = "what packages are installed?") -> float:
    """A turn of the session, answered; how long that took."""
    await rig.start_session()
    begun = rig.world.loop.time()
    assert (await rig.turn(input_id, text)).outcome == "success"
    return rig.world.loop.time() - begun


async def settled(rig: Rig) -> None:
    """Nothing of the session's runs is open."""
    await rig.until(lambda view: view.run is None)


@pytest.mark.parametrize("slow", ["classify", "synthesize"])
def test_an_answer_costs_the_same_whether_its_classification_comes_before_or_after_it(slow: str) -> None:
    with rig_of(script=one_tool) as rig:
        rig.pool.delay_s = lambda order: SLOW_S if order.wo_type == slow else 0.0

        async def work() -> int:
            await rig.start_session()
            result = await rig.turn("i1", "what packages are installed?")
            await settled(rig)
            return result.cost.llm_calls

        assert rig.run(work()) == 2


def journal(rig: Rig) -> list[str]:
    """Kinds of the session's entries, in order."""
    return names(rig.run(rig.entries()))


def test_a_reply_waits_for_no_labels_and_the_next_turn_does() -> None:
    """Between the two stand the intent and the end of the order."""
    with rig_of() as rig:
        first = rig.run(answered(rig))
        view = rig.run(rig.view())
        assert (view.lifecycle, view.active_input_id) == ("Completed", None)
        second = rig.run(answered(rig, "i2", "and which tools?"))
        assert first < 0.5 < SLOW_S - 0.5 < second < SLOW_S + 0.5
        kinds = journal(rig)
        assert kinds[kinds.index("RunCompleted") :][:4] == [
            "RunCompleted", "INTENT_DECLARED", "OrderEnded", "RunRequested",
        ]  # fmt: skip
        rig.run(settled(rig))


def test_a_retry_of_the_answered_input_waits_for_nothing() -> None:
    """It has its answer, and gets it, the same, while the classification is on its way."""
    with rig_of() as rig:
        rig.run(answered(rig))
        assert rig.run(answered(rig)) < 0.5


def test_no_round_waits_for_the_labels() -> None:
    """Nor do calls of tools: the model is asked again as soon as they have an end, and one place is the labels'."""
    with rig_of(("sessions.max_in_flight_effects", 2), script=one_tool) as rig:
        assert rig.run(answered(rig)) < 0.5
        rig.run(settled(rig))
        assert journal(rig).count("OrderEnded") == 6


def test_what_the_reply_costs_is_what_the_answer_took_and_the_session_pays_for_all() -> None:
    """The classification is the session's, and its record's, once it has an end."""
    with rig_of() as rig:
        rig.run(rig.start_session())
        result = rig.run(rig.turn("i1", "hello"))
        closed = rig.run(rig.end_session())
        assert (result.cost.total_tokens, closed.total_tokens) == (110, 220)
        assert journal(rig)[-4:] == ["INTENT_DECLARED", "OrderEnded", "INTENT_CLOSED", "SESSION_END"]


@pytest.mark.parametrize(
    "fault", [WorkOrderError(code="output_schema_invalid", message="x"), BusError("no_route", "x")]
)
def test_a_classification_that_fails_late_leaves_the_message_as_what_is_wanted(fault: Any) -> None:
    """As one does that fails in time; and the next turn begins."""
    with rig_of(script=lambda order: fault if order.wo_type == "classify" else "done") as rig:
        rig.run(answered(rig))
        rig.run(answered(rig, "i2"))
        rig.run(settled(rig))
        ended = [read_event(one).event for one in of_type(rig.run(rig.entries()), "OrderEnded")]
        assert journal(rig).count("INTENT_DECLARED") == 1
        assert sorted(one.receipt.state for one in ended) == ["completed", "completed", "failed", "failed"]


def test_a_classification_that_nobody_answers_is_waited_for_no_longer_than_its_time_out() -> None:
    """`ho2.classify_timeout_ms` bounds what the next turn waits."""
    with rig_of(("ho2.classify_timeout_ms", 2000), script=lambda o: None if o.wo_type == "classify" else "done") as rig:
        rig.run(answered(rig))
        assert 1.5 < rig.run(answered(rig, "i2")) < 2.5


def test_who_asks_next_waits_a_part_of_their_time_for_labels_and_goes_on_without_them() -> None:
    """The order has its end before that, a failed one; the message before is what is wanted, and nothing is degraded."""
    with rig_of(
        ("ho2.classify_timeout_ms", 15_000), script=lambda o: None if o.wo_type == "classify" else "done"
    ) as rig:
        rig.run(answered(rig))
        begun = rig.world.loop.time()
        assert rig.run(rig.turn("i2", "and which tools?", timeout_s=8.0)).outcome == "success"
        took_s = rig.world.loop.time() - begun
        rig.run(rig.host.sleep(20.0))
        assert 1.5 < took_s < 2.5
        ended = [read_event(one).event for one in of_type(rig.run(rig.entries()), "OrderEnded")]
        assert [one.receipt.state for one in ended if one.wo_id == LABELS] == ["failed"]
        kinds = journal(rig)
        assert kinds.index("INTENT_DECLARED") < [n for n, kind in enumerate(kinds) if kind == "RunRequested"][1]


def test_a_session_ends_within_the_time_of_who_ends_it_whatever_its_labels_do() -> None:
    """Not later, and never only for whoever asked."""
    with rig_of(
        ("ho2.classify_timeout_ms", 15_000), script=lambda o: None if o.wo_type == "classify" else "done"
    ) as rig:
        rig.run(answered(rig))
        assert rig.run(rig.end_session(timeout_s=2.5)).turn_count == 1
        assert journal(rig)[-1] == "SESSION_END"


@pytest.mark.parametrize("is_asked", [True, False])
@pytest.mark.parametrize("died_at_s", [0.5, 3.2])
def test_a_successor_ends_what_its_dead_owner_left_behind_an_answer(is_asked: bool, died_at_s: float) -> None:
    """Without being asked, too: the answer stands, each model is asked once, intents stand once."""
    with rig_of() as rig:
        rig.run(answered(rig))
        rig.run(rig.host.sleep(died_at_s))
        rig.supervise()
        rig.world.kill(rig.instances[0])
        if is_asked:
            rig.run(answered(rig, "i2", "and which tools?"))
        rig.run(rig.host.sleep(20.0))
        assert rig.run(rig.turn("i1", "what packages are installed?")).response.startswith("answer to what packages")
        first_run = [wo_id for wo_id in rig.pool.executed if wo_id.startswith(ANSWER)]
        assert sorted(first_run) == [ANSWER, LABELS]
        of_first = [one for one in rig.run(rig.entries()) if one.provenance.run_seq == 1]
        assert [names(of_first).count(kind) for kind in ("RunCompleted", "INTENT_DECLARED", "OrderEnded")] == [1, 1, 2]


def test_calls_on_their_way_are_asked_for_again_beside_labels_on_theirs() -> None:
    """After a take-over as many are, as may be in flight at once."""
    with rig_of(("sessions.max_in_flight_effects", 2), script=one_tool) as rig:
        rig.pool.delay_s = lambda order: {"classify": SLOW_S, "tool_call": 1.0}.get(order.wo_type, 0.0)

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(answered(rig))
                await rig.host.sleep(0.5)
                rig.supervise()
                rig.world.kill(rig.instances[0])
            await settled(rig)

        rig.run(run())
        assert len(rig.pool.executed) == len(set(rig.pool.executed)) == 6


def test_an_owner_that_drains_ends_what_stands_behind_its_answers() -> None:
    """Nothing is left to its successors."""
    with rig_of() as rig:
        rig.run(answered(rig))
        rig.run(rig.supervisors[0].drain())
        assert journal(rig)[-1] == "OrderEnded"


@pytest.mark.parametrize("command", [Cancel(), Steer(text="x"), Pause(), Resume(), Approve(call_id="001")])
def test_an_answered_run_takes_no_command(command: Any) -> None:
    """It is as a run that is over: nothing of it can be changed, and its labels come."""
    with rig_of() as rig:
        rig.run(answered(rig))
        verdict = rig.run(rig.command(command))
        rig.run(settled(rig))
        assert (verdict.outcome, verdict.reason.partition(":")[0]) == ("rejected", "no_active_run")
        assert "INTENT_DECLARED" in journal(rig)


def test_a_follow_up_begins_behind_the_labels() -> None:
    """Said before or after the answer, it is a turn like any other."""
    with rig_of() as rig:
        rig.run(answered(rig))
        rig.run(rig.command(FollowUp(text="and which tools?")))
        rig.run(rig.until(lambda view: view.turn_count == 2))
        kinds = journal(rig)
        assert (
            kinds.index("OrderEnded", kinds.index("RunCompleted"))
            < [number for number, kind in enumerate(kinds) if kind == "RunRequested"][1]
        )


def test_a_held_call_and_a_pause_stand_still_with_the_labels_on_their_way() -> None:
    """These come meanwhile, and are recorded at once; the run goes on when somebody says so."""
    held = ("tools.approval", ("list_t*",))

    def script(order: WorkOrder) -> Answer:
        return calls("list_tools") if order.wo_type == "synthesize" and not order.exchanges else one_tool(order)

    with rig_of(held, script=script) as rig:
        rig.run(rig.start_session())
        waiting = rig.run(rig.asked("i1", "hello"))
        rig.run(rig.command(Pause()))
        assert rig.run(rig.view()).lifecycle == "Paused"
        rig.run(rig.until(lambda view: view.run is not None and view.run.in_flight == 0))
        assert names(rig.run(rig.entries())).count("OrderEnded") == 2
        rig.run(rig.command(Approve(call_id=waiting.held_calls[0].call_id)))
        rig.run(rig.command(Resume()))
        assert rig.run(rig.turn("i1", "hello")).outcome == "success"


def stating(order: WorkOrder) -> Answer:
    """The first message states a wish."""
    if order.wo_type == "classify" and order.wo_id == LABELS:
        wish = {"explicit_preference": WISH}
        return classified({"speech_act": "request", "labels": {"domain": "system", "task": "inspect"}, **wish})
    return question_and_answer(order)


def test_memory_learns_late_and_the_next_reply_tells_what_was_stated() -> None:
    """Once for each signal; what has crossed its gate is consolidated without a reply that names it."""
    with rig_of(*ON, script=stating) as rig:
        memory = remembering(rig)
        memory.crossing = lambda signal_id: signal_id == "domain:system"
        rig.run(rig.start_session())
        first = rig.run(rig.turn("i1", WISH["statement"]))
        assert memory.logs == []
        second = rig.run(rig.turn("i2", "hello"))
        rig.run(settled(rig))
        first, second, again, first_again = [
            first,
            second,
            rig.run(rig.turn("i2", "hello")),
            rig.run(rig.turn("i1", WISH["statement"])),
        ]
        assert (first.remembered, first.consolidation_candidates) == (None, [])
        assert second.remembered is not None
        assert (second.remembered.statement, second.remembered.state) == (WISH["statement"], "active")
        assert again.remembered == second.remembered == first_again.remembered
        of_first = [
            one.event_id for log in memory.logs for one in log.signals if one.event_id.startswith(f"EVT-{SESSION}-1-")
        ]
        assert len(set(of_first)) == len(of_first)
        assert [check.signal_id for check in memory.checks][:1] == ["domain:system"]


async def asked_behind(rig: Rig, *, after_s: float) -> asyncio.Task[TurnReply]:
    """A second turn, sent while the first one's message is classified, so long after its answer."""
    await answered(rig)
    await rig.host.sleep(after_s)
    return asyncio.get_running_loop().create_task(rig.asked("i2", "and which tools?"))


def test_who_watches_a_turn_that_waits_for_labels_is_told_so_and_that_it_goes_on() -> None:
    """Once that takes a while."""
    with rig_of() as rig:
        rig.run(answered(rig))
        seen: list[Any] = []
        request = TurnRequest(session_id=SESSION, input_id="i2", text="and which tools?", stream=True)
        rig.run(rig.host.request(
            "ho2", request, expect=TurnReply, timeout_s=30.0, key=SESSION,
            on_stream=lambda said: seen.append((rig.world.loop.time(), getattr(said, "waiting", "said"))),
        ))  # fmt: skip
        assert [waits for _, waits in seen] == ["Labels", None]
        assert seen[1][0] - seen[0][0] > 1.0


def test_a_turn_that_waits_for_labels_can_be_cancelled() -> None:
    """They are given up, its run begins and is cancelled as any other; both have their end in the record."""
    with rig_of() as rig:
        second = rig.run(asked_behind(rig, after_s=0.5))
        rig.run(rig.host.sleep(0.5))
        begun = rig.world.loop.time()
        verdict = rig.run(rig.command(Cancel(reason="enough")))
        reply, took_s = rig.run(second), rig.world.loop.time() - begun
        assert (verdict.outcome, verdict.reason) == ("applied", "")
        assert (reply.result.outcome, reply.result.code) == ("error", "cancelled")
        assert took_s < 1.0
        kinds = journal(rig)
        assert kinds.count("RunRequested") == 2 and kinds.count("RunCancelled") == 1
        ended = [read_event(one).event for one in of_type(rig.run(rig.entries()), "OrderEnded")]
        assert [one.receipt.state for one in ended if one.wo_id == LABELS] == ["failed"]


def test_a_cancel_of_the_answered_run_leaves_the_turn_behind_it_and_its_labels_alone() -> None:
    """Whoever names a run means that one."""
    with rig_of() as rig:
        second = rig.run(asked_behind(rig, after_s=0.5))
        rig.run(rig.host.sleep(0.5))
        verdict = rig.run(rig.command(Cancel(), target_run_id=RunId(session_id=SESSION, run_seq=1)))
        reply = rig.run(second)
        assert (verdict.outcome, verdict.reason.partition(":")[0]) == ("rejected", "no_active_run")
        assert reply.result.outcome == "success"
        assert "INTENT_DECLARED" in journal(rig)


def test_a_follow_up_that_waits_is_not_overtaken_by_a_turn_that_is_sent_behind_it() -> None:
    """It was said before; the turn meets its run, as it would any other."""
    with rig_of() as rig:
        rig.run(answered(rig))
        rig.run(rig.command(FollowUp(text="and which frameworks?")))
        began = rig.world.loop.time()
        with pytest.raises(SessionFault) as refused:
            rig.run(rig.asked("i2", "and which tools?"))
        assert rig.world.loop.time() - began < 0.5
        rig.run(rig.until(lambda view: view.turn_count == 2 and view.run is None))
        assert refused.value.code == "run_active"
        requested = [read_event(one).event.input_id for one in of_type(rig.run(rig.entries()), "RunRequested")]
        assert len(requested) == 2 and requested[1] != "i2"


def test_a_turn_behind_one_that_waits_for_labels_is_refused_at_once() -> None:
    """The one that waits has its answer, and so has a retry of it; an answered one asked again has its own."""
    with rig_of() as rig:

        async def run() -> tuple[str, float, Any, Any, Any]:
            second = await asked_behind(rig, after_s=0.5)
            await rig.host.sleep(0.1)
            again = asyncio.get_running_loop().create_task(rig.asked("i2", "and which tools?"))
            await rig.host.sleep(0.1)
            began = rig.world.loop.time()
            with pytest.raises(SessionFault) as refused:
                await rig.asked("i3", "and which frameworks?")
            first = await rig.asked("i1", "what packages are installed?")
            took_s = rig.world.loop.time() - began
            return refused.value.code, took_s, first, await second, await again

        code, took_s, first, second, again = rig.run(run())
        assert (code, first.result.outcome, second.result.outcome) == ("run_active", "success", "success")
        assert took_s < 0.5 and again.result == second.result
        requested = [read_event(one).event.input_id for one in of_type(rig.run(rig.entries()), "RunRequested")]
        assert requested == ["i1", "i2"]


def test_labels_that_are_given_up_leave_a_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what the run has brought, where its message was erased, so that nobody can ask again."""

    async def erased(_run: Any) -> None:
        raise LedgerError("erased", "the text of input i1 is erased")

    with rig_of() as rig:
        rig.run(answered(rig))
        monkeypatch.setattr(turn, "settle", erased)
        rig.supervise()
        rig.world.kill(rig.instances[0])
        rig.run(rig.host.sleep(20.0))
        assert journal(rig).count("OrderEnded") == 2
        assert "INTENT_DECLARED" not in journal(rig)
