"""A command at its session: recorded as received and as applied or rejected, in one synchronous step.

Source: spec page "Session contracts", section Host commands. What a command means stands in `session/commands.py`;
whoever drives the run sees it in the state, or by the outcome's effects.
"""

from __future__ import annotations

from actors.ho2_supervisor.owner import OwnedSession
from actors.ho2_supervisor.session import journal
from actors.ho2_supervisor.session.outcome import Outcome
from actors.ho2_supervisor.session.reducer import reduce
from bus.messages.ids import follow_up_input
from bus.messages.session import (
    CommandVerdict,
    FollowUp,
    HostCommand,
    HostCommandApplied,
    HostCommandReceived,
    HostCommandRejected,
    Steer,
)


def text_of(command: HostCommand) -> str | None:
    """The words that a command brings; None for one without."""
    return command.command.text if isinstance(command.command, Steer | FollowUp) else None


def without_text(command: HostCommand) -> HostCommand:
    """The command as its entry has it: its words are a body."""
    if text_of(command) is None:
        return command
    return command.model_copy(update={"command": command.command.model_copy(update={"text": ""})})


def receive(session: OwnedSession, command: HostCommand, *, refusal: str = "", trace: str = "") -> Outcome | None:
    """Received, then applied or rejected; what it did, or None if it was rejected. Durable with the next barrier.

    `refusal`: the reason for which the owner does not take it, whatever the state says.
    """
    text = text_of(command)
    session.append(
        HostCommandReceived(command=without_text(command), at=session.now()),
        bodies=[] if text is None else [text.encode()],
        trace=trace,
    )
    return decide(session, refusal=refusal, trace=trace)


def decide(session: OwnedSession, *, refusal: str = "", trace: str = "") -> Outcome | None:
    """The command received last is applied or rejected; also after its owner died in between."""
    command = session.record.state.received_command
    if command is None:
        return None
    applied = HostCommandApplied(command_id=command.command_id, at=session.now())
    rejection = reduce(session.record.state, journal.envelope(session.record.state, applied)).rejection
    if not refusal and rejection is None:
        return session.append(applied, trace=trace)
    reason = refusal or (rejection.reason if rejection is not None else "")
    session.append(HostCommandRejected(command_id=command.command_id, reason=reason, at=session.now()), trace=trace)
    return None


def verdict_of(session: OwnedSession, command: HostCommand, *, is_repeat: bool) -> CommandVerdict:
    """What the record says of a decided command."""
    state, reason = session.record.state, session.record.commands[command.command_id]
    is_applied = not reason
    return CommandVerdict(
        session_id=session.session_id,
        command_id=command.command_id,
        outcome="applied" if is_applied else "rejected",
        reason=reason,
        is_repeat=is_repeat,
        run_id=state.active_run_id,
        lifecycle=state.lifecycle,
        session_epoch=state.session_epoch,
        input_id=follow_up_input(command.command_id) if is_applied and isinstance(command.command, FollowUp) else None,
    )
