"""The offline model sees what every model sees, and no more: the words of a prompt decide, and each of them counts."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator

from bench.gateway.instances import OPENAI
from hobus.bus.messages.gateway import Prompt, PromptMessage
from hobus.bus.messages.work_order import Segment
from hobus.config.prompt_pack import fill_pack, parse_pack
from hobus.config.sections.gateway import OpenAIProvider
from hobus.gateway_service.providers.http import openai_wire
from hobus.gateway_service.providers.http.reader import AnswerReader
from hobus.gateway_service.providers.http.wire import ToolNames
from hobus.gateway_service.providers.offline.grammar import load_grammar
from hobus.gateway_service.providers.offline.model import MODELS, complete
from hobus.gateway_service.providers.offline.reading import blocks_in
from tests.gateway_service.providers.test_offline import (
    EXCERPTS,
    HISTORY,
    PROVIDER,
    SHIPPED,
    TOOLS,
    prompt,
    with_results,
)
from tests.laws import law

GRAMMAR = load_grammar()
INSTANCE = OpenAIProvider.model_validate({**OPENAI, "base_url": "http://127.0.0.1:11434/v1"})
CLASSIFY, CONSOLIDATE, DEGRADED, SYNTHESIZE = (
    "PRC-CLASSIFY-001", "PRC-CONSOLIDATE-001", "PRC-DEGRADED-001", "PRC-SYNTHESIZE-001"
)  # fmt: skip
SIGNAL = {"signal_id": "intent:command", "count": "9", "session_count": "4", "recent_events": EXCERPTS}

PROMPTS: dict[str, Prompt] = {
    "a first message": prompt(CLASSIFY, "what packages are installed?"),
    "a later message": prompt(CLASSIFY, "and the frameworks?", history=HISTORY),
    "a message under an objective": prompt(CLASSIFY, "and the frameworks?", active_intent="look at the packages"),
    "a wish": prompt(CLASSIFY, "always answer briefly"),
    "a goodbye": prompt(CLASSIFY, "thanks, bye"),
    "a signal": prompt(CONSOLIDATE, **SIGNAL),
    "another signal": prompt(CONSOLIDATE, **{**SIGNAL, "signal_id": "domain:config"}),
    "an outcome": prompt(CONSOLIDATE, **{**SIGNAL, "signal_id": "outcome:failed"}),
    "in need": prompt(DEGRADED, "what packages are installed?", agent_class="ADMIN"),
    "who": prompt(SYNTHESIZE, "who are you?", tools=TOOLS, system="You are the keeper of this house."),
    "a question": prompt(SYNTHESIZE, "what packages are installed?", tools=TOOLS),
    "a look back": prompt(SYNTHESIZE, "what did I ask before?", tools=TOOLS, history=HISTORY),
    "context": prompt(SYNTHESIZE, "summarise", assembled_context="One. Two."),
    "vague": prompt(SYNTHESIZE, "hm", classification='{"speech_act": "command", "ambiguity": "high"}'),
    "a note": prompt(SYNTHESIZE, "hello", prior_results="The previous draft was not accepted: it has no text."),
    "a steer": prompt(SYNTHESIZE, "hello", tools=TOOLS, steer="- is the ledger intact?\n- and list the tools"),
    "a draft": prompt(SYNTHESIZE, "hello", draft="What I had.", steer="- in Welsh"),
    "a preference": prompt(SYNTHESIZE, "hello", tools=TOOLS, ho3_biases="Answer this person in one line."),
    "results": with_results(
        prompt(SYNTHESIZE, "which tools?", tools=TOOLS), ("list_tools", {"tools": [{"tool_id": "t", "description": "d"}]})
    ),
}  # fmt: skip


SAID: dict[str, tuple[str, list[Any]]] = {}
"""What they are answered, once it was asked for: the same each time."""


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
    sent = json.loads(json.dumps(openai_wire.request(wanted, MODELS[0], names, INSTANCE, stream=False)))
    answer = AnswerReader(openai_wire, names).whole(complete(sent, GRAMMAR, 4))
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
        }
    )  # fmt: skip
    on_the_wire = {
        "messages", "model_id", "max_tokens", "temperature", "reasoning_effort", "tools", "output_schema",
        "structured_output", "stream", "tool_choice", "sampling",
    }  # fmt: skip
    changed = {field for field in Prompt.model_fields if getattr(hidden, field) != getattr(wanted, field)}
    assert changed | on_the_wire | {"due_at"} == set(Prompt.model_fields)
    assert await said(hidden) == await said(wanted)


# --- and all of it ------------------------------------------------------------------------------------------------


def inputs_of(pack_id: str) -> list[tuple[str, str]]:
    """(pack, input) of one pack."""
    return [(pack_id, name) for name in parse_pack(pack_id, SHIPPED.prompt_packs[pack_id]).variables]


UNREAD = {
    (
        "PRM-CONSOLIDATE-001",
        "session_ids",
    ): "says which record an excerpt is of; of use to a reader of that record alone",
    ("PRM-CONSOLIDATE-001", "event_ids"): "the same",
}
"""Inputs of which an answer is right not to depend."""


@pytest.mark.parametrize(
    ("pack_id", "name"),
    [row for pack_id in sorted(SHIPPED.prompt_packs) for row in inputs_of(pack_id) if row not in UNREAD],
)
async def test_an_input_that_a_pack_leaves_out_is_missed(pack_id: str, name: str) -> None:
    """For each input of each pack there is a prompt whose answer changes where the pack forgets it."""
    text = SHIPPED.prompt_packs[pack_id]
    assert f"{{{{ {name} }}}}" in text
    assert await changed_by(pack_id, text.replace(f"{{{{ {name} }}}}", ""))


def words_of(pack_id: str) -> list[tuple[str, str]]:
    """(pack, line) of every line that names a part, a key or what the whole is."""
    telling = re.compile(
        r'</?[a-z_]+|^- "|^You are|^You turn|one JSON object|reduced mode|^Signal|^Seen|domain:|task:|^"'
    )
    lines = SHIPPED.prompt_packs[pack_id].splitlines()
    return [(pack_id, line) for line in lines if telling.search(line) and not line.startswith("{")]


IDS = ("<sessions>", "</sessions>", "<events>", "</events>")


@pytest.mark.parametrize(
    ("pack_id", "line"),
    [
        (pack_id, line)
        for pack_id in sorted(SHIPPED.prompt_packs)
        for _, line in words_of(pack_id)
        if line not in IDS and not line.startswith(("You turn", "You classify"))
    ],
)
async def test_a_line_that_a_pack_forgets_is_missed(pack_id: str, line: str) -> None:
    """A tag, a key, a closed list, what the answer is to be: without it some answer is another one, or none."""
    whole = SHIPPED.prompt_packs[pack_id].splitlines()
    whole.remove(line)
    assert await changed_by(pack_id, "\n".join(whole))


@pytest.mark.parametrize("pack_id", sorted(SHIPPED.prompt_packs))
async def test_a_renamed_part_is_not_found(pack_id: str) -> None:
    """The words decide: under another tag the message, or the excerpts, are none."""
    text = SHIPPED.prompt_packs[pack_id]
    part = "excerpts" if "<excerpts" in text else "message"
    assert await changed_by(pack_id, text.replace(f"<{part}", "<thing").replace(f"</{part}", "</thing"))


async def changed_by(pack_id: str, text: str) -> list[str]:
    """The prompts that are answered otherwise when their pack reads like this."""
    found: list[str] = []
    for name, wanted in PROMPTS.items():
        if wanted.prompt_pack_id == pack_id:
            if name not in SAID:
                SAID[name] = await said(wanted)
            if await said(rendered(wanted, text)) != SAID[name]:
                found.append(name)
    return found


def rendered(wanted: Prompt, text: str) -> Prompt:
    """The same prompt by another text of its pack."""
    given_by_name: dict[str, list[Segment]] = {}
    for message in wanted.messages:
        for segment in message.segments:
            if not segment.name.startswith("PRM-"):
                given_by_name.setdefault(segment.name, []).append(segment)
    pack = parse_pack(wanted.prompt_pack_id, text)
    empty: dict[str, list[Segment]] = {name: [] for name in pack.variables}
    first = fill_pack(pack, empty | given_by_name)
    return wanted.model_copy(
        update={"messages": [*first, *(m for m in wanted.messages if m.role not in ("system", "user"))]}
    )


@pytest.mark.parametrize("contract_id", [CLASSIFY, CONSOLIDATE])
async def test_without_its_instructions_no_valid_object_comes(contract_id: str) -> None:
    """A schema beside the prompt does not stand in for words: what nobody asked for in words is not made up."""
    wanted = next(one for one in PROMPTS.values() if one.contract_id == contract_id)
    text = SHIPPED.prompt_packs[wanted.prompt_pack_id]
    keyless = re.sub(r"\nKeys of the object.*?\n\n", "\n", text, flags=re.DOTALL)
    content, _ = await said(rendered(wanted, keyless))
    assert content.startswith("I am hobus's embedded offline model") and "does not say with which keys" in content
    schema = SHIPPED.contracts[contract_id].output_schema
    first_key = next(iter(schema["required"]))
    renamed = text.replace(f'- "{first_key}"', '- "other_key"')
    content, _ = await said(rendered(wanted, renamed))
    assert not Draft202012Validator(schema).is_valid(json.loads(content))


# --- blocks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "blocks", "outside"),
    [
        ("<message>\nhi\n</message>", {"message": "hi"}, ""),
        ("<message>\n\n</message>\nend", {"message": ""}, "end"),
        ("<message>\n</message>", {"message": ""}, ""),
        ("<message>\n<draft>\nx\n</draft>\n</message>", {"message": "<draft>\nx\n</draft>"}, ""),
        ("<message>\n<message>\nx\n</message>\ny\n</message>", {"message": "<message>\nx\n</message>\ny"}, ""),
        ("<message>\n<message>\nx\n</message>\n<steer>\ns\n</steer>", {"message": "<message>\nx", "steer": "s"}, ""),
        ("<message>\nnever ended", {}, "<message>\nnever ended"),
        ("</message>\nhi", {}, "</message>\nhi"),
        ("<context>\n<message>\nold\n</message>\n</context>\n<message>\nnew\n</message>",
         {"context": "<message>\nold\n</message>", "message": "new"}, ""),
        ("a <message> b", {}, "a <message> b"),
        ("<other>\nx\n</other>", {}, "<other>\nx\n</other>"),
        ('<excerpts newest_first="true">\nx\n</excerpts>', {"excerpts": "x"}, ""),
    ],
)  # fmt: skip
def test_blocks_are_told_apart_by_their_tags(text: str, blocks: dict[str, str], outside: str) -> None:
    """Outermost ones; what is quoted inside of one is its text."""
    found, rest = blocks_in(text)
    assert (found, rest.strip()) == (blocks, outside)


@law(
    60,
    300,
    lines=st.lists(
        st.sampled_from(["<message>", "</message>", "<steer>", "</steer>", "<draft>", "text", ""]), max_size=40
    ),
)
def test_any_heap_of_tags_is_read_and_nothing_of_it_twice(lines: list[str]) -> None:
    """Whatever a message holds, reading ends, and no block holds more than there was."""
    text = "\n".join(lines)
    found, outside = blocks_in(text)
    assert sum(map(len, found.values())) + len(outside) <= len(text) + 1


def test_a_hundred_thousand_tags_are_read_at_once() -> None:
    """Work grows with the length of a prompt, not with its square."""
    for heap in ("<message>\n" * 100_000, "<draft>\n<message>\n" * 50_000 + "</draft>\n" * 50_000):
        found, _ = blocks_in(heap)
        assert len(found) <= 1


async def test_a_prompt_without_parts_is_the_message_itself() -> None:
    """Somebody's own contract may say nothing but what was said."""
    bare = prompt(SYNTHESIZE, "hello", tools=TOOLS).model_copy(
        update={
            "messages": [PromptMessage(role="user", segments=[Segment(name="x", text="what packages are installed?")])]
        }
    )
    assert [name for name, _ in (await said(bare))[1]] == ["list_packages"]
