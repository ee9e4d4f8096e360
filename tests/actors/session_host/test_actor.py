"""The thin adapter: HO2's answer, verdicts, degradation, the race decided by the stream, double faults."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from actors.session_host.actor import SessionHost
from bus.dispatch import Actor, Call
from bus.errors import BusError, GatewayError, RuntimeFault, SessionFault, WorkOrderFault, plain_words
from bus.messages.ids import RunId, degraded_call_key, iso, session_id_of
from bus.messages.ledger import Entry, Provenance, Write, WriteEntry, Written, session_stream
from bus.messages.session import (
    Consolidate,
    EndSession,
    ProcessTurn,
    RunCompleted,
    RunFailed,
    RunRequested,
    SessionClosed,
    SessionEvent,
    SessionEventKind,
    SessionReady,
    StartSession,
    TookOver,
    TurnDegraded,
    TurnReply,
    TurnRequest,
    TurnResult,
)
from bus.messages.work_order import Cost
from bus.record.journal import event_in, pack_event, pack_result
from bus.record.payload import pack_payload
from bus.record.payloads.orders import SignalsNamed
from bus.spent import fact_of
from gateway_service.providers.offline import OfflineProvider
from tests.gateway_service.rig import SESSION, Cluster, Scripted, answered, check_attempts, hang, of_type

Act = Callable[[TurnRequest], Awaitable[TurnReply]]


def result_of(message: TurnRequest, **changes: Any) -> TurnResult:
    """HO2's result for a turn."""
    values: dict[str, Any] = {
        "response": "from HO2", "outcome": "success", "session_id": message.session_id, "run_id": None,
        "input_id": message.input_id,
    }  # fmt: skip
    return TurnResult(**{**values, **changes})


class Supervisor(Actor):
    """HO2 as the test wants it."""

    service = "ho2"

    def __init__(self) -> None:
        self.act: Act | None = None
        self.fault: RuntimeFault | None = None
        self.started: list[StartSession] = []
        self.turns: list[TurnRequest] = []
        self.cancelled = 0
        self.consolidates: list[Consolidate] = []

    async def on_consolidate(self, message: Consolidate, call: Call) -> None:
        self.consolidates.append(message)

    async def on_start(self, message: StartSession, call: Call) -> SessionReady:
        self.started.append(message)
        return SessionReady(session_id=message.session_id or "", agent_id=message.agent_id or "", is_new=True)

    async def on_turn(self, message: TurnRequest, call: Call) -> TurnReply:
        self.turns.append(message)
        if self.fault is not None:
            raise self.fault
        try:
            return TurnReply(result=result_of(message)) if self.act is None else await self.act(message)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def on_end(self, message: EndSession, call: Call) -> SessionClosed:
        if self.fault is not None:
            raise self.fault
        return SessionClosed(session_id=message.session_id, turn_count=len(self.turns))


class Hosted(Cluster):
    """A cluster with a session host and a scripted HO2."""

    def __init__(self, provider: Any = None, **sections: dict[str, Any]) -> None:
        super().__init__(provider or Scripted(), **sections)
        self.ho2 = Supervisor()
        self.ho2_peer = self.world.start(self.ho2, role="ho2", slots=1)
        self.start_host()
        self.run(self.host_ready())

    def start_host(self) -> None:
        disk = self.world.disk("host")
        self.actor = SessionHost(snapshot=self.snapshot, spool=disk)
        self.host_peer = self.world.start(self.actor, role="host", disk=disk)

    async def host_ready(self) -> None:
        await self.world.settled()
        await self.ask_host(ProcessTurn(session_id=SESSION, input_id="warm-up", text=" "))

    async def ask_host(self, message: ProcessTurn, timeout_s: float = 10.0) -> TurnResult:
        return await self.operator.request("host", message, expect=TurnResult, timeout_s=timeout_s)

    async def turn(self, text: str = "hello", *, timeout_s: float = 10.0, **changes: Any) -> TurnResult:
        values: dict[str, Any] = {"session_id": SESSION, "input_id": "in-1", "text": text}
        return await self.ask_host(ProcessTurn(**{**values, **changes}), timeout_s)

    async def stream(self, session_id: str = SESSION) -> list[Entry]:
        await asyncio.sleep(2)
        return await self.entries(session_stream(session_id))

    async def write(self, *entries: WriteEntry) -> None:
        """Each by the role that writes such entries."""
        ho2 = self.world.client("ho2")  # the one that answers may be dead
        for entry in entries:
            writer = self.host_peer if entry.event_type == "TurnDegraded" else ho2
            named = entry._replace(submission_id=entry.submission_id.replace("WRITER", writer.instance))
            written = await writer.request("ledger", Write(entries=[named]), expect=Written, timeout_s=2)
            assert [ack.outcome for ack in written.acks] == ["committed"]

    def kill_ho2(self) -> None:
        self.world.kill(self.ho2_peer.instance)


