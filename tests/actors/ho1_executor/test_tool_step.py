"""Tool calls: checked, started once in the record, run at most once if once is all they may run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bench.builders import WO, tool_order
from hobus.bus.errors import LedgerError
from hobus.bus.messages.work_order import Receipt
from hobus.bus.record.catalog import read_body
from tests.actors.ho1_executor.rig import Cluster, Effects, ScriptedGateway, cluster

SAFE, ONCE = "list_packages", "show_config"


def run_one(given: Any, effects: Effects | None = None) -> tuple[Receipt, list[str]]:
    """The receipt of one order and the event types that it left."""
    tools = {"tools": effects.tools()} if effects else {}
    with cluster(ScriptedGateway(), **tools) as made:
        return made.world.run(made.execute(given)), made.world.run(made.events())


def code_of(receipt: Receipt) -> str:
    """Of a failed receipt."""
    assert receipt.error is not None
    return receipt.error.code


def test_a_tool_call_brings_its_output_as_recorded_text() -> None:
    """Nothing of it in the record, as it only reads: its supervisor's OrderEnded will have the output; its cost."""
    receipt, events = run_one(tool_order())
    assert receipt.output_result is not None
    text = receipt.output_result.text
    assert (text.name, text.ref) == ("001", f"WO_COMPLETED:{WO}/ho1/1@s1/1")
    assert '"package_id": "PKG-GOVERNANCE-001"' in text.text
    assert (receipt.cost.tool_calls, receipt.cost.tool_ids_used, receipt.cost.llm_calls) == (1, [SAFE], 0)
    assert events == []


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (tool_order("no_such_tool"), "tool_not_found"),
        (tool_order(SAFE, constraints={"tools_allowed": [ONCE]}), "tool_not_permitted"),
        (tool_order(SAFE, agent_id="NOBODY"), "tool_not_permitted"),
        (tool_order(SAFE, {"surplus": 1}), "tool_invalid_args"),
        (tool_order(ONCE, {"path": 1}), "tool_invalid_args"),
        (tool_order(SAFE, tool_call=None), "tool_invalid_args"),
    ],
)
def test_a_refused_call_starts_nothing(given: Any, code: str) -> None:
    effects = Effects()
    receipt, events = run_one(given, effects)
    assert (code_of(receipt), effects.runs, events) == (code, [], ["WO_FAILED"])


def test_a_rule_of_an_approval_runs_for_every_agent_and_takes_what_it_has_parameters_for() -> None:
    """It is offered to no model; a tool that may change something is none."""
    given = tool_order(SAFE, {"path": "a", "surplus": 1}, constraints={"tools_allowed": [ONCE]})
    for writes, state in ((False, "completed"), (True, "failed")):
        effects = Effects()
        tools = {name: replace(tool, writes=writes) for name, tool in effects.tools().items()}
        with cluster(ScriptedGateway(), tools=tools, approval=[f"pay if {SAFE}"]) as made:
            receipt = made.world.run(made.execute(given))
        assert (receipt.state, len(effects.runs)) == (state, 1 - writes)


def test_faulty_arguments_are_named_without_their_values() -> None:
    receipt, _ = run_one(tool_order(ONCE, {"path": 7}))
    assert receipt.error is not None
    assert receipt.error.message == 'show_config: $.path: type "string"'


def test_a_failing_tool_is_a_failed_order_with_its_sentence() -> None:
    receipt, events = run_one(tool_order("show_config", {"path": "budget.nonsense"}))
    assert receipt.error is not None
    assert receipt.error.code == "tool_failed"
    assert receipt.error.message.startswith("no setting 'budget.nonsense'; known there: ")
    assert (receipt.cost.tool_calls, events) == (1, ["WO_FAILED"])


