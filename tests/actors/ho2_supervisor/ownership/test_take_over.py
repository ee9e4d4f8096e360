"""Crashes, take-overs and two owners: one answer, no ended order sent again, the same bytes at every replay."""

from __future__ import annotations

import asyncio
import gc
from functools import cache
from typing import Any
from uuid import UUID

import pytest

from hobus.actors.ho2_supervisor.session.record import SessionRecord
from hobus.actors.ho2_supervisor.session.state import hash_state
from hobus.actors.ho2_supervisor.turn.turn import compute_history_limits
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.base import canonical_bytes, pack
from hobus.bus.messages.ledger import Entry, WriteEntry, name_session_stream
from hobus.bus.messages.session import SessionReady, StartSession, TurnReply, TurnRequest, TurnResult
from hobus.bus.messages.work_order import OutputResult, Segment, WorkOrder
from hobus.bus.record.journal import read_event, read_recorded
from tests.actors.ho2_supervisor.rig import SESSION, Answer, Rig, degraded_entry, one_tool, snapshot, text_of
from tests.rig import names

pytestmark = pytest.mark.slow

QUESTION = "what packages are installed?"


def turn_with_tools() -> list[Entry]:
    """The journal of a turn with a tool round."""
    with Rig(script=one_tool) as rig:
        rig.run(rig.start_session())
        rig.run(rig.turn("i1", QUESTION, timeout_s=5.0))
        return rig.run(rig.entries())


recorded_turn = cache(turn_with_tools)
"""Played once for all who only read it."""


def moved_to(session_id: str, entry: Entry) -> WriteEntry:
    """The same entry as it would stand in another session's journal (ids have one length, so bytes keep their shape)."""

    def moved(text: str) -> str:
        return text.replace(SESSION, session_id)

    return WriteEntry(
        submission_id=moved(entry.submission_id),
        stream=moved(entry.stream),
        event_type=entry.event_type,
        provenance=entry.provenance,
        at_us=entry.at_us,
        bodies=[(body or b"").replace(SESSION.encode(), session_id.encode()) for body in entry.bodies],
        prev=None if entry.prev is None else moved(entry.prev),
        tenure=entry.tenure,
        once=None if entry.once is None else moved(entry.once),
    )


def record_of(entries: list[Entry], session_id: str = SESSION) -> SessionRecord:
    """The fold of a journal."""
    record = SessionRecord(session_id, compute_history_limits(snapshot().config))
    for entry in entries:
        if (taken := read_recorded(entry)) is not None:
            record.take(taken)
    return record


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_successor_finishes_a_turn_from_every_prefix_of_its_journal(stride: int) -> None:
    """Whatever the dead owner had recorded: one answer, the same one; ended orders are not sent, no order runs twice."""
    journal = recorded_turn()
    assert len(journal) > 15
    with Rig(script=one_tool) as rig:
        for length in sorted({*range(2, len(journal), stride), len(journal)}):
            session_id = str(UUID(int=length))
            prefix = [moved_to(session_id, entry) for entry in journal[:length]]
            rig.run(rig.write(*prefix))
            sent_before = len(rig.pool.received)

            request = TurnRequest(session_id=session_id, input_id="i1", text=QUESTION)
            result = rig.run(rig.ask(request, TurnReply)).result

            assert result is not None, length
            assert result.response.startswith("from tools: result of list_packages, result of list_tools"), length
            assert [call.status for call in result.tool_calls] == ["Succeeded"] * 3, length
            assert (result.cost.llm_calls, result.cost.tool_calls) == (3, 3), length
            ended = {e.submission_id.split(":", 1)[1] for e in prefix if e.event_type == "OrderEnded"}
            sent = [message.order.wo_id for message in rig.pool.received[sent_before:]]
            assert not ended & set(sent), length
            assert len(set(sent)) == len(sent), length
            after = rig.run(rig.entries(name_session_stream(session_id)))
            assert names(after).count("RunCompleted") == 1, length
            assert names(after).count("RunRequested") == 1, length
            assert names(after).count("TookOver") == 2, length
            dispatched = [e.submission_id for e in after if e.event_type == "WO_DISPATCHED"]
            assert len(dispatched) == len(set(dispatched)) == 6, length


