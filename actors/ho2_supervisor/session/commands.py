"""What a host command does to a session: received, then applied or rejected with its reason; and a run's lease. Pure.

A command that does not apply leaves the state as it was before it came. A lease is issued when its requester asked for
one, renewed by heartbeats, and over at a journaled time: no clock is read here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from hobus.actors.ho2_supervisor.session.state import (
    CallStatus,
    Rejected,
    RunState,
    SessionState,
    Verdict,
    raise_epochs,
    replace_run,
    resolve_run_config,
    walk,
)
from hobus.bus.messages import session as messages
from hobus.bus.messages.ids import derive_body_ref, derive_lease_id, format_iso, get_position, parse_iso
from hobus.bus.messages.session import HostCommand
from hobus.bus.record.session_facts import LeaseIssued

DENIED = "denied"
"""The code of a call that an operator refused."""
FIRST_LEASE = 1
"""A run has one lease; its number is part of its id."""


def derive_text_ref(session_id: str, command_id: str) -> str:
    """Return the ref of the text of a steer or a follow-up."""
    return derive_body_ref(f"HostCommandReceived:{session_id}/{command_id}", 1)


def get_command_id(ref: str) -> str:
    """Return the id of the command whose text this ref names."""
    return ref.removesuffix("/1").rpartition("/")[2]


def receive_command(state: SessionState, command: HostCommand, principal: str) -> Verdict:
    """Hold the command, and who said it, until it is decided; one at a time."""
    if not state.is_started:
        return Rejected("not_started: the session has not started")
    if state.received_command is not None:
        return Rejected(f"command {state.received_command.command_id} is not decided yet")
    if command.command_id in state.applied_command_ids:
        return Rejected(f"command {command.command_id} was applied already")
    return replace(state, received_command=command, received_from=principal)


def reject_command(state: SessionState, command_id: str) -> Verdict:
    command = state.received_command
    if command is None or command.command_id != command_id:
        return Rejected(f"command {command_id} was not received")
    return replace(state, received_command=None, received_from="")


def apply_command(state: SessionState, command_id: str, at: str) -> Verdict:
    """Apply the command. Rejected, with the reason that the sender is told, where it may not be."""
    command = state.received_command
    if command is None or command.command_id != command_id:
        return Rejected(f"command {command_id} was not received")
    verdict = _find_address_fault(state, command) or _COMMANDS[command.command.kind](state, command, at)
    if isinstance(verdict, Rejected):
        return verdict
    remembered = [*state.applied_command_ids, command_id]
    if state.applied_commands_max is not None:
        remembered = remembered[max(0, len(remembered) - state.applied_commands_max) :]
    return replace(verdict, received_command=None, received_from="", applied_command_ids=remembered)


def begin_cancelling(state: SessionState, reason: str) -> Verdict:
    """Cancel the run: it issues nothing more, and what it issued is stale. One that is only requested passes Running.

    A run that is being cancelled already does not change.
    """
    run = state.run
    if run is None:
        return Rejected("no_active_run: no run is active")
    if state.lifecycle == "Cancelling":
        return Rejected("cancelling: the run is being cancelled already")
    path = ("Running", "Cancelling") if state.lifecycle == "Idle" else ("Cancelling",)
    if walk(state.lifecycle, *path) is None:
        return Rejected(f"no_active_run: nothing to cancel in lifecycle {state.lifecycle}")
    stopping = replace(
        run,
        cancel_reason=reason,
        pause_requested=False,
        waiting_since=None,
        lease=None,
        config=run.config or resolve_run_config(state.session_config, run.overrides, run.model),
    )
    return replace(raise_epochs(state), lifecycle="Cancelling", run=stopping)


# --- whom it is for -----------------------------------------------------------------------------------------------


def _find_address_fault(state: SessionState, command: HostCommand) -> Rejected | None:
    """Return the faults that every command may have: a closed session, another run, another epoch."""
    if state.status == "closed":
        return Rejected("session_closed: the session has ended")
    target, epoch = command.target_run_id, command.expected_session_epoch
    if target is not None and target != state.run_id:
        return Rejected(f"stale_target: run {target} is not active; {state.name_active_run()}")
    if epoch is not None and epoch != state.session_epoch:
        return Rejected(f"stale_epoch: epoch {epoch} was expected, it is {state.session_epoch}")
    return None


# --- the commands -------------------------------------------------------------------------------------------------

_Rule = Callable[[SessionState, HostCommand, str], Verdict]


def _make_active_run_rule(rule: Callable[[SessionState, RunState, Any, str], Verdict]) -> _Rule:
    """Make the rule of a command about the active run; a run that is being cancelled, or is answered, takes none."""

    def apply_checked(state: SessionState, command: HostCommand, at: str) -> Verdict:
        if state.run is None or state.is_answered:
            return Rejected("no_active_run: no run is active")
        if state.lifecycle == "Cancelling":
            return Rejected("cancelling: the run is being cancelled")
        return rule(state, state.run, command.command, at)

    return apply_checked


def _steer(state: SessionState, command: HostCommand, at: str) -> Verdict:
    ref = derive_text_ref(state.session_id, command.command_id)

    def hear(state: SessionState, run: RunState, _said: messages.Steer, _at: str) -> Verdict:
        """Apply a steer; whoever steers a run counts as asking for what it does then."""
        asked_by = list(dict.fromkeys([*run.asked_by, state.received_from]))
        return replace_run(state, run, pending_steer=[*run.pending_steer, ref], asked_by=asked_by)

    return _make_active_run_rule(hear)(state, command, at)


def _follow_up(state: SessionState, command: HostCommand, _at: str) -> Verdict:
    ref = derive_text_ref(state.session_id, command.command_id)
    return replace(
        state,
        pending_follow_up=[*state.pending_follow_up, ref],
        follow_up_by=state.follow_up_by | {ref: state.received_from},
    )


def _pause(state: SessionState, run: RunState, _said: messages.Pause, _at: str) -> Verdict:
    if state.lifecycle == "Paused" or run.pause_requested:
        return Rejected("already_paused: the run is paused, or will be at the next step boundary")
    return replace_run(state, run, pause_requested=True)


def _resume(state: SessionState, run: RunState, _said: messages.Resume, at: str) -> Verdict:
    """Resume; also takes back a pause that has not begun."""
    if state.lifecycle == "Paused":
        return _goes_on(state, run, at)
    if run.pause_requested:
        return replace_run(state, run, pause_requested=False)
    return Rejected(f"not_paused: the run is {state.lifecycle}")


def _cancel(state: SessionState, command: HostCommand, _at: str) -> Verdict:
    assert isinstance(command.command, messages.Cancel)  # noqa: S101 - by the table below
    return begin_cancelling(state, command.command.reason or "")


def _approve(state: SessionState, run: RunState, said: messages.Approve, at: str) -> Verdict:
    batch = run.tool_batch
    if batch is not None and batch.needs_other and said.call_id in batch.held and state.received_from in run.asked_by:
        did = "asked for" if state.received_from == run.asked_by[0] else "steered"
        return Rejected(
            f"own_call: {state.received_from} {did} this run, and agent {state.agent_id} wants its calls approved "
            "by somebody else (approval.by: other)"
        )
    return _note_decision(state, run, said.call_id, None, at)


def _deny(state: SessionState, run: RunState, said: messages.Deny, at: str) -> Verdict:
    return _note_decision(state, run, said.call_id, CallStatus(state="Failed", code=DENIED), at)


def _note_decision(state: SessionState, run: RunState, name: str, status: CallStatus | None, at: str) -> Verdict:
    """Note one more decision (None: the call may run); with the last one a run that waited for them goes on."""
    batch = run.tool_batch
    if batch is None or name not in batch.held:
        waiting = "none" if batch is None or not batch.held else ", ".join(batch.held)
        return Rejected(f"call_not_open: no call {name} waits for an approval; waiting: {waiting}")
    call_id = get_position(name)
    decided = replace(run, tool_batch=batch.with_status(call_id, status or batch.call_status[call_id]))
    if len(batch.held) > 1 or state.lifecycle != "WaitingInput":
        return replace(state, run=decided)
    return _goes_on(state, decided, at)


def _goes_on(state: SessionState, run: RunState, at: str) -> SessionState:
    """Set the run to Running and add the time that was waited to its deadline."""
    deadline_at = run.deadline_at
    if run.waiting_since is not None:
        waited = max(0.0, parse_iso(at) - parse_iso(run.waiting_since))
        deadline_at = format_iso(parse_iso(deadline_at) + waited)
    return replace(state, lifecycle="Running", run=replace(run, waiting_since=None, deadline_at=deadline_at))


# --- leases -------------------------------------------------------------------------------------------------------


def issue_lease(state: SessionState, event: LeaseIssued) -> Verdict:
    """Issue the lease that RunRequested asked for, under its terms, once."""
    run = state.run
    if run is None or (terms := run.lease_terms) is None:
        return Rejected("no active run asked for a lease")
    if run.lease is not None:
        return Rejected(f"lease {run.lease.lease_id} is active")
    if event.lease_id != derive_lease_id(run.run_id, FIRST_LEASE):
        return Rejected(f"lease {event.lease_id}, the run's is {derive_lease_id(run.run_id, FIRST_LEASE)}")
    expires_at = format_iso(parse_iso(event.issued_at) + terms.ttl_secs)
    if (event.expires_at, event.heartbeat_timeout_secs) != (expires_at, terms.heartbeat_timeout_secs):
        return Rejected("the lease is not the one that was asked for")
    return replace_run(state, run, lease=event, last_heartbeat_at=None)


def _renew_lease(state: SessionState, heartbeat: messages.LeaseHeartbeat) -> Verdict:
    """Move both ends of the lease to this heartbeat."""
    run = state.run
    lease = None if run is None else run.lease
    if run is None or lease is None or run.lease_terms is None or lease.lease_id != heartbeat.lease_id:
        active = "none" if lease is None else lease.lease_id
        return Rejected(f"wrong_lease: {heartbeat.lease_id[:200]} is not the active lease ({active})")
    if heartbeat.heartbeat_at <= (run.last_heartbeat_at or lease.issued_at):
        return Rejected(f"not_newer: the lease was renewed at {run.last_heartbeat_at or lease.issued_at}")
    if is_lease_over(state, heartbeat.heartbeat_at):
        return Rejected(f"lease_expired: {lease.lease_id} was over before {heartbeat.heartbeat_at}")
    expires_at = format_iso(parse_iso(heartbeat.heartbeat_at) + run.lease_terms.ttl_secs)
    longer = lease.model_copy(update={"expires_at": expires_at})
    return replace_run(state, run, lease=longer, last_heartbeat_at=heartbeat.heartbeat_at)


def is_lease_over(state: SessionState, at: str) -> bool:
    """Return whether the active lease is over at this journaled time; False without one."""
    over_at = find_lease_expiry(state)
    return over_at is not None and at >= over_at


def find_lease_expiry(state: SessionState) -> str | None:
    """Return when the active lease is over unless it is renewed; None without one. Timestamps compare as text."""
    run = state.run
    if run is None or (lease := run.lease) is None:
        return None
    silent = format_iso(parse_iso(run.last_heartbeat_at or lease.issued_at) + lease.heartbeat_timeout_secs)
    return min(lease.expires_at, silent)


_COMMANDS: dict[str, _Rule] = {
    "Steer": _steer,
    "FollowUp": _follow_up,
    "Pause": _make_active_run_rule(_pause),
    "Resume": _make_active_run_rule(_resume),
    "Cancel": _cancel,
    "LeaseHeartbeat": _make_active_run_rule(lambda state, _run, said, _at: _renew_lease(state, said)),
    "Approve": _make_active_run_rule(_approve),
    "Deny": _make_active_run_rule(_deny),
}
