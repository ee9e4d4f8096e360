"""What is alive in a session as fragments: their priority, and the places of their words."""

from __future__ import annotations

from bench import builders
from hobus.actors.ho2_supervisor.attention.context import Fragment
from hobus.actors.ho2_supervisor.projection.fragments import make_liveness_fragments
from hobus.actors.ho2_supervisor.projection.liveness import find_liveness
from hobus.actors.ho2_supervisor.session.intents import Intents
from hobus.actors.ho2_supervisor.session.order_lives import OrderLives
from hobus.bus.record.session_facts import IntentDeclared
from hobus.bus.record.text_parts import TextPart
from tests.actors.ho2_supervisor.journals import SESSION, at

INTENT = f"INT-{SESSION}-001"
OWN = f"INTENT_DECLARED:{SESSION}/001/1"


def wo(run: int, rest: str = "1.1") -> str:
    """An order's id."""
    return f"WO-{SESSION}-{run}.{rest}"


def intents(ref: str = OWN) -> Intents:
    """One is active."""
    return Intents([IntentDeclared(intent_id=INTENT, scope="session", objective_ref=ref, at=at())], 2)


def orders() -> OrderLives:
    """Failed in turns 2 and 10, open in turns 3 and 9; one belongs to an intent that is over."""
    found = OrderLives()
    for run in (10, 2, 3, 9):
        found.note_dispatched(wo(run), builders.order(intent_id=INTENT))
    found.note_dispatched(wo(4), builders.order("classify", intent_id=f"INT-{SESSION}-000"))
    found.ended(wo(2), at(1), failure="expired")
    found.ended(wo(4), at(1), failure="expired")
    found.note_escalated(wo(10), at(2))
    return found


def contents(objectives: dict[str, str] | None = None, ref: str = OWN) -> list[str]:
    """What is alive, in words."""
    state = find_liveness(intents(ref), orders(), session_open=True)
    return [
        one.content
        for one in make_liveness_fragments(state, {OWN: "see"} if objectives is None else objectives, [INTENT])
    ]


def test_priority_is_intent_then_failures_then_open_orders() -> None:
    """The newest first in each; what belongs to an intent that is over is not told."""
    assert contents() == [
        "active intent: see",
        "failed: synthesize in turn 10 (its answer was not good enough)",
        "failed: synthesize in turn 2 (expired)",
        "without an end: synthesize in turn 9",
        "without an end: synthesize in turn 3",
    ]


def test_an_intent_that_a_message_of_the_prompt_says_is_not_told_again() -> None:
    """Whoever asks for the fragments says which are; failures and open orders of the others stand."""
    state = find_liveness(intents(), orders(), session_open=True)
    first, *_ = make_liveness_fragments(state, {OWN: "see"}, ())
    assert first.content.startswith("failed: ")


def test_words_that_were_erased_are_said_to_be() -> None:
    """And have no ref any more."""
    assert contents({})[0] == "active intent: [erased]"


def test_every_fragment_says_where_it_comes_from() -> None:
    """Source, id, and its words' place in the record where they stand alone there."""
    state = find_liveness(intents(), orders(), session_open=True)
    first, second, *_ = make_liveness_fragments(state, {OWN: "see"}, [INTENT])
    assert first == Fragment("liveness", INTENT, (TextPart(None, "active intent: "), TextPart(OWN, "see")))
    assert (second.source, second.source_id) == ("liveness", wo(10))
    assert [part.ref for part in second.parts] == [None]


def test_a_message_as_objective_has_no_ref() -> None:
    """What is shown is its beginning in one line, and no body holds just that."""
    ref = f"RunRequested:{SESSION}/i1/1"
    state = find_liveness(intents(ref), OrderLives(), session_open=True)
    assert [part.ref for part in make_liveness_fragments(state, {ref: "see"}, [INTENT])[0].parts] == [None]