@pytest.fixture
def make() -> Iterator[Callable[..., Hosted]]:
    """Starts clusters and closes them."""
    made: list[Hosted] = []

    def start(provider: Any = None, **sections: dict[str, Any]) -> Hosted:
        made.append(Hosted(provider, **sections))
        return made[-1]

    yield start
    for cluster in made:
        cluster.close()


def journal(
    event: SessionEventKind, prev: str, submission_id: str, *, body: bytes = b"", once: bool = False
) -> WriteEntry:
    """A journal entry as HO2 writes it."""
    envelope = SessionEvent(session_id=SESSION, session_epoch=0, step_epoch=0, event=event)
    return WriteEntry(
        submission_id=submission_id, stream=session_stream(SESSION), event_type=envelope.entry_name, at_us=1,
        bodies=[pack_event(envelope, submission_id, 1), *([body] if body else [])], prev=prev, tenure=1,
        once=f"turn:{SESSION}/in-1" if once else None,
    )  # fmt: skip


TAKEN = journal(TookOver(tenure=1, instance="ho2/9@x", at=iso(1.0)), "", f"TookOver:{SESSION}/1")


# --- after the reply ----------------------------------------------------------------------------------------------


def test_candidates_are_posted_once_the_client_has_its_reply(make):
    """Not before: the client's answer is there while HO2 knows nothing yet; then exactly what the turn named."""
    cluster = make()
    run_id = RunId(session_id=SESSION, run_seq=7)

    async def act(message):
        named = result_of(message, run_id=run_id, consolidation_candidates=["domain:system", "task:plan"])
        return TurnReply(result=named)

    cluster.ho2.act = act

    async def scenario():
        result = await cluster.turn(agent_id="ADMIN")
        at_reply = list(cluster.ho2.consolidates)
        await asyncio.sleep(1)
        return result, at_reply

    result, at_reply = cluster.run(scenario())
    assert result.consolidation_candidates == ["domain:system", "task:plan"]
    assert at_reply == []
    [posted] = cluster.ho2.consolidates
    assert (posted.session_id, posted.run_id, posted.agent_id) == (SESSION, run_id, "ADMIN")
    assert posted.signal_ids == ["domain:system", "task:plan"]


@pytest.mark.parametrize("how", ["nothing named", "degraded", "verdict"])
def test_without_candidates_of_a_turn_that_ho2_answered_nothing_is_posted(make, how):
    """A turn that named none, a degraded one, a refused one."""
    cluster = make()
    cluster.ho2.fault = {
        "degraded": WorkOrderFault("execution_error", "gone"),
        "verdict": SessionFault("run_active", "busy"),
    }.get(how)

    async def scenario():
        result = await cluster.turn()
        await asyncio.sleep(1)
        return result.outcome

    assert cluster.run(scenario()) == {"nothing named": "success", "degraded": "degraded", "verdict": "error"}[how]
    assert cluster.ho2.consolidates == []


# --- HO2 answers --------------------------------------------------------------------------------------------------


def test_ho2s_answer_is_the_answer(make):
    """What HO2 says is passed on unchanged; the gateway is not called and nothing is recorded by the host."""
    cluster = make()
    result = cluster.run(cluster.turn())
    assert (result.outcome, result.response) == ("success", "from HO2")
    assert cluster.provider.calls == 0
    assert cluster.run(cluster.entries("governance")) == []


def test_a_first_turn_starts_a_session_whose_id_follows_from_its_input(make):
    """Without a session id the host derives one, starts it, and a retry under the same input finds the same session."""
    cluster = make()

    async def twice():
        return await cluster.turn(session_id=None), await cluster.turn(session_id=None)

    first, second = cluster.run(twice())
    assert first.session_id == second.session_id == session_id_of("operator", "in-1")
    assert [(start.session_id, start.agent_id) for start in cluster.ho2.started] == [(first.session_id, "ADMIN")] * 2


