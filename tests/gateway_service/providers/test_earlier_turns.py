"""What a turn that lies behind costs the next prompt: few calls of functions, whoever is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bench.builders import prompt
from bench.counts import _Calls
from hobus.bus.messages import transcript
from hobus.bus.messages.gateway import Prompt, PromptMessage
from hobus.bus.messages.work_order import Segment, ToolCall
from hobus.config.sections.gateway import AnthropicProvider, OpenAIProvider
from hobus.gateway_service.pricing import estimate_input_tokens
from hobus.gateway_service.providers.http import anthropic_wire, openai_wire
from hobus.gateway_service.providers.http.wire import ToolNames
from hobus.gateway_service.providers.offline.grammar import load_grammar
from hobus.gateway_service.providers.offline.model import complete

OPENAI = OpenAIProvider.model_construct(max_tokens_field="max_tokens", structured="none", omit=[])
ANTHROPIC = AnthropicProvider.model_construct(structured="none", omit=[])


def behind(turns: int) -> Prompt:
    """A prompt behind so many turns of four messages: asked, a tool, its result, answered."""
    call = ToolCall(call_id="001", provider_call_id="1", tool_id="list_tools", arguments={"limit": 3})
    said = [("user", "", ()), ("assistant", "", (call,)), ("tool", "001", ()), ("assistant", "", ())]
    text = "".join(
        f"{transcript.write_head(role, call_id)}turn {turn}{transcript.ends(calls)}"
        for turn in range(turns)
        for role, call_id, calls in said
    )
    history = PromptMessage(role="history", segments=[Segment(name=transcript.NAME, text=text)])
    asked = prompt(messages=[history, PromptMessage(role="user", segments=[Segment(text="which tools are there?")])])
    return asked.model_copy(update={"messages": transcript.expand(asked.messages)})


def wired(asked: Prompt) -> dict[str, Any]:
    """As a server of the kind `openai` gets it."""
    return openai_wire.make_request(asked, "m", ToolNames.of(asked), OPENAI, stream=False)


@pytest.mark.parametrize(
    ("work", "calls_max"),
    [
        (wired, 9),
        (lambda asked: anthropic_wire.make_request(asked, "m", ToolNames.of(asked), ANTHROPIC, stream=False), 34),
        (lambda asked: estimate_input_tokens(asked, 4), 0),
        (lambda asked: transcript.expand(asked.messages), 0),
    ],
    ids=["openai", "anthropic", "tokens", "messages"],
)
def test_an_earlier_turn_costs_few_calls(work: Callable[[Prompt], object], calls_max: int) -> None:
    """So a long conversation hardly makes its next answer dearer: calls of functions for each turn of four messages."""
    few, many = (calls_of(work, behind(turns)) for turns in (10, 30))
    assert many - few <= 20 * calls_max


def test_the_embedded_model_reads_no_earlier_turn_without_need() -> None:
    """Its answer costs the same however long the conversation is; asked for what was said, it reads all of it."""
    requests = [wired(behind(turns)) for turns in (10, 30)]
    few, many = (calls_of(lambda request: complete(request, load_grammar(), 4), request) for request in requests)
    assert few == many
    requests[0]["messages"][-1]["content"] = "what did I ask first?"
    assert "turn 0" in str(complete(requests[0], load_grammar(), 4))


def calls_of(work: Callable[[Any], object], given: Any) -> int:
    """Calls of functions, of C's too."""
    work(given)  # what is made once
    calls = _Calls()
    with calls.counting():
        work(given)
    return calls.function_calls