def test_a_tool_over_its_time_is_stopped() -> None:
    effects = Effects()
    with cluster(ScriptedGateway(), tools=effects.tools()) as made:
        effects.gate = asyncio.Event()
        receipt = made.world.run(made.execute(tool_order(ONCE, constraints={"timeout_seconds": 1.0})))
        assert code_of(receipt) == "deadline_exceeded"
        assert 900 <= receipt.cost.elapsed_ms <= 1000
        assert made.world.run(made.events()) == ["TOOL_STARTED", "WO_FAILED"]


def test_a_tool_may_have_less_time_than_its_order() -> None:
    effects = Effects()
    with cluster(ScriptedGateway(), tools=effects.tools()) as made:
        effects.gate = asyncio.Event()
        limit_ms = made.snapshot.config.tools.timeout_ms
        given = tool_order(ONCE, constraints={"timeout_seconds": 500.0})
        receipt = made.world.run(made.execute(given, timeout_s=500.0))
        assert code_of(receipt) == "deadline_exceeded"
        assert limit_ms <= receipt.cost.elapsed_ms <= limit_ms + 100


@pytest.mark.parametrize("attempts", [(1, 1), (1, 2)])
@pytest.mark.parametrize("at_once", [True, False])
def test_one_worker_runs_a_call_once_however_it_is_delivered(attempts: tuple[int, int], at_once: bool) -> None:
    effects = Effects()
    with cluster(ScriptedGateway(), tools=effects.tools()) as made:

        async def main() -> None:
            first, second = (
                made.execute(tool_order(ONCE), attempt=attempt, message_id=f"m{number}")
                for number, attempt in enumerate(attempts)
            )
            if at_once:
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(first), group.create_task(second)]
                assert tasks[0].result() == tasks[1].result()
            else:
                assert await first == await second
            assert len(effects.runs) == 1
            assert await made.events() == ["TOOL_STARTED", "WO_COMPLETED"]

        made.world.run(main())


def test_the_start_is_durable_before_the_tool_runs() -> None:
    """Seen from inside the tool: the record has the start already."""
    effects = Effects()
    with cluster(ScriptedGateway(), tools=effects.tools()) as made:
        effects.gate = asyncio.Event()

        async def main() -> None:
            task = asyncio.get_running_loop().create_task(made.execute(tool_order(ONCE)))
            await made.until(lambda: bool(effects.runs))
            assert await made.events() == ["TOOL_STARTED"]
            effects.gate.set()
            await task

        made.world.run(main())


# --- the middle of a call ---------------------------------------------------------------------------------------------


async def _killed_in_the_middle(made: Cluster, effects: Effects, tool_id: str) -> tuple[Receipt, list[Any]]:
    """A worker dies while its tool runs; the broker delivers the order to another one."""
    await made.world.settled()
    effects.gate = asyncio.Event()
    task = asyncio.get_running_loop().create_task(made.execute(tool_order(tool_id)))
    await made.until(lambda: bool(effects.runs))
    victim = (await made.entries())[0].origin
    effects.gate.set()
    made.world.kill(victim)
    return await task, await made.entries()


def test_a_call_that_must_not_run_twice_is_not_run_again() -> None:
    """Started, its worker gone, no end: nobody knows what it did, and that is what the receipt says."""
    effects = Effects()
    with cluster(ScriptedGateway(), executors=2, tools=effects.tools()) as made:
        receipt, entries = made.world.run(_killed_in_the_middle(made, effects, ONCE))
        assert code_of(receipt) == "unknown_outcome"
        assert len(effects.runs) == 1
        assert [entry.event_type for entry in entries] == ["TOOL_STARTED", "WO_FAILED"]
        # Asked once more, by anybody: the same receipt, and still one run.
        assert made.world.run(made.execute(tool_order(ONCE), attempt=3)) == receipt
        assert len(effects.runs) == 1


