"""Signals after the answer: logged beside its record, once whatever dies, and what their gates say stands in the reply."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ledger import Provenance
from hobus.bus.messages.session import Cancel, TurnResult
from hobus.bus.messages.work_order import OutputResult, Segment, WorkOrder, WorkOrderError
from hobus.bus.record.catalog import read_body
from hobus.bus.record.journal import unpack_result
from hobus.bus.record.payloads.orders import SignalsNamed
from tests.actors.ho2_supervisor.rig import SESSION, Answer, Rig, classified, one_tool
from tests.actors.ho2_supervisor.turn.test_recall import ON, asked, remembering
from tests.rig import names

QUESTION = "what packages are installed?"


def logged(memory: Any) -> list[list[str]]:
    """Signal ids of each LOG."""
    return [[signal.signal_id for signal in message.signals] for message in memory.logs]


def recorded_result(rig: Rig) -> TurnResult:
    """The TurnResult in RunCompleted."""
    [entry] = [e for e in rig.run(rig.entries()) if e.event_type == "RunCompleted"]
    return unpack_result(entry.bodies[1] or b"")


def test_a_turns_signals_leave_in_one_message() -> None:
    """Intent, domain, task, each tool once, outcome; the event ids follow from the run."""
    with Rig(*ON, script=one_tool) as rig:
        memory = remembering(rig)
        asked(rig)
        assert logged(memory) == [
            ["intent:question", "domain:system", "task:inspect", "tool:list_packages", "tool:list_tools",
             "outcome:success"],
        ]  # fmt: skip
        [message] = memory.logs
        assert message.agent_id == "ADMIN"
        assert message.signals[0].event_id == f"EVT-{SESSION}-1-intent:question"


def test_the_answer_is_recorded_while_the_signals_are_on_their_way() -> None:
    """RunCompleted is durable before HO3 has answered: no hop is added to the turn but the slower of the two."""
    with Rig(*ON) as rig:
        memory = remembering(rig)
        memory.delay_s = 0.2
        asked(rig)
        [completed] = [e for e in rig.run(rig.entries()) if e.event_type == "RunCompleted"]
        assert completed.ledger_at_us / 1_000_000 < memory.answered_at[0] - 0.15


def test_crossed_gates_stand_in_the_first_reply_and_in_a_record_of_their_own() -> None:
    """RunCompleted's bytes name none; CONSOLIDATION_DUE does, before the reply; asked again, the answer is the same."""
    with Rig(*ON) as rig:
        memory = remembering(rig)
        memory.crossing = lambda signal_id: signal_id in ("domain:system", "task:inspect")
        result = asked(rig)
        assert result.consolidation_candidates == ["domain:system", "task:inspect"]
        recorded = recorded_result(rig)
        assert recorded == result.model_copy(update={"consolidation_candidates": []})
        [due] = [e for e in rig.run(rig.entries("ho2m")) if e.event_type == "CONSOLIDATION_DUE"]
        assert read_body(due).signal_ids == ("domain:system", "task:inspect")
        assert due.parents == [f"RunCompleted:{result.run_id}"]
        assert rig.run(rig.turn("i1", QUESTION)) == result
        rig.world.kill(rig.instances[0])
        rig.supervise()
        assert rig.run(rig.turn("i1", QUESTION)) == result
        assert len(memory.logs) >= 1


def test_asked_again_while_the_signals_are_on_their_way_the_answer_is_the_same() -> None:
    """RunCompleted stands, HO3 has not answered: the second request waits for what the first one gets."""
    with Rig(*ON) as rig:
        memory = remembering(rig)
        memory.crossing = lambda _: True
        memory.delay_s = 0.2

        async def run() -> list[TurnResult]:
            await rig.start_session()
            first = rig.world.loop.create_task(rig.turn("i1", QUESTION))
            while "RunCompleted" not in names(await rig.entries()):
                await rig.host.sleep(0.001)
            second = await rig.turn("i1", QUESTION)
            return [await first, second]

        first, second = rig.run(run())
        assert first.consolidation_candidates != []
        assert second == first


