"""Journals made by hand: the envelope that an owner would give each event, folded as it goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench import builders
from hobus.actors.ho2_supervisor.session import journal
from hobus.actors.ho2_supervisor.session.reducer import reduce
from hobus.actors.ho2_supervisor.session.state import Reduced, SessionState
from hobus.actors.ho2_supervisor.turn.history import HistoryLimits
from hobus.bus.messages.ids import StepId, ToolBatchId, TurnId, work_order_id
from hobus.bus.messages.session import SessionConfig
from hobus.bus.record import session_facts as events
from hobus.bus.record.journal import Recorded
from hobus.bus.record.session_facts import SessionFact
from tests.actors.ho2_supervisor.lives import CONFIG, SESSION, at
from tests.journals import receipt as receipt_of

LIMITS = HistoryLimits(budget_tokens=1000, turns_max=3, digest_chars=60, chars_per_token=4, known_max=10)


def started(max_in_flight: int = 2) -> SessionState:
    """An open session of tenure 1."""
    return fold(
        SessionState(session_id=SESSION),
        events.TookOver(tenure=1, instance="ho2/1@a", at=at()),
        events.SessionStarted(agent_id="ADMIN", session_config=CONFIG, max_in_flight_effects=max_in_flight, at=at()),
    )


def running(max_in_flight: int = 2) -> SessionState:
    """A session whose first run has started."""
    return fold(started(max_in_flight), requested(), events.RunStarted(at=at(1)))


def requested(input_id: str = "i1", overrides: SessionConfig | None = None) -> events.RunRequested:
    """A client's input."""
    return events.RunRequested(
        input_ref=f"RunRequested:{SESSION}/{input_id}/1",
        input_id=input_id,
        input_digest=journal.digest_input(input_id, "hello"),
        run_overrides=overrides,
        deadline_at=at(60),
        config_digest="sha256:0",
        at=at(1),
    )


def step(state: SessionState, *, new_round: bool = True) -> events.StepStarted:
    """The boundary that comes next."""
    assert state.run_id is not None
    turn_seq = (
        (state.run.next_turn_seq if state.run else 1)
        if new_round
        else (state.run.next_turn_seq if state.run else 1) - 1
    )
    turn_id = TurnId(run_id=state.run_id, turn_seq=turn_seq)
    step_id = StepId(turn_id=turn_id, step_seq=1 if new_round else (state.run.next_step_seq if state.run else 1))
    return events.StepStarted(step_id=step_id, new_round=new_round, at=at(2))


def dispatched(state: SessionState, call: str = "") -> events.OrderDispatched:
    """The current step's order, or one of its calls."""
    assert (state.run and state.run.step_id) is not None
    return events.OrderDispatched(
        wo_id=work_order_id((state.run and state.run.step_id), call),
        wo_type="tool_call" if call else "synthesize",
        step_id=(state.run and state.run.step_id),
        order=builders.order(),
        at=at(3),
    )


def ended(wo_id: str, state: SessionState | None = None, *, failure: str = "", stale: int = 0) -> events.OrderEnded:
    """The receipt that came for an order; of a call under the current fence, or one that is so much older."""
    form: dict[str, Any] = {"state": "failed", "error": {"code": failure, "message": ""}} if failure else {}
    if state is not None:
        run = {"session_id": SESSION, "run_seq": 1}
        form["fence"] = {"run_id": run, "session_epoch": state.session_epoch, "step_epoch": state.step_epoch - stale}
    return events.OrderEnded(wo_id=wo_id, receipt=receipt_of(wo_id, **form), at=at(4))


def batch_of(state: SessionState, number: int = 1) -> ToolBatchId:
    """The batch id of the current step."""
    assert (state.run and state.run.step_id) is not None
    return ToolBatchId(step_id=(state.run and state.run.step_id), batch_seq=number)


def issued(state: SessionState, *calls: str) -> events.ToolBatchIssued:
    """A fan-out in the current step."""
    return events.ToolBatchIssued(tool_batch_id=batch_of(state), call_ids=list(calls), at=at(5))


def receipt(state: SessionState, call: str, status: str = "Succeeded", **epochs: int) -> events.ToolReceipt:
    """A call's receipt, under the current fence unless said otherwise."""
    fence = {"session_epoch": state.session_epoch, "step_epoch": state.step_epoch} | epochs
    return events.ToolReceipt.model_validate(
        {"tool_batch_id": batch_of(state), "call_id": call, "status": status, "at": at(6), **fence}
    )


def degraded(input_id: str = "i1") -> events.TurnDegraded:
    """The host answered."""
    return events.TurnDegraded(
        input_id=input_id, input_ref=f"x/{input_id}/1", reply_ref=f"x/{input_id}/2", delivered=False, at=at(8)
    )


def reduced(state: SessionState, event: SessionFact) -> Reduced:
    """What the reducer says to this event under the current correlation fields."""
    return reduce(state, journal.make_envelope(state, event))


def fold(state: SessionState, *given: SessionFact) -> SessionState:
    """The state after these events, each of which must apply."""
    for event in given:
        outcome = reduced(state, event)
        assert outcome.rejection is None, (event.kind, outcome.rejection)
        state = outcome.state
    return state


def recorded(state: SessionState, event: SessionFact, submission_id: str, bodies: Sequence[bytes] = ()) -> Recorded:
    """A journal entry with this event; body 0 is not looked at again."""
    return Recorded(submission_id, journal.make_envelope(state, event), (b"", *bodies))
