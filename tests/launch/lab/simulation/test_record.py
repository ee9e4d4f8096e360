"""What the record says that an input was answered with."""

from __future__ import annotations

from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import TurnResult
from hobus.bus.record import session_facts as events
from hobus.bus.record.journal import pack_result
from hobus.launch.lab.simulation.record import answer_text, list_answers
from tests.launch.sessions.entries import AT, SESSION, Written


def ended(key: str, event: events.SessionFact, *bodies: bytes) -> Entry:
    """One entry that says what became of input in-1, under this once key."""
    return Written().run().add(event, *bodies).entries[-1]._replace(once=f"{key}:{SESSION}/in-1")


def result(words: str, outcome: str = "success") -> bytes:
    said = {"response": words, "outcome": outcome, "session_id": SESSION, "run_id": None, "input_id": "in-1"}
    return pack_result(TurnResult.model_validate(said))


def degraded(key: str, words: bytes) -> Entry:
    name = f"TurnDegraded:{SESSION}/in-1"
    event = events.TurnDegraded(
        input_id="in-1", input_ref=f"{name}/1", reply_ref=f"{name}/2", delivered=key == "delivered", at=AT
    )
    return ended(key, event, b"hello", words)


COMPLETED = ended(
    "turn",
    events.RunCompleted(input_id="in-1", result_ref=f"RunCompleted:{SESSION}-1/1", reply_ref="elsewhere/1", at=AT),
    result("all"),
)


def test_the_words_of_the_record_are_those_that_the_client_was_told() -> None:
    """Of the run, of the host where it took the input's key, and of what the host had delivered before a run ended."""
    assert answer_text([COMPLETED], "in-1") == "all"
    assert answer_text([degraded("turn", b"less")], "in-1") == "less"
    assert answer_text([degraded("delivered", b"told"), COMPLETED], "in-1") == "told"
    assert answer_text([COMPLETED], "in-2") is None
    assert list_answers([degraded("delivered", b"told"), COMPLETED], "in-1") == [COMPLETED.submission_id]


def test_a_run_that_was_cancelled_or_refused_is_answered_by_its_verdict() -> None:
    """Its sentence stands in the end's entry; without one nothing was said."""
    cancelled = ended("turn", events.RunCancelled(input_id="in-1", at=AT), result("cancelled", "error"))
    assert answer_text([cancelled], "in-1") == "cancelled"
    silent = ended("turn", events.RunFailed(input_id="in-1", code="internal", at=AT))
    assert answer_text([silent], "in-1") is None