@pytest.mark.parametrize("length", [4, 5])
def test_successor_that_does_not_classify_goes_on_with_a_turn_that_was_classified(length: int) -> None:
    """Round 1 is what the journal has of it, dispatched or ended, whatever the successor's configuration says."""
    journal = recorded_turn()
    assert journal[3].event_type == "WO_DISPATCHED"
    with Rig(("ho2.classify", False), script=one_tool) as rig:
        session_id = str(UUID(int=1))
        rig.run(rig.write(*(moved_to(session_id, entry) for entry in journal[:length])))
        result = rig.run(rig.ask(TurnRequest(session_id=session_id, input_id="i1", text=QUESTION), TurnReply)).result
        assert result.response.startswith("from tools: result of list_packages")
        assert result.cost.llm_calls == 3


def never_recorded(order: WorkOrder) -> Answer:
    """An answer that was passed on while the ledger was away, by a gateway that died before it was back."""
    said = one_tool(order)
    if order.wo_type != "synthesize" or not isinstance(said, str):
        return said
    return OutputResult(text=Segment(ref=f"PROMPT_RECEIVED:{order.wo_id}/1/1", text=f"said by {order.wo_id[-5:]}"))


def test_successor_goes_on_with_a_turn_that_shows_a_reply_of_no_record() -> None:
    """Its order names the lost record; the text is in the result of the turn before, which is the same text."""
    with Rig(script=never_recorded) as rig:
        rig.run(rig.start_session())
        rig.run(rig.turn("i1", QUESTION))
        rig.run(rig.turn("i2", "second question"))
        sent = next(order for order in rig.pool.orders if order.wo_id.endswith("-2.2.1"))
        assert "said by" in text_of(sent, "history")
        journal = rig.run(rig.entries())
        length = 1 + next(n for n, entry in enumerate(journal) if entry.submission_id == f"WO_DISPATCHED:{sent.wo_id}")
        session_id = str(UUID(int=1))
        rig.run(rig.write(*(moved_to(session_id, entry) for entry in journal[:length])))
        request = TurnRequest(session_id=session_id, input_id="i2", text="second question")
        assert rig.run(rig.ask(request, TurnReply)).result.outcome == "success"
        again = next(order for order in rig.pool.orders if order.wo_id == sent.wo_id.replace(SESSION, session_id))
        assert text_of(again, "history") == text_of(sent, "history")


def test_reply_of_no_record_is_in_the_history_of_who_loads_a_snapshot() -> None:
    """A snapshot has no texts; where none stands behind a reply's ref, the turn's result has it."""
    with Rig(script=never_recorded, snapshot_entries=12) as rig:
        rig.run(rig.start_session())
        rig.run(rig.turn("i1", QUESTION))
        rig.run(rig.host.sleep(1))
        assert "STATE_SNAPSHOT" in names(rig.run(rig.entries()))
        rig.world.kill(rig.instances[0])
        rig.supervise()
        rig.run(rig.world.settled())
        assert rig.run(rig.turn("i2", "second question")).outcome == "success"
        shown = next(order for order in rig.pool.orders if order.wo_id.endswith("-2.2.1"))
        assert "assistant: said by" in text_of(shown, "history")


def test_history_that_is_named_by_one_ref_is_expanded_to_the_same_bytes() -> None:
    """A successor sends the second turn's order again as it was sent first, its history read part by part."""
    with Rig() as rig:
        rig.run(rig.start_session())
        rig.run(rig.turn("i1", "first question"))
        rig.run(rig.turn("i2", "second question"))
        sent = rig.pool.orders[-1]
        journal = rig.run(rig.entries())
        length = max(number for number, entry in enumerate(journal) if entry.event_type == "WO_DISPATCHED") + 1
        session_id = str(UUID(int=1))
        rig.run(rig.write(*(moved_to(session_id, entry) for entry in journal[:length])))
        rig.run(rig.ask(TurnRequest(session_id=session_id, input_id="i2", text="second question"), TurnReply))
        again = rig.pool.orders[-1]
        assert "first question" in text_of(again, "history")
        assert pack(again.model_dump()) == pack(sent.model_dump()).replace(SESSION.encode(), session_id.encode())


