"""The liveness reducer: rule by rule, joined across streams, and the same whatever the order of its input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import builders
from hobus.actors.ho2_supervisor.projection.liveness import IntentLife, Item, LivenessState
from hobus.actors.ho2_supervisor.session.order_lives import OrderLife, OrderLives
from hobus.bus.messages.ids import RunId, StepId, TurnId, derive_intent_id, format_iso_us, parse_iso_us
from hobus.bus.messages.ledger import Entry, Provenance
from hobus.bus.messages.session import SessionConfig
from hobus.bus.messages.work_order import ToolCall
from hobus.bus.record import session_facts as events
from hobus.bus.record.journal import pack_event
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.orders import Escalation
from hobus.bus.record.session_facts import SessionEvent, SessionFact
from tests.actors.ho2_supervisor.journals import SESSION, at
from tests.actors.ho2_supervisor.liveness_model import reduce_liveness
from tests.journals import receipt

RUN = RunId(session_id=SESSION, run_seq=1)
STEP = StepId(turn_id=TurnId(run_id=RUN, turn_seq=1), step_seq=1)
INTENT = derive_intent_id(SESSION, 1)


def wo(number: int) -> str:
    """An order's id."""
    return f"WO-{SESSION}-1.{number}.1"


def raw(sequence: int, event_type: str, stream: str, *, order: str = "", reason: str = "", **fields: object) -> Entry:
    """An entry of the session."""
    about = Provenance(session_id=SESSION, run_seq=1, work_order_id=order)
    empty: dict[str, object] = {
        "submission_id": f"{event_type}:{sequence}", "at_us": parse_iso_us(at(sequence)), "decision": "", "parents": [],
        "trace": "", "prev": None, "tenure": None, "once": None, "origin": "ho2/1@a", "ledger_at_us": 0,
        "body_hashes": [], "body_lengths": [], "bodies": [b""],
    }  # fmt: skip
    known = {"stream": stream, "event_type": event_type, "reason": reason, "provenance": about, "sequence": sequence}
    return Entry(**(empty | known | fields))  # type: ignore[arg-type]


def said(sequence: int, event: SessionFact) -> Entry:
    """An entry of the session's journal."""
    enveloped = SessionEvent(SESSION, 0, 0, event, RUN, STEP.turn_id, STEP)
    submission_id = f"{event.kind}:{sequence}"
    at_us = parse_iso_us(at(sequence))
    return raw(
        sequence, event.entry_name, f"session/{SESSION}", submission_id=submission_id,
        bodies=[pack_event(enveloped, submission_id, at_us)],
    )  # fmt: skip


def started(sequence: int) -> Entry:
    """The session begins."""
    return said(
        sequence,
        events.SessionStarted(agent_id="A", session_config=SessionConfig(), max_in_flight_effects=1, at=at(sequence)),
    )


def declared(sequence: int, number: int = 1) -> Entry:
    """An intent begins."""
    event = events.IntentDeclared(
        intent_id=derive_intent_id(SESSION, number), scope="session", objective_ref=f"o/{number}", at=at(sequence)
    )
    return said(sequence, event)


def superseded(sequence: int, number: int, by: int) -> Entry:
    """Another one takes its place."""
    event = events.IntentSuperseded(
        intent_id=derive_intent_id(SESSION, number),
        superseded_by_intent_id=derive_intent_id(SESSION, by),
        reason="x",
        at=at(sequence),
    )
    return said(sequence, event)


def dispatched(sequence: int, number: int, wo_type: str = "tool_call") -> Entry:
    """An order is given out."""
    call = ToolCall(call_id="001", tool_id="list_tools", arguments={})
    order = builders.order(
        wo_type, wo_id=wo(number), session_id=SESSION, intent_id=INTENT, planned_at=at(sequence), tool_call=call
    )
    event = events.OrderDispatched(wo_id=wo(number), wo_type=wo_type, step_id=STEP, order=order, at=at(sequence))
    return said(sequence, event)._replace(submission_id=f"WO_DISPATCHED:{wo(number)}")


def in_pool(sequence: int, event_type: str, number: int, code: str = "") -> Entry:
    """What the pool records of an order."""
    return raw(sequence, event_type, "ho1m", order=wo(number), reason=code)


def escalated(sequence: int, number: int) -> Entry:
    """HO2 gives an answer up."""
    return raw(sequence, "ESCALATION", "ho2m", bodies=[pack_payload(Escalation(wo(number), ("too short",)))])


def ended(sequence: int) -> Entry:
    """SESSION_END."""
    return said(sequence, events.SessionEnded(reason="client", turn_count=1, at=at(sequence)))


def life(state: LivenessState, number: int) -> OrderLife:
    """What became of an order."""
    return state.work_orders[wo(number)]


def test_a_zombie_order_is_open() -> None:
    """Dispatched and never ended: the dispatch alone stands, with the order's own facts."""
    state = reduce_liveness([dispatched(1, 1)], [])
    assert state.open_work_orders == [wo(1)]
    assert life(state, 1) == OrderLife(wo(1), "dispatched", "tool_call", INTENT, at(1), "list_tools")


def test_orders_are_joined_across_streams_by_their_id() -> None:
    """Begun and ended in the pool's stream: executing, then completed, and no longer open."""
    ho2m = [dispatched(1, 1), dispatched(2, 2)]
    state = reduce_liveness(ho2m, [in_pool(3, "TOOL_STARTED", 1), in_pool(4, "TOOL_STARTED", 2)])
    assert (life(state, 1).status, state.open_work_orders) == ("executing", [wo(1), wo(2)])
    state = reduce_liveness(ho2m, [in_pool(3, "TOOL_STARTED", 1), in_pool(4, "WO_COMPLETED", 1)])
    assert (life(state, 1).status, life(state, 1).ended_at, state.open_work_orders) == ("completed", at(4), [wo(2)])


