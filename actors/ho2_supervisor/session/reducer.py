"""`reduce(state, event)`: the one place where a session's state changes. Pure and total.

No clock, no randomness, no I/O: every time comes in the event. An event that does not apply is rejected and leaves the
state as it was, timestamps included; nothing here raises. Source: spec page "Session contracts" (seed 004).

Every rule takes the state and the event's envelope and returns the changed fields, or a Rejected. What a host command
does stands in `commands.py`, what a lease is in `leases.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.ho2_supervisor.session import commands, leases
from actors.ho2_supervisor.session.lifecycle import DEGRADED_PATH, walk
from actors.ho2_supervisor.session.outcome import (
    BatchComplete,
    Changes,
    Effect,
    Outcome,
    ReceiptIgnored,
    Rejected,
    RunOver,
    Verdict,
)
from actors.ho2_supervisor.session.state import (
    ActiveToolBatch,
    CallStatus,
    SessionState,
    epochs_raised,
    names_no_model,
    resolve_run_config,
    state_hash,
)
from bus.messages import session as events
from bus.messages.ids import RunId, StepId, ToolBatchId, TurnId, follow_up_input, work_order_id
from bus.messages.session import Lifecycle, SessionEvent

_UNFENCED = frozenset({"SessionStarted", "TookOver", "TurnDegraded", "OrderEnded", "ToolReceipt"})
"""Kinds whose envelope may be older than the state: written by others, or receipts with a fence of their own."""

_UNSTAMPED = frozenset({"HostCommandReceived", "HostCommandRejected", "StateSnapshot"})
"""Kinds that change nothing of what a session is, and so not when it changed last."""


def reduce(state: SessionState, event: SessionEvent) -> Outcome:
    """The state after the event, or the same state and why the event does not apply."""
    verdict = _envelope_fault(state, event) or _RULES[event.event.kind](state, event.event)
    if isinstance(verdict, Rejected):
        return Outcome(state, rejection=verdict)
    changes, effects = verdict
    at = event.event.at
    stamp = {} if event.event.kind in _UNSTAMPED else {"updated_at": at, "created_at": state.created_at or at}
    return Outcome(state.model_copy(update=stamp | changes), effects)


def _envelope_fault(state: SessionState, event: SessionEvent) -> Rejected | None:
    if event.session_id != state.session_id:
        return Rejected(f"of session {event.session_id}, not {state.session_id}")
    if event.event.kind in _UNFENCED:
        return None
    if event.run_id != state.active_run_id:
        return Rejected(f"stale: of run {event.run_id}, the active run is {state.active_run_id}")
    if (event.session_epoch, event.step_epoch) != (state.session_epoch, state.step_epoch):
        return Rejected(
            f"stale: epochs {event.session_epoch}/{event.step_epoch}, now {state.session_epoch}/{state.step_epoch}"
        )
    return None


# --- the session --------------------------------------------------------------------------------------------------


def _session_started(state: SessionState, event: events.SessionStarted) -> Verdict:
    if state.is_started:
        return Rejected("the session has started already")
    return {
        "agent_id": event.agent_id,
        "session_config": event.session_config,
        "max_in_flight_effects": event.max_in_flight_effects,
        "applied_commands_max": event.applied_commands_max,
    }, ()


def _took_over(state: SessionState, event: events.TookOver) -> Verdict:
    if event.tenure != state.tenure + 1:
        return Rejected(f"tenure {event.tenure} does not follow {state.tenure}")
    return {"tenure": event.tenure, "owner": event.instance}, ()


def _session_ended(state: SessionState, _event: events.SessionEnded) -> Verdict:
    if not state.is_started or state.status == "closed":
        return Rejected("the session is not open")
    if state.active_run_id is not None:
        return Rejected(f"run {state.active_run_id} is active")
    return {"status": "closed", "pending_follow_up": []}, ()


def _state_snapshot(state: SessionState, event: events.StateSnapshot) -> Verdict:
    if event.state_hash != (actual := state_hash(state)):
        return Rejected(f"the snapshot is of state {event.state_hash}, the journal gives {actual}")
    return {}, ()


def _turn_degraded(state: SessionState, event: events.TurnDegraded) -> Verdict:
    """Marks the input as answered: its run is over at once if that is the active one, and none begins if it waits."""
    run_id = state.active_run_id
    if run_id is None or event.input_id != state.active_input_id:
        waiting = [
            ref for ref in state.pending_follow_up if follow_up_input(commands.command_of(ref)) != event.input_id
        ]
        is_shorter = len(waiting) < len(state.pending_follow_up)
        return {"open_calls": None} | ({"pending_follow_up": waiting} if is_shorter else {}), ()
    over = RunOver(run_id, event.input_id, DEGRADED_PATH[0])
    cleared = _run_cleared() | {"lifecycle": DEGRADED_PATH[-1], "open_calls": None}
    return cleared | epochs_raised(state), (*_ignored_calls(state), over)


# --- the run ------------------------------------------------------------------------------------------------------


def _run_requested(state: SessionState, event: events.RunRequested) -> Verdict:
    if not state.is_started or state.status == "closed":
        return Rejected("session_closed: the session is not open")
    if state.active_run_id is not None:
        return Rejected(f"run_active: {state.active_run_id}")
    if names_no_model(state.session_config, event.run_overrides):
        return Rejected("invalid_input: the run's provider or model is blank")
    if event.input_ref in state.pending_follow_up[1:]:
        return Rejected(f"{state.pending_follow_up[0]} is the next follow-up")
    is_open = state.open_calls is not None and event.continues == state.open_calls.wo_id
    if (event.results or event.continues) and not is_open:
        return Rejected(f"invalid_input: results of calls of {event.continues} that are not open")
    return {
        "active_run_id": RunId(session_id=state.session_id, run_seq=state.next_run_seq),
        "next_run_seq": state.next_run_seq + 1,
        "next_turn_seq": 1,
        "next_step_seq": 1,
        "active_input_id": event.input_id,
        "run_overrides": event.run_overrides,
        "deadline_at": event.deadline_at,
        "run_config_digest": event.config_digest,
        "lease_terms": event.lease,
        "pending_follow_up": [ref for ref in state.pending_follow_up if ref != event.input_ref],
    }, ()


def _run_started(state: SessionState, _event: events.RunStarted) -> Verdict:
    lifecycle = walk(state.lifecycle, "Running")
    if state.active_run_id is None or state.lifecycle != "Idle" or lifecycle is None:
        return Rejected(f"no requested run to start (lifecycle {state.lifecycle})")
    config = resolve_run_config(state.session_config, state.run_overrides)
    return {"lifecycle": lifecycle, "active_run_config": config}, ()


def _run_attached(state: SessionState, event: events.RunAttached) -> Verdict:
    if state.active_run_id is None or state.deadline_at is None:
        return Rejected("no active run to attach to")
    # Timestamps have one width, so that text order is time order.
    return {"deadline_at": max(state.deadline_at, event.deadline_at)}, ()


def _lease_issued(state: SessionState, event: events.LeaseIssued) -> Verdict:
    return leases.issued(state, event)


def _time_passed(state: SessionState, event: events.TimePassed) -> Verdict:
    if not leases.is_over(state, event.at):
        return {}, ()
    return commands.cancelling(state, "lease_expired")


def _run_completed(state: SessionState, event: events.RunCompleted) -> Verdict:
    if state.open_orders or (state.active_tool_batch and not state.active_tool_batch.is_settled):
        return Rejected("effects are still in flight")
    ended = _run_ended(state, event.input_id, "Completed")
    if isinstance(ended, Rejected):
        return ended
    changes, effects = ended
    return changes | {"open_calls": event.open_calls}, effects


def _run_failed(state: SessionState, event: events.RunFailed) -> Verdict:
    return _run_ended(state, event.input_id, "Failed")


def _run_cancelled(state: SessionState, event: events.RunCancelled) -> Verdict:
    return _run_ended(state, event.input_id, "Cancelled")


def _lifecycle_changed(state: SessionState, event: events.LifecycleChanged) -> Verdict:
    """The moves that the run's owner makes; Running again comes by the command that ends the waiting."""
    match event.lifecycle:
        case "Cancelling":
            return commands.cancelling(state, "session_ended")
        case "WaitingInput":
            return _waits(state, event)
        case "Paused":
            return _paused(state, event)
        case _:
            return Rejected(f"no owner moves a run to {event.lifecycle}")


