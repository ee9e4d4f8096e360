"""`reduce(state, event)`: the one place where a session's state changes. Pure and total.

No clock, no randomness, no I/O: every time comes in the event. An event that does not apply is rejected and leaves the
state as it was, timestamps included; nothing here raises.

Every rule takes the state and the event and returns the state after it, or a Rejected. What a host command does, and
what a lease is, stands in `commands.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from hobus.actors.ho2_supervisor.session import commands, intents
from hobus.actors.ho2_supervisor.session.order_lives import read_failure
from hobus.actors.ho2_supervisor.session.state import (
    ActiveToolBatch,
    CallStatus,
    Reduced,
    Rejected,
    RunState,
    SessionState,
    Verdict,
    hash_state,
    raise_epochs,
    replace_run,
    resolve_run_config,
    walk,
)
from hobus.bus.errors import OUT_OF_TIME_CODES
from hobus.bus.messages.ids import (
    BESIDE_CALL_ID,
    RunId,
    StepId,
    call_in,
    follow_up_input,
    format_iso,
    get_position,
    parse_iso,
    work_order_id,
)
from hobus.bus.messages.session import Lifecycle
from hobus.bus.record import session_facts as events
from hobus.bus.record.session_facts import SessionEvent

_UNFENCED = frozenset({"SessionStarted", "TookOver", "TurnDegraded", "OrderEnded", "ToolReceipt", "SessionArrived"})
"""Kinds whose envelope may be older than the state: written by others, or receipts with a fence of their own."""

_IN_FLIGHT = "effects are still in flight"
_UNSTAMPED = frozenset({"HostCommandReceived", "HostCommandRejected", "StateSnapshot"})
"""Kinds that change nothing of what a session is, and so not when it changed last."""


def reduce(state: SessionState, event: SessionEvent) -> Reduced:
    """Return the state after the event, or the same state and why the event does not apply."""
    after = (
        _find_cell_fault(state, event)
        or _find_envelope_fault(state, event)
        or _RULES[event.event.kind](state, event.event)
    )
    if type(after) is Rejected:
        return Reduced(state, rejection=after)
    if event.event.kind in _UNSTAMPED:
        return Reduced(after)
    at = event.event.at
    stamped = replace(after, updated_at=at, created_at=state.created_at or at)
    return Reduced(stamped, ("run_stops",) if after.lifecycle == "Cancelling" != state.lifecycle else ())


def _find_cell_fault(state: SessionState, event: SessionEvent) -> Rejected | None:
    if not state.cell or event.event.kind == "SessionArrived":
        return None
    return Rejected(f"session_left: the session has moved to cell {state.cell}")


def _find_envelope_fault(state: SessionState, event: SessionEvent) -> Rejected | None:
    if event.session_id != state.session_id:
        return Rejected(f"of session {event.session_id}, not {state.session_id}")
    if event.event.kind in _UNFENCED:
        return None
    run_id = state.run and state.run.run_id
    if event.run_id is not run_id and event.run_id != run_id:
        return Rejected(f"stale: of {event.run_id or 'no run'}, {state.name_active_run()}")
    if (event.session_epoch, event.step_epoch) != (state.session_epoch, state.step_epoch):
        return Rejected(
            f"stale: epochs {event.session_epoch}/{event.step_epoch}, now {state.session_epoch}/{state.step_epoch}"
        )
    return None


# --- the session --------------------------------------------------------------------------------------------------


def _apply_session_started(state: SessionState, event: events.SessionStarted) -> Verdict:
    if state.is_started:
        return Rejected("the session has started already")
    return replace(
        state,
        agent_id=event.agent_id,
        principal=event.principal,
        session_config=event.session_config,
        max_in_flight_effects=event.max_in_flight_effects,
        applied_commands_max=event.applied_commands_max,
    )


def _apply_took_over(state: SessionState, event: events.TookOver) -> Verdict:
    if event.tenure != state.tenure + 1:
        return Rejected(f"tenure {event.tenure} does not follow {state.tenure}")
    return replace(state, tenure=event.tenure, owner=event.instance)


def _apply_session_ended(state: SessionState, _event: events.SessionEnded) -> Verdict:
    if not state.is_started or state.status == "closed":
        return Rejected("the session is not open")
    if state.run is not None:
        return Rejected(f"run {state.run_id} is active")
    return replace(
        state, status="closed", pending_follow_up=[], follow_up_by={}, intents=replace(state.intents, active=[])
    )


def may_not_leave(state: SessionState) -> bool:
    """Return whether something of the session is not done: a run, a waiting message, an undecided command."""
    return state.run is not None or bool(state.pending_follow_up) or state.received_command is not None


def _apply_session_left(state: SessionState, event: events.SessionLeft) -> Verdict:
    if not state.is_started or may_not_leave(state):
        return Rejected("run_active: something of the session is not done")
    return replace(state, cell=event.cell)


def _apply_session_arrived(state: SessionState, _event: events.SessionArrived) -> Verdict:
    return replace(state, cell="") if state.cell else Rejected("the session is here")


def _apply_state_snapshot(state: SessionState, event: events.StateSnapshot) -> Verdict:
    if event.state_hash != (actual := hash_state(state)):
        return Rejected(f"the snapshot is of state {event.state_hash}, the journal gives {actual}")
    return state


def _apply_turn_degraded(state: SessionState, event: events.TurnDegraded) -> Verdict:
    """Mark the input as answered: an active run of it is over at once, a waiting one never begins."""
    run = state.run
    if run is None or event.input_id != run.input_id:
        waiting = [
            ref for ref in state.pending_follow_up if follow_up_input(commands.get_command_id(ref)) != event.input_id
        ]
        return replace(state, open_calls=None, pending_follow_up=waiting, failed=None)
    return replace(raise_epochs(state), run=None, lifecycle="Idle", open_calls=None, failed=None)


def _apply_intent(state: SessionState, event: intents.IntentFact) -> Verdict:
    """Change intents while the session is open, whatever its run's state: they are facts, no effects."""
    if not state.is_started or state.status == "closed":
        return Rejected("session_closed: the session is not open")
    after = intents.apply_fact(state.intents, event, state.session_id)
    return Rejected(after) if isinstance(after, str) else replace(state, intents=after)


