"""No sequence of events, legal or not, breaks an invariant of the state, and every replay gives the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.ho2_supervisor.session.journal import envelope
from actors.ho2_supervisor.session.outcome import Outcome
from actors.ho2_supervisor.session.reducer import reduce
from actors.ho2_supervisor.session.state import SessionState, resolve_run_config
from bus.messages import session as events
from bus.messages.base import canonical_bytes, pack, unpack
from bus.messages.ids import RunId, StepId, ToolBatchId, TurnId, work_order_id
from bus.messages.session import SessionConfig, SessionEvent, SessionEventKind
from tests.actors.ho2_supervisor.journals import CONFIG, SESSION, at, degraded, requested

INPUTS = st.sampled_from(["i1", "i2"])
CALLS = st.sampled_from(["001", "002", "003"])
SMALL = st.integers(1, 3)


def _step_id(run: int, turn: int, step: int) -> StepId:
    return StepId(turn_id=TurnId(run_id=RunId(session_id=SESSION, run_seq=run), turn_seq=turn), step_seq=step)


STEPS = st.builds(_step_id, SMALL, SMALL, SMALL)
BATCHES = st.builds(lambda step, n: ToolBatchId(step_id=step, batch_seq=n), STEPS, st.integers(1, 2))


Builder = Callable[[SessionState, st.DataObject], SessionEventKind]


def _following(state: SessionState, *, new_round: bool) -> StepId:
    run = state.active_run_id or RunId(session_id=SESSION, run_seq=state.next_run_seq)
    current = state.active_turn_id or TurnId(run_id=run, turn_seq=1)
    turn = TurnId(run_id=run, turn_seq=state.next_turn_seq) if new_round else current
    return StepId(turn_id=turn, step_seq=1 if new_round else state.next_step_seq)


def _step(state: SessionState, data: st.DataObject) -> StepId:
    return state.active_step_id or data.draw(STEPS)


def _batch(state: SessionState, data: st.DataObject) -> ToolBatchId:
    batch = state.active_tool_batch
    return batch.tool_batch_id if batch else ToolBatchId(step_id=_step(state, data), batch_seq=1)


def _boundary(state: SessionState, data: st.DataObject) -> SessionEventKind:
    new_round = data.draw(st.booleans())
    step_id = _following(state, new_round=new_round)
    return events.StepStarted(step_id=step_id, new_round=new_round, at=at(3))


def _order(state: SessionState, data: st.DataObject) -> SessionEventKind:
    step = _step(state, data)
    wo_id = work_order_id(step, data.draw(CALLS) if state.active_tool_batch else "")
    return events.OrderDispatched(wo_id=wo_id, wo_type="synthesize", step_id=step, order={}, at=at(3))


def _order_end(state: SessionState, data: st.DataObject) -> SessionEventKind:
    wo_id = data.draw(st.sampled_from([*state.open_orders, work_order_id(_step(state, data))]))
    return events.OrderEnded(wo_id=wo_id, receipt={}, at=at(4))


def _receipt(state: SessionState, data: st.DataObject) -> SessionEventKind:
    return events.ToolReceipt(
        tool_batch_id=_batch(state, data),
        call_id=data.draw(CALLS),
        status=data.draw(st.sampled_from(["Succeeded", "Failed", "Cancelled"])),
        session_epoch=state.session_epoch,
        step_epoch=max(0, state.step_epoch - data.draw(st.sampled_from([0, 0, 0, 1]))),
        at=at(5),
    )


def _fan_out(state: SessionState, data: st.DataObject) -> SessionEventKind:
    batch = _batch(state, data)
    if state.active_tool_batch and data.draw(st.booleans()):
        batch = batch.model_copy(update={"batch_seq": batch.batch_seq + 1})
    return events.ToolBatchIssued(tool_batch_id=batch, call_ids=["003", "001", "002"], at=at(4))


def _input(state: SessionState, data: st.DataObject) -> str:
    return state.active_input_id or data.draw(INPUTS)


BUILDERS: dict[str, Builder] = {
    "take over": lambda s, d: events.TookOver(
        tenure=max(1, s.tenure + d.draw(st.sampled_from([1, 0, 2]))), instance="ho2/1@a", at=at(1)
    ),
    "start": lambda _s, _d: events.SessionStarted(
        agent_id="ADMIN", session_config=CONFIG, max_in_flight_effects=2, at=at(1)
    ),
    "request": lambda _, d: requested(d.draw(INPUTS)),
    "blank request": lambda _, d: requested(d.draw(INPUTS), SessionConfig(model="")),
    "run": lambda _s, _d: events.RunStarted(at=at(2)),
    "attach": lambda _, d: events.RunAttached(deadline_at=at(d.draw(st.integers(0, 99))), at=at(2)),
    "boundary": _boundary,
    "order": _order,
    "order end": _order_end,
    "batch": _fan_out,
    "receipt": _receipt,
    "settle": lambda s, d: events.BatchSettled(tool_batch_id=_batch(s, d), results_ref="r/1", at=at(6)),
    "complete": lambda s, d: events.RunCompleted(input_id=_input(s, d), result_ref="r/1", reply_ref="r/2", at=at(7)),
    "fail": lambda s, d: events.RunFailed(input_id=_input(s, d), code="x", at=at(7)),
    "cancelled": lambda s, d: events.RunCancelled(input_id=_input(s, d), at=at(7)),
    "cancel": lambda _s, _d: events.LifecycleChanged(lifecycle="Cancelling", at=at(7)),
    "degraded": lambda s, d: degraded(_input(s, d)),
    "time": lambda _s, _d: events.TimePassed(at=at(8)),
    "command": lambda _s, _d: events.HostCommandApplied(command_id="c", at=at(8)),
    "end": lambda _s, _d: events.SessionEnded(reason="x", turn_count=0, at=at(9)),
}
ALL = sorted(BUILDERS)
FORWARD = [
    ["boundary", "order", "order end"],
    ["boundary", "order", "order end", "order"],
    ["boundary", "batch", "order", "order", "order", "order"],
    ["order end", "order", "order end", "order end"],
    ["receipt", "receipt", "receipt", "receipt", "settle"],
    ["settle", "boundary"],
    ["request", "run"],
]
"""What drives a run on, in runs of events, so that sequences get deep."""
CHOICES = st.lists(st.sampled_from([[name] for name in ALL] + FORWARD * 3), min_size=3, max_size=14)
PREFIX = ["degraded", "take over", "start", "request", "run"]


def faults(before: SessionState, event: SessionEvent, outcome: Outcome) -> list[str]:
    """Every invariant of the state that does not hold after this event."""
    after, kind = outcome.state, event.event.kind
    batch = after.active_tool_batch
    issues = kind in ("OrderDispatched", "ToolBatchIssued", "StepStarted") and outcome.rejection is None
    statements = {
        "a rejection leaves the very same state": outcome.rejection is None or after is before,
        "epochs never fall": after.session_epoch >= before.session_epoch and after.step_epoch >= before.step_epoch,
        "run numbers never fall": after.next_run_seq >= before.next_run_seq,
        "tenures rise one by one": before.tenure <= after.tenure <= before.tenure + 1,
        "in_flight counts the open orders": after.in_flight_effects == len(after.open_orders),
        "in_flight keeps its limit": after.in_flight_effects <= after.max_in_flight_effects,
        "open orders are orders of this step": set(after.open_orders) <= set(after.step_orders),
        "a batch belongs to the active step": batch is None or batch.tool_batch_id.step_id == after.active_step_id,
        "a batch is replaced only when settled": before.active_tool_batch is None
        or before.active_tool_batch.is_settled
        or batch is None
        or batch.tool_batch_id == before.active_tool_batch.tool_batch_id,
        "a batch has a status per call": batch is None or sorted(batch.call_status) == batch.expected_call_ids,
        "a settled batch is complete": batch is None or not batch.is_settled or batch.is_complete,
        "nothing is issued unless Running": not issues or before.lifecycle == "Running",
        "a session at rest has no run": after.active_run_id is not None
        or (after.lifecycle, after.active_input_id, after.open_orders, batch) == ("Idle", None, [], None),
        "a running session has a run with a configuration": after.lifecycle == "Idle"
        or (after.active_run_id is not None and after.active_run_config is not None),
        "terminal states are left at once": after.lifecycle not in ("Completed", "Failed", "Cancelled"),
        "a closed session has no run": after.status == "open" or after.active_run_id is None,
        "a closed session stays closed": before.status == "open" or after.status == "closed",
        "a step belongs to the active run": after.active_step_id is None
        or after.active_step_id.turn_id.run_id == after.active_run_id,
    }
    return [statement for statement, holds in statements.items() if not holds]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_sequence_of_events_breaks_an_invariant(data: st.DataObject) -> None:
    """Whatever comes, the reducer answers, and what it answers is a sound state; no step or order id is issued twice."""
    state = SessionState(session_id=SESSION)
    issued: list[str] = []
    applied: list[SessionEvent] = []
    for choice in chain(PREFIX, *data.draw(CHOICES)):
        event = envelope(state, BUILDERS[choice](state, data))
        if data.draw(st.sampled_from([False] * 9 + [True])):  # a stray, of another moment
            event = event.model_copy(update={"step_epoch": state.step_epoch + 1, "run_id": None})
        outcome = reduce(state, event)
        assert faults(state, event, outcome) == []
        if outcome.rejection is None:
            applied.append(event)
            match event.event:
                case events.StepStarted(step_id=step_id):
                    issued.append(str(step_id))
                case events.OrderDispatched(wo_id=wo_id):
                    issued.append(wo_id)
                case events.ToolBatchIssued(tool_batch_id=batch_id):
                    issued.append(str(batch_id))
                case _:
                    pass
        state = outcome.state
    assert len(issued) == len(set(issued))
    assert canonical_bytes(_replayed(applied)) == canonical_bytes(state)


def _replayed(applied: list[SessionEvent]) -> SessionState:
    """The state from the recorded bytes of the events that applied."""
    state = SessionState(session_id=SESSION)
    for event in applied:
        state = reduce(state, SessionEvent.model_validate(unpack(pack(event.model_dump())))).state
    return state


CONFIGS = st.builds(
    SessionConfig,
    provider=st.sampled_from([None, "", " ", "p"]),
    model=st.sampled_from([None, "", "m"]),
    max_tokens=st.sampled_from([None, 0, 5]),
)


@given(CONFIGS, st.none() | CONFIGS)
def test_run_configuration_is_complete_or_refused(base: SessionConfig, overrides: SessionConfig | None) -> None:
    """An override wins wherever it is given, and a run configuration always names a provider and a model."""
    resolved = resolve_run_config(base, overrides)
    over = overrides or SessionConfig()
    wanted = [over.provider if over.provider is not None else base.provider]
    wanted.append(over.model if over.model is not None else base.model)
    if resolved is None:
        assert not all((text or "").strip() for text in wanted)
    else:
        assert [resolved.provider, resolved.model] == wanted
        assert resolved.max_tokens == (base.max_tokens if over.max_tokens is None else over.max_tokens)
