"""The offline model sees what every model sees, and no more: the words of a prompt decide, and each of them counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.gateway.servers import OPENAI
from hobus.bus.messages.gateway import Prompt, PromptMessage
from hobus.bus.messages.work_order import Caller, Segment
from hobus.config.sections.gateway import OpenAIProvider
from hobus.gateway_service.providers.http import openai_wire
from hobus.gateway_service.providers.http.reader import AnswerReader
from hobus.gateway_service.providers.http.wire import ToolNames
from hobus.gateway_service.providers.offline.grammar import load_grammar
from hobus.gateway_service.providers.offline.model import MODELS, complete
from hobus.gateway_service.providers.offline.reading import Reading
from tests.gateway_service.providers.test_offline import (
    EXCERPTS,
    HISTORY,
    PROVIDER,
    TOOLS,
    behind,
    prompt,
    with_results,
)

GRAMMAR = load_grammar()
INSTANCE = OpenAIProvider.model_validate({**OPENAI, "base_url": "http://127.0.0.1:11434/v1"})
CLASSIFY, CONSOLIDATE, DEGRADED, SYNTHESIZE = (
    "PRC-CLASSIFY-001", "PRC-CONSOLIDATE-001", "PRC-DEGRADED-001", "PRC-SYNTHESIZE-001"
)  # fmt: skip
SIGNAL = {"signal_id": "intent:command", "count": "9", "session_count": "4", "recent_events": EXCERPTS}

PROMPTS: dict[str, Prompt] = {
    "a first message": prompt(CLASSIFY, "what packages are installed?"),
    "a later message": prompt(CLASSIFY, "and the frameworks?", earlier="- user: hi"),
    "a message under an objective": prompt(CLASSIFY, "and the frameworks?", active_intent="look at the packages"),
    "a wish": prompt(CLASSIFY, "always answer briefly"),
    "a goodbye": prompt(CLASSIFY, "thanks, bye"),
    "a signal": prompt(CONSOLIDATE, **SIGNAL),
    "another signal": prompt(CONSOLIDATE, **{**SIGNAL, "signal_id": "domain:config"}),
    "an outcome": prompt(CONSOLIDATE, **{**SIGNAL, "signal_id": "outcome:failed"}),
    "in need": prompt(DEGRADED, "what packages are installed?"),
    "who": prompt(SYNTHESIZE, "who are you?", tools=TOOLS, system="You are the keeper of this house."),
    "a question": prompt(SYNTHESIZE, "what packages are installed?", tools=TOOLS),
    "a look back": behind(HISTORY, prompt(SYNTHESIZE, "what did I ask before?", tools=TOOLS)),
    "context": prompt(SYNTHESIZE, "summarise", assembled_context="One. Two."),
    "a preference": prompt(SYNTHESIZE, "hello", tools=TOOLS, ho3_biases="Answer this person in one line."),
    "results": with_results(
        prompt(SYNTHESIZE, "which tools?", tools=TOOLS), ("list_tools", {"tools": [{"tool_id": "t", "description": "d"}]})
    ),
}  # fmt: skip


SAID: dict[str, tuple[str, list[Any]]] = {}


def test_parts_of_a_message_are_read_as_one_text_without_the_names_of_tools_images() -> None:
    """Material in one part, the words in the next; what a tool drew is nothing that was said."""
    parts = ["<preferences>\nBe brief.\n</preferences>", "[the image a.png of the tool's result above]", "hello"]
    content = [{"type": "text", "text": text} for text in parts]
    reading = Reading({"messages": [{"role": "user", "content": [*content, {"type": "image_url", "image_url": {}}]}]})
    assert (reading.asked, reading.blocks) == (["hello"], {"preferences": "Be brief."})


async def said(wanted: Prompt) -> tuple[str, list[Any]]:
    """The answer: its text and its calls."""
    response = await PROVIDER.complete(wanted, model_id=MODELS[0], timeout_s=1)
    return response.content, [(call.tool_id, call.arguments) for call in response.tool_calls]


# --- no more than the wire ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROMPTS)
async def test_it_is_the_request_of_the_kind_openai_that_is_answered(name: str) -> None:
    """What an instance of that kind would send, as JSON and back, gets the same answer."""
    wanted = PROMPTS[name]
    names = ToolNames.of(wanted)
    sent = json.loads(json.dumps(openai_wire.make_request(wanted, MODELS[0], names, INSTANCE, stream=False)))
    answer = AnswerReader(openai_wire.read, names).whole(complete(sent, GRAMMAR, 4))
    assert (answer.content, [(call.tool_id, call.arguments) for call in answer.tool_calls]) == await said(wanted)


@pytest.mark.parametrize("name", PROMPTS)
async def test_nothing_that_no_model_is_sent_changes_an_answer(name: str) -> None:
    """Names and borders of segments, refs, and every field of a prompt that stays here."""
    wanted = PROMPTS[name]
    anonymous = [
        message.model_copy(update={"segments": [Segment(name="x", ref="RunRequested:1/2", text=message.text)]})
        for message in wanted.messages
    ]
    hidden = wanted.model_copy(
        update={
            "messages": anonymous, "prompt_pack_id": "PRM-OTHER-001", "contract_id": "PRC-OTHER-001", "agent_id": "OTHER",
            "agent_class": "OTHER", "framework_id": "FMWK-9", "package_id": "PKG-9", "work_order_id": "WO-9", "session_id": "t",
            "run_seq": 9, "tier": "hot", "provider_id": "other", "provider_profile_id": "other", "domain_tags": ["classification"], "token_budget": 1,
            "headroom_tokens": 9, "due_at": None, "idempotency_key": "WO-9#1", "budget_mode": "off", "config_digest": "sha256:" + "0" * 64,
            "history_after": b"0", "tools_digest": b"0", "callers": [Caller(session_id="t", agent_id="OTHER")],
        }
    )  # fmt: skip
    on_the_wire = {
        "messages", "model_id", "max_tokens", "temperature", "reasoning_effort", "tools", "output_schema",
        "structured_output", "stream", "tool_choice", "sampling",
    }  # fmt: skip
    changed = {field for field in Prompt.__struct_fields__ if getattr(hidden, field) != getattr(wanted, field)}
    assert changed | on_the_wire | {"due_at", "is_dispatching"} == set(Prompt.__struct_fields__)
    assert await said(hidden) == await said(wanted)


def test_a_hundred_thousand_tags_are_read_at_once() -> None:
    """Work grows with the length of a prompt, not with its square."""
    for heap in ("<message>\n" * 100_000, "<a>\nx\n</a>\n" * 100_000):
        assert Reading({"messages": [{"role": "user", "content": heap}]}).blocks.keys() <= {"a"}


async def test_a_prompt_without_parts_is_the_message_itself() -> None:
    """Somebody's own contract may say nothing but what was said."""
    bare = prompt(SYNTHESIZE, "hello", tools=TOOLS).model_copy(
        update={
            "messages": [PromptMessage(role="user", segments=[Segment(name="x", text="what packages are installed?")])]
        }
    )
    assert [name for name, _ in (await said(bare))[1]] == ["list_packages"]