# --- the run ------------------------------------------------------------------------------------------------------


def _run_requested(state: SessionState, event: events.RunRequested) -> Verdict:
    if not state.is_started or state.status == "closed":
        return Rejected("session_closed: the session is not open")
    if state.run is not None:
        return Rejected(f"run_active: {state.run_id}")
    if resolve_run_config(state.session_config, event.run_overrides, event.model) is None:
        return Rejected("invalid_input: the run's provider or model is blank")
    if event.input_ref in state.pending_follow_up[1:]:
        return Rejected(f"{state.pending_follow_up[0]} is the next follow-up")
    is_open = state.open_calls is not None and event.continues == state.open_calls.wo_id
    if (event.results or event.continues) and not is_open:
        return Rejected(f"invalid_input: results of calls of {event.continues} that are not open")
    run = RunState(
        run_id=RunId(session_id=state.session_id, run_seq=state.next_run_seq),
        input_id=event.input_id,
        deadline_at=event.deadline_at,
        config_digest=event.config_digest,
        overrides=event.run_overrides,
        model=event.model,
        lease_terms=event.lease,
        pending_steer=[],
        step_orders=[],
        open_orders=[],
        asked_by=[state.follow_up_by.get(event.input_ref, event.asked_by)],
    )
    waiting = [ref for ref in state.pending_follow_up if ref != event.input_ref]
    said_by = {ref: by for ref, by in state.follow_up_by.items() if ref in waiting}
    following = {"pending_follow_up": waiting, "follow_up_by": said_by}
    return replace(state, run=run, failed=None, next_run_seq=state.next_run_seq + 1, **following)


def _run_started(state: SessionState, _event: events.RunStarted) -> Verdict:
    run, lifecycle = state.run, walk(state.lifecycle, "Running")
    if run is None or state.lifecycle != "Idle" or lifecycle is None:
        return Rejected(f"no requested run to start (lifecycle {state.lifecycle})")
    config = resolve_run_config(state.session_config, run.overrides, run.model)
    return replace(state, lifecycle=lifecycle, run=replace(run, config=config))


def _run_attached(state: SessionState, event: events.RunAttached) -> Verdict:
    if state.run is None:
        return _goes_on(state, event)
    # Timestamps have one width, so that text order is time order.
    return replace_run(state, state.run, deadline_at=max(state.run.deadline_at, event.deadline_at))


