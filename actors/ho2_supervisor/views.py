"""What an operator is shown of a session. Pure."""

from __future__ import annotations

from actors.ho2_supervisor.session.record import SessionRecord
from actors.ho2_supervisor.session.state import state_hash
from bus.messages.session import SessionView


def view_of(record: SessionRecord) -> SessionView | None:
    """The session as its record says; None for one that never started."""
    state = record.state
    if state.agent_id is None or state.created_at is None or state.updated_at is None:
        return None
    return SessionView(
        session_id=state.session_id,
        agent_id=state.agent_id,
        status=state.status,
        lifecycle=state.lifecycle,
        session_epoch=state.session_epoch,
        step_epoch=state.step_epoch,
        tenure=state.tenure,
        owner=state.owner,
        turn_count=record.turn_count,
        active_input_id=state.active_input_id,
        created_at=state.created_at,
        updated_at=state.updated_at,
        state_hash=state_hash(state),
    )