def test_no_reply_names_what_the_record_does_not_have() -> None:
    """The ledger is away once RunCompleted stands: no answer with candidates leaves before CONSOLIDATION_DUE does."""
    with Rig(*ON) as rig:
        memory = remembering(rig)
        memory.crossing = lambda _: True
        memory.delay_s = 0.2

        async def run() -> tuple[bool, TurnResult]:
            await rig.start_session()
            asking = rig.world.loop.create_task(rig.turn("i1", QUESTION))
            while "RunCompleted" not in names(await rig.entries()):
                await rig.host.sleep(0.001)
            rig.kill_ledger()
            await rig.host.sleep(1)
            was_told = asking.done() and asking.exception() is None
            rig.start_ledger()
            return was_told, await asking

        was_told, result = rig.run(run())
        assert not was_told
        assert result.consolidation_candidates != []
        [due] = [e for e in rig.run(rig.entries("ho2m")) if e.event_type == "CONSOLIDATION_DUE"]
        assert list(read_body(due).signal_ids) == result.consolidation_candidates


def test_what_another_owner_named_first_is_what_the_answer_names() -> None:
    """The once key of the input is taken: the reply has the candidates of the entry that stands."""
    with Rig(*ON) as rig:
        memory = remembering(rig)
        memory.crossing = lambda _: True
        another = replace(rig.supervisors[0]._learning._resources, bus=rig.ledger_client("ho2")._bus)
        mine = another.entry(
            "CONSOLIDATION_DUE", SignalsNamed(("domain:system",)),
            provenance=Provenance(session_id=SESSION), parents=[], once=f"candidates:{SESSION}/i1",
        )  # fmt: skip
        rig.run(rig.write(mine))
        assert asked(rig).consolidation_candidates == ["domain:system"]
        assert rig.run(rig.turn("i1", QUESTION)).consolidation_candidates == ["domain:system"]


def test_an_agent_without_memory_is_taught_nothing_and_shown_nothing() -> None:
    """Whatever ends its turn; another agent's are as ever."""
    with Rig(*ON, agent={"memory": False}) as rig:
        memory = remembering(rig)
        assert asked(rig).outcome == "success"
        rig.world.kill(rig.instances[0])
        rig.supervise()
        rig.run(rig.turn("i2", "again"))
        rig.run(rig.host.sleep(5))
        assert (memory.reads, memory.logs) == ([], [])


def test_late_memory_costs_its_time_out_and_names_no_candidate() -> None:
    """`ho3.log_timeout_ms` bounds the reply; a warning with the reason stands in the record."""
    with Rig(*ON) as rig:
        memory = remembering(rig)
        memory.crossing = lambda _: True
        memory.delay_s = 0.29
        limits = rig.snapshot.config.ho3
        assert limits is not None
        assert asked(rig).consolidation_candidates != []
        memory.delay_s = 60.0
        before = rig.host.now()
        late = rig.run(rig.turn("i2", "again"))
        assert (late.outcome, late.consolidation_candidates) == ("success", [])
        assert rig.host.now() - before < (limits.read_timeout_ms + limits.log_timeout_ms) / 1000 + 0.05
        [warning] = [e for e in rig.run(rig.entries("ho2m")) if e.event_type == "MEMORY_WARNING"]
        assert warning.reason == "expired"
        assert list(read_body(warning).signal_ids) == logged(memory)[-1] != []


def test_what_a_turn_taught_while_memory_was_away_is_logged_when_it_is_back() -> None:
    """Once, however long that takes within a minute: a request that finds no HO3 fails within some seconds."""
    with Rig(*ON, script=one_tool) as rig:
        assert asked(rig).outcome == "success"
        rig.run(rig.host.sleep(20))
        memory = remembering(rig)
        rig.run(rig.host.sleep(10))
        assert [signals[-1] for signals in logged(memory)] == ["outcome:success"]


