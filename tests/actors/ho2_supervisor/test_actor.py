"""Sessions and admission: what a supervisor answers to a host."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.intake import AdmissionQueue
from hobus.bus import limits as bus_limits
from hobus.bus.codec import unpack_header
from hobus.bus.errors import BusError, LedgerError, RuntimeFault, SessionFault
from hobus.bus.messages.base import Message
from hobus.bus.messages.ids import derive_turn_key
from hobus.bus.messages.ledger import Ack
from hobus.bus.messages.session import (
    EndSession,
    Pause,
    ReadSession,
    Resume,
    SessionClosed,
    SessionConfig,
    SessionView,
    StartSession,
    TurnReply,
    TurnRequest,
    TurnResult,
)
from hobus.bus.messages.streams import StreamWaiting
from hobus.bus.messages.work_order import WorkOrder, WorkOrderError
from hobus.bus.port import Bus
from hobus.bus.record.journal import read_event, unpack_result
from hobus.bus.record.session_facts import SessionEnded
from tests.actors.ho2_supervisor.rig import (
    SESSION,
    Answer,
    Rig,
    classified,
    degraded_entry,
    question_and_answer,
    text_of,
)
from tests.rig import names


async def refusal(turn: Any) -> SessionFault:
    """The verdict that a request gets."""
    with pytest.raises(SessionFault) as caught:
        await turn
    return caught.value


def slow(seconds: float) -> Any:
    """A delay for the orders that write the answer."""
    return lambda order: seconds if order.wo_type == "synthesize" else 0.0


def test_session_starts_once_and_is_found_again() -> None:
    """StartSession is idempotent by id: the second one gives the same session and records nothing."""
    with Rig() as rig:
        assert rig.run(rig.start_session()).is_new
        again = rig.run(rig.start_session(session_config=SessionConfig(model="other")))
        assert (again.is_new, again.agent_id) == (False, "ADMIN")
        assert names(rig.run(rig.entries())) == ["TookOver", "SESSION_START"]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (SessionConfig(provider="nobody"), "PROVIDER_NOT_FOUND: no provider 'nobody' (named by the session) is configured"),
        (SessionConfig(model="none"), "MODEL_NOT_FOUND: provider offline has no model 'none' (named by the session); "),
        (SessionConfig(model=" "), "invalid_input: provider or model is blank"),
        (SessionConfig(provider_profile_id="none"), "invalid_input: session_config.provider_profile_id: there is no pr"),
        (SessionConfig(output_schema={"type": "array"}), "invalid_input: output_schema does not describe an object"),
    ],
)  # fmt: skip
def test_settings_that_no_turn_could_have_begin_no_session(wanted: SessionConfig, said: str) -> None:
    """Named at once, with what there is."""
    with Rig() as rig:
        with pytest.raises(SessionFault) as refused:
            rig.run(rig.start_session(session_config=wanted))
        assert str(refused.value).startswith(said)
        assert rig.run(rig.entries()) == []


def test_new_session_is_taken_over_and_started_in_one_write() -> None:
    """The two first entries share a message and a barrier; what was not wished for is not pinned into it."""
    with Rig() as rig:
        rig.run(rig.start_session(session_config=SessionConfig(max_tokens=7)))
        session = rig.supervisors[0]._registry.held(SESSION)
        assert session is not None
        assert session.barriers == 1
        config = session.record.state.session_config
        assert (config.provider, config.model, config.max_tokens) == (None, None, 7)


def test_two_starts_at_once_make_one_session() -> None:
    """Simultaneous StartSessions of one id: exactly one is told that it is new."""
    with Rig() as rig:

        async def run() -> list[bool]:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(rig.start_session()) for _ in range(3)]
            return [task.result().is_new for task in tasks]

        assert sorted(rig.run(run())) == [False, False, True]
        assert names(rig.run(rig.entries())) == ["TookOver", "SESSION_START"]


def test_unknown_agent_is_refused() -> None:
    """A session under an agent that is not configured never starts."""
    with Rig() as rig:
        assert rig.run(refusal(rig.start_session(agent_id="NOBODY"))).code == "invalid_input"
        assert rig.run(rig.entries()) == []


def test_a_turn_that_brings_its_start_begins_its_session_with_its_run() -> None:
    """Both stand in one write; asked again, also by another start, it is the answer of the same session."""
    with Rig() as rig:
        start = StartSession(session_id=SESSION, session_config=SessionConfig(max_tokens=7))
        first = rig.run(rig.turn("i1", "hello", start=start))
        again = rig.run(rig.turn("i1", "hello", start=StartSession(session_id=SESSION)))
        assert first.outcome == "success" and again.run_id == first.run_id
        assert names(rig.run(rig.entries()))[:3] == ["TookOver", "SESSION_START", "RunRequested"]
        session = rig.supervisors[0]._registry.held(SESSION)
        assert session is not None
        assert session.record.state.session_config.max_tokens == 7


@pytest.mark.parametrize(
    "start",
    [
        StartSession(session_id=SESSION, agent_id="NOBODY"),
        StartSession(session_id=SESSION, session_config=SessionConfig(model="no-such-model")),
    ],
)
def test_a_start_that_is_refused_begins_neither_session_nor_run(start: StartSession) -> None:
    """As where the start comes alone; nothing is recorded."""
    with Rig() as rig:
        assert rig.run(refusal(rig.turn("i1", "hello", start=start))).code in ("invalid_input", "MODEL_NOT_FOUND")
        assert rig.run(rig.entries()) == []


def test_a_first_turn_for_which_there_is_no_room_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is refused costs the record nothing: under load most are."""

    def refuse(*_: object) -> None:
        raise BusError("busy", "as many as may wait do")

    with Rig() as rig:
        asked: list[str] = []
        rig.world.network.on_delivery = lambda _s, _t, header, _b, _c: asked.append(unpack_header(header).type)
        monkeypatch.setattr(AdmissionQueue, "require_room", refuse)
        with pytest.raises(BusError, match="busy"):
            rig.run(rig.turn("i1", "hello", start=StartSession(session_id=SESSION)))
        assert not {"ledger.read", "ledger.lookup"} & set(asked)


