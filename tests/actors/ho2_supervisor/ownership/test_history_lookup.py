"""What memory has let go is known all the same: the ledger has it under ids that follow from the input or the command."""

from __future__ import annotations

import asyncio

import pytest

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.ownership.owner import OwnedSession
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ledger import Lookup
from hobus.bus.messages.session import Cancel, CommandVerdict, HostCommand, Pause, SessionCommand, TurnResult
from hobus.bus.messages.work_order import WorkOrder
from tests.actors.ho2_supervisor.questions import listening
from tests.actors.ho2_supervisor.rig import SESSION, Answer, Rig, degraded_entry, question_and_answer
from tests.rig import names

FEW = {"snapshot_entries": 20}


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Borders that a test can reach."""
    monkeypatch.setattr(limits, "KNOWN_MAX", 2)


def session_of(rig: Rig) -> OwnedSession:
    """As the first supervisor has it in memory."""
    held = rig.supervisors[0]._registry.held(SESSION)
    assert held is not None
    return held


async def turns(rig: Rig, count: int, first: int = 0) -> list[TurnResult]:
    """Answered inputs, one after the other."""
    return [await rig.turn(f"i{number}", f"question {number}") for number in range(first, first + count)]


def test_memory_of_inputs_and_commands_is_bounded() -> None:
    """However many there were, the newest ones alone stay in memory, and in a snapshot."""
    with Rig(**FEW) as rig:
        rig.run(rig.start_session())
        rig.run(turns(rig, 4))
        for number in range(3):
            rig.run(command(rig, f"c{number}"))
        record = session_of(rig).record
        assert list(record.inputs) == ["i2", "i3"]
        assert list(record.commands) == ["c1", "c2"]
        assert record.inputs_forgotten
        assert not record.unrequested_forgotten


def test_old_input_gets_its_answer_and_nothing_runs() -> None:
    """The ledger refuses its second RunRequested; its recorded answer is given, the same bytes, by whoever owns it."""
    with Rig(**FEW) as rig:
        rig.run(rig.start_session())
        first = rig.run(turns(rig, 4))
        sent = len(rig.pool.received)
        again = rig.run(turns(rig, 2))
        assert again == first[:2]
        assert len(rig.pool.received) == sent
        rig.world.kill(rig.instances[0])
        rig.supervise()
        rig.run(rig.world.settled())
        assert rig.run(turns(rig, 1)) == first[:1]
        assert len(rig.pool.received) == sent
        assert rig.run(rig.turn("new", "another question")).outcome == "success"
        journal = names(rig.run(rig.entries()))
        assert journal.count("RunRequested") == journal.count("RunCompleted") == 5


def test_old_input_with_another_text_is_a_conflict() -> None:
    """As it is while it is in memory."""
    with Rig(**FEW) as rig:
        rig.run(rig.start_session())
        rig.run(turns(rig, 3))
        with pytest.raises(RuntimeFault) as raised:
            rig.run(rig.turn("i0", "something else"))
        assert raised.value.code == "input_conflict"
        assert rig.run(rig.turn("i9", "another question")).outcome == "success"


def test_old_input_is_answered_while_another_runs_and_after_the_end() -> None:
    """A known input comes first, whatever the session is by now."""
    with Rig(**FEW) as rig:
        rig.run(rig.start_session())
        first = rig.run(turns(rig, 3))
        rig.pool.delay_s = lambda _: 1.0

        async def run() -> TurnResult:
            async with asyncio.TaskGroup() as group:
                running = group.create_task(rig.turn("i9", "a long one"))
                await rig.host.sleep(0.5)
                old = await rig.turn("i0", "question 0")
            assert running.result().outcome == "success"
            return old

        assert rig.run(run()) == first[0]
        rig.run(rig.end_session())
        assert rig.run(rig.turn("i1", "question 1")) == first[1]
        with pytest.raises(RuntimeFault) as raised:
            rig.run(rig.turn("never", "a new one"))
        assert raised.value.code == "session_closed"


def test_old_failed_input_has_failed() -> None:
    """A run that left its input's key free: what ended it is found by the run's number."""

    def script(order: WorkOrder) -> Answer:
        is_bad = order.wo_type == "synthesize" and "bad" in order.input_context[-1].text
        return RuntimeFault("execution_error", "no") if is_bad else question_and_answer(order)

    with Rig(("ho2.classify", False), script=script, **FEW) as rig:
        rig.run(rig.start_session())
        for _ in range(2):
            with pytest.raises(RuntimeFault) as raised:
                rig.run(rig.turn("f", "bad question"))
            assert raised.value.code == "execution_error"
            rig.run(turns(rig, 3))
        assert names(rig.run(rig.entries())).count("RunFailed") == 1


def test_old_cancelled_input_gets_the_result_that_was_recorded() -> None:
    """What its calls had cost and called by then, the same as while it is in memory."""
    with Rig(**FEW) as rig:
        rig.run(rig.start_session())

        async def run() -> TurnResult:
            rig.pool.delay_s = lambda order: 1.0 if order.wo_type == "synthesize" else 0.0
            async with asyncio.TaskGroup() as group:
                running = group.create_task(rig.turn("c", "a long one"))
                await rig.host.sleep(0.5)
                await rig.command(Cancel())
            rig.pool.delay_s = lambda _: 0.0
            return running.result()

        cancelled = rig.run(run())
        assert cancelled.code == "cancelled" and cancelled.cost.llm_calls
        rig.run(turns(rig, 3))
        assert "c" not in session_of(rig).record.inputs
        assert rig.run(rig.turn("c", "a long one")) == cancelled


def test_old_input_that_only_the_host_answered_is_known() -> None:
    """No RunRequested keeps a second run from it: once such an input was let go, new ones are looked up first."""
    with Rig(**FEW) as rig:
        rig.run(rig.start_session())
        for number in range(4):
            rig.run(rig.write(degraded_entry(f"host{number}", "hello?", f"bare reply {number}")))
        rig.run(turns(rig, 3))
        assert session_of(rig).record.unrequested_forgotten
        sent = len(rig.pool.received)
        result = rig.run(rig.turn("host0", "hello?"))
        assert (result.outcome, result.response) == ("degraded", "bare reply 0")
        with pytest.raises(RuntimeFault) as raised:
            rig.run(rig.turn("host1", "another text"))
        assert raised.value.code == "input_conflict"
        assert len(rig.pool.received) == sent
        assert rig.run(rig.turn("i7", "a new one")).outcome == "success"


def test_ordinary_new_input_asks_the_ledger_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after inputs were let go: no look-up, no read; an old one is looked up once."""
    questions = listening(monkeypatch)
    with Rig(**FEW) as rig:
        rig.run(rig.start_session())
        questions.clear()
        rig.run(turns(rig, 4))
        assert questions.counts("ho2").keys() == {"ledger.write"}
        questions.clear()
        rig.run(turns(rig, 1))
        looked = [request for request, _ in questions.of("ho2") if isinstance(request, Lookup)]
        assert [one.submission_ids for one in looked if one.submission_ids][-1] == [f"RunRequested:{SESSION}/i0"]


async def command(rig: Rig, command_id: str) -> CommandVerdict:
    """An operator's Pause; rejected without a run."""
    given = HostCommand(command_id=command_id, issued_at="2026-01-01T00:00:00.000000Z", command=Pause())
    return await rig.ask(SessionCommand(session_id=SESSION, command=given), CommandVerdict)


def test_old_command_is_acknowledged_again_and_applied_once() -> None:
    """Rejected or applied, its verdict is the recorded one; a run that is active goes on undisturbed."""
    with Rig(**FEW) as rig:
        rig.run(rig.start_session())
        first = [rig.run(command(rig, f"c{number}")) for number in range(3)]
        assert {verdict.outcome for verdict in first} == {"rejected"}
        rig.pool.delay_s = lambda _: 1.0

        async def run() -> CommandVerdict:
            async with asyncio.TaskGroup() as group:
                running = group.create_task(rig.turn("i9", "a long one"))
                await rig.host.sleep(0.5)
                again = await command(rig, "c0")
            assert running.result().outcome == "success"
            return again

        again = rig.run(run())
        assert (again.outcome, again.reason, again.is_repeat) == ("rejected", first[0].reason, True)
        assert names(rig.run(rig.entries())).count("HostCommandReceived") == 3