@pytest.mark.parametrize("who", ["the same host", "the next host"])
def test_a_session_that_the_record_does_not_know_yet_is_started(make, who):
    """All it holds is a degraded answer on this host's disk: without a start the supervisor would know no such session."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")

    async def scenario():
        cluster.kill_ledger()
        first = await cluster.turn(timeout_s=6, session_id=None)
        cluster.ho2.fault = None
        if who == "the next host":
            cluster.world.kill(cluster.host_peer.instance)
            cluster.start_host()
            await cluster.host_ready()
        cluster.ho2.started.clear()
        await cluster.turn("and then?", timeout_s=6, session_id=first.session_id, input_id="in-2")
        meanwhile = list(cluster.ho2.started)
        cluster.start_ledger()
        await cluster.stream(first.session_id)
        await cluster.turn("and then?", timeout_s=6, session_id=first.session_id, input_id="in-3")
        return first, meanwhile, cluster.ho2.started

    first, meanwhile, started = cluster.run(scenario())
    assert first.outcome == "degraded"
    assert [start.session_id for start in meanwhile] == [first.session_id] and started == meanwhile


def test_a_waiting_run_is_asked_again_under_the_same_input(make):
    """RunWaiting is no answer: the host asks again until there is one."""
    cluster = make()

    async def act(message):
        return (
            TurnReply(result=None, waiting="Paused")
            if len(cluster.ho2.turns) < 3
            else TurnReply(result=result_of(message))
        )

    cluster.ho2.act = act
    assert cluster.run(cluster.turn()).response == "from HO2"
    assert [turn.input_id for turn in cluster.ho2.turns] == ["in-1"] * 3


def test_a_session_that_is_changing_hands_is_asked_for_again(make):
    """`moved` says that HO2's ownership of the session moves: no reason to degrade, the next one answers."""
    cluster = make()

    async def act(message):
        if len(cluster.ho2.turns) < 3:
            raise SessionFault("moved", "a new owner is taking over")
        return TurnReply(result=result_of(message))

    cluster.ho2.act = act
    result = cluster.run(cluster.turn())
    assert (result.outcome, result.response) == ("success", "from HO2")
    assert len(cluster.ho2.turns) == 3


@pytest.mark.parametrize(
    ("text", "code"),
    [("", "invalid_input"), (" \n\t", "invalid_input"), ("x" * 101, "too_large"), ("ö" * 51, "too_large")],
)
def test_a_text_that_is_no_turn_is_refused_without_any_call(make, text, code):
    """Blank and oversized messages get an error at once; the limit is named with its setting."""
    cluster = make(host={"prompt_max_bytes": 100})
    result = cluster.run(cluster.turn(text))
    assert (result.outcome, result.code) == ("error", code)
    assert code != "too_large" or "host.prompt_max_bytes" in result.response
    assert cluster.ho2.turns == [] and cluster.provider.calls == 0


def test_a_text_of_exactly_the_limit_passes(make):
    """The border belongs to the allowed side."""
    cluster = make(host={"prompt_max_bytes": 100})
    assert cluster.run(cluster.turn("x" * 100)).outcome == "success"


@pytest.mark.parametrize(
    "fault",
    [
        SessionFault("run_active", "another input is being answered"),
        SessionFault("input_conflict", "that input came with another text"),
        SessionFault("session_closed", "it has ended"),
        SessionFault("invalid_input", "no such agent"),
        BusError("denied", "not allowed"),
        BusError("cancelled", "was cancelled"),
        RuntimeFault("rejected", "no"),
        WorkOrderFault("BUDGET_EXHAUSTED", "no tokens are left"),
    ],
)
def test_a_verdict_never_degrades(make, fault):
    """A refusal on purpose is an error with its code and sentence; no model is called."""
    cluster = make()
    cluster.ho2.fault = fault
    result = cluster.run(cluster.turn())
    assert (result.outcome, result.code, result.response) == ("error", fault.code, fault.detail)
    assert cluster.provider.calls == 0
    assert cluster.run(cluster.entries("governance")) == []


def test_a_verdict_that_is_a_result_is_passed_on(make):
    """HO2's own error result (a turn limit, a budget) is the answer."""
    cluster = make()

    async def act(message):
        return TurnReply(
            result=result_of(message, outcome="error", code="turn_limit_exceeded", response="No more rounds.")
        )

    cluster.ho2.act = act
    result = cluster.run(cluster.turn())
    assert (result.outcome, result.code) == ("error", "turn_limit_exceeded")


# --- degraded -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault", [RuntimeFault("internal", "a bug"), WorkOrderFault("execution_error", "no"), BusError("peer_lost", "gone")]
)
def test_a_failed_supervisor_degrades_and_both_records_say_so(make, fault):
    """DEGRADATION with its reason, one gateway call under PRC-DEGRADED-001, TurnDegraded in the stream, outcome degraded."""
    cluster = make()
    cluster.ho2.fault = fault
    result = cluster.run(cluster.turn("what is up?"))
    assert (result.outcome, result.response, result.code) == ("degraded", "fine", "degraded")
    assert result.reason == plain_words(fault)
    (prompt,) = cluster.provider.prompts
    assert (prompt.contract_id, prompt.work_order_id) == ("PRC-DEGRADED-001", "WO-DEGRADED-in-1")
    assert prompt.idempotency_key == degraded_call_key(SESSION, "in-1")
    assert prompt.tools == [] and "what is up?" in prompt.messages[-1].text and "ADMIN" in prompt.messages[0].text
    (entry,) = cluster.run(cluster.stream())
    event = event_in(entry).event
    assert (entry.submission_id, entry.once) == (f"TurnDegraded:{SESSION}/in-1", f"turn:{SESSION}/in-1")
    assert (event.input_ref, event.reply_ref, event.delivered, event.reason) == (
        f"{entry.submission_id}/1", f"{entry.submission_id}/2", False, plain_words(fault),
    )  # fmt: skip
    assert entry.bodies[1:] == [b"what is up?", b"fine"]
    (degradation,) = of_type(cluster.run(cluster.entries("governance")), "DEGRADATION")
    assert {one.provenance.package_id for one in (entry, degradation)} == {"PKG-ADMIN-AGENT-001"}
    assert (degradation.decision, degradation.reason.partition(":")[2]) == ("DEGRADED", fault.code)
    check_attempts(cluster.run(cluster.settled_entries()))


