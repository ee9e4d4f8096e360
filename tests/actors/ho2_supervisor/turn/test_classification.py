"""Classification: the closed vocabulary and nothing else."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho2_supervisor.turn.classification import Classification, read_classification
from hobus.config.sections.turns import ClassifyLabels

WORDS = ClassifyLabels(domain=["system", "tools"], task=["inspect", "plan"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["system", "inspect"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["domain", "task", "x"]), inner),
    max_leaves=6,
)


def read(labels: Any, **more: Any) -> Classification:
    """A later message's classification with these labels."""
    parsed = {"speech_act": "question", "ambiguity": "low", "labels": labels, **more}
    return read_classification(parsed, WORDS, is_first=False)


def test_labels_inside_the_vocabulary_are_kept_in_order_once() -> None:
    """One word or several, in the model's order."""
    kept = read({"domain": ["tools", "system", "tools"], "task": "plan"})
    assert (kept.domain, kept.task) == (("tools", "system"), ("plan",))


def test_labels_outside_the_vocabulary_are_dropped_and_counted() -> None:
    """The kind of each dropped label is recorded; its text is not."""
    kept = read({"domain": ["tools", "Tools", 7, "space"], "task": "inspect "})
    assert (kept.domain, kept.task) == (("tools",), ())


def test_first_message_is_always_new() -> None:
    """Also when the model said something else, or nothing."""
    for signal in ({"action": "continue"}, {"action": "close"}, None):
        parsed = {"speech_act": "question", "ambiguity": "low", "intent_signal": signal}
        assert read_classification(parsed, WORDS, is_first=True).action == "new"
        assert read_classification(parsed, WORDS, is_first=False).action == (signal or {}).get("action", "")


def test_failed_classification_tells_the_prompt_nothing() -> None:
    """No labels, no text."""
    for parsed in (None, {}):
        assert read_classification(parsed, WORDS, is_first=False).as_text() == ""


def test_prompt_text_is_one_json_object() -> None:
    """Only what is known, keys in a fixed order."""
    text = read({"domain": "tools"}, intent_signal={"action": "new", "candidate_objective": "prüfen"}).as_text()
    assert list(json.loads(text)) == ["speech_act", "ambiguity", "action", "objective", "domain"]
    assert "prüfen" in text


@given(labels=JSON, signal=JSON)
def test_any_answer_gives_known_labels_only(labels: Any, signal: Any) -> None:
    """Whatever a model puts there, nothing outside the vocabulary comes out, and nothing raises."""
    kept = read(labels, intent_signal=signal)
    assert set(kept.domain) <= set(WORDS.domain)
    assert set(kept.task) <= set(WORDS.task)
