"""What providers keep of a prompt: as each wire writes it, it begins as that of the turn before, whatever memory says."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from hobus.bus.messages import transcript
from hobus.bus.messages.gateway import Prompt
from hobus.bus.messages.ids import format_iso
from hobus.bus.messages.memory import ActivateOverlay, DeactivateOverlay, OverlayChanged
from hobus.config.sections.gateway import AnthropicProvider, OpenAIProvider
from hobus.gateway_service.providers.http import anthropic_wire, openai_wire
from hobus.gateway_service.providers.http.wire import ToolNames
from tests.simulation.test_memory import QUESTION, lesson

OPENAI = OpenAIProvider.model_construct(max_tokens_field="max_tokens", structured="none", omit=[])
ONE_TEXT = OpenAIProvider.model_construct(max_tokens_field="max_tokens", structured="none", omit=["text_parts"])
ANTHROPIC = AnthropicProvider.model_construct(structured="none", omit=[])
WISH = "Always answer in German."
SAID = [QUESTION, WISH, QUESTION, "which tools are there?", "and again?", QUESTION, "thank you", "who are you?"]
FORGOTTEN, RECALLED = 4, 6
"""Before these turns the wish is switched off, and on again."""


@pytest.fixture(scope="module")
def asked() -> list[list[Prompt]]:
    """The answers' prompts by turn, the memory line coming, going and coming back."""
    with lesson() as taught:
        session_id, artifact_id, turns = None, "", list[list[Prompt]]()
        for number, text in enumerate(SAID):
            change = {FORGOTTEN: DeactivateOverlay, RECALLED: ActivateOverlay}.get(number)
            if change is not None:
                at = format_iso(taught.operator.now())
                taught.tell(change(agent_id="ADMIN", artifact_id=artifact_id, reason="said so", at=at), OverlayChanged)
            before = len(taught.model.prompts)
            result = taught.ask(text, session_id=session_id)
            session_id = result.session_id
            if result.remembered is not None:
                artifact_id = result.remembered.artifact_id
            new = taught.model.prompts[before:]
            turns.append([one for one in new if one.contract_id == "PRC-SYNTHESIZE-001"])
    return turns


def sent(prompt: Prompt, wire: Any, config: Any) -> dict[str, Any]:
    """The request, without the marks at which Anthropic keeps beginnings: they are no part of what is kept."""
    body = wire.make_request(prompt, "m", ToolNames.of(prompt), config, stream=False)
    return json.loads(json.dumps(body).replace(', "cache_control": {"type": "ephemeral"}', ""))


def is_shown(prompts: list[Prompt]) -> bool:
    """Whether the line of memory is."""
    return any("<preferences>" in message.text for message in prompts[0].messages)


def test_the_line_comes_and_goes(asked):
    """Else the tests below would hold for nothing."""
    assert [is_shown(prompts) for prompts in asked] == [False, False, True, True, False, False, True, True]


WIRES = pytest.mark.parametrize(
    ("wire", "config"), [(openai_wire, OPENAI), (openai_wire, ONE_TEXT), (anthropic_wire, ANTHROPIC)],
    ids=["openai", "one-text", "anthropic"],
)  # fmt: skip


@WIRES
def test_a_prompt_begins_with_all_bytes_of_the_one_before_its_memory_included(asked, wire, config):
    """Up to the end of the message that was answered; only what a person changes in memory begins it anew."""
    for number, (before, after) in enumerate(pairwise(asked), 1):
        shown, next_one = [json.dumps(sent(one[0], wire, config)["messages"]) for one in (before, after)]
        goes_on = next_one.startswith(shown[:-1] + ', {"role": "assistant"')
        assert goes_on == (number not in (FORGOTTEN, RECALLED)), number
    for prompts in asked:
        for one, following in pairwise(prompts):
            assert json.dumps(sent(following, wire, config)["messages"]).startswith(
                json.dumps(sent(one, wire, config)["messages"])[:-1]
            )


@WIRES
def test_a_line_that_is_switched_off_stands_beside_no_message_any_more(asked, wire, config):
    """Neither beside the new one nor beside those whose answers had it; the rest is as it was, and so is what returns."""
    lines = [json.dumps(sent(prompts[0], wire, config)["messages"]).count("<preferences>") for prompts in asked]
    assert lines == [0, 0, 1, 2, 0, 0, 3, 4], "once for each message that had it"
    for number in (FORGOTTEN, RECALLED):
        without = [said_in(asked[one][0]) for one in (number - 1, number)]
        assert without[1][: len(without[0])] == without[0]


def said_in(prompt: Prompt) -> list[tuple[str, str]]:
    """The messages of a prompt without memory."""
    told = transcript.expand(prompt.messages)
    return [(one.role, one.text) for one in told if not one.text.startswith("<preferences>")]


@pytest.mark.parametrize(("wire", "config"), [(openai_wire, OPENAI), (anthropic_wire, ANTHROPIC)])
def test_what_a_person_says_is_a_part_of_its_own_and_the_last_one(asked, wire, config):
    """Verbatim, whatever stands before it; and no side speaks twice in a row, which templates refuse."""
    for text, prompts in zip(SAID, asked, strict=True):
        messages = sent(prompts[0], wire, config)["messages"]
        content = messages[-1]["content"]
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        assert parts[-1] == {"type": "text", "text": text}
        assert len(parts) > 1 or not is_shown(prompts)
        roles = [one["role"] for one in messages]
        assert all(a != b for a, b in pairwise(roles) if "tool" not in (a, b))


def test_what_anthropic_keeps_ends_before_memory(asked):
    """The mark stands behind earlier turns, which the next prompt shows as well."""
    for prompts in asked[1:]:
        body = anthropic_wire.make_request(prompts[0], "m", ToolNames.of(prompts[0]), ANTHROPIC, stream=False)
        marked = [block for one in body["messages"] for block in one["content"] if "cache_control" in block]
        assert len(marked) == 1 and body["messages"][-2]["content"][-1] is marked[0]