def _waits(state: SessionState, event: events.LifecycleChanged) -> Verdict:
    batch = state.active_tool_batch
    if batch is None or not batch.held or walk(state.lifecycle, "WaitingInput") is None:
        return Rejected(f"nothing to wait for (lifecycle {state.lifecycle})")
    return {"lifecycle": "WaitingInput", "waiting_since": event.at}, ()


def _paused(state: SessionState, event: events.LifecycleChanged) -> Verdict:
    """At a step boundary: no order is on its way, and somebody asked for it."""
    if not state.pause_requested or walk(state.lifecycle, "Paused") is None:
        return Rejected(f"no pause was asked for that may begin now (lifecycle {state.lifecycle})")
    if state.open_orders:
        return Rejected("not at a step boundary: effects are in flight")
    return {"lifecycle": "Paused", "pause_requested": False, "waiting_since": state.waiting_since or event.at}, ()


# --- host commands ------------------------------------------------------------------------------------------------


def _command_received(state: SessionState, event: events.HostCommandReceived) -> Verdict:
    return commands.received(state, event.command)


def _command_applied(state: SessionState, event: events.HostCommandApplied) -> Verdict:
    return commands.applied(state, event.command_id, event.at)


def _command_rejected(state: SessionState, event: events.HostCommandRejected) -> Verdict:
    return commands.rejected(state, event.command_id)


