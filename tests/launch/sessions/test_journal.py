"""Which entry stands for each session in a list of them."""

from __future__ import annotations

from hobus.bus.messages.ledger import Entry, Provenance
from hobus.launch.sessions.journal import first_of_each


def entry(sequence: int, session: str, event_type: str) -> Entry:
    """A beginning."""
    return Entry(
        sequence=sequence, submission_id=f"s{sequence}", origin="host/1@a", stream=f"session/{session}",
        event_type=event_type, decision="", reason="", provenance=Provenance(session_id=session), parents=[], trace="",
        at_us=0, ledger_at_us=0, body_hashes=[], body_lengths=[], prev=None, tenure=None, once=None, chain=b"",
    )  # fmt: skip


def test_a_session_is_there_once_by_its_start_or_else_by_its_first_degraded_turn():
    """Newest first; a degraded turn before the start, or after it, makes no other session."""
    found = first_of_each(
        [
            entry(2, "a", "SESSION_START"),
            entry(5, "b", "SESSION_START"),
            entry(1, "a", "TurnDegraded"),
            entry(3, "c", "TurnDegraded"),
            entry(4, "c", "TurnDegraded"),
            entry(6, "b", "TurnDegraded"),
        ]
    )
    assert [(one.sequence, one.event_type) for one in found] == [
        (5, "SESSION_START"),
        (3, "TurnDegraded"),
        (2, "SESSION_START"),
    ]