def test_output_that_stands_in_its_executors_end_alone_is_brought_by_the_journal() -> None:
    """Its end may never commit; the journal's copy is what later prompts and a successor go by."""

    def script(order: WorkOrder) -> Answer:
        if order.wo_type != "tool_call":
            return one_tool(order)
        return OutputResult(text=Segment(text="found", ref=f"WO_COMPLETED:{order.wo_id}/ho1/1@s1/1"))

    with Rig(script=script) as rig:
        rig.run(rig.start_session())
        assert rig.run(rig.turn("i1", QUESTION)).response == "from tools: found, found, found"
        ended = [e for e in rig.run(rig.entries()) if e.event_type == "OrderEnded" and len(e.bodies) > 1]
        assert [entry.bodies[1] for entry in ended] == [b"found"] * 3
        shown = rig.pool.orders[-1].exchanges[0].results
        assert [segment.ref for segment in shown] == [f"{entry.submission_id}/1" for entry in ended]


def test_order_is_sent_again_with_the_same_bytes_under_the_next_attempt() -> None:
    """The recorded form, expanded, is the order as it was sent first; only the attempt beside it grows."""
    with Rig(script=one_tool) as rig:
        rig.supervise()

        def script(order: WorkOrder) -> Answer:
            if order.exchanges and rig.instances[0] in rig.world.processes:
                rig.world.kill(rig.instances[0])  # dies with the last order on its way
            return one_tool(order)

        rig.pool.script = script
        rig.pool.delay_s = lambda order: 1.0 if order.exchanges else 0.0
        rig.run(rig.start_session())
        if rig.supervisors[0].counters()["sessions"] == 0:
            rig.instances.reverse()
        result = rig.run(rig.turn("i1", QUESTION))
        assert result.outcome == "success"
        last = [message for message in rig.pool.received if message.order.exchanges]
        assert [message.attempt for message in last] in ([1], [1, 3])
        assert len({pack(message.order.model_dump()) for message in last}) == 1


@pytest.mark.parametrize(
    ("number", "is_answered"),
    [
        *((number, is_answered) for number in (1, 2, 6) for is_answered in (False, True)),
        (4, False), (5, True),  # of the three calls of one batch one on its way, and the last one
        *(pytest.param(*of_batch, marks=pytest.mark.slow) for of_batch in ((3, False), (3, True), (4, True), (5, False))),
    ],
)  # fmt: skip
def test_killed_owner_is_succeeded_in_the_middle_of_a_turn(number: int, is_answered: bool) -> None:
    """Killed while its n-th order is on its way, or just answered: the waiting host gets the one answer all the same."""
    with Rig(script=one_tool) as rig:
        rig.supervise()
        seen: list[str] = []

        def script(order: WorkOrder) -> Answer:
            if order.wo_id not in seen:
                seen.append(order.wo_id)
                if len(seen) == number:
                    owner = rig.instances[0] if rig.supervisors[0].counters()["runs"] else rig.instances[1]
                    delay_s = 0.0002 if is_answered else 0.0
                    rig.world.loop.call_later(delay_s, lambda: rig.world.kill(owner))
            return one_tool(order)

        rig.pool.script = script
        rig.run(rig.start_session())
        result = rig.run(rig.turn("i1", QUESTION))
        assert result.outcome == "success"
        assert result.response == "from tools: result of list_packages, result of list_tools, result of list_packages"
        journal = rig.run(rig.entries())
        assert names(journal).count("RunCompleted") == 1
        assert names(journal).count("TookOver") == 2
        assert len(rig.pool.executed) == len(set(rig.pool.executed)) == 6


@pytest.mark.parametrize("wo_type", ["classify", "tool_call", "synthesize"])
def test_fenced_owner_appends_nothing_any_more(wo_type: str) -> None:
    """An owner of whom another took over: its appends are refused, and it gives no answer of its own."""
    with Rig(script=one_tool) as rig:
        rig.supervise()
        rig.pool.delay_s = lambda order: 2.0 if order.wo_type == wo_type else 0.0

        async def run() -> tuple[Any, TurnResult]:
            await rig.start_session()
            first, second = rig.instances
            if rig.supervisors[1].counters()["sessions"]:
                first, second = second, first
            async with asyncio.TaskGroup() as group:
                old = group.create_task(outcome_of(rig.turn("i1", QUESTION, to=first)))
                await rig.host.sleep(0.5)
                new = group.create_task(rig.turn("i1", QUESTION, to=second))
            return old.result(), new.result()

        old, new = rig.run(run())
        assert new.outcome == "success"
        assert isinstance(old, RuntimeFault)
        assert old.code in ("moved", "deadline_exceeded")  # fenced, or its order's reply went to the successor
        journal = rig.run(rig.entries())
        assert names(journal).count("RunCompleted") == 1
        assert names(journal).count("TookOver") == 2
        first_of_new = names(journal).index("TookOver", 1)
        assert {entry.tenure for entry in journal[first_of_new:]} == {2}
        ids = [message.order.wo_id for message in rig.pool.received if message.attempt == 1]
        assert len(ids) == len(set(ids)) == 6