def test_without_any_supervisor_a_first_turn_degrades_too(make):
    """R3: HO2 dead, no session yet: answered, marked degraded, within the grace and one gateway call."""
    cluster = make()
    cluster.kill_ho2()

    async def timed():
        started = asyncio.get_running_loop().time()
        return await cluster.turn(session_id=None, timeout_s=20), asyncio.get_running_loop().time() - started

    result, elapsed_s = cluster.run(timed())
    assert result.outcome == "degraded"
    assert elapsed_s <= cluster.config.bus.service_grace_ms / 1000 + 0.5


@pytest.mark.parametrize("timeout_s", [1.0, 4.0, 10.0])
def test_a_silent_supervisor_leaves_time_to_degrade(make, timeout_s):
    """R3: HO2 gets the client's deadline less the reserve; the degraded reply comes before the deadline, HO2 is cancelled."""
    cluster = make()

    async def act(message):
        await asyncio.sleep(1e6)
        raise AssertionError

    cluster.ho2.act = act

    async def timed():
        started = asyncio.get_running_loop().time()
        return await cluster.turn(timeout_s=timeout_s), asyncio.get_running_loop().time() - started

    result, elapsed_s = cluster.run(timed())
    host = cluster.config.host
    reserve_s = min(host.degrade_reserve_ms / 1000, host.reserve_share_max * timeout_s)
    assert result.outcome == "degraded"
    assert abs(elapsed_s - (timeout_s - reserve_s)) < 0.1
    assert cluster.ho2.cancelled == 1


@pytest.mark.parametrize("timeout_s", [0.5, 2.0, 3.0])
def test_a_deadline_shorter_than_the_reserve_still_reaches_the_supervisor(make, timeout_s):
    """The reserve is at most a share of the whole time, so a short deadline is no reason to degrade."""
    cluster = make()
    result = cluster.run(cluster.turn(timeout_s=timeout_s))
    assert (result.outcome, len(cluster.ho2.turns)) == ("success", 1)


def test_a_retry_of_a_degraded_input_gets_the_same_reply_without_a_second_call(make):
    """The gateway answers the key from the record, the stream answers who was first."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")

    async def twice():
        return await cluster.turn(), await cluster.turn(), await cluster.stream()

    first, second, stream = cluster.run(twice())
    assert (first.outcome, first.response, first.reason) == (second.outcome, second.response, second.reason)
    assert (cluster.provider.calls, len(stream), first.reason) == (1, 1, "a bug")


def test_an_input_id_of_another_session_degrades_as_well(make):
    """Two sessions may use one input id, with different texts: each gets a call and an answer of its own."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")

    async def two():
        return await cluster.turn("what is up?"), await cluster.turn(
            "something else", session_id=session_id_of("door", "another")
        )

    assert [result.outcome for result in cluster.run(two())] == ["degraded", "degraded"]
    keys = [prompt.idempotency_key for prompt in cluster.provider.prompts]
    assert len(set(keys)) == 2 and {key.partition("#")[0] for key in keys} == {"WO-DEGRADED-in-1"}


def test_the_offline_model_degrades_honestly(make):
    """On the shipped provider the reduced answer says that it is one."""
    provider = OfflineProvider(provider_id="offline", latency_ms=0, chars_per_token=4, sleep=asyncio.sleep)
    cluster = make(provider)
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    result = cluster.run(cluster.turn("what packages are installed?"))
    assert result.outcome == "degraded" and "reduced mode" in result.response


# --- the race -----------------------------------------------------------------------------------------------------


def test_a_run_that_completed_meanwhile_is_delivered_instead(make):
    """RunCompleted stands first under the turn's key: the host delivers its result and its own reply is nowhere."""
    provider = Scripted()
    cluster = make(provider)
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    run_id = {"session_id": SESSION, "run_seq": 1}
    done = TurnResult(response="the real answer", outcome="success", session_id=SESSION, run_id=None, input_id="in-1")
    completed = RunCompleted(input_id="in-1", result_ref=f"RunCompleted:{SESSION}-1/1", reply_ref="x/1", at=iso(2.0))

    async def act(_prompt):
        await cluster.write(
            TAKEN,
            journal(completed, TAKEN.submission_id, f"RunCompleted:{SESSION}-1", body=pack_result(done), once=True),
        )
        return answered()

    provider.act = act
    result = cluster.run(cluster.turn())
    assert result == done, run_id
    assert [entry.event_type for entry in cluster.run(cluster.stream())] == ["TookOver", "RunCompleted"]