def test_an_idempotent_call_runs_again_under_its_next_key() -> None:
    effects = Effects()
    with cluster(ScriptedGateway(), executors=2, tools=effects.tools()) as made:
        receipt, entries = made.world.run(_killed_in_the_middle(made, effects, SAFE))
        assert receipt.state == "completed"
        assert effects.runs == [f"{SAFE} {WO}"] * 2
        assert [entry.once for entry in entries] == [f"start:{WO}/1", f"start:{WO}/2", f"end:{WO}"]
        assert [read_body(entry).number for entry in entries[:2]] == [1, 2]


def test_an_idempotent_call_survives_more_deaths_than_a_page_of_look_ups() -> None:
    """Each try has its key, however many workers went before."""
    effects = Effects()
    with cluster(ScriptedGateway(), tools=effects.tools()) as made:

        async def main() -> Receipt:
            for number in range(1, 7):
                effects.gate = asyncio.Event()
                task = asyncio.get_running_loop().create_task(
                    made.execute(tool_order(SAFE), attempt=number, message_id=f"m{number}")
                )
                await made.until(lambda number=number: len(effects.runs) == number)
                made.world.kill(made.executors[-1].instance)
                task.cancel()
                made.executor()
            effects.gate = None
            return await made.execute(tool_order(SAFE), attempt=7)

        assert made.world.run(main()).state == "completed"
        keys = [entry.once for entry in made.world.run(made.entries())]
        assert keys == [*(f"start:{WO}/{number}" for number in range(1, 8)), f"end:{WO}"]


@pytest.mark.parametrize("tool_id", [SAFE, ONCE])
def test_a_call_in_flight_elsewhere_is_waited_for(tool_id: str) -> None:
    """A start without end whose worker lives: the second worker answers with the first one's receipt."""
    effects = Effects()
    with cluster(ScriptedGateway(), executors=2, tools=effects.tools()) as made:

        async def main() -> None:
            await made.world.settled()
            effects.gate = asyncio.Event()
            loop = asyncio.get_running_loop()
            first = loop.create_task(made.execute(tool_order(tool_id)))
            await made.until(lambda: bool(effects.runs))
            await made.ho2.sleep(0.1)  # nobody waits for the start of the one that may run again
            second = loop.create_task(made.execute(tool_order(tool_id), attempt=2, message_id="again"))
            await made.ho2.sleep(1.0)
            assert not second.done()
            effects.gate.set()
            assert await second == await first
            assert len(effects.runs) == 1
            assert await made.events() == ["TOOL_STARTED", "WO_COMPLETED"]

        made.world.run(main())


def test_a_worker_that_dies_while_it_is_waited_for_is_noticed() -> None:
    effects = Effects()
    with cluster(ScriptedGateway(), executors=2, tools=effects.tools()) as made:

        async def main() -> Receipt:
            await made.world.settled()
            effects.gate = asyncio.Event()
            loop = asyncio.get_running_loop()
            loop.create_task(made.execute(tool_order(ONCE))).add_done_callback(lambda done: done.exception())
            await made.until(lambda: bool(effects.runs))
            second = loop.create_task(made.execute(tool_order(ONCE), attempt=2, message_id="again"))
            await made.ho2.sleep(1.0)
            made.world.kill((await made.entries())[0].origin)
            before = made.ho2.clock.monotonic()
            receipt = await second
            assert made.ho2.clock.monotonic() - before < 1.5
            return receipt

        assert code_of(made.world.run(main())) == "unknown_outcome"
        assert len(effects.runs) == 1


def test_two_first_deliveries_run_the_tool_once() -> None:
    """The start decides, also when nobody knows of a repeat: the loser waits for the winner's end."""
    effects = Effects()
    with cluster(ScriptedGateway(), executors=2, tools=effects.tools()) as made:

        async def main() -> None:
            await made.world.settled()
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(made.execute(tool_order(ONCE), message_id=f"m{n}")) for n in range(2)]
            assert tasks[0].result() == tasks[1].result()
            assert len(effects.runs) == 1
            assert await made.events() == ["TOOL_STARTED", "WO_COMPLETED"]

        made.world.run(main())


# --- the record away --------------------------------------------------------------------------------------------------