def test_failures_and_escalations_are_named_with_their_reasons() -> None:
    """WO_FAILED closes as failed; ESCALATION after a work order marks it failed."""
    ho2m = [dispatched(1, 1), dispatched(2, 2), escalated(6, 2)]
    ho1m = [in_pool(3, "WO_FAILED", 1, "tool_failed"), in_pool(4, "WO_COMPLETED", 2)]
    state = reduce_liveness(ho2m, ho1m)
    assert state.failed_items == [Item(wo(1), "tool_failed", at(3)), Item(wo(2), "escalated", at(6))]
    assert state.escalations == [Item(wo(2), "escalated", at(6))]
    assert state.open_work_orders == []


def test_a_later_completion_wins() -> None:
    """By the ledger's sequence: behind a failure or an escalation the order is completed after all."""
    ho2m = [dispatched(1, 1), dispatched(2, 2), escalated(4, 2)]
    state = reduce_liveness(
        ho2m, [in_pool(3, "WO_FAILED", 1, "expired"), in_pool(5, "WO_COMPLETED", 1), in_pool(6, "WO_COMPLETED", 2)]
    )
    assert (state.failed_items, state.escalations) == ([], [])
    assert [life(state, number).status for number in (1, 2)] == ["completed"] * 2


def test_nothing_that_begins_an_order_opens_it_again() -> None:
    """A worker that starts late what HO2 has failed already."""
    state = reduce_liveness([dispatched(1, 1)], [in_pool(2, "WO_FAILED", 1, "expired"), in_pool(3, "TOOL_STARTED", 1)])
    assert life(state, 1).status == "failed"


def test_time_stamps_decide_nothing() -> None:
    """Two entries of one moment, or of clocks that disagree: sequence is the order."""
    early = in_pool(9, "WO_COMPLETED", 1)._replace(at_us=0)
    state = reduce_liveness([dispatched(1, 1)], [early, in_pool(5, "WO_FAILED", 1, "expired")])
    assert (life(state, 1).status, life(state, 1).ended_at) == ("completed", format_iso_us(0))


def test_intents_begin_and_end() -> None:
    """Active until another takes the place, or the session ends."""
    entries = [started(0), declared(1), superseded(2, 1, by=2), declared(3, 2)]
    state = reduce_liveness(entries, [])
    assert state.intents[INTENT] == IntentLife("superseded", "session", "o/1", at(1), at(2))
    assert (state.active_intents, state.session_open) == ([derive_intent_id(SESSION, 2)], True)
    state = reduce_liveness([*entries, ended(4)], [])
    assert (state.active_intents, state.session_open) == ([], False)
    assert state.intents[derive_intent_id(SESSION, 2)].closed_at == at(4)


def test_an_end_in_the_journal_alone_counts() -> None:
    """The receipt that HO2 took says it too: of an order whose end in the pool never committed."""
    late = receipt(wo(1), state="failed", error={"code": "expired", "message": "late"}, completed_at=at(2))
    end = said(2, events.OrderEnded(wo_id=wo(1), receipt=late, at=at(2)))._replace(submission_id=f"OrderEnded:{wo(1)}")
    assert reduce_liveness([dispatched(1, 1), end], []).failed_items == [Item(wo(1), "expired", at(2))]


def test_entries_of_two_sessions_are_a_mistake() -> None:
    """One session's entries only; mixed ones would join what has nothing in common."""
    other = raw(2, "WO_FAILED", "ho1m")._replace(provenance=Provenance(session_id="9" * 36, work_order_id="WO-x"))
    with pytest.raises(ValueError, match="2 sessions"):
        reduce_liveness([declared(1)], [other])


def test_what_was_erased_is_passed_over() -> None:
    """An entry whose payload is gone says nothing; the others stand."""
    gone = escalated(3, 1)._replace(bodies=[None])
    state = reduce_liveness([dispatched(1, 1), declared(2)._replace(bodies=[None]), gone], [])
    assert (state.intents, state.open_work_orders) == ({}, [wo(1)])


HISTORY = (
    started(0), declared(1), dispatched(2, 1), in_pool(3, "TOOL_STARTED", 1), in_pool(4, "WO_FAILED", 1, "tool_failed"),
    dispatched(5, 2), superseded(6, 1, by=2), declared(7, 2), in_pool(8, "WO_COMPLETED", 2), escalated(9, 2),
    dispatched(10, 3), in_pool(11, "WO_COMPLETED", 1), in_pool(12, "TOOL_STARTED", 3), ended(13),
)  # fmt: skip


@given(shuffled=st.permutations(HISTORY), told=st.integers(0, len(HISTORY)))
def test_shuffled_input_gives_the_same_state(shuffled: list[Entry], told: int) -> None:
    """Whatever the order, and in whichever argument an entry comes, and however often."""
    expected = reduce_liveness(HISTORY, [])
    found = reduce_liveness(shuffled[:told], [*shuffled[told:], *shuffled[:3]])
    assert found == expected
    assert list(found.intents) == list(expected.intents)
    assert found.failed_items == expected.failed_items
    assert found.open_work_orders == expected.open_work_orders == [wo(3)]


def test_what_nobody_is_told_any_more_is_forgotten() -> None:
    """Completed orders, those of an intent that is over, and beyond the bound the oldest."""
    orders = OrderLives()
    for number in range(1, 6):
        orders.note_dispatched(wo(number), builders.tool_order(intent_id="gone" if number == 2 else INTENT))
    orders.ended(wo(1), at(1), failure="")
    orders.ended(wo(3), at(1), failure="expired")
    orders.forget(2, [INTENT])
    assert [one.wo_id for one in orders.list_known()] == [wo(4), wo(5)]