def test_turn_of_a_session_that_was_never_started_is_not_found() -> None:
    """Nothing is recorded for a session that does not exist, and nothing stays in memory."""
    with Rig() as rig:
        with pytest.raises(RuntimeFault) as caught:
            rig.run(rig.turn("i1", "hello"))
        assert caught.value.code == "not_found"
        assert rig.run(rig.entries()) == []
        assert rig.supervisors[0].counters()["sessions"] == 0


def test_several_requesters_of_one_input_get_the_same_answer() -> None:
    """An input in progress is attached to: one run, one chain of orders, the same result for all."""
    with Rig() as rig:
        rig.pool.delay_s = slow(1.0)

        async def run() -> list[TurnResult]:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(rig.turn("i1", "hello")) for _ in range(3)]
            return [task.result() for task in tasks]

        first, *others = rig.run(run())
        assert others == [first, first]
        assert len(rig.pool.received) == 2
        assert names(rig.run(rig.entries())).count("RunCompleted") == 1


def test_attached_request_moves_the_deadline() -> None:
    """A run that would have timed out for its first requester is finished for the second one."""
    with Rig() as rig:
        rig.pool.delay_s = slow(4.0)

        async def patient() -> TurnResult:
            await rig.host.sleep(1.0)
            return await rig.turn("i1", "hello", timeout_s=20.0)

        async def run() -> tuple[BaseException | TurnResult, ...]:
            await rig.start_session()
            return tuple(
                await asyncio.gather(rig.turn("i1", "hello", timeout_s=2.0), patient(), return_exceptions=True)
            )

        hasty, answer = rig.run(run())
        assert isinstance(hasty, BusError)
        assert hasty.code == "expired"
        assert isinstance(answer, TurnResult)
        assert answer.response == "answer to hello"
        assert names(rig.run(rig.entries())).count("RunAttached") == 1


def test_request_that_goes_away_does_not_end_the_run() -> None:
    """A cancelled requester is not the run's owner: the answer is recorded, and the next request gets it."""
    with Rig() as rig:
        rig.pool.delay_s = slow(1.0)

        async def run() -> TurnResult:
            await rig.start_session()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await rig.turn("i1", "hello")
            return await rig.turn("i1", "hello")

        assert rig.run(run()).response == "answer to hello"
        assert len(rig.pool.received) == 2