@pytest.mark.parametrize("with_detail", [True, False])
def test_a_verdict_that_came_first_is_delivered_instead(make, with_detail):
    """RunFailed with a verdict's code holds the key: the client gets that verdict."""
    provider = Scripted()
    cluster = make(provider)
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    verdict = TurnResult(
        response="spent", outcome="error", session_id=SESSION, run_id=None, input_id="in-1", code="budget_exhausted"
    )
    ref = f"RunFailed:{SESSION}/1.2/1" if with_detail else None
    failed = RunFailed(input_id="in-1", code="budget_exhausted", detail_ref=ref, at=iso(2.0))
    body = pack_result(verdict) if with_detail else b""

    async def act(_prompt):
        await cluster.write(
            TAKEN, journal(failed, TAKEN.submission_id, f"RunFailed:{SESSION}/1.2", body=body, once=True)
        )
        return answered()

    provider.act = act
    result = cluster.run(cluster.turn())
    assert (result.outcome, result.code) == ("error", "budget_exhausted")


def requested(text: str, prev: str) -> WriteEntry:
    """RunRequested as HO2 writes it, the text as its body."""
    name = f"RunRequested:{SESSION}/in-1"
    event = RunRequested(
        input_ref=f"{name}/1", input_id="in-1", input_digest="d", deadline_at=iso(9.0), config_digest="", at=iso(1.0)
    )
    return journal(event, prev, name, body=text.encode())


def completed_run(text: str) -> tuple[TurnResult, list[WriteEntry]]:
    """A run that answered this text under input in-1, as the stream has it."""
    done = TurnResult(response="the real answer", outcome="success", session_id=SESSION, run_id=None, input_id="in-1")
    asked = requested(text, TAKEN.submission_id)
    name = f"RunCompleted:{SESSION}-1"
    event = RunCompleted(input_id="in-1", result_ref=f"{name}/1", reply_ref="x/1", at=iso(2.0))
    return done, [TAKEN, asked, journal(event, asked.submission_id, name, body=pack_result(done), once=True)]


@pytest.mark.parametrize("text", ["hello", "something else"])
def test_the_winners_answer_is_given_to_its_own_text_alone(make, text):
    """Another text under an answered input id is a conflict, also where only the degradation finds out."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    done, entries = completed_run("hello")

    async def scenario():
        await cluster.write(*entries)
        return await cluster.turn(text)

    result = cluster.run(scenario())
    if text == "hello":
        assert result == done
    else:
        assert (result.outcome, result.code) == ("error", "input_conflict")
        assert "the real answer" not in result.response


def test_a_winner_that_the_host_reads_names_what_consolidation_due_names(make):
    """The run's answer stands in two entries: RunCompleted, and its candidates under the input's once key."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    done, entries = completed_run("hello")
    due = WriteEntry(
        submission_id="CONSOLIDATION_DUE:WRITER/1", stream="ho2m", event_type="CONSOLIDATION_DUE", at_us=1,
        provenance=Provenance(session_id=SESSION),
        bodies=[pack_payload(SignalsNamed(("domain:system",)))], once=f"candidates:{SESSION}/in-1",
    )  # fmt: skip

    async def scenario():
        await cluster.write(*entries, due)
        return await cluster.turn()

    assert cluster.run(scenario()) == done.model_copy(update={"consolidation_candidates": ["domain:system"]})


def test_another_text_under_a_degraded_input_is_a_conflict(make):
    """The earlier TurnDegraded brought its own text: it is compared with that."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")

    async def scenario():
        event = TurnDegraded(input_id="in-1", input_ref="T:x/1", reply_ref="T:x/2", delivered=False, at=iso(1.0))
        earlier = journal(event, "", f"TurnDegraded:{SESSION}/in-1", body=b"something else", once=True)
        await cluster.write(earlier._replace(prev=None, tenure=None))
        return await cluster.turn()

    assert cluster.run(scenario()).code == "input_conflict"


def failing_lookups(cluster: Hosted, count: int) -> list[int]:
    """The host's next look-ups fail, as while the ledger restarts; the list grows by one for each."""
    asked: list[int] = []
    lookup = cluster.actor._ledger.lookup

    async def fails(*args: Any, **keywords: Any) -> Any:
        asked.append(len(asked))
        if len(asked) <= count:
            raise BusError("peer_lost", "the ledger is gone")
        return await lookup(*args, **keywords)

    cluster.actor._ledger.lookup = fails
    return asked