async def _unavailable(made: Cluster, work: asyncio.Task[Receipt]) -> None:
    """The order's delivery ends as a fault that may pass; then the ledger is back."""
    with pytest.raises(LedgerError) as caught:
        await work
    assert (caught.value.code, caught.value.retryable) == ("unavailable", True)
    made.start_ledger()


def test_without_a_durable_start_nothing_runs_and_the_order_gets_an_end() -> None:
    """No receipt while the record is away; afterwards a failure, also for another worker, and never a run."""
    effects = Effects()
    with cluster(ScriptedGateway(), executors=2, tools=effects.tools()) as made:

        async def main() -> Receipt:
            await made.world.settled()
            made.kill_ledger()
            await _unavailable(made, asyncio.get_running_loop().create_task(made.execute(tool_order(ONCE))))
            await made.ho2.sleep(1.0)
            return await made.execute(tool_order(ONCE), attempt=2)

        assert code_of(made.world.run(main())) == "execution_error"
        assert effects.runs == []
        assert made.world.run(made.events()) == ["TOOL_STARTED", "WO_FAILED"]


def _fill(made: Cluster) -> Callable[[], None]:
    """The ledger's disk has no room any more; what gives it back."""
    medium = made.world.disk("ledger").medium
    capacity, medium.capacity_bytes = medium.capacity_bytes, medium.used_bytes() + (5 << 20)
    return lambda: setattr(medium, "capacity_bytes", capacity)


async def _runs_before_a_full_disk(made: Cluster, effects: Effects) -> tuple[asyncio.Task[Receipt], Callable[[], None]]:
    """A call whose tool is done when the disk is full; the order, and what gives the disk room again."""
    await made.world.settled()
    effects.gate = asyncio.Event()
    work = asyncio.get_running_loop().create_task(made.execute(tool_order(ONCE)))
    await made.until(lambda: bool(effects.runs))
    free = _fill(made)
    await made.ho2.sleep(3.0)
    effects.gate.set()
    return work, free


@pytest.mark.parametrize("is_asked_at_once", [False, True])
@pytest.mark.parametrize("is_announced", [False, True])
def test_a_call_that_ran_while_the_disk_was_full_has_its_end_once_that_can_be_recorded(
    is_asked_at_once: bool, is_announced: bool
) -> None:
    """The record says that the tool was begun; what it said is kept, and stands in the record once that can."""
    effects = Effects()
    with cluster(ScriptedGateway(), tools=effects.tools()) as made:
        work, free = made.world.run(_runs_before_a_full_disk(made, effects))
        for attempt in (work, made.execute(tool_order(ONCE), attempt=2 if is_announced else 1)):
            with pytest.raises(LedgerError) as caught:
                made.world.run(attempt)
            assert caught.value.code == "disk_full"
        free()
        if not is_asked_at_once:
            made.world.run(made.ho2.sleep(3.0))
            assert made.world.run(made.events()) == ["TOOL_STARTED", "WO_COMPLETED"]
        assert made.world.run(made.execute(tool_order(ONCE), attempt=3 if is_announced else 1)).state == "completed"
        assert len(effects.runs) == 1
        assert made.world.run(made.events()) == ["TOOL_STARTED", "WO_COMPLETED"]


@pytest.mark.parametrize("pause_s", [0.0, 0.9])
def test_a_worker_that_stops_hands_over_what_it_kept(pause_s: float) -> None:
    """The disk has room again, and the time to hand the end over once more has not come yet."""
    effects = Effects()
    with cluster(ScriptedGateway(), tools=effects.tools()) as made:
        work, free = made.world.run(_runs_before_a_full_disk(made, effects))
        with pytest.raises(LedgerError):
            made.world.run(work)
        free()
        made.world.run(made.ho2.sleep(pause_s))
        made.world.run(made.actors[0].drain())
        made.world.kill(made.executors[0].instance)
        made.executor()
        made.world.run(made.world.settled())
        assert made.world.run(made.execute(tool_order(ONCE), attempt=2)).state == "completed"
        assert len(effects.runs) == 1
        assert made.world.run(made.events()) == ["TOOL_STARTED", "WO_COMPLETED"]