def test_answered_input_gives_its_recorded_result() -> None:
    """A retry after the answer executes nothing and gets the very same result."""
    with Rig() as rig:
        rig.run(rig.start_session())
        first = rig.run(rig.turn("i1", "hello"))
        assert rig.run(rig.turn("i1", "hello")) == first
        assert len(rig.pool.received) == 2


def test_known_input_with_another_text_is_a_conflict() -> None:
    """An input id stands for one text, while its run lasts and afterwards."""
    with Rig() as rig:
        rig.pool.delay_s = slow(1.0)

        async def run() -> list[str]:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                first = group.create_task(rig.turn("i1", "hello"))
                await rig.host.sleep(0.5)
                during = await refusal(rig.turn("i1", "other"))
            assert first.result().outcome == "success"
            return [during.code, (await refusal(rig.turn("i1", "other"))).code]

        assert rig.run(run()) == ["input_conflict", "input_conflict"]


def test_another_input_while_a_run_is_active_is_refused() -> None:
    """One run at a time; the refusal comes at once and changes nothing for the run."""
    with Rig() as rig:
        rig.pool.delay_s = slow(1.0)

        async def run() -> tuple[str, str]:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                first = group.create_task(rig.turn("i1", "hello"))
                await rig.host.sleep(0.5)
                verdict = await refusal(rig.turn("i2", "and this"))
            return verdict.code, first.result().response

        assert rig.run(run()) == ("run_active", "answer to hello")
        assert rig.run(rig.turn("i2", "and this")).response == "answer to and this"


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_blank_input_is_refused(text: str) -> None:
    """A turn needs text; nothing is recorded for one without."""
    with Rig() as rig:
        rig.run(rig.start_session())
        assert rig.run(refusal(rig.turn("i1", text))).code == "invalid_input"
        assert "RunRequested" not in names(rig.run(rig.entries()))


def test_blank_model_is_refused() -> None:
    """An override may name another model, not none."""
    with Rig(("gateway.providers.offline.any_model", True)) as rig:
        rig.run(rig.start_session())
        fault = rig.run(refusal(rig.turn("i1", "hello", run_overrides=SessionConfig(model=" "))))
        assert fault.code == "invalid_input"
        answered = rig.run(rig.turn("i2", "hello", run_overrides=SessionConfig(model="big")))
        assert answered.outcome == "success"
        assert rig.pool.orders[-1].constraints.model_id == "big"


OTHERS = [SESSION.replace("1", digit) for digit in "56789"]