async def outcome_of(turn: Any) -> TurnResult | RuntimeFault:
    """A result, or the fault instead."""
    try:
        return await turn
    except RuntimeFault as fault:
        return fault


def test_two_supervisors_never_answer_one_input_twice() -> None:
    """Both are asked at once, again and again: every requester that gets an answer gets the same one."""
    with Rig(script=one_tool) as rig:
        rig.supervise()
        rig.pool.delay_s = lambda _: 0.3

        async def run() -> list[TurnResult | RuntimeFault]:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(outcome_of(rig.turn("i1", QUESTION, to=instance)))
                    for _ in range(2)
                    for instance in rig.instances
                ]
            return [task.result() for task in tasks]

        results = rig.run(run())
        answers = {canonical_bytes(result) for result in results if isinstance(result, TurnResult)}
        assert len(answers) == 1
        assert all(fault.retryable for fault in results if isinstance(fault, RuntimeFault))
        assert names(rig.run(rig.entries())).count("RunCompleted") == 1
        assert len(rig.pool.executed) == len(set(rig.pool.executed)) == 6


@pytest.mark.parametrize(
    "moment_s",
    [pytest.param(n * 0.0004, marks=() if n in (0, 1, 4, 7) else pytest.mark.slow) for n in range(8)],
)
def test_of_two_that_take_over_at_once_one_owns_the_session(moment_s: float) -> None:
    """Both start it, claim the same tenure and are asked: whoever lost says moved, and nothing of it is recorded."""
    with Rig(script=one_tool) as rig:
        rig.supervise()
        rig.pool.delay_s = lambda _: 0.3

        async def asked(instance: str, after_s: float) -> TurnResult:
            await rig.host.sleep(after_s)
            start = rig.host.request(
                instance, StartSession(session_id=SESSION), expect=SessionReady, timeout_s=5.0, key=SESSION
            )
            async with asyncio.TaskGroup() as group:
                group.create_task(outcome_of(start))
                await rig.host.sleep(0.0005)
                turn = group.create_task(outcome_of(rig.turn("i1", QUESTION, to=instance)))
            return turn.result()

        async def run() -> list[Any]:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(asked(instance, number * moment_s))
                    for number, instance in enumerate(rig.instances)
                ]
            return [task.result() for task in tasks]

        results = rig.run(run())
        results.append(rig.run(rig.turn("i1", QUESTION)))
        journal = rig.run(rig.entries())
        owner = ""
        for entry in journal:
            owner = entry.origin if entry.event_type == "TookOver" else owner
            assert entry.origin == owner, f"{entry.submission_id} by {entry.origin}, owned by {owner}"
        assert names(journal).count("RunCompleted") == 1
        assert len({canonical_bytes(result) for result in results if isinstance(result, TurnResult)}) == 1
        assert all(fault.retryable for fault in results if isinstance(fault, RuntimeFault))


def test_unfinished_run_past_its_deadline_is_failed_by_the_new_owner() -> None:
    """No session stays Running undriven: loading it journals RunFailed before anything else, and sends nothing."""
    journal = recorded_turn()
    cut = next(n for n, entry in enumerate(journal) if entry.submission_id.endswith("-1.2.2.001"))
    session_id = str(UUID(int=77))
    with Rig(script=one_tool) as rig:
        rig.run(rig.host.sleep(6))
        rig.run(rig.write(*(moved_to(session_id, entry) for entry in journal[:cut])))
        rig.run(rig.start_session(session_id))
        rig.run(rig.host.sleep(1))
        after = rig.run(rig.entries(name_session_stream(session_id)))
        assert names(after)[cut:] == ["TookOver", "RunFailed"]
        assert read_event(after[-1]).event.code == "deadline_exceeded"
        assert rig.pool.received == []
        result = rig.run(rig.turn("i2", QUESTION, session_id=session_id))
        assert result.outcome == "success"


