"""What an operator is shown of a session. Pure."""

from __future__ import annotations

from typing import Any

from hobus.actors.ho2_supervisor.session import commands
from hobus.actors.ho2_supervisor.session.record import SessionRecord
from hobus.actors.ho2_supervisor.session.state import state_hash
from hobus.actors.ho2_supervisor.turn.history import ERASED
from hobus.bus.messages.base import made_of
from hobus.bus.messages.session import CallView, ConflictView, HeldCall, IntentView, RunView, SessionView


def view_of(record: SessionRecord) -> SessionView | None:
    """Return the session as its record says; None for one that never started."""
    state = record.state
    if state.agent_id is None or state.created_at is None or state.updated_at is None:
        return None
    return made_of(
        SessionView,
        state,
        record,
        active_input_id=None if state.run is None or state.is_answered else state.run.input_id,
        run=run_view_of(record),
        pending_follow_ups=len(state.pending_follow_up),
        state_hash=state_hash(state),
        active_intents=[
            made_of(IntentView, one, declared_at=one.at, objective=record.objectives.get(one.objective_ref, ERASED))
            for one in state.intents.active
        ],
        intent_conflicts=state.intents.conflict_count,
        newest_conflict=state.intents.newest_conflict and made_of(ConflictView, state.intents.newest_conflict),
    )


def run_view_of(record: SessionRecord) -> RunView | None:
    """Return the active run; None if there is none."""
    state = record.state
    run = state.run
    if run is None:
        return None
    return made_of(
        RunView,
        run,
        rounds=run.next_turn_seq - 1,
        in_flight=len(run.open_orders),
        calls=_calls(record),
        pending_steers=len(run.pending_steer),
        lease_id=None if run.lease is None else run.lease.lease_id,
        lease_expires_at=commands.lease_expiry(state),
    )


def held_calls(record: SessionRecord) -> list[HeldCall]:
    """Return calls of the active batch that wait for an operator."""
    return [made_of(HeldCall, call) for call in _calls(record) if call.held]


def _calls(record: SessionRecord) -> list[CallView]:
    batch = record.state.tool_batch
    if batch is None:
        return []
    asked = _asked_for(record)
    calls: list[CallView] = []
    for call_id, status in batch.call_status.items():
        tool_id, arguments = asked.get(call_id, ("", {}))
        name = batch.held_name(call_id)
        shown = {"call_id": call_id} if name is None else {"call_id": name, "held": True, "arguments": arguments}
        calls.append(made_of(CallView, status, tool_id=tool_id, **shown))
    return calls


def _asked_for(record: SessionRecord) -> dict[str, tuple[str, dict[str, Any]]]:
    """Map call id to tool and arguments, from the model's newest answer that asked for tools."""
    if (run := record.run) is None:
        return {}
    for receipt in reversed(run.receipts.values()):
        if calls := (receipt.get("output_result") or {}).get("tool_calls"):
            return {call["call_id"]: (call["tool_id"], call["arguments"]) for call in calls}
    return {}
