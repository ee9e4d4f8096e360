"""How a session ends: by its client's word, or with the errand, or the call of another agent, that it was made for."""

from __future__ import annotations

from hobus.actors.ho2_supervisor.ownership.owner import OwnedSession
from hobus.actors.ho2_supervisor.turn import intent_rules
from hobus.bus.dispatch import SaidBy
from hobus.bus.record.session_facts import RunRequested, SessionEnded

_ERRAND_IS_OVER, _CALLER_IS_ANSWERED = "errand", "called by another agent"


def append_end(session: OwnedSession, reason: str, *, said_by: SaidBy, trace: str) -> None:
    """Append the ends of the session's intents, then SESSION_END; durable with the next barrier."""
    record = session.record
    for closed in intent_rules.list_closing_events(record.state.intents.active, session.now()):
        session.append(closed, trace=trace)
    session.append(
        SessionEnded(
            reason=reason,
            turn_count=record.turn_count,
            total_tokens=record.total_tokens,
            total_cost=record.cost_usd,
            at=session.now(),
            **said_by._asdict(),
        ),
        trace=trace,
    )


def end_with_call(session: OwnedSession, requested: RunRequested, *, trace: str, is_errand: bool = False) -> None:
    """End a session that began with another agent's call, or an errand, in the write of that one's end.

    Nobody else would end it. It goes on if something was said to it since.
    """
    state, is_called = session.record.state, bool(requested.called_by)
    if (is_errand or is_called) and state.next_run_seq == 2 and not state.pending_follow_up:  # noqa: PLR2004 - its first run is over
        reason = _ERRAND_IS_OVER if is_errand else _CALLER_IS_ANSWERED
        append_end(session, reason, said_by=SaidBy(requested.asked_by, ""), trace=trace)