def test_a_disk_that_stays_full_keeps_no_worker_from_stopping() -> None:
    effects = Effects()
    with cluster(ScriptedGateway(), tools=effects.tools()) as made:
        work, _ = made.world.run(_runs_before_a_full_disk(made, effects))
        with pytest.raises(LedgerError):
            made.world.run(work)
        before = made.ho2.clock.monotonic()
        made.world.run(made.actors[0].drain())
        assert (made.ho2.clock.monotonic() - before) < 0.1


@pytest.mark.parametrize("is_kept", [False, True])
def test_an_end_outlives_the_cancel_of_its_order(is_kept: bool) -> None:
    """Whoever waited for it, or for one that was kept, is gone when the record says that its disk is full."""
    effects = Effects()
    with cluster(ScriptedGateway(), tools=effects.tools()) as made:

        async def main() -> Receipt:
            if is_kept:
                work, free = await _runs_before_a_full_disk(made, effects)
                with pytest.raises(LedgerError):
                    await work
                made.world.freeze(made.ledger.instance)
                work = asyncio.get_running_loop().create_task(made.execute(tool_order(ONCE), attempt=2))
            else:
                await made.world.settled()
                effects.gate = asyncio.Event()
                work = asyncio.get_running_loop().create_task(made.execute(tool_order(ONCE)))
                await made.until(lambda: bool(effects.runs))
                made.world.freeze(made.ledger.instance)
                free = _fill(made)
                effects.gate.set()
            await made.ho2.sleep(0.3)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            await made.ho2.sleep(0.3)  # the worker hears of it
            made.world.thaw(made.ledger.instance)
            await made.ho2.sleep(3.0)
            assert await made.events() == ["TOOL_STARTED"]
            free()
            await made.ho2.sleep(3.0)
            assert await made.events() == ["TOOL_STARTED", "WO_COMPLETED"]
            return await made.execute(tool_order(ONCE), attempt=3)

        assert made.world.run(main()).state == "completed"
        assert len(effects.runs) == 1


def test_a_call_that_could_not_start_on_a_full_disk_is_not_begun() -> None:
    effects = Effects()
    with cluster(ScriptedGateway(), tools=effects.tools()) as made:
        made.world.run(made.world.settled())
        _fill(made)
        made.world.run(made.ho2.sleep(3.0))
        with pytest.raises(LedgerError) as caught:
            made.world.run(made.execute(tool_order(ONCE)))
        assert (caught.value.code, effects.runs, made.world.run(made.events())) == ("disk_full", [], [])


@pytest.mark.parametrize("tool_id", [SAFE, ONCE])
@pytest.mark.parametrize("pause_s", [0.0, 1.0])
def test_a_tool_that_ran_while_the_record_was_away_is_not_run_again(tool_id: str, pause_s: float) -> None:
    """Its end is submitted again when the record is back, and the next delivery to this worker finds it."""
    effects = Effects()
    with cluster(ScriptedGateway(), tools=effects.tools()) as made:

        async def main() -> Receipt:
            await made.world.settled()
            effects.gate = asyncio.Event()
            work = asyncio.get_running_loop().create_task(made.execute(tool_order(tool_id)))
            await made.until(lambda: bool(effects.runs))
            made.kill_ledger()
            effects.gate.set()
            if tool_id == SAFE:
                assert (await work).state == "completed"  # its receipt does not wait for its end
                made.start_ledger()
            else:
                await _unavailable(made, work)
            await made.ho2.sleep(pause_s)
            return await made.execute(tool_order(tool_id), attempt=2)

        assert made.world.run(main()).state == "completed"
        assert len(effects.runs) == 1
        assert made.world.run(made.events()) == ["TOOL_STARTED", "WO_COMPLETED"]
