"""Fragments of a projection: their priority, what of them fits, and the text with the places of its words."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho2_supervisor.projection.fragments import (
    Fragment,
    Projection,
    liveness_fragments,
    memory_fragments,
    project,
)
from hobus.actors.ho2_supervisor.projection.liveness import liveness_of
from hobus.actors.ho2_supervisor.session.intents import Intent, Intents
from hobus.actors.ho2_supervisor.session.order_lives import OrderLives
from hobus.bus.messages.work_order import Segment
from tests.actors.ho2_supervisor.journals import SESSION, at

INTENT = f"INT-{SESSION}-001"
OWN = f"INTENT_DECLARED:{SESSION}/001/1"


def wo(run: int, rest: str = "1.1") -> str:
    """An order's id."""
    return f"WO-{SESSION}-{run}.{rest}"


def intents(ref: str = OWN) -> Intents:
    """One is active."""
    return Intents([Intent(INTENT, "session", ref, at())], 2)


def orders() -> OrderLives:
    """Failed in turns 2 and 10, open in turns 3 and 9; one belongs to an intent that is over."""
    found = OrderLives()
    for run in (10, 2, 3, 9):
        found.dispatched(wo(run), {"wo_type": "synthesize", "intent_id": INTENT})
    found.dispatched(wo(4), {"wo_type": "classify", "intent_id": f"INT-{SESSION}-000"})
    found.ended(wo(2), at(1), failure="expired")
    found.ended(wo(4), at(1), failure="expired")
    found.escalated(wo(10), at(2))
    return found


def contents(objectives: dict[str, str] | None = None, ref: str = OWN) -> list[str]:
    """What is alive, in words."""
    state = liveness_of(intents(ref), orders(), session_open=True)
    return [one.content for one in liveness_fragments(state, {OWN: "see"} if objectives is None else objectives)]


def fitted(fragments: list[Fragment], budget_tokens: int) -> Projection:
    """With four characters to a token."""
    return project(fragments, budget_tokens=budget_tokens, chars_per_token=4)


def test_priority_is_intent_then_failures_then_open_orders() -> None:
    """The newest first in each; what belongs to an intent that is over is not told."""
    assert contents() == [
        "active intent: see",
        "failed: synthesize in turn 10 (its answer was not good enough)",
        "failed: synthesize in turn 2 (expired)",
        "without an end: synthesize in turn 9",
        "without an end: synthesize in turn 3",
    ]


def test_words_that_were_erased_are_said_to_be() -> None:
    """And have no ref any more."""
    assert contents({})[0] == "active intent: [erased]"


def test_every_fragment_says_where_it_comes_from() -> None:
    """Source, id, and its words' place in the record where they stand alone there."""
    state = liveness_of(intents(), orders(), session_open=True)
    first, second, *_ = liveness_fragments(state, {OWN: "see"})
    assert first == Fragment("liveness", INTENT, "active intent: see", "active intent: ", OWN)
    assert (second.source, second.source_id, second.ref) == ("liveness", wo(10), None)
    lines = [Segment(name="ho3_biases", text="brief", artifact_id="ART-1"), Segment(name="ho3_biases", text="\n")]
    assert memory_fragments(lines) == [Fragment("memory", "ART-1", "brief")]


def test_a_message_as_objective_has_no_ref() -> None:
    """What is shown is its beginning in one line, and no body holds just that."""
    ref = f"RunRequested:{SESSION}/i1/1"
    state = liveness_of(intents(ref), OrderLives(), session_open=True)
    assert liveness_fragments(state, {ref: "see"})[0].ref is None


def test_memory_lines_are_counted_and_stand_elsewhere() -> None:
    """They have a part of the prompt of their own: counted under the budget, and not in the text."""
    found = fitted([Fragment("liveness", INTENT, "a" * 7), Fragment("memory", "ART-1", "b" * 7)], 4)
    assert (found.context_text, found.fragment_count, found.tokens_used) == ("a" * 7, 2, 4)
    assert found.ids("memory") == ["ART-1"]
    assert found.context_hash == hashlib.sha256(b"aaaaaaa").digest()


def test_what_does_not_fit_is_skipped_and_the_next_one_tried() -> None:
    """Exactly full is full; one that is too long costs the others nothing."""
    fragments = [Fragment("liveness", str(size), "x" * (4 * size - 1)) for size in (3, 9, 2, 1)]
    assert [one.source_id for one in fitted(fragments, 5).fragments] == ["3", "2"]
    assert fitted(fragments, 0).fragments == ()


def test_segments_say_the_text_and_name_the_words_by_ref() -> None:
    """Joined they are the text; only the words that stand alone in the record are named."""
    state = liveness_of(intents(), orders(), session_open=True)
    found = fitted(liveness_fragments(state, {OWN: "see"}), 1000)
    segments = found.segments()
    assert "".join(one.text for one in segments) == found.context_text
    assert [(one.text, one.ref) for one in segments if one.ref] == [("see", OWN)]
    assert {one.name for one in segments} == {"assembled_context"}
    assert fitted([], 10).segments() == []


@given(
    st.lists(
        st.tuples(st.sampled_from(["liveness", "memory"]), st.text(max_size=3), st.text(max_size=40)).map(
            lambda parts: Fragment(*parts)
        )
    ),
    st.integers(0, 60),
)
def test_no_projection_exceeds_its_budget(fragments: list[Fragment], budget_tokens: int) -> None:
    """Whatever the fragments: tokens within the budget, the text's own estimate too, order kept, same in, same out."""
    found = fitted(fragments, budget_tokens)
    assert found.tokens_used <= budget_tokens
    assert len(found.context_text) // 4 <= found.tokens_used
    places = iter(fragments)
    assert all(any(one is kept for one in places) for kept in found.fragments)
    assert found == fitted(fragments, budget_tokens)
    assert "".join(one.text for one in found.segments()) == found.context_text