def test_new_owner_drives_an_unfinished_run_without_being_asked_for_it() -> None:
    """Taking a session over for any reason finishes what the old owner began."""
    journal = recorded_turn()
    session_id = str(UUID(int=78))
    with Rig(script=one_tool) as rig:
        rig.run(rig.write(*(moved_to(session_id, entry) for entry in journal[:9])))
        rig.run(rig.start_session(session_id))
        rig.run(rig.host.sleep(1))
        assert names(rig.run(rig.entries(name_session_stream(session_id))))[-1] == "RunCompleted"


def test_successor_never_drives_a_run_that_the_host_has_answered() -> None:
    """TurnDegraded in the journal is the input's answer: the successor gives it and sends no order."""
    with Rig(script=one_tool) as rig:
        rig.supervise()
        rig.pool.delay_s = lambda order: 5.0 if order.wo_type == "synthesize" else 0.0

        async def run() -> TurnResult:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                group.create_task(outcome_of(rig.turn("i1", QUESTION, timeout_s=3.0)))
                await rig.host.sleep(0.5)
                owner = rig.instances[0] if rig.supervisors[0].counters()["runs"] else rig.instances[1]
                rig.world.kill(owner)
                await rig.write(degraded_entry("i1", QUESTION, "bare reply"))
            return await rig.turn("i1", QUESTION)

        result = rig.run(run())
        assert (result.outcome, result.response) == ("degraded", "bare reply")
        assert "RunCompleted" not in names(rig.run(rig.entries()))


def test_replays_of_one_journal_give_the_same_bytes() -> None:
    """The state in the owner's memory, and two folds of what it recorded, are byte-identical, at every prefix of it."""
    with Rig(script=one_tool) as rig:
        rig.run(rig.start_session())
        for number in range(2):
            rig.run(rig.turn(f"i{number}", QUESTION))
        journal = rig.run(rig.entries())
        live = rig.run(rig.view()).state_hash
    hashes, again = hashes_of(journal), hashes_of(journal)
    assert hashes[-1] == live
    assert hashes == again
    assert len(set(hashes)) == len(hashes) == len(journal) + 1


def hashes_of(journal: list[Entry]) -> list[str]:
    """Of the fold of each prefix."""
    record = record_of([])
    hashes = [hash_state(record.state)]
    for entry in journal:
        if (taken := read_recorded(entry)) is not None:
            record.take(taken)
        hashes.append(hash_state(record.state))
    return hashes


def test_replayed_record_knows_inputs_and_history() -> None:
    """What admission and the next prompt rest on comes from the journal alone."""
    with Rig(script=one_tool) as rig:
        rig.run(rig.start_session())
        for number in range(2):
            rig.run(rig.turn(f"i{number}", QUESTION))
        record = record_of(rig.run(rig.entries()))
        session = rig.supervisors[0]._registry.held(SESSION)
        assert session is not None
        assert record.inputs == session.record.inputs
        assert record.history == session.record.history
        assert (record.head, record.appended, record.run) == (session.record.head, session.record.appended, None)


def test_same_turn_twice_gives_the_same_journal() -> None:
    """Determinism: the whole recorded stream, bytes of every body included."""
    left, right = recorded_turn(), turn_with_tools()
    assert [entry.bodies for entry in left] == [entry.bodies for entry in right]
    assert [entry.submission_id for entry in left] == [entry.submission_id for entry in right]


def test_a_held_session_holds_nothing_of_the_task_that_read_it() -> None:
    """Its coroutine, and in its context the request that asked for it, would be held as long as the session."""

    def readings() -> int:
        gc.collect()
        tasks = [one for one in gc.get_objects() if isinstance(one, asyncio.Task)]
        return sum(getattr(task.get_coro(), "__name__", "") == "_load" for task in tasks)

    before = readings()
    with Rig(script=one_tool) as rig:
        rig.run(rig.start_session())
        rig.run(rig.turn("i1", QUESTION, timeout_s=5.0))
        assert readings() == before