# --- steps, orders, tool batches ----------------------------------------------------------------------------------


def _step_started(state: SessionState, event: events.StepStarted) -> Verdict:
    if fault := _effect_fault(state):
        return fault
    if state.open_orders or (state.active_tool_batch and not state.active_tool_batch.is_settled):
        return Rejected("the step before has effects in flight")
    if state.pause_requested:
        return Rejected("a pause was asked for: no further step begins before it")
    if event.steers != (state.pending_steer if event.new_round else []):
        return Rejected(f"a new round observes the pending steers {state.pending_steer}, any other step none")
    expected = _next_step(state, new_round=event.new_round)
    if expected is None or event.step_id != expected:
        return Rejected(f"step {event.step_id}, the next one is {expected}")
    return {
        "active_turn_id": expected.turn_id,
        "active_step_id": expected,
        "next_turn_seq": expected.turn_id.turn_seq + 1,
        "next_step_seq": expected.step_seq + 1,
        "step_epoch": state.step_epoch + 1,
        "active_tool_batch": None,
        "step_orders": [],
        "pending_steer": [] if event.new_round else state.pending_steer,
    }, ()


def _order_dispatched(state: SessionState, event: events.OrderDispatched) -> Verdict:
    if fault := _effect_fault(state):
        return fault
    if event.step_id != state.active_step_id:
        return Rejected(f"of step {event.step_id}, the active step is {state.active_step_id}")
    if event.wo_id in state.step_orders:
        return Rejected(f"{event.wo_id} was dispatched already")
    if event.wo_id not in _expected_orders(state, event.step_id):
        return Rejected(f"{event.wo_id} is neither the step's order nor one of its batch's pending calls")
    if len(state.open_orders) >= state.max_in_flight_effects:
        return Rejected(f"{len(state.open_orders)} effects in flight; at most {state.max_in_flight_effects}")
    open_orders = [*state.open_orders, event.wo_id]
    return {
        "step_orders": [*state.step_orders, event.wo_id],
        "open_orders": open_orders,
        "in_flight_effects": len(open_orders),
    }, ()


def _order_ended(state: SessionState, event: events.OrderEnded) -> Verdict:
    if event.wo_id not in state.open_orders:
        return {}, (ReceiptIgnored(event.wo_id),)
    open_orders = [wo_id for wo_id in state.open_orders if wo_id != event.wo_id]
    return {"open_orders": open_orders, "in_flight_effects": len(open_orders)}, ()


def _batch_issued(state: SessionState, event: events.ToolBatchIssued) -> Verdict:
    if fault := _effect_fault(state):
        return fault
    batch = state.active_tool_batch
    if batch is not None and not batch.is_settled:
        return Rejected(f"batch {batch.tool_batch_id} is not settled")
    if state.active_step_id is None:
        return Rejected("no step has started")
    batch_seq = 1 if batch is None else batch.tool_batch_id.batch_seq + 1
    expected = ToolBatchId(step_id=state.active_step_id, batch_seq=batch_seq)
    if event.tool_batch_id != expected:
        return Rejected(f"batch {event.tool_batch_id}, the next one is {expected}")
    calls = sorted(event.call_ids)
    if not calls or len(set(calls)) != len(calls):
        return Rejected("a batch names at least one call and each only once")
    if not set(event.held) <= set(calls) or len(set(event.held)) != len(event.held):
        return Rejected("a batch holds calls of its own, each only once")
    issued = ActiveToolBatch(
        tool_batch_id=expected,
        issued_at_step_epoch=state.step_epoch,
        expected_call_ids=calls,
        call_status={call: CallStatus(state="Pending") for call in calls},
        held=sorted(event.held),
    )
    return {"active_tool_batch": issued}, ()


def _tool_receipt(state: SessionState, event: events.ToolReceipt) -> Verdict:
    """The first terminal status of a call stands; a stale fence makes it IgnoredStale."""
    batch = state.active_tool_batch
    if batch is None or batch.tool_batch_id != event.tool_batch_id:
        return {}, (ReceiptIgnored(f"{event.tool_batch_id}.{event.call_id}"),)
    status = batch.call_status.get(event.call_id)
    if status is None:
        return Rejected(f"batch {batch.tool_batch_id} has no call {event.call_id}")
    if status.is_terminal:
        return {}, (ReceiptIgnored(f"{event.tool_batch_id}.{event.call_id}"),)
    is_stale = (event.session_epoch, event.step_epoch) != (state.session_epoch, state.step_epoch)
    became = CallStatus(state="IgnoredStale") if is_stale else CallStatus(state=event.status, code=event.code)
    changed = batch.with_status(event.call_id, became)
    effects: list[Effect] = [ReceiptIgnored(f"{event.tool_batch_id}.{event.call_id}")] if is_stale else []
    if changed.is_complete:
        effects.append(BatchComplete(tuple(changed.expected_call_ids)))
    return {"active_tool_batch": changed}, tuple(effects)