def test_the_winner_is_looked_up_until_the_ledger_says(make):
    """The look-up meets a restart of the ledger: it is asked again, and the run's answer is delivered."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    done, entries = completed_run("hello")
    asked = failing_lookups(cluster, 2)

    async def scenario():
        await cluster.write(*entries)
        return await cluster.turn()

    assert cluster.run(scenario()) == done and len(asked) == 3


def test_a_winner_that_cannot_be_read_in_time_is_an_honest_error_and_never_a_second_answer(make):
    """Once an ack said that another answer stands, nothing is delivered or recorded beside it."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    _done, entries = completed_run("hello")
    failing_lookups(cluster, 1_000_000)

    async def scenario():
        await cluster.write(*entries)
        started = asyncio.get_running_loop().time()
        result = await cluster.turn(timeout_s=6)
        return result, asyncio.get_running_loop().time() - started, await cluster.stream()

    result, elapsed_s, stream = cluster.run(scenario())
    assert (result.outcome, result.code) == ("error", "unavailable") and elapsed_s < 6
    assert "again under the same input id" in result.response
    assert "TurnDegraded" not in [entry.event_type for entry in stream]


def test_the_hosts_append_needs_neither_head_nor_tenure(make):
    """TurnDegraded lands behind whatever HO2 wrote, whoever owns the session."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")

    async def scenario():
        await cluster.write(TAKEN)
        return await cluster.turn(), await cluster.stream()

    result, stream = cluster.run(scenario())
    assert result.outcome == "degraded"
    assert [entry.event_type for entry in stream] == ["TookOver", "TurnDegraded"]


def waiting_reply(message: TurnRequest, standstill: str | None) -> TurnReply:
    """HO2's word that a run stands still."""
    meanwhile = result_of(message, outcome="error", code="run_waiting", response="it is paused")
    return TurnReply.model_validate({"result": None, "waiting": standstill, "meanwhile": meanwhile})


def test_a_run_that_stands_still_is_asked_for_again_with_what_is_known(make):
    """HO2 is told what the host knows, so that it answers when that changes; the client gets the one result."""
    cluster = make()

    async def act(message):
        if len(cluster.ho2.turns) < 3:
            return waiting_reply(message, "Paused" if len(cluster.ho2.turns) == 1 else None)
        return TurnReply(result=result_of(message))

    cluster.ho2.act = act
    assert cluster.run(cluster.turn()).outcome == "success"
    assert [message.waiting for message in cluster.ho2.turns] == [None, "Paused", None]


@pytest.mark.parametrize("fault", [None, RuntimeFault("internal", "a bug")])
def test_a_run_that_stands_still_is_not_ended_for_its_clients_deadline(make, fault):
    """The client's time is over, or HO2 is gone: the client is told how the run stands, and nothing degrades."""
    cluster = make()

    async def act(message):
        if message.waiting is None:
            return waiting_reply(message, "Paused")
        if fault is not None:
            raise fault
        await asyncio.sleep(1e6)
        raise AssertionError("it is cancelled before")

    cluster.ho2.act = act
    result = cluster.run(cluster.turn(timeout_s=4))
    assert (result.outcome, result.code, result.response) == ("error", "run_waiting", "it is paused")
    assert cluster.provider.calls == 0
    assert of_type(cluster.run(cluster.entries("governance")), "DEGRADATION") == []


def test_a_verdict_on_a_run_that_stood_still_is_told_as_it_is(make):
    """Waiting hides no refusal."""
    cluster = make()

    async def act(message):
        if message.waiting is None:
            return waiting_reply(message, "Paused")
        raise SessionFault("session_closed", "it has ended")

    cluster.ho2.act = act
    assert cluster.run(cluster.turn()).code == "session_closed"


def test_a_session_that_nobody_began_is_an_error_and_not_begun(make):
    """A mistyped session id is said to be unknown; nothing is started or degraded."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("not_found", "no session was started")
    result = cluster.run(cluster.turn())
    assert (result.outcome, result.code) == ("error", "not_found")
    assert cluster.ho2.started == [] and cluster.provider.calls == 0


# --- double faults ------------------------------------------------------------------------------------------------


def test_supervisor_and_gateway_gone_is_an_honest_error(make):
    """Nobody can answer: outcome error with a sentence that says so, before the deadline."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    cluster.kill_gateway()
    result = cluster.run(cluster.turn(timeout_s=6))
    assert (result.outcome, result.code is not None) == ("error", True)
    assert "neither" in result.response
    assert cluster.run(cluster.stream()) == []