async def one_at_work(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> tuple[int, asyncio.Future[TurnReply]]:
    """All these sessions; a turn of the first of them, and the ledger is behind: one run begins for one that ends.

    How many orders there were; the turn.
    """
    for session_id in (SESSION, *OTHERS):
        await rig.start_session(session_id)
        await rig.turn("i0", "hello", session_id=session_id)
    before = len(rig.pool.orders)
    rig.pool.delay_s = lambda _: 0.9
    first = asyncio.ensure_future(rig.asked("i1", "hello", session_id=OTHERS[0]))
    while len(rig.pool.received) == before:
        await rig.host.sleep(0.01)
    monkeypatch.setattr(limits, "UNWRITTEN_MAX", -1)
    monkeypatch.setattr(limits, "BEGUN_FOR_ENDED", 1.0)
    monkeypatch.setattr(limits, "RATE_KNOWN_AFTER_S", 0.1)
    return before, first


@pytest.mark.slow
def test_waiting_for_a_model_keeps_no_run_from_beginning() -> None:
    """Three hundred of one person at once, a model of five seconds: all are answered as one alone is."""
    with Rig() as rig:
        rig.pool.delay_s = slow(5.0)
        sessions = [f"{number:08d}{SESSION[8:]}" for number in range(300)]

        async def run() -> float:
            for session_id in sessions:
                await rig.start_session(session_id)
            began = asyncio.get_running_loop().time()
            async with asyncio.TaskGroup() as group:
                for session_id in sessions:
                    group.create_task(rig.turn("i1", "hello", session_id=session_id))
            return asyncio.get_running_loop().time() - began

        assert rig.run(run()) < 5.5


def test_where_the_ledger_is_behind_runs_wait_and_another_persons_begins_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that waits is recorded, can be cancelled, and begins when another one ends; an attach waits for nothing."""
    monkeypatch.setattr(bus_limits, "SERVICE_WEIGHT", 1)
    with Rig() as rig:
        other_host = rig.world.client("host")

        async def run() -> None:
            before, first = await one_at_work(rig, monkeypatch)
            loop = asyncio.get_running_loop()
            ended: dict[str, float] = {}

            async def turn(session_id: str, host: Bus) -> None:
                wanted = TurnRequest(session_id=session_id, input_id="i1", text="hello")
                await host.request("ho2", wanted, expect=TurnReply, timeout_s=60, key=session_id)
                ended[session_id] = loop.time()

            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(turn(session_id, rig.host)) for session_id in OTHERS[:4]]
                await rig.host.sleep(0.1)
                group.create_task(turn(OTHERS[4], other_host))
                await rig.host.sleep(0.1)
                waits = OTHERS[2]
                assert len(rig.pool.received) == before + 1  # of all of these one has begun
                view = await rig.ask(ReadSession(session_id=waits), SessionView)
                assert view.run is not None
                await rig.ask(EndSession(session_id=waits, reason="done"), SessionClosed)
                await tasks[2]
                assert ended[waits] < loop.time() + 0.1
            await first
            assert sorted(ended, key=ended.__getitem__) == [waits, *(OTHERS[n] for n in (0, 1, 4, 3))]

        rig.run(run())


def test_a_turn_that_would_wait_too_long_is_refused_before_anything_of_it_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Busy, with the time to come back; a session is not started for it either; one that was known is answered."""
    with Rig(("sessions.wait_max_ms", 1)) as rig:

        async def run() -> None:
            before, first = await one_at_work(rig, monkeypatch)
            asks = [asyncio.ensure_future(rig.turn("i1", "hello", session_id=one)) for one in OTHERS[1:3]]
            while len(rig.pool.orders) < before + 3:
                await rig.host.sleep(0.1)  # the second one has begun: how fast that goes is known
            for refused in (rig.turn("i1", "hello", session_id=OTHERS[3]), rig.start_session(OTHERS[0][:-1] + "f")):
                with pytest.raises(BusError) as caught:
                    await refused
                assert (caught.value.code, (caught.value.retry_after_ms or 0) >= 1000) == ("busy", True)
            assert (await rig.turn("i0", "hello")).outcome == "success"
            assert {(await one).outcome for one in asks} == {"success"}
            assert (await first).result is not None
            assert len(rig.pool.orders) == before + 3 * 2

        rig.run(run())


def test_whoever_watches_a_turn_that_waits_to_begin_is_told_so_with_its_place_and_when_it_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a second, its session's first one, too; a turn that begins sooner says nothing of it."""
    with Rig() as rig:

        async def run() -> list[list[Message]]:
            _before, first = await one_at_work(rig, monkeypatch)
            heard: list[list[Message]] = [[], [], []]
            await rig.host.sleep(1.0)
            new = SESSION.replace("1", "a")
            asks: list[asyncio.Future[TurnReply]] = []
            for one, start, said in zip(
                (*OTHERS[1:3], new), (None, None, StartSession(session_id=new)), heard, strict=True
            ):
                wanted = TurnRequest(session_id=one, input_id="i1", text="hello", stream=True, start=start)
                asked = rig.host.request("ho2", wanted, expect=TurnReply, timeout_s=60, key=one, on_stream=said.append)
                asks.append(asyncio.ensure_future(asked))
                await rig.host.sleep(0.01)
            await asyncio.gather(first, *asks)
            return heard

        waits = [
            [(one.waiting, one.place) for one in said if isinstance(one, StreamWaiting)] for said in rig.run(run())
        ]
        assert waits == [[], [("Turn", 1), (None, None)], [("Turn", 1), (None, None)]]


def test_a_run_that_stood_still_goes_on_at_once_whoever_waits_to_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has begun goes before what is new."""
    with Rig() as rig:

        async def run() -> None:
            before, first = await one_at_work(rig, monkeypatch)
            second = asyncio.ensure_future(rig.turn("i1", "hello", session_id=OTHERS[1]))
            await rig.command(Pause(), session_id=OTHERS[0])
            assert (await first).waiting == "Paused"
            await rig.host.sleep(0.1)
            assert len(rig.pool.received) == before + 1
            await rig.command(Resume(), session_id=OTHERS[0])
            resumed = asyncio.ensure_future(rig.turn("i1", "hello", session_id=OTHERS[0]))
            await rig.host.sleep(0.1)
            assert len(rig.pool.received) == before + 2
            assert {(await one).outcome for one in (second, resumed)} == {"success"}

        rig.run(run())


def test_ended_session_takes_no_turn_and_keeps_its_answers() -> None:
    """SESSION_END is recorded once, with the count of turns and what they cost."""
    with Rig() as rig:
        rig.run(rig.start_session())
        first = rig.run(rig.turn("i1", "hello"))
        closed = rig.run(rig.end_session())
        assert (closed.turn_count, closed.total_tokens, closed.cost_usd) == (1, 220, 0.0)
        assert (rig.run(rig.end_session())) == closed
        assert rig.run(refusal(rig.turn("i2", "more"))).code == "session_closed"
        assert rig.run(rig.turn("i1", "hello")) == first
        journal = rig.run(rig.entries())
        assert names(journal)[-1] == "SESSION_END"
        assert names(journal).count("SESSION_END") == 1
        end = read_event(journal[-1]).event
        assert isinstance(end, SessionEnded)
        assert (end.turn_count, end.total_tokens, end.total_cost) == (1, 220, 0.0)
        assert rig.run(rig.view()).status == "closed"


def test_end_of_a_session_cancels_its_run() -> None:
    """Whoever waits for the run is told that it was cancelled; that is the input's one answer."""
    with Rig() as rig:
        rig.pool.delay_s = slow(5.0)

        async def run() -> TurnResult:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                turn = group.create_task(rig.turn("i1", "hello"))
                await rig.host.sleep(0.5)
                await rig.end_session()
            return turn.result()

        result = rig.run(run())
        assert (result.outcome, result.code) == ("error", "cancelled")
        journal = rig.run(rig.entries())
        assert names(journal)[-5:] == ["LifecycleChanged", "OrderEnded", "RunCancelled", "INTENT_CLOSED", "SESSION_END"]
        assert journal[-3].once == derive_turn_key(SESSION, "i1")
        assert rig.run(rig.turn("i1", "hello")).code == "cancelled"
        rig.run(rig.host.sleep(8))
        assert len(rig.run(rig.entries())) == len(journal)


@pytest.mark.parametrize("is_held", [True, False])
def test_end_of_a_session_cancels_a_run_that_was_only_just_requested(is_held: bool) -> None:
    """Between RunRequested and RunStarted a run is ended by the same path: the session closes, the input is answered."""
    with Rig() as rig:
        rig.run(rig.start_session())
        if not is_held:
            rig.world.kill(rig.instances[0])
            rig.supervise()

        async def run() -> TurnResult:
            async with asyncio.TaskGroup() as group:
                turn = group.create_task(rig.turn("i1", "hello", timeout_s=10.0))
                group.create_task(rig.end_session())
            return turn.result()

        assert rig.run(run()).code == "cancelled"
        journal = rig.run(rig.entries())
        ended = ["RunRequested", "LifecycleChanged", "RunCancelled", "SESSION_END"]
        assert names(journal)[-4:] == ended
        view = rig.run(rig.view())
        assert (view.status, view.lifecycle, view.active_input_id) == ("closed", "Idle", None)
        assert rig.run(rig.turn("i1", "hello")).code == "cancelled"
        assert rig.pool.received == []


def test_end_that_the_record_does_not_answer_lets_nobody_wait() -> None:
    """The ledger is away when a session is ended: whoever waits for its run is told so at once, not at its deadline."""
    with Rig(("ledger.outage_wait_ms", 1000)) as rig:
        rig.pool.delay_s = slow(5.0)
        rig.run(rig.start_session())

        async def run() -> tuple[str, str, float]:
            turn = asyncio.ensure_future(rig.turn("i1", "hello", timeout_s=60.0))
            await rig.host.sleep(0.5)
            rig.kill_ledger()
            with pytest.raises(LedgerError) as of_end:
                await rig.end_session()
            with pytest.raises(LedgerError) as of_turn:
                await turn
            return of_end.value.code, of_turn.value.code, rig.host.clock.monotonic()

        before = rig.host.clock.monotonic()
        *codes, after = rig.run(run())
        assert codes == ["unavailable", "unavailable"]
        assert after - before < 3.0


def test_view_shows_the_session_and_reading_takes_nothing_over() -> None:
    """An instance that does not hold the session reads its journal and fences nobody."""
    with Rig() as rig:
        rig.run(rig.start_session())
        rig.run(rig.turn("i1", "hello"))
        view = rig.run(rig.view())
        assert (view.status, view.lifecycle, view.tenure, view.turn_count) == ("open", "Idle", 1, 1)
        rig.world.kill(rig.instances[0])
        rig.supervise()
        assert rig.run(rig.view()) == view
        assert names(rig.run(rig.entries())).count("TookOver") == 1


def test_idle_sessions_are_let_go_and_read_again() -> None:
    """Memory is bounded by sessions_max; a session that was let go goes on where it was."""
    with Rig(sessions_max=2) as rig:
        for digit in "789":
            rig.run(rig.start_session(SESSION.replace("1", digit)))
        assert rig.supervisors[0].counters()["sessions"] == 2
        rig.run(rig.start_session())
        rig.run(rig.turn("i1", "hello"))
        for digit in "789":
            rig.run(rig.start_session(SESSION.replace("1", digit)))
        rig.run(rig.turn("i2", "again"))
        assert text_of(rig.pool.orders[-1], "history").startswith("user: hello")


def test_degraded_answer_ends_the_run_that_was_too_late() -> None:
    """TurnDegraded first: HO2's next append is refused, the run stops, and its requester gets what was delivered."""
    with Rig() as rig:
        rig.pool.delay_s = slow(2.0)

        async def run() -> tuple[TurnResult, list[Ack]]:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                turn = group.create_task(rig.turn("i1", "hello"))
                await rig.host.sleep(0.5)
                acks = await rig.write(degraded_entry("i1", "hello", "bare reply"))
            return turn.result(), acks

        result, acks = rig.run(run())
        assert acks[0].outcome == "committed"
        assert (result.outcome, result.response) == ("degraded", "bare reply")
        assert names(rig.run(rig.entries()))[-1] == "TurnDegraded"
        view = rig.run(rig.view())
        assert (view.lifecycle, view.session_epoch, view.turn_count) == ("Idle", 1, 1)
        assert rig.run(rig.turn("i1", "hello")) == result
        assert rig.run(rig.turn("i2", "next")).outcome == "success"
        assert "assistant: bare reply" in text_of(rig.pool.orders[-1], "history")


def test_completed_answer_refuses_a_degraded_one() -> None:
    """RunCompleted first: the host's TurnDegraded loses and is told which entry holds the answer."""
    with Rig() as rig:
        rig.run(rig.start_session())
        result = rig.run(rig.turn("i1", "hello"))
        (ack,) = rig.run(rig.write(degraded_entry("i1", "hello", "bare reply")))
        assert (ack.outcome, ack.event_type) == ("lost", "RunCompleted")
        entry = rig.run(rig.ledger_client("operator").lookup([ack.submission_id], with_bodies=True))[0]
        assert unpack_result(entry.bodies[1]) == result


def test_what_was_delivered_meanwhile_is_the_answer_to_whoever_asks_again() -> None:
    """The host answered while it reached no ledger, and its record came in behind RunCompleted: nobody hears both."""
    with Rig() as rig:
        rig.run(rig.start_session())
        assert rig.run(rig.turn("i1", "hello")).outcome == "success"
        (ack,) = rig.run(rig.write(degraded_entry("i1", "hello", "bare reply", delivered=True)))
        assert ack.outcome == "committed"
        again = rig.run(rig.turn("i1", "hello"))
        assert (again.outcome, again.response, again.consolidation_candidates) == ("degraded", "bare reply", [])
        rig.run(rig.turn("i2", "next"))
        assert "assistant: bare reply" in text_of(rig.pool.orders[-1], "history")
        assert rig.run(rig.turn("i1", "hello")) == again


@pytest.mark.parametrize(
    "delay_s", [0.0, 0.0001, 0.0003, *(pytest.param(at, marks=pytest.mark.slow) for at in (0.0002, 0.0004, 0.0005))]
)
def test_an_answer_is_read_again_when_the_ledger_stops_in_the_middle(delay_s) -> None:
    """Its disk failed with the question under way: its successor is asked, and the client hears the answer, not of it."""
    with Rig() as rig:
        rig.run(rig.start_session())
        first = rig.run(rig.turn("i1", "hello"))

        async def story() -> TurnResult:
            again = asyncio.ensure_future(rig.turn("i1", "hello"))
            await asyncio.sleep(delay_s)
            rig.world.disk("ledger").medium.failing_syncs = 1
            stopping = asyncio.ensure_future(rig.write(degraded_entry("i9", "hello", "bare reply")))
            await asyncio.sleep(0.3)
            rig.kill_ledger()
            rig.start_ledger()
            await stopping
            return await again

        assert rig.run(story()) == first


def test_turn_after_a_failed_and_degraded_one_goes_on() -> None:
    """The host's entry moved the head while the session was idle: the next turn reads it and runs, in the same tenure."""

    def script(order: WorkOrder) -> Answer:
        if text_of(order, "user_input") == "bad" and order.wo_type == "synthesize":
            return RuntimeFault("internal", "broken")
        return question_and_answer(order)

    with Rig(script=script) as rig:
        rig.run(rig.start_session())
        with pytest.raises(BusError):
            rig.run(rig.turn("i1", "bad"))
        rig.run(rig.write(degraded_entry("i1", "bad", "bare reply")))
        assert rig.run(rig.turn("i2", "good")).response == "answer to good"
        assert "user: bad\nassistant: bare reply" in text_of(rig.pool.orders[-1], "history")
        assert names(rig.run(rig.entries())).count("TookOver") == 1
        assert rig.run(rig.turn("i1", "bad")).response == "bare reply"


def test_session_may_start_after_its_first_answer_was_degraded() -> None:
    """TurnDegraded first in the stream; SESSION_START follows, and the answered input keeps its answer and its text."""
    with Rig() as rig:
        rig.run(rig.write(degraded_entry("i1", "hello", "bare reply")))
        assert rig.run(rig.start_session()).is_new
        assert names(rig.run(rig.entries())) == ["TurnDegraded", "TookOver", "SESSION_START"]
        assert rig.run(rig.turn("i1", "hello")).response == "bare reply"
        assert rig.run(refusal(rig.turn("i1", "other"))).code == "input_conflict"
        rig.run(rig.turn("i2", "next"))
        assert text_of(rig.pool.orders[-1], "history") == "user: hello\nassistant: bare reply\n"


def test_session_that_only_the_host_answered_is_started_by_its_next_turn() -> None:
    """A client whose very first turn was degraded goes on under its session id, and HO2 serves it from then on."""
    with Rig() as rig:
        rig.run(rig.write(degraded_entry("i1", "hello", "bare reply")))
        result = rig.run(rig.turn("i2", "next"))
        assert (result.outcome, result.response) == ("success", "answer to next")
        assert names(rig.run(rig.entries()))[:3] == ["TurnDegraded", "TookOver", "SESSION_START"]
        assert rig.run(rig.view()).agent_id == "ADMIN"
        assert "bare reply" in text_of(rig.pool.orders[-1], "history")


def test_degraded_answer_to_another_input_lets_the_run_go_on() -> None:
    """A head that moved is not a new owner: the same tenure reads the tail and drives its run on, no order twice."""
    with Rig() as rig:
        rig.pool.delay_s = slow(2.0)

        async def run() -> TurnResult:
            await rig.start_session()
            async with asyncio.TaskGroup() as group:
                turn = group.create_task(rig.turn("i1", "hello"))
                await rig.host.sleep(0.5)
                await rig.write(degraded_entry("i0", "earlier", "bare reply"))
            return turn.result()

        assert rig.run(run()).response == "answer to hello"
        assert len(rig.pool.executed) == 2
        assert names(rig.run(rig.entries())).count("TookOver") == 1


def test_classified_first_message_always_declares_something_new() -> None:
    """Whatever the model says of the first message, its action is `new`; later messages keep what was said."""
    parsed = {"speech_act": "question", "ambiguity": "low", "intent_signal": {"action": "continue"}}
    with Rig(script=lambda order: classified(parsed) if order.wo_type == "classify" else "done") as rig:
        rig.run(rig.start_session())
        for input_id in ("i1", "i2"):
            rig.run(rig.turn(input_id, "hello"))
        intents = [name for name in names(rig.run(rig.entries())) if name.startswith("INTENT_")]
        assert intents == ["INTENT_DECLARED"]


def test_answer_on_its_way_at_the_deadline_is_the_answer() -> None:
    """RunCompleted was submitted when the deadline passed: it decides, no RunFailed follows, and the requester gets it."""
    with Rig() as rig:
        rig.run(rig.start_session())
        session = rig.supervisors[0]._registry.held(SESSION)
        assert session is not None
        inner, delays = session.barrier, [5.0]

        async def late() -> None:
            if session.record.run is None and delays:
                session.flush()
                await rig.host.sleep(delays.pop())
            await inner()

        session.barrier = late  # type: ignore[method-assign] - holds the last barrier up until the deadline has passed
        result = rig.run(rig.turn("i1", "hello", timeout_s=3.0))
        assert result.response == "answer to hello"
        assert delays == []
        assert names(rig.run(rig.entries()))[-1] == "RunCompleted"


def test_order_that_a_stopping_worker_cancelled_is_a_failure_and_no_verdict() -> None:
    """`cancelled` of one order must not tell the user that the turn was cancelled: the host degrades."""

    def script(order: WorkOrder) -> Answer:
        cancelled = WorkOrderError(code="cancelled", message="drained")
        return classified() if order.wo_type == "classify" else cancelled

    with Rig(script=script) as rig:
        rig.run(rig.start_session())
        with pytest.raises(BusError) as caught:
            rig.run(rig.turn("i1", "hello"))
        assert caught.value.code == "execution_error"


def test_ledger_that_goes_away_stops_the_run_and_loses_nothing() -> None:
    """A barrier waits `ledger.outage_wait_ms`; then the requester is told to ask again, and gets its answer then."""
    with Rig(("ledger.outage_wait_ms", 1000), ("bus.peer_timeout_ms", 400)) as rig:
        rig.pool.delay_s = slow(1.0)
        rig.run(rig.start_session())

        async def cut() -> str:
            turn = asyncio.ensure_future(rig.turn("i1", "hello"))
            await rig.host.sleep(0.5)
            rig.kill_ledger()
            with pytest.raises(LedgerError) as caught:
                await turn
            assert caught.value.retryable
            return caught.value.code

        assert rig.run(cut()) == "unavailable"
        rig.start_ledger()
        assert rig.run(rig.turn("i1", "hello")).response == "answer to hello"
        assert len(rig.pool.executed) == 2
        assert names(rig.run(rig.entries())).count("RunCompleted") == 1


def test_supervisor_is_ready_with_the_ledger_alone() -> None:
    """Without its journal no session can be owned: degraded, with the reason; ready again once the ledger is back."""
    with Rig() as rig:
        assert rig.run(rig.supervisors[0].ready()) == ""
        rig.kill_ledger()
        assert rig.run(rig.supervisors[0].ready()).startswith("ledger: ")
        rig.start_ledger()
        rig.run(rig.host.sleep(5))
        assert rig.run(rig.supervisors[0].ready()) == ""


def test_drain_finishes_the_runs_in_progress() -> None:
    """An orderly stop answers what it has begun; nothing is left unacknowledged."""
    with Rig() as rig:
        rig.pool.delay_s = slow(1.0)

        async def run() -> TurnResult:
            await rig.start_session()
            turn = asyncio.ensure_future(rig.turn("i1", "hello"))
            await rig.host.sleep(0.5)
            await rig.supervisors[0].drain()
            counters = rig.supervisors[0].counters()
            assert (counters["runs"], counters["sessions"], counters["unacknowledged"]) == (0, 1, 0)
            return await turn

        assert rig.run(run()).outcome == "success"
