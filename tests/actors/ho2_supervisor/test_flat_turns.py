"""A turn costs the same whatever the session's age: counted in requests, entries and bytes, never in time."""

from __future__ import annotations

from uuid import UUID

import pytest

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.session import journal
from hobus.actors.ho2_supervisor.session import snapshot as snapshots
from hobus.actors.ho2_supervisor.session.record import SessionRecord
from hobus.actors.ho2_supervisor.turn.turn import compute_history_limits
from hobus.bus.messages.ids import derive_turn_key, format_iso
from hobus.bus.messages.ledger import Provenance, WriteEntry
from hobus.bus.messages.session import SessionConfig, TurnReply, TurnRequest, TurnResult
from hobus.bus.record.journal import Recorded, pack_result
from hobus.bus.record.session_facts import RunCompleted, RunRequested, RunStarted, SessionFact, SessionStarted, TookOver
from tests.actors.ho2_supervisor.questions import Questions, listening
from tests.actors.ho2_supervisor.rig import Rig, one_tool

AGES = (20, 200, 500)
CHANGES = (
    ("ho2.history_turns_max", 5),
    ("budget.history_budget", 300),  # full at every age
)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Borders that a test can reach."""
    monkeypatch.setattr(limits, "KNOWN_MAX", 16)
    monkeypatch.setattr(limits, "JOURNAL_PAGE", 100)


def lived(rig: Rig, session_id: str, turns: int) -> list[WriteEntry]:
    """The journal of a session of that many turns, of fixed width and as an owner would have written it."""
    record = SessionRecord(session_id, compute_history_limits(rig.snapshot.config))
    entries: list[WriteEntry] = []

    def add(event: SessionFact, *bodies: bytes, once: str | None = None) -> None:
        enveloped = journal.make_envelope(record.state, event)
        tenure = 1
        made = journal.derive_event_id(session_id, event, record.state.run_id)
        entry = journal.make_entry(
            enveloped,
            submission_id=made or journal.derive_counted_id(event.kind, session_id, tenure, record.appended + 1),
            prev=record.head,
            tenure=tenure,
            at_us=1,
            bodies=bodies,
            once=once,
            provenance=Provenance(),
        )
        assert record.take(Recorded(entry.submission_id, enveloped, tuple(entry.bodies))).rejection is None
        entries.append(entry)

    at = format_iso(1.0)
    add(TookOver(tenure=1, instance="ho2/1@s1", at=at))
    config = SessionConfig(provider="offline", model="offline-rules-1")
    add(SessionStarted(agent_id="ADMIN", session_config=config, max_in_flight_effects=8, at=at))
    for number in range(turns):
        input_id, text = f"old-{number:06}", f"question {number:06} of a long session, as somebody would ask it"
        ref = f"RunRequested:{session_id}/{input_id}/1"
        digest = journal.digest_input(input_id, text)
        add(
            RunRequested(
                input_ref=ref,
                input_id=input_id,
                input_digest=digest,
                deadline_at=format_iso(60.0),
                config_digest="x",
                at=at,
            ),
            text.encode(),
        )
        add(RunStarted(at=at))
        run_id = record.state.run_id
        reply = f"answer {number:06}"
        result = TurnResult(response=reply, outcome="success", session_id=session_id, run_id=run_id, input_id=input_id)
        add(
            RunCompleted(
                input_id=input_id, result_ref=f"RunCompleted:{run_id}/1", reply_ref=f"RunCompleted:{run_id}/2", at=at
            ),
            pack_result(result),
            reply.encode(),
            once=derive_turn_key(session_id, input_id),
        )
        if snapshots.is_due(record, 100):
            made = journal.derive_counted_id("StateSnapshot", session_id, 1, record.appended + 1)
            event, bodies = snapshots.make_snapshot(record, made, at)
            add(event, *bodies)
    return entries


def load_and_take_turns(rig: Rig, questions: Questions, session_id: str) -> tuple[dict[str, int], list[dict[str, int]]]:
    """What loading the session costs, and each of the turns after it."""

    async def turn(number: int) -> None:
        request = TurnRequest(session_id=session_id, input_id=f"new-{number}", text="what packages are installed?")
        reply = await rig.ask(request, TurnReply)
        assert reply.result is not None
        assert reply.result.outcome == "success"
        await rig.host.sleep(0.5)

    questions.clear()
    rig.run(rig.start_session(session_id))
    loading = costs(questions)
    turns: list[dict[str, int]] = []
    for number in range(6):
        questions.clear()
        rig.run(turn(number))
        turns.append(costs(questions))
    return loading, turns


def costs(questions: Questions) -> dict[str, int]:
    """What HO2 asked of the ledger, in numbers."""
    counts = questions.counts("ho2")
    return {
        "requests": sum(counts.values()),
        "writes": counts.get("ledger.write", 0),
        "entries read": questions.entries_read("ho2"),
        "entries written": questions.entries_written("ho2"),
        "bytes written": questions.bytes_written("ho2"),
    }


@pytest.mark.slow
def test_turn_and_loading_cost_the_same_at_every_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 20, 200 and 500 turns: same requests, same entries, bytes within the digits of a run's number."""
    questions = listening(monkeypatch)
    loadings: list[dict[str, int]] = []
    turns: list[list[dict[str, int]]] = []
    with Rig(*CHANGES, script=one_tool, snapshot_entries=100) as rig:
        for age in AGES:
            session_id = str(UUID(int=age))
            entries = lived(rig, session_id, age)
            for start in range(0, len(entries), 400):
                acks = rig.run(rig.ledger_client("ho2").write(entries[start : start + 400]))
                assert {ack.outcome for ack in acks} == {"committed"}
            loading, costs_of_turns = load_and_take_turns(rig, questions, session_id)
            loadings.append(loading)
            turns.append(costs_of_turns)
    for loading in loadings:
        assert loading["requests"] <= 6
        assert loading["entries read"] <= 100 + 3 + 100 + 2 * 20
    for number in range(6):
        of_age = [cost[number] for cost in turns]
        for what in ("requests", "writes", "entries read", "entries written"):
            counted = [cost[what] for cost in of_age]
            if number:  # a snapshot falls due in one turn or another
                assert max(counted) - min(counted) <= 1, (what, counted)
    totals = [sum(cost["bytes written"] for cost in of_age) for of_age in turns]
    assert max(totals) <= 1.2 * min(totals), totals