def _goes_on(state: SessionState, event: events.RunAttached) -> Verdict:
    """Make the failed run active again at the step where it was, since its input is asked for again."""
    run = state.failed
    if run is None or state.status == "closed":
        return Rejected("no active run to attach to, and none that may go on")
    lease = run.lease and run.lease.model_copy(
        update={"expires_at": format_iso(parse_iso(event.at) + (run.lease_terms.ttl_secs if run.lease_terms else 0))}
    )
    again = replace(run, deadline_at=event.deadline_at, lease=lease, last_heartbeat_at=lease and event.at)
    return replace(state, lifecycle="Idle" if run.config is None else "Running", run=again, failed=None)


def _apply_time_passed(state: SessionState, event: events.TimePassed) -> Verdict:
    if not commands.is_lease_over(state, event.at):
        return state
    return commands.begin_cancelling(state, "its lease has expired")


def _run_completed(state: SessionState, event: events.RunCompleted) -> Verdict:
    """End the run with its answer; while its classification is on its way, with the end of that."""
    run = state.run
    if run is not None and run.is_in_flight:
        return Rejected(_IN_FLIGHT)
    ended = _run_ended(state, event.input_id, "Completed")
    if isinstance(ended, Rejected) or run is None:
        return ended
    if run.open_orders:
        ended = replace(ended, lifecycle="Completed", run=replace(run, lease=None, pause_requested=False))
    return replace(ended, open_calls=event.open_calls)


def _run_cancelled(state: SessionState, event: events.RunCancelled) -> Verdict:
    """End a cancelled run, whose calls all have ends; nobody records its batch's results, so that never settles."""
    run = state.run
    if run is not None and (run.open_orders or (run.tool_batch is not None and not run.tool_batch.is_complete)):
        return Rejected(_IN_FLIGHT)
    return _run_ended(state, event.input_id, "Cancelled")


def _apply_lifecycle_changed(state: SessionState, event: events.LifecycleChanged) -> Verdict:
    """Make a move that is the run's owner's; Running again comes by the command that ends the waiting."""
    match event.lifecycle:
        case "Cancelling":
            return commands.begin_cancelling(state, "its session was ended")
        case "WaitingInput":
            return _waits(state, event)
        case "Paused":
            return _apply_paused(state, event)
        case _:
            return Rejected(f"no owner moves a run to {event.lifecycle}")


def _waits(state: SessionState, event: events.LifecycleChanged) -> Verdict:
    run = state.run
    batch = None if run is None else run.tool_batch
    if run is None or batch is None or not batch.held or walk(state.lifecycle, "WaitingInput") is None:
        return Rejected(f"nothing to wait for (lifecycle {state.lifecycle})")
    return replace(state, lifecycle="WaitingInput", run=replace(run, waiting_since=event.at))


def _apply_paused(state: SessionState, event: events.LifecycleChanged) -> Verdict:
    """Pause at a step boundary: no order is on its way, and somebody asked for it."""
    run = state.run
    if run is None or not run.pause_requested or walk(state.lifecycle, "Paused") is None:
        return Rejected(f"no pause was asked for that may begin now (lifecycle {state.lifecycle})")
    if run.awaited_orders:
        return Rejected("not at a step boundary: effects are in flight")
    paused = replace(run, pause_requested=False, waiting_since=run.waiting_since or event.at)
    return replace(state, lifecycle="Paused", run=paused)


# --- steps, orders, tool batches ----------------------------------------------------------------------------------


def _apply_step_started(state: SessionState, run: RunState, event: events.StepStarted) -> Verdict:
    if run.is_in_flight:
        return Rejected("the step before has effects in flight")
    if run.pause_requested:
        return Rejected("a pause was asked for: no further step begins before it")
    if event.steers != (run.pending_steer if event.new_round else []):
        return Rejected(f"a new round observes the pending steers {run.pending_steer}, any other step none")
    fault = _find_step_fault(run, event.step_id, new_round=event.new_round)
    if fault:
        return Rejected(f"step {event.step_id}, the next one is {fault}")
    began = replace(
        run,
        turn_id=event.step_id.turn_id,
        step_id=event.step_id,
        tool_batch=None,
        step_orders=[],
        pending_steer=[] if event.new_round else run.pending_steer,
    )
    return replace(state, step_epoch=state.step_epoch + 1, run=began)


