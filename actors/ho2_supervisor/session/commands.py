"""What a host command does to a session: received, then applied or rejected with its reason. Pure.

A command that does not apply leaves the state
as it was before it came.
"""

from __future__ import annotations

from collections.abc import Callable

from hobus.actors.ho2_supervisor.session import leases
from hobus.actors.ho2_supervisor.session.lifecycle import walk
from hobus.actors.ho2_supervisor.session.outcome import (
    BatchComplete,
    Effect,
    Rejected,
    RunGoesOn,
    RunStops,
    Verdict,
)
from hobus.actors.ho2_supervisor.session.state import (
    ActiveToolBatch,
    CallStatus,
    RunState,
    SessionState,
    epochs_raised,
    of_run,
    resolve_run_config,
)
from hobus.bus.messages import session as commands
from hobus.bus.messages.ids import body_ref, iso, parse_iso
from hobus.bus.messages.session import HostCommand

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
    return state._replace(received_command=command), ()


def rejected(state: SessionState, command_id: str) -> Verdict:
    """It is forgotten; nothing else changes."""
    command = state.received_command
    if command is None or command.command_id != command_id:
        return Rejected(f"command {command_id} was not received")
    return state._replace(received_command=None), ()


def applied(state: SessionState, command_id: str, at: str) -> Verdict:
    """It takes effect. Rejected, with the reason that the sender is told, where it may not."""
    command = state.received_command
    if command is None or command.command_id != command_id:
        return Rejected(f"command {command_id} was not received")
    verdict = _addressed(state, command) or _COMMANDS[command.command.kind](state, command, at)
    if isinstance(verdict, Rejected):
        return verdict
    after, effects = verdict
    remembered = [*state.applied_command_ids, command_id]
    if state.applied_commands_max is not None:
        remembered = remembered[max(0, len(remembered) - state.applied_commands_max) :]
    return after._replace(received_command=None, applied_command_ids=remembered), effects


def cancelling(state: SessionState, reason: str) -> Verdict:
    """The run issues nothing more; what it has issued is stale from now on. One that only was requested passes Running.

    While it is cancelled already, nothing changes.
    """
    run = state.run
    if run is None:
        return Rejected("no_active_run: no run is active")
    if state.lifecycle == "Cancelling":
        return Rejected("cancelling: the run is being cancelled already")
    path = ("Running", "Cancelling") if state.lifecycle == "Idle" else ("Cancelling",)
    if walk(state.lifecycle, *path) is None:
        return Rejected(f"no_active_run: nothing to cancel in lifecycle {state.lifecycle}")
    stopping = run._replace(
        cancel_reason=reason,
        pause_requested=False,
        waiting_since=None,
        lease=None,
        config=run.config or resolve_run_config(state.session_config, run.overrides),
    )
    after = epochs_raised(state)._replace(lifecycle="Cancelling", run=stopping)
    return after, (RunStops(run.run_id, reason),)


# --- whom it is for -----------------------------------------------------------------------------------------------


def _addressed(state: SessionState, command: HostCommand) -> Rejected | None:
    """The faults that every command may have: a closed session, another run, another epoch."""
    if state.status == "closed":
        return Rejected("session_closed: the session has ended")
    target, epoch = command.target_run_id, command.expected_session_epoch
    if target is not None and target != state.run_id:
        return Rejected(f"stale_target: run {target} is not active; the active run is {state.run_id}")
    if epoch is not None and epoch != state.session_epoch:
        return Rejected(f"stale_epoch: epoch {epoch} was expected, it is {state.session_epoch}")
    return None


def _run_of(state: SessionState) -> RunState | Rejected:
    """The run that a command is about; one that is being cancelled takes none."""
    if state.run is None:
        return Rejected("no_active_run: no run is active")
    if state.lifecycle == "Cancelling":
        return Rejected("cancelling: the run is being cancelled")
    return state.run


# --- the commands -------------------------------------------------------------------------------------------------


