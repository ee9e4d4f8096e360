"""What a host command does to a session: received, then applied or rejected with its reason. Pure.

Source: spec page "Session contracts", section Host commands (seed 004). A command that does not apply leaves the state
as it was before it came.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.ho2_supervisor.session import leases
from actors.ho2_supervisor.session.lifecycle import walk
from actors.ho2_supervisor.session.outcome import (
    BatchComplete,
    Changes,
    Effect,
    Rejected,
    RunGoesOn,
    RunStops,
    Verdict,
)
from actors.ho2_supervisor.session.state import (
    ActiveToolBatch,
    CallStatus,
    SessionState,
    epochs_raised,
    resolve_run_config,
)
from bus.messages import session as commands
from bus.messages.ids import body_ref, iso, parse_iso
from bus.messages.session import HostCommand

DENIED = "denied"
"""The code of a call that an operator refused."""


def text_ref(session_id: str, command_id: str) -> str:
    """Where the text of a steer or a follow-up stands."""
    return body_ref(f"HostCommandReceived:{session_id}/{command_id}", 1)


def command_of(ref: str) -> str:
    """The id of the command whose text stands there."""
    return ref.removesuffix("/1").rpartition("/")[2]


def received(state: SessionState, command: HostCommand) -> Verdict:
    """It is kept until it is decided, one at a time."""
    if not state.is_started:
        return Rejected("not_started: the session has not started")
    if state.received_command is not None:
        return Rejected(f"command {state.received_command.command_id} is not decided yet")
    if command.command_id in state.applied_command_ids:
        return Rejected(f"command {command.command_id} was applied already")
    return {"received_command": command}, ()


def rejected(state: SessionState, command_id: str) -> Verdict:
    """It is forgotten; nothing else changes."""
    command = state.received_command
    if command is None or command.command_id != command_id:
        return Rejected(f"command {command_id} was not received")
    return {"received_command": None}, ()


def applied(state: SessionState, command_id: str, at: str) -> Verdict:
    """It takes effect. Rejected, with the reason that the sender is told, where it may not."""
    command = state.received_command
    if command is None or command.command_id != command_id:
        return Rejected(f"command {command_id} was not received")
    verdict = _addressed(state, command) or _COMMANDS[command.command.kind](state, command, at)
    if isinstance(verdict, Rejected):
        return verdict
    changes, effects = verdict
    remembered = [*state.applied_command_ids, command_id]
    if state.applied_commands_max is not None:
        remembered = remembered[max(0, len(remembered) - state.applied_commands_max) :]
    return {"received_command": None, "applied_command_ids": remembered} | changes, effects


def cancelling(state: SessionState, reason: str) -> Verdict:
    """The run issues nothing more; what it has issued is stale from now on. One that only was requested passes Running.

    While it is cancelled already, nothing changes.
    """
    if state.active_run_id is None:
        return Rejected("no_active_run: no run is active")
    if state.lifecycle == "Cancelling":
        return Rejected("cancelling: the run is being cancelled already")
    path = ("Running", "Cancelling") if state.lifecycle == "Idle" else ("Cancelling",)
    if walk(state.lifecycle, *path) is None:
        return Rejected(f"no_active_run: nothing to cancel in lifecycle {state.lifecycle}")
    changes: Changes = {
        "lifecycle": "Cancelling",
        "cancel_reason": reason,
        "pause_requested": False,
        "waiting_since": None,
        "active_run_lease": None,
        "active_run_config": state.active_run_config or resolve_run_config(state.session_config, state.run_overrides),
    }
    return changes | epochs_raised(state), (RunStops(state.active_run_id, reason),)


# --- whom it is for -----------------------------------------------------------------------------------------------


def _addressed(state: SessionState, command: HostCommand) -> Rejected | None:
    """The faults that every command may have: a closed session, another run, another epoch."""
    if state.status == "closed":
        return Rejected("session_closed: the session has ended")
    target, epoch = command.target_run_id, command.expected_session_epoch
    if target is not None and target != state.active_run_id:
        return Rejected(f"stale_target: run {target} is not active; the active run is {state.active_run_id}")
    if epoch is not None and epoch != state.session_epoch:
        return Rejected(f"stale_epoch: epoch {epoch} was expected, it is {state.session_epoch}")
    return None


def _run_fault(state: SessionState) -> Rejected | None:
    if state.active_run_id is None:
        return Rejected("no_active_run: no run is active")
    if state.lifecycle == "Cancelling":
        return Rejected("cancelling: the run is being cancelled")
    return None


# --- the commands -------------------------------------------------------------------------------------------------


def _steer(state: SessionState, command: HostCommand, _at: str) -> Verdict:
    if fault := _run_fault(state):
        return fault
    return {"pending_steer": [*state.pending_steer, text_ref(state.session_id, command.command_id)]}, ()


def _follow_up(state: SessionState, command: HostCommand, _at: str) -> Verdict:
    return {"pending_follow_up": [*state.pending_follow_up, text_ref(state.session_id, command.command_id)]}, ()


def _pause(state: SessionState, _command: HostCommand, _at: str) -> Verdict:
    if fault := _run_fault(state):
        return fault
    if state.lifecycle == "Paused" or state.pause_requested:
        return Rejected("already_paused: the run is paused, or will be at the next step boundary")
    return {"pause_requested": True}, ()


def _resume(state: SessionState, _command: HostCommand, at: str) -> Verdict:
    """Also takes back a pause that has not begun."""
    if fault := _run_fault(state):
        return fault
    if state.lifecycle == "Paused":
        return _goes_on(state, at)
    if state.pause_requested:
        return {"pause_requested": False}, ()
    return Rejected(f"not_paused: the run is {state.lifecycle}")


def _cancel(state: SessionState, command: HostCommand, _at: str) -> Verdict:
    assert isinstance(command.command, commands.Cancel)  # noqa: S101 - by the table below
    return cancelling(state, command.command.reason or "")


def _heartbeat(state: SessionState, command: HostCommand, _at: str) -> Verdict:
    if fault := _run_fault(state):
        return fault
    assert isinstance(command.command, commands.LeaseHeartbeat)  # noqa: S101 - by the table below
    return leases.renewed(state, command.command)


def _approve(state: SessionState, command: HostCommand, at: str) -> Verdict:
    assert isinstance(command.command, commands.Approve)  # noqa: S101 - by the table below
    batch = _held(state, command.command.call_id)
    if isinstance(batch, Rejected):
        return batch
    held = [call for call in batch.held if call != command.command.call_id]
    return _decided(state, batch.model_copy(update={"held": held}), at)


def _deny(state: SessionState, command: HostCommand, at: str) -> Verdict:
    assert isinstance(command.command, commands.Deny)  # noqa: S101 - by the table below
    batch = _held(state, command.command.call_id)
    if isinstance(batch, Rejected):
        return batch
    return _decided(state, batch.with_status(command.command.call_id, CallStatus(state="Failed", code=DENIED)), at)


def _held(state: SessionState, call_id: str) -> ActiveToolBatch | Rejected:
    if fault := _run_fault(state):
        return fault
    batch = state.active_tool_batch
    if batch is None or call_id not in batch.held:
        waiting = "none" if batch is None or not batch.held else ", ".join(batch.held)
        return Rejected(f"call_not_open: call {call_id} waits for no approval; waiting: {waiting}")
    return batch


def _decided(state: SessionState, batch: ActiveToolBatch, at: str) -> Verdict:
    """The batch after one more decision; with the last one a run that waited for them goes on."""
    changes: Changes = {"active_tool_batch": batch}
    effects: tuple[Effect, ...] = (BatchComplete(tuple(batch.expected_call_ids)),) if batch.is_complete else ()
    if batch.held or state.lifecycle != "WaitingInput":
        return changes, effects
    going = _goes_on(state, at)
    return (changes | going[0], effects + going[1])


def _goes_on(state: SessionState, at: str) -> tuple[Changes, tuple[Effect, ...]]:
    """Running again; the time that was waited is added to the deadline."""
    assert state.active_run_id is not None  # noqa: S101 - asked before
    changes: Changes = {"lifecycle": "Running", "waiting_since": None}
    if state.waiting_since is not None and state.deadline_at is not None:
        waited = max(0.0, parse_iso(at) - parse_iso(state.waiting_since))
        changes["deadline_at"] = iso(parse_iso(state.deadline_at) + waited)
    return changes, (RunGoesOn(state.active_run_id),)


_COMMANDS: dict[str, Callable[[SessionState, HostCommand, str], Verdict]] = {
    "Steer": _steer,
    "FollowUp": _follow_up,
    "Pause": _pause,
    "Resume": _resume,
    "Cancel": _cancel,
    "LeaseHeartbeat": _heartbeat,
    "Approve": _approve,
    "Deny": _deny,
}