def _apply_order_dispatched(state: SessionState, run: RunState, event: events.OrderDispatched) -> Verdict:
    if run.step_id is None or event.step_id != run.step_id:
        return Rejected(f"of step {event.step_id}, the active step is {run.step_id}")
    if event.wo_id in run.step_orders:
        return Rejected(f"{event.wo_id} was dispatched already")
    if event.wo_id not in _list_expected_orders(run, run.step_id):
        return Rejected(f"{event.wo_id} is neither the step's order nor one of its batch's pending calls")
    if len(run.open_orders) >= state.max_in_flight_effects:
        return Rejected(f"{len(run.open_orders)} effects in flight; at most {state.max_in_flight_effects}")
    orders = {"step_orders": [*run.step_orders, event.wo_id], "open_orders": [*run.open_orders, event.wo_id]}
    return replace_run(state, run, **orders)


def _apply_order_ended(state: SessionState, event: events.OrderEnded) -> Verdict:
    run = state.run
    if run is None or event.wo_id not in run.open_orders:
        return state  # ignored: it came too late, or twice
    left = [wo_id for wo_id in run.open_orders if wo_id != event.wo_id]
    if state.is_answered and not left:
        return replace(state, lifecycle="Idle", run=None)
    batch = run.tool_batch
    if batch is not None and run.step_id is not None:
        fence, code = event.receipt.fence, read_failure(event.receipt)
        ended = "Cancelled" if code == "cancelled" else "Failed" if code else "Succeeded"
        epochs = (fence.session_epoch, fence.step_epoch)
        batch = _with_end(state, batch, call_in(event.wo_id, run.step_id), CallStatus(state=ended, code=code), epochs)
    return replace_run(state, run, open_orders=left, tool_batch=batch)


def _with_end(
    state: SessionState, batch: ActiveToolBatch, call_id: str, end: CallStatus, epochs: tuple[Any, Any]
) -> ActiveToolBatch:
    """Set a call's first terminal status, which stands; a stale fence makes it IgnoredStale."""
    known = batch.call_status.get(call_id)
    if known is None or known.is_terminal:
        return batch  # ignored as well
    is_stale = epochs != (state.session_epoch, state.step_epoch)
    return batch.with_status(call_id, CallStatus(state="IgnoredStale") if is_stale else end)


def _apply_batch_issued(state: SessionState, run: RunState, event: events.ToolBatchIssued) -> Verdict:
    batch = run.tool_batch
    if batch is not None and not batch.is_complete:
        return Rejected(f"calls of batch {batch.tool_batch_id} are pending")
    if run.step_id is None:
        return Rejected("no step has started")
    batch_seq = 1 if batch is None else batch.tool_batch_id.batch_seq + 1
    if event.tool_batch_id.step_id != run.step_id or event.tool_batch_id.batch_seq != batch_seq:
        return Rejected(f"batch {event.tool_batch_id}, the next one is {run.step_id}/{batch_seq}")
    calls = sorted(event.call_ids)
    if not calls or len(set(calls)) != len(calls):
        return Rejected("a batch names at least one call and each only once")
    held = {get_position(name) for name in event.held}
    if not held <= set(calls) or len(held) != len(event.held):
        return Rejected("a batch holds calls of its own, each only once")
    issued = ActiveToolBatch(
        tool_batch_id=event.tool_batch_id,
        issued_at_step_epoch=state.step_epoch,
        expected_call_ids=calls,
        call_status={call: CallStatus(state="Pending") for call in calls},
        held=sorted(event.held),
        needs_other=event.needs_other,
    )
    return replace_run(state, run, tool_batch=issued)


def _apply_tool_receipt(state: SessionState, event: events.ToolReceipt) -> Verdict:
    run = state.run
    batch = None if run is None else run.tool_batch
    if run is None or batch is None or batch.tool_batch_id != event.tool_batch_id:
        return state  # ignored as well
    if event.call_id not in batch.call_status:
        return Rejected(f"batch {batch.tool_batch_id} has no call {event.call_id}")
    end, epochs = CallStatus(state=event.status, code=event.code), (event.session_epoch, event.step_epoch)
    return replace_run(state, run, tool_batch=_with_end(state, batch, event.call_id, end, epochs))


# --- shared facts -------------------------------------------------------------------------------------------------