def _steer(state: SessionState, command: HostCommand, _at: str) -> Verdict:
    run = _run_of(state)
    if isinstance(run, Rejected):
        return run
    ref = text_ref(state.session_id, command.command_id)
    return of_run(state, run, pending_steer=[*run.pending_steer, ref]), ()


def _follow_up(state: SessionState, command: HostCommand, _at: str) -> Verdict:
    ref = text_ref(state.session_id, command.command_id)
    return state._replace(pending_follow_up=[*state.pending_follow_up, ref]), ()


def _pause(state: SessionState, _command: HostCommand, _at: str) -> Verdict:
    run = _run_of(state)
    if isinstance(run, Rejected):
        return run
    if state.lifecycle == "Paused" or run.pause_requested:
        return Rejected("already_paused: the run is paused, or will be at the next step boundary")
    return of_run(state, run, pause_requested=True), ()


def _resume(state: SessionState, _command: HostCommand, at: str) -> Verdict:
    """Also takes back a pause that has not begun."""
    run = _run_of(state)
    if isinstance(run, Rejected):
        return run
    if state.lifecycle == "Paused":
        return _goes_on(state, run, at)
    if run.pause_requested:
        return of_run(state, run, pause_requested=False), ()
    return Rejected(f"not_paused: the run is {state.lifecycle}")


def _cancel(state: SessionState, command: HostCommand, _at: str) -> Verdict:
    assert isinstance(command.command, commands.Cancel)  # noqa: S101 - by the table below
    return cancelling(state, command.command.reason or "")


def _heartbeat(state: SessionState, command: HostCommand, _at: str) -> Verdict:
    run = _run_of(state)
    if isinstance(run, Rejected):
        return run
    assert isinstance(command.command, commands.LeaseHeartbeat)  # noqa: S101 - by the table below
    return leases.renewed(state, command.command)


def _approve(state: SessionState, command: HostCommand, at: str) -> Verdict:
    assert isinstance(command.command, commands.Approve)  # noqa: S101 - by the table below
    found = _held(state, command.command.call_id)
    if isinstance(found, Rejected):
        return found
    run, batch = found
    held = [call for call in batch.held if call != command.command.call_id]
    return _decided(state, run, batch.model_copy(update={"held": held}), at)


def _deny(state: SessionState, command: HostCommand, at: str) -> Verdict:
    assert isinstance(command.command, commands.Deny)  # noqa: S101 - by the table below
    found = _held(state, command.command.call_id)
    if isinstance(found, Rejected):
        return found
    run, batch = found
    return _decided(state, run, batch.with_status(command.command.call_id, CallStatus(state="Failed", code=DENIED)), at)


def _held(state: SessionState, call_id: str) -> tuple[RunState, ActiveToolBatch] | Rejected:
    run = _run_of(state)
    if isinstance(run, Rejected):
        return run
    batch = run.tool_batch
    if batch is None or call_id not in batch.held:
        waiting = "none" if batch is None or not batch.held else ", ".join(batch.held)
        return Rejected(f"call_not_open: call {call_id} waits for no approval; waiting: {waiting}")
    return run, batch


def _decided(state: SessionState, run: RunState, batch: ActiveToolBatch, at: str) -> Verdict:
    """The batch after one more decision; with the last one a run that waited for them goes on."""
    decided = run._replace(tool_batch=batch)
    effects: tuple[Effect, ...] = (BatchComplete(tuple(batch.expected_call_ids)),) if batch.is_complete else ()
    if batch.held or state.lifecycle != "WaitingInput":
        return state._replace(run=decided), effects
    after, going = _goes_on(state, decided, at)
    return after, effects + going


def _goes_on(state: SessionState, run: RunState, at: str) -> tuple[SessionState, tuple[Effect, ...]]:
    """Running again; the time that was waited is added to the deadline."""
    deadline_at = run.deadline_at
    if run.waiting_since is not None:
        waited = max(0.0, parse_iso(at) - parse_iso(run.waiting_since))
        deadline_at = iso(parse_iso(deadline_at) + waited)
    going = run._replace(waiting_since=None, deadline_at=deadline_at)
    return state._replace(lifecycle="Running", run=going), (RunGoesOn(run.run_id),)


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
