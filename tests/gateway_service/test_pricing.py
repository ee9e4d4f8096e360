"""What a prompt is counted by: all that a model reads of it."""

from __future__ import annotations

import json

from bench.builders import prompt
from hobus.bus.messages.gateway import PromptResponse
from hobus.bus.messages.work_order import ToolSpec
from hobus.gateway_service.pricing import estimate_input_tokens, with_usage


def test_a_tool_is_counted_as_it_is_sent_also_when_an_equal_one_was_counted_before() -> None:
    """1, 1.0 and true are equal in Python and three texts to a model; letters are themselves, long schemas too."""
    schemas = [{"enum": [value]} for value in (1, 1.0, True, "ä", "long " * 5000)]
    for _ in range(2):
        for schema in schemas:
            tool = ToolSpec(tool_id="t", description="d", parameters=schema)
            told = estimate_input_tokens(prompt(tools=[tool]), 1) - estimate_input_tokens(prompt(tools=[]), 1)
            assert told == len("td" + json.dumps(schema, ensure_ascii=False, separators=(",", ":")))


def test_what_was_only_thought_is_estimated_where_a_usage_does_not_say_it() -> None:
    """Else nobody could say that all of an answer went into thinking; what is told counts."""
    answer = PromptResponse(outcome="SUCCESS", input_tokens=9, output_tokens=50)
    assert with_usage(prompt(), answer, 4, thought_chars=40).reasoning_tokens == 10
    assert not with_usage(prompt(), answer, 4, thought_chars=40).usage_is_estimated
    told = answer.model_copy(update={"reasoning_tokens": 3})
    assert with_usage(prompt(), told, 4, thought_chars=40).reasoning_tokens == 3