def test_killed_between_the_answer_and_its_signals_the_successor_logs_them_again() -> None:
    """RunCompleted stands, HO3 never got the LOG: whoever owns the session next sends the same events, in the background."""
    with Rig(*ON, script=one_tool) as rig:
        memory = remembering(rig)
        memory.crossing = lambda _: True

        async def run() -> TurnResult:
            await rig.start_session()

            async def when_logging() -> None:
                while not memory.logs:
                    await rig.host.sleep(0.0001)
                await rig.host.sleep(0.05)
                assert "RunCompleted" in names(await rig.entries())
                rig.world.kill(rig.instances[0])
                rig.supervise()

            watcher = rig.world.loop.create_task(when_logging())
            memory.delay_s = 0.2
            result = await rig.turn("i1", "what packages are installed?")
            await watcher
            await rig.host.sleep(1)
            return result

        result = rig.run(run())
        assert (result.outcome, result.consolidation_candidates) == ("success", [])
        first, again = memory.logs[0], memory.logs[-1]
        assert len(memory.logs) >= 2
        assert again == first
        assert names(rig.run(rig.entries())).count("RunCompleted") == 1


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("BUDGET_EXHAUSTED", []), ("HIERARCHY_EXCEEDED", []), ("budget_exhausted", []), ("FORBIDDEN", []),
        ("format_not_met", ["outcome:failed"]), ("turn_limit_exceeded", ["outcome:failed"]),
    ],
)  # fmt: skip
def test_a_verdict_is_a_lesson_only_where_the_run_failed_by_itself(code: str, outcome: list[str]) -> None:
    """Limits and budgets say nothing of who asked, however often they refuse; what they asked about counts."""

    def refused(order: WorkOrder) -> Answer:
        return classified() if order.wo_type == "classify" else WorkOrderError(code=code, message="spent")

    with Rig(*ON, script=refused) as rig:
        memory = remembering(rig)
        assert asked(rig).outcome == "error"
        assert logged(memory) == [["intent:question", "domain:system", "task:inspect", *outcome]]


def test_an_escalation_is_a_lesson_too() -> None:
    """outcome:escalated for an answer that the gate did not accept."""

    def short(order: WorkOrder) -> Answer:
        return classified() if order.wo_type == "classify" else OutputResult(text=Segment(text=""))

    with Rig(*ON, script=short) as rig:
        memory = remembering(rig)
        assert asked(rig).outcome == "success"
        assert logged(memory) == [["intent:question", "domain:system", "task:inspect", "outcome:escalated"]]


@pytest.mark.parametrize("wo_type", ["classify", "synthesize"])
def test_a_run_in_which_embedded_rules_stood_in_for_a_model_teaches_nothing(wo_type: str) -> None:
    """Labels by keyword, a tool by its name: habits of the rules, not of who asked."""

    def stood_in(order: WorkOrder) -> Answer:
        found = classified() if order.wo_type == "classify" else OutputResult(text=Segment(text="all is well"))
        return found.model_copy(update={"is_stand_in": order.wo_type == wo_type})

    with Rig(*ON, script=stood_in) as rig:
        memory = remembering(rig)
        assert asked(rig).outcome == "success"
        assert logged(memory) == []


def test_what_a_cancelled_run_teaches_is_logged_at_once() -> None:
    """Not when a supervisor takes over, some day; it says nothing of its outcome."""
    with Rig(*ON) as rig:
        memory = remembering(rig)
        rig.pool.delay_s = lambda order: 3.0 if order.wo_type == "synthesize" else 0.0

        async def run() -> None:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                turn = group.create_task(rig.turn("i1", QUESTION))
                while not any(order.wo_type == "synthesize" for order in rig.pool.orders):
                    await rig.host.sleep(0.01)
                await rig.command(Cancel())
            assert turn.result().code == "cancelled"
            await rig.host.sleep(0.5)

        rig.run(run())
        assert logged(memory) == [["intent:question", "domain:system", "task:inspect"]]


def test_a_run_that_failed_teaches_what_it_was_about_without_delaying_its_failure() -> None:
    """No verdict: the host degrades at once, and the signals follow in the background. The outage itself is none."""

    def broken(order: WorkOrder) -> Answer:
        if order.wo_type == "classify":
            return classified()
        return WorkOrderError(code="PROVIDER_ERROR", message="down")

    with Rig(*ON, script=broken) as rig:
        memory = remembering(rig)
        memory.delay_s = 0.1
        rig.run(rig.start_session())
        before = rig.host.clock.monotonic()
        with pytest.raises(RuntimeFault) as failed:
            rig.run(rig.turn("i1", "what packages are installed?"))
        assert failed.value.code == "PROVIDER_ERROR"
        took = rig.host.clock.monotonic() - before
        rig.run(rig.host.sleep(1))
        assert took < 0.15
        assert logged(memory) == [["intent:question", "domain:system", "task:inspect"]]