def test_the_gateways_outcome_is_checked_before_its_content(make):
    """Anything but SUCCESS is a failure, also a refusal for budget, and a blank reply too."""
    cluster = make(budget={"budget_mode": "enforce", "session_token_limit": 10})
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    result = cluster.run(cluster.turn())
    assert (result.outcome, result.code) == ("error", "BUDGET_EXHAUSTED")
    assert "neither" not in result.response

    async def blank(_prompt):
        return answered(" ")

    cluster = make(Scripted(blank))
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    assert cluster.run(cluster.turn()).outcome == "error"


def test_a_provider_that_failed_is_named_as_what_could_not_answer(make):
    """The gateway answered: nobody says that it could not."""

    async def down(_prompt):
        raise GatewayError("PROVIDER_ERROR", "provider offline answered 500: it failed", facts={"unbilled": True})

    cluster = make(Scripted(down))
    first, last = "provider mine answered 429: it takes no more", "provider offline answered 500: it failed"
    cluster.ho2.fault = RuntimeFault("PROVIDER_RATE_LIMITED", first)
    result = cluster.run(cluster.turn())
    assert (result.outcome, result.code) == ("error", "PROVIDER_ERROR")
    again = "Please ask again under the same input id."
    told = f"No model can answer right now (PROVIDER_ERROR: {last})."
    assert result.response == f"{told} Before that: PROVIDER_RATE_LIMITED ({first}). {again}"
    cluster.ho2.fault = RuntimeFault("PROVIDER_ERROR", last)
    assert cluster.run(cluster.turn(input_id="in-2")).response == f"{told} {again}", "what is said already is no news"


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_degraded_turn_costs_what_its_run_did_too(make, is_answered):
    """HO2 says what was spent before it failed; the last resort's own call is added."""

    async def fails(_prompt):
        raise GatewayError("PROVIDER_ERROR", "cut", facts={"input_tokens": 5, "output_tokens": 1})

    cluster = make(Scripted(None if is_answered else fails))
    run = Cost(input_tokens=100, output_tokens=20, total_tokens=120, llm_calls=2, cost_usd=0.25)
    cluster.ho2.fault = RuntimeFault("PROVIDER_ERROR", "x", facts=fact_of(run))
    result = cluster.run(cluster.turn())
    assert result.outcome == ("degraded" if is_answered else "error")
    assert result.cost.total_tokens > 120 and result.cost.cost_usd is not None and result.cost.cost_usd >= 0.25
    assert result.cost.llm_calls == 2 + is_answered


def test_what_nobody_told_of_has_an_unknown_price(make):
    """A supervisor that was asked and is silent may have spent something."""
    cluster = make()

    async def act(_message):
        await asyncio.sleep(1e6)

    cluster.ho2.act = act
    result = cluster.run(cluster.turn(timeout_s=6))
    assert (result.outcome, result.cost.cost_usd) == ("degraded", None)


def test_a_hanging_provider_is_given_up_in_time(make):
    """The last resort hangs too: an honest error before the client's deadline."""
    cluster = make(Scripted(hang))
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    result = cluster.run(cluster.turn(timeout_s=5))
    assert result.outcome == "error"


def test_without_the_ledger_the_reply_is_delivered_and_spooled(make):
    """Ledger and HO2 gone: the reply comes before the deadline, and when the ledger is back the stream says it was delivered."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")

    async def scenario():
        cluster.kill_ledger()
        started = asyncio.get_running_loop().time()
        result = await cluster.turn(timeout_s=6)
        elapsed_s = asyncio.get_running_loop().time() - started
        spooled = cluster.actor.counters()["spooled"]
        cluster.start_ledger()
        return result, elapsed_s, spooled, await cluster.stream()

    result, elapsed_s, spooled, stream = cluster.run(scenario())
    assert (result.outcome, result.response) == ("degraded", "fine") and elapsed_s < 6
    assert spooled == 2  # DEGRADATION and TurnDegraded{delivered: true}
    assert any(event_in(entry).event.delivered for entry in stream)
    assert not cluster.world.media["host"].files


@pytest.mark.parametrize("who", ["the same host", "the next host"])
def test_who_was_told_a_degraded_answer_hears_no_other_one(make, who):
    """The supervisor could answer by now, and the record does not say yet what was told: the host's own disk does."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")

    async def scenario():
        cluster.kill_ledger()
        first = await cluster.turn(timeout_s=6)
        cluster.ho2.fault = None
        if who == "the next host":
            cluster.world.kill(cluster.host_peer.instance)
            cluster.start_host()
            await cluster.host_ready()
        again, other = await cluster.turn(timeout_s=6), await cluster.turn("another text", timeout_s=6)
        cluster.start_ledger()
        return first, again, other, await cluster.stream()

    first, again, other, _stream = cluster.run(scenario())
    assert (first.outcome, first.response) == (again.outcome, again.response) == ("degraded", "fine")
    assert (other.outcome, other.code) == ("error", "input_conflict")
    assert cluster.provider.calls == 1 and len(cluster.ho2.turns) == 1


