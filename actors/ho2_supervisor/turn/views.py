"""What an operator is shown of a session. Pure."""

from __future__ import annotations

from typing import Any

from hobus.actors.ho2_supervisor.session import commands
from hobus.actors.ho2_supervisor.session.record import SessionRecord
from hobus.actors.ho2_supervisor.session.state import hash_state
from hobus.actors.ho2_supervisor.turn.history import ERASED
from hobus.bus.messages.base import make_from
from hobus.bus.messages.session import CallView, ConflictView, HeldCall, IntentView, RunView, SessionView


def make_view(record: SessionRecord) -> SessionView | None:
    """Return the session as its record says; None for one that never started."""
    state = record.state
    if state.agent_id is None or state.created_at is None or state.updated_at is None:
        return None
    return make_from(
        SessionView,
        state,
        record,
        active_input_id=None if state.run is None or state.is_answered else state.run.input_id,
        run=run_view_of(record),
        pending_follow_ups=len(state.pending_follow_up),
        state_hash=hash_state(state),
        active_intents=[
            make_from(IntentView, one, declared_at=one.at, objective=record.objectives.get(one.objective_ref, ERASED))
            for one in state.intents.active
        ],
        intent_conflicts=state.intents.conflict_count,
        newest_conflict=state.intents.newest_conflict and make_from(ConflictView, state.intents.newest_conflict),
    )


def run_view_of(record: SessionRecord) -> RunView | None:
    """Return the active run; None if there is none."""
    state = record.state
    run = state.run
    if run is None:
        return None
    return make_from(
        RunView,
        run,
        rounds=run.next_turn_seq - 1,
        in_flight=len(run.open_orders),
        calls=_list_calls(record),
        pending_steers=len(run.pending_steer),
        lease_id=None if run.lease is None else run.lease.lease_id,
        lease_expires_at=commands.find_lease_expiry(state),
    )


def list_held_calls(record: SessionRecord) -> list[HeldCall]:
    """Return calls of the active batch that wait for an operator."""
    return [make_from(HeldCall, call) for call in _list_calls(record) if call.held]


def _list_calls(record: SessionRecord) -> list[CallView]:
    batch = record.state.tool_batch
    if batch is None:
        return []
    asked = _map_asked_for(record)
    calls: list[CallView] = []
    for call_id, status in batch.call_status.items():
        tool_id, arguments = asked.get(call_id, ("", {}))
        name = batch.find_held_name(call_id)
        shown = {"call_id": call_id} if name is None else {"call_id": name, "held": True, "arguments": arguments}
        calls.append(make_from(CallView, status, tool_id=tool_id, **shown))
    return calls


def _map_asked_for(record: SessionRecord) -> dict[str, tuple[str, dict[str, Any]]]:
    """Map call id to tool and arguments, from the model's newest answer that asked for tools."""
    if (run := record.run) is None:
        return {}
    for receipt in reversed(run.receipts.values()):
        if receipt.output_result is not None and (calls := receipt.output_result.tool_calls):
            return {call.call_id: (call.tool_id, call.arguments) for call in calls}
    return {}