def _make_effect_rule(rule: Callable[[SessionState, RunState, Any], Verdict]) -> Callable[[SessionState, Any], Verdict]:
    """Make the rule of an event that has effects: in state Running only, and not before RunStarted."""

    def apply_checked(state: SessionState, event: Any) -> Verdict:
        if state.run is None or state.lifecycle != "Running":
            return Rejected(f"no effect may be issued in lifecycle {state.lifecycle}")
        return rule(state, state.run, event)

    return apply_checked


def _find_step_fault(run: RunState, step: StepId, *, new_round: bool) -> str:
    """Return the step that comes next, if it is not this one; empty: it is."""
    turn_seq = run.next_turn_seq if new_round else run.next_turn_seq - 1
    step_seq = 1 if new_round else run.next_step_seq
    turn = step.turn_id
    is_next = (turn.turn_seq, step.step_seq) == (turn_seq, step_seq) and turn.run_id == run.run_id
    return "" if is_next else f"{run.run_id}.{turn_seq}.{step_seq}"


def _list_expected_orders(run: RunState, step: StepId) -> list[str]:
    """Return the order ids that this step may dispatch: one, with a classification beside it, or one per pending call.

    Calls that are held are not among them.
    """
    batch = run.tool_batch
    if batch is None:
        return [work_order_id(step), work_order_id(step, BESIDE_CALL_ID)]
    return [work_order_id(step, call) for call in batch.expected_call_ids if batch.may_run(call)]


_OUTAGES = OUT_OF_TIME_CODES | {
    "PROVIDER_TIMEOUT", "DEADLINE_EXCEEDED", "PROVIDER_ERROR", "PROVIDER_RATE_LIMITED", "RATE_LIMITED", "CIRCUIT_OPEN",
    "UNAVAILABLE", "UNKNOWN_OUTCOME", "no_route", "peer_lost",
}  # fmt: skip


def _run_ended(state: SessionState, input_id: str, terminal: Lifecycle) -> Verdict:
    run = state.run
    if run is None or input_id != run.input_id:
        return Rejected(f"no active run for input {input_id}")
    # A run that was requested and never started can only fail; it passes through Running.
    started: tuple[Lifecycle, ...] = ("Running",) if state.lifecycle == "Idle" and terminal == "Failed" else ()
    lifecycle = walk(state.lifecycle, *started, terminal, "Idle")
    if lifecycle is None:
        return Rejected(f"{state.lifecycle} -> {terminal} is not in the table")
    return replace(state, lifecycle=lifecycle, run=None)


def _run_failed(state: SessionState, event: events.RunFailed) -> Verdict:
    """Fail the run; one that an outage ended keeps everything, and goes on if its input is asked for again."""
    ended, is_outage = _run_ended(state, event.input_id, "Failed"), event.code in _OUTAGES
    return ended if isinstance(ended, Rejected) or not is_outage else replace(ended, failed=state.run)


_RULES: dict[str, Callable[[SessionState, Any], Verdict]] = {
    "SessionStarted": _apply_session_started,
    "TookOver": _apply_took_over,
    "RunRequested": _run_requested,
    "RunStarted": _run_started,
    "RunAttached": _run_attached,
    "HostCommandReceived": lambda state, event: commands.receive_command(state, event.command, event.principal),
    "HostCommandApplied": lambda state, event: commands.apply_command(state, event.command_id, event.at),
    "HostCommandRejected": lambda state, event: commands.reject_command(state, event.command_id),
    "LifecycleChanged": _apply_lifecycle_changed,
    "StepStarted": _make_effect_rule(_apply_step_started),
    "OrderDispatched": _make_effect_rule(_apply_order_dispatched),
    "OrderEnded": _apply_order_ended,
    "ToolBatchIssued": _make_effect_rule(_apply_batch_issued),
    "ToolReceipt": _apply_tool_receipt,
    "LeaseIssued": commands.issue_lease,
    "TimePassed": _apply_time_passed,
    "RunCompleted": _run_completed,
    "RunFailed": _run_failed,
    "RunCancelled": _run_cancelled,
    "TurnDegraded": _apply_turn_degraded,
    "StateSnapshot": _apply_state_snapshot,
    **dict.fromkeys(("IntentDeclared", "IntentSuperseded", "IntentClosed", "IntentConflict"), _apply_intent),
    "SessionEnded": _apply_session_ended,
    "SessionLeft": _apply_session_left,
    "SessionArrived": _apply_session_arrived,
}