def _batch_settled(state: SessionState, event: events.BatchSettled) -> Verdict:
    batch = state.active_tool_batch
    if batch is None or batch.tool_batch_id != event.tool_batch_id or batch.is_settled:
        return Rejected(f"{event.tool_batch_id} is not the unsettled batch")
    if not batch.is_complete:
        return Rejected(f"calls of {event.tool_batch_id} are pending")
    if not event.results_ref:
        return Rejected("a settled batch names its results")
    return {"active_tool_batch": batch.model_copy(update={"results_ref": event.results_ref})}, ()


# --- shared facts -------------------------------------------------------------------------------------------------


def _effect_fault(state: SessionState) -> Rejected | None:
    """New effects need a run in state Running: none while Paused, Cancelling, or before RunStarted."""
    if state.active_run_id is None or state.lifecycle != "Running":
        return Rejected(f"no effect may be issued in lifecycle {state.lifecycle}")
    return None


def _next_step(state: SessionState, *, new_round: bool) -> StepId | None:
    if state.active_run_id is None:
        return None
    if new_round:
        return StepId(turn_id=TurnId(run_id=state.active_run_id, turn_seq=state.next_turn_seq), step_seq=1)
    if state.active_turn_id is None:
        return None
    return StepId(turn_id=state.active_turn_id, step_seq=state.next_step_seq)


def _expected_orders(state: SessionState, step: StepId) -> list[str]:
    """Order ids that this step may dispatch: its one order, or one per pending call of its batch that is not held."""
    batch = state.active_tool_batch
    if batch is None:
        return [work_order_id(step)]
    return [work_order_id(step, call) for call in batch.expected_call_ids if batch.may_run(call)]


def _run_ended(state: SessionState, input_id: str, terminal: Lifecycle) -> Verdict:
    run_id = state.active_run_id
    if run_id is None or input_id != state.active_input_id:
        return Rejected(f"no active run for input {input_id}")
    # A run that was requested and never started can only fail; it passes through Running.
    started: tuple[Lifecycle, ...] = ("Running",) if state.lifecycle == "Idle" and terminal == "Failed" else ()
    lifecycle = walk(state.lifecycle, *started, terminal, "Idle")
    if lifecycle is None:
        return Rejected(f"{state.lifecycle} -> {terminal} is not in the table")
    over = RunOver(run_id, input_id, terminal)
    return _run_cleared() | {"lifecycle": lifecycle}, (*_ignored_calls(state), over)


def _run_cleared() -> Changes:
    return {
        "active_run_id": None,
        "active_run_config": None,
        "active_turn_id": None,
        "active_step_id": None,
        "active_tool_batch": None,
        "active_run_lease": None,
        "last_heartbeat_at": None,
        "lease_terms": None,
        "pending_steer": [],
        "waiting_since": None,
        "active_input_id": None,
        "run_overrides": None,
        "deadline_at": None,
        "run_config_digest": "",
        "step_orders": [],
        "open_orders": [],
        "in_flight_effects": 0,
        "pause_requested": False,
        "cancel_reason": None,
    }


def _ignored_calls(state: SessionState) -> tuple[Effect, ...]:
    """What is still open when a run is cleared is ignored as stale."""
    return tuple(ReceiptIgnored(wo_id) for wo_id in state.open_orders)


_RULES: dict[str, Callable[[SessionState, Any], Verdict]] = {
    "SessionStarted": _session_started,
    "TookOver": _took_over,
    "RunRequested": _run_requested,
    "RunStarted": _run_started,
    "RunAttached": _run_attached,
    "HostCommandReceived": _command_received,
    "HostCommandApplied": _command_applied,
    "HostCommandRejected": _command_rejected,
    "LifecycleChanged": _lifecycle_changed,
    "StepStarted": _step_started,
    "OrderDispatched": _order_dispatched,
    "OrderEnded": _order_ended,
    "ToolBatchIssued": _batch_issued,
    "ToolReceipt": _tool_receipt,
    "BatchSettled": _batch_settled,
    "LeaseIssued": _lease_issued,
    "TimePassed": _time_passed,
    "RunCompleted": _run_completed,
    "RunFailed": _run_failed,
    "RunCancelled": _run_cancelled,
    "TurnDegraded": _turn_degraded,
    "StateSnapshot": _state_snapshot,
    "SessionEnded": _session_ended,
}