def once(gate: asyncio.Event) -> Callable[[TurnRequest], Awaitable[TurnReply]]:
    """A supervisor that answers when the gate opens."""

    async def act(message: TurnRequest) -> TurnReply:
        await gate.wait()
        return TurnReply(result=result_of(message))

    return act


def test_a_last_resort_that_comes_too_late_is_told_to_nobody(make):
    """The supervisor answers another request for the input while the ledger still has time to decide: that is it."""
    cluster, gate = make(), asyncio.Event()
    cluster.ho2.act = once(gate)

    async def scenario():
        cluster.kill_ledger()
        patient = asyncio.ensure_future(cluster.turn(timeout_s=30))
        hasty = asyncio.ensure_future(cluster.turn(timeout_s=6))
        while not cluster.provider.calls:
            await asyncio.sleep(0.01)
        gate.set()
        told = await patient
        later = await hasty
        cluster.start_ledger()
        return told, later, await cluster.stream()

    told, later, stream = cluster.run(scenario())
    assert (told.outcome, told.response) == (later.outcome, later.response) == ("success", "from HO2")
    assert not any(event_in(entry).event.delivered for entry in stream)


@pytest.mark.parametrize("is_recorded", [False, True])
def test_two_who_ask_the_same_hear_the_same(make, is_recorded):
    """One waits no longer and is told a degraded answer; when the supervisor answers the other one, that is too late."""
    cluster, gate = make(), asyncio.Event()
    cluster.ho2.act = once(gate)

    async def scenario():
        cluster.kill_ledger()
        patient = asyncio.ensure_future(cluster.turn(timeout_s=30))
        await asyncio.sleep(0.1)
        hasty = await cluster.turn(timeout_s=6)
        if is_recorded:
            cluster.start_ledger()
            assert event_in((await cluster.stream())[-1]).event.delivered
        gate.set()
        return hasty, await patient

    hasty, patient = cluster.run(scenario())
    assert (hasty.outcome, hasty.response) == (patient.outcome, patient.response) == ("degraded", "fine")


def test_a_delivered_reply_survives_the_host(make):
    """Spooled, host killed: the next host hands it over, and it replaces what history would show."""
    cluster = make()
    cluster.ho2.fault = RuntimeFault("internal", "a bug")

    async def scenario():
        cluster.kill_ledger()
        await cluster.turn(timeout_s=6)
        cluster.world.kill(cluster.host_peer.instance)
        cluster.start_host()
        cluster.start_ledger()
        await cluster.world.settled()
        return await cluster.stream()

    stream = cluster.run(scenario())
    assert [event_in(entry).event.delivered for entry in stream] == [True]
    assert stream[0].bodies[2] == b"fine"
    assert not cluster.world.media["host"].files


def test_a_full_disk_does_not_keep_the_reply_back(make):
    """Neither ledger nor disk: the client still gets its answer."""
    cluster = make(gateway={"on_ledger_outage": "spool"})
    cluster.ho2.fault = RuntimeFault("internal", "a bug")

    async def scenario():
        cluster.kill_ledger()
        cluster.world.media["host"].capacity_bytes = 0
        return await cluster.turn(timeout_s=6)

    assert cluster.run(scenario()).outcome == "degraded"


# --- sessions, readiness ------------------------------------------------------------------------------------------


def test_an_explicit_session_gets_a_drawn_id_and_the_default_agent(make):
    """StartSession without an id draws one; with an id it is passed on."""
    cluster = make()

    async def start(message):
        return await cluster.operator.request("host", message, expect=SessionReady, timeout_s=2)

    drawn = cluster.run(start(StartSession()))
    named = cluster.run(start(StartSession(session_id=SESSION)))
    assert len(drawn.session_id) == 36 and drawn.session_id != SESSION
    assert (named.session_id, named.agent_id) == (SESSION, "ADMIN")


def test_ending_a_session_is_best_effort(make):
    """HO2's word when it answers; done in any case."""
    cluster = make()

    async def end():
        return await cluster.operator.request("host", EndSession(session_id=SESSION), expect=SessionClosed, timeout_s=2)

    assert cluster.run(end()).session_id == SESSION
    cluster.ho2.fault = RuntimeFault("internal", "a bug")
    assert cluster.run(end()) == SessionClosed(session_id=SESSION, turn_count=None)


def test_the_host_is_ready_with_a_supervisor_or_the_gateway(make):
    """Either is enough; without both it says so."""
    cluster = make()
    assert cluster.host_peer.state == ("ready", "")

    async def state_after(kill):
        kill()
        await asyncio.sleep(2)
        return cluster.host_peer.state

    assert cluster.run(state_after(cluster.kill_ho2)) == ("ready", "")
    assert cluster.run(state_after(cluster.kill_gateway)) == ("degraded", "neither ho2 nor gateway is ready")
