"""A command at its session: recorded as received and as applied or rejected, in one synchronous step.

What a command means stands in `session/commands.py`;
whoever drives the run sees it in the state, or by the outcome's effects.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import asdict

from hobus.actors.ho2_supervisor.admission import find_agent_fault
from hobus.actors.ho2_supervisor.limits import COMMAND_MAX_BYTES
from hobus.actors.ho2_supervisor.ownership.owner import OwnedSession
from hobus.actors.ho2_supervisor.session import journal
from hobus.actors.ho2_supervisor.session.reducer import reduce
from hobus.actors.ho2_supervisor.session.state import Reduced, SessionState
from hobus.bus.dispatch import SaidBy
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.base import pack
from hobus.bus.messages.ids import follow_up_input
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import CommandVerdict, FollowUp, HostCommand, Steer
from hobus.bus.record.journal import read_recorded
from hobus.bus.record.session_facts import HostCommandApplied, HostCommandReceived, HostCommandRejected
from hobus.bus.text import is_blank
from hobus.config.schema import AdminConfig

_FREE = ("reason", "call_id", "lease_id")
"""Fields of commands in which anything may stand."""
_BEGINNING_CHARS = 100


def get_text(command: HostCommand) -> str | None:
    """Return the words that a command brings; None for one without."""
    return command.command.text if isinstance(command.command, Steer | FollowUp) else None


def as_recorded(command: HostCommand) -> HostCommand:
    """Return the command as its entry has it: the words of a steer or a follow-up become a body.

    Of a command that is too large the entry keeps only the beginnings: the command is refused, and must not burst the
    entry.
    """
    if get_text(command) is not None:
        return command.model_copy(update={"command": command.command.model_copy(update={"text": ""})})
    if _measure_command(command) <= COMMAND_MAX_BYTES:
        return command
    long = {name: value for name, value in asdict(command.command).items() if isinstance(value, str) and name in _FREE}
    short = {name: value[:_BEGINNING_CHARS] for name, value in long.items()}
    return command.model_copy(update={"command": command.command.model_copy(update=short)})


def _measure_command(command: HostCommand) -> int:
    """Return the bytes of a command that brings no text: its reason, and the ids that it names."""
    return len(pack(command.command.model_dump()))


def find_refusal(state: SessionState, command: HostCommand, config: AdminConfig, agents: Collection[str]) -> str:
    """Return why the owner refuses this command, whatever the life cycle says; empty if it does not."""
    text, sessions = get_text(command), config.sessions
    if text is None:
        if (size := _measure_command(command)) <= COMMAND_MAX_BYTES:
            return ""
        return f"too_large: a {command.command.kind} of {size} bytes; at most {COMMAND_MAX_BYTES} are taken"
    if is_blank(text):
        return f"blank: a {command.command.kind} needs text"
    if (size := len(text.encode())) > config.host.prompt_max_bytes:
        return f"too_large: {size} bytes; at most {config.host.prompt_max_bytes} are taken (host.prompt_max_bytes)"
    if isinstance(command.command, FollowUp) and (fault := find_agent_fault(state.agent_id, agents)):
        return f"agent_removed: {fault}"
    pending = state.pending_steer if isinstance(command.command, Steer) else state.pending_follow_up
    if len(pending) >= sessions.pending_max:
        return f"too_many: {len(pending)} wait already; at most {sessions.pending_max} may (sessions.pending_max)"
    return ""


def receive(  # noqa: PLR0913 - what a command rests on, each by its name
    session: OwnedSession,
    command: HostCommand,
    config: AdminConfig,
    *,
    said_by: SaidBy,
    agents: Collection[str],
    person: str = "",
    trace: str = "",
) -> Reduced | None:
    """Record the command as received, then applied or rejected; return its effects, None if rejected.

    Durable with the next barrier. `said_by`: principal and door; `person`: whom that door names. `agents`: those
    configured now; a lease's renewal needs none, since its run goes on under its own configuration.
    """
    text, refusal = get_text(command), find_refusal(session.record.state, command, config, agents)
    session.append(
        HostCommandReceived(command=as_recorded(command), **said_by._asdict(), person=person, at=session.now()),
        bodies=[] if text is None or refusal.startswith("too_large") else [text.encode()],
        trace=trace,
    )
    return decide(session, refusal=refusal, trace=trace)


def decide(session: OwnedSession, *, refusal: str = "", trace: str = "") -> Reduced | None:
    """Apply or reject the command received last; also after its owner died in between."""
    command = session.record.state.received_command
    if command is None:
        return None
    applied = HostCommandApplied(command_id=command.command_id, at=session.now())
    rejection = reduce(session.record.state, journal.make_envelope(session.record.state, applied)).rejection
    if not refusal and rejection is None:
        return session.append(applied, trace=trace)
    reason = refusal or (rejection.reason if rejection is not None else "")
    session.append(HostCommandRejected(command_id=command.command_id, reason=reason, at=session.now()), trace=trace)
    return None


def make_verdict(
    session: OwnedSession, command: HostCommand, *, reason: str, is_repeat: bool = False
) -> CommandVerdict:
    """Return the answer to a command that was rejected for this reason; an empty reason: applied."""
    state, is_applied = session.record.state, not reason
    return CommandVerdict(
        session_id=session.session_id,
        command_id=command.command_id,
        outcome="applied" if is_applied else "rejected",
        reason=reason,
        is_repeat=is_repeat,
        run_id=state.run_id,
        lifecycle=state.lifecycle,
        session_epoch=state.session_epoch,
        input_id=follow_up_input(command.command_id) if is_applied and isinstance(command.command, FollowUp) else None,
    )


async def find_repeated(client: LedgerClient, session: OwnedSession, command: HostCommand) -> CommandVerdict | None:
    """Return the earlier verdict on this command id, from the record if need be; None if the command is new.

    Another command under a known id is rejected, and changes nothing.
    """
    names = ("HostCommandReceived", "HostCommandApplied", "HostCommandRejected")
    came, applied, rejected = await client.lookup(
        [f"{name}:{session.session_id}/{command.command_id}" for name in names], with_bodies=True
    )
    if came is None or (applied is None and rejected is None):
        return None
    received, refused = read_recorded(came), read_recorded(rejected)
    rejection = None if refused is None else refused.event.event
    reason = rejection.reason if isinstance(rejection, HostCommandRejected) else ""
    given = make_verdict(session, command, reason=reason, is_repeat=True)
    if _is_same(command, as_recorded(command), None if received is None else received.event.event, came):
        return given
    reason = f"command_conflict: {command.command_id} came before with another content; a new command needs a new id"
    return given.model_copy(update={"outcome": "rejected", "reason": reason, "input_id": None})


def _is_same(command: HostCommand, as_recorded: HostCommand, event: object, came: Entry) -> bool:
    """Return whether this is the command that came then; erased fields match anything."""
    if not isinstance(event, HostCommandReceived):
        return True
    if as_recorded.model_copy(update={"issued_at": event.command.issued_at}) != event.command:
        return False
    text, recorded = get_text(command), came.bodies[1] if len(came.bodies) > 1 else None
    return text is None or recorded is None or text.encode() == recorded
