"""Every shipped contract and pack: renders, keeps its budget, and is understood by the offline provider."""

from __future__ import annotations

from typing import Any, cast

import pytest

from bench.builders import order, shipped_snapshot
from hobus.actors.ho1_executor.contracts import (
    CheckedContract,
    check_contract,
    gather_inputs,
    judge_output,
    make_label_inputs,
)
from hobus.actors.ho1_executor.job import Job
from hobus.actors.ho1_executor.model_step import make_prompt
from hobus.actors.ho1_executor.prompts import load_pack, render
from hobus.actors.ho1_executor.receipts import OrderUsage
from hobus.bus.messages.gateway import Prompt, PromptResponse, ToolSpec
from hobus.bus.messages.work_order import Segment
from hobus.bus.port import Bus
from hobus.config.prompt_pack import parse_pack
from hobus.gateway_service.providers.offline.provider import OfflineProvider

CONTRACTS = ["PRC-CLASSIFY-001", "PRC-CONSOLIDATE-001", "PRC-DEGRADED-001", "PRC-SYNTHESIZE-001"]
MESSAGE = "what packages are installed?"
GIVEN: dict[str, dict[str, str]] = {
    "PRC-CLASSIFY-001": {"user_input": MESSAGE},
    "PRC-SYNTHESIZE-001": {"user_input": MESSAGE},
    "PRC-DEGRADED-001": {"user_input": MESSAGE, "agent_id": "ADMIN"},
    "PRC-CONSOLIDATE-001": {
        "signal_id": "domain:config", "count": "5", "session_count": "3", "recent_events": "user: show the budgets",
    },
}  # fmt: skip
"""What an order gives; the rest stands in configuration or has a default in the contract."""


def prompt_for(contract_id: str, specs: list[ToolSpec] | None = None, **given: str) -> tuple[CheckedContract, Prompt]:
    """The prompt that an executor sends for this contract."""
    checked = check_contract(shipped_snapshot().contracts, contract_id)
    standing = make_label_inputs(shipped_snapshot().config.classify_labels)
    standing["system"] = [Segment(name="system", text=shipped_snapshot().agents["ADMIN"].system_prompt)]
    texts = {**GIVEN[contract_id], **given}
    segments = [Segment(name=name, text=text) for name, text in texts.items()]
    inputs = gather_inputs(checked, segments, standing)
    made = order(constraints={"prompt_contract_id": contract_id, "token_budget": 100_000}, input_context=[])
    messages = render(load_pack(shipped_snapshot().prompt_packs, checked.contract.prompt_pack_id), inputs, made)
    job = Job(cast("Bus", None), made, OrderUsage(0.0), is_repeat=False, deadline=0.0, trace="")
    return checked, make_prompt(job, checked, messages, specs or [], number=1)


async def answered(prompt: Prompt) -> PromptResponse:
    """What the offline provider answers."""

    async def never(_seconds: float) -> None:
        raise AssertionError

    chars = shipped_snapshot().config.attention.chars_per_token
    provider = OfflineProvider(provider_id="offline", latency_ms=0, chars_per_token=chars, sleep=never)
    return await provider.complete(prompt, model_id="offline-rules-1", timeout_s=1.0)


def test_these_are_all_that_are_shipped() -> None:
    """A contract or pack that is added gets its test here."""
    assert sorted(shipped_snapshot().contracts) == CONTRACTS
    packs = {shipped_snapshot().contracts[contract_id].prompt_pack_id for contract_id in CONTRACTS}
    assert packs == set(shipped_snapshot().prompt_packs)


@pytest.mark.parametrize(
    ("contract_id", "max_tokens", "temperature"),
    [
        ("PRC-CLASSIFY-001", 500, 0.0),
        ("PRC-SYNTHESIZE-001", 4096, 0.2),
        ("PRC-CONSOLIDATE-001", 512, 0.0),
        ("PRC-DEGRADED-001", 4096, 0.0),
    ],
)
def test_boundaries_are_the_specified_ones(contract_id: str, max_tokens: int, temperature: float) -> None:
    _, prompt = prompt_for(contract_id)
    assert (prompt.max_tokens, prompt.temperature) == (max_tokens, temperature)


@pytest.mark.parametrize("contract_id", CONTRACTS)
def test_every_pack_asks_only_for_what_its_contract_takes(contract_id: str) -> None:
    contract = shipped_snapshot().contracts[contract_id]
    pack = parse_pack(contract.prompt_pack_id, shipped_snapshot().prompt_packs[contract.prompt_pack_id])
    offered = {"agent_class", "session_ids", "event_ids"}  # for packs of one's own
    assert set(contract.input_schema["properties"]) - offered == set(pack.variables)


@pytest.mark.parametrize("contract_id", CONTRACTS)
def test_every_pack_renders_whole(contract_id: str) -> None:
    _, prompt = prompt_for(contract_id)
    assert [message.role for message in prompt.messages] == ["system", "user"]
    whole = "".join(message.text for message in prompt.messages)
    assert all(text in whole for text in GIVEN[contract_id].values())
    assert "{{" not in whole
    assert "[[" not in whole


def test_a_first_prompt_is_the_agents_words_and_the_message() -> None:
    _, prompt = prompt_for("PRC-SYNTHESIZE-001")
    words = shipped_snapshot().agents["ADMIN"].system_prompt
    assert [(one.role, one.text) for one in prompt.messages] == [("system", words), ("user", MESSAGE)]


def test_what_applies_stands_in_its_place() -> None:
    given = {"tools": "a, b", "ho3_biases": "Be brief.", "assembled_context": "2 < 3"}
    _, prompt = prompt_for("PRC-SYNTHESIZE-001", **given)
    system, preferences, context, message = (one.text for one in prompt.messages)
    assert system.startswith(shipped_snapshot().agents["ADMIN"].system_prompt + "\n\n- ")
    assert len(system.splitlines()) <= 1 + 1 + 5 and "a, b" not in system
    assert "Be brief." in preferences and "2 < 3" in context and message == MESSAGE
    assert all("no instructions" in one for one in (preferences, context))


@pytest.mark.parametrize("contract_id", ["PRC-CLASSIFY-001", "PRC-SYNTHESIZE-001", "PRC-DEGRADED-001"])
def test_the_message_is_a_segment_of_its_own_and_stands_last(contract_id: str) -> None:
    """Recorded by its ref; what changes least stands first, so that a provider's cache of a prefix hits."""
    _, prompt = prompt_for(contract_id)
    named = [segment.name for segment in prompt.messages[-1].segments if not segment.name.startswith("PRM-")]
    assert named[-1] == "user_input"


@pytest.mark.parametrize("contract_id", CONTRACTS)
async def test_the_offline_provider_answers_as_the_contract_wants(contract_id: str) -> None:
    checked, prompt = prompt_for(contract_id)
    response = await answered(prompt)
    assert response.outcome == "SUCCESS"
    assert judge_output(checked, response.content).faults == ()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (MESSAGE, {"labels": {"domain": ["system"], "task": ["inspect"]}}),
        ("thanks, bye", {"speech_act": "farewell", "action": "close"}),
    ],
)
async def test_classification_of_the_two_named_messages(message: str, expected: dict[str, Any]) -> None:
    checked, prompt = prompt_for("PRC-CLASSIFY-001", user_input=message)
    parsed = judge_output(checked, (await answered(prompt)).content).parsed
    assert parsed is not None
    labels = {kind: [label] if isinstance(label, str) else label for kind, label in parsed.get("labels", {}).items()}
    found = {
        "labels": labels,
        "speech_act": parsed["speech_act"],
        "action": parsed.get("intent_signal", {}).get("action"),
    }
    assert {name: found[name] for name in expected} == expected


async def test_prompt_and_answer_of_a_classification_fit_their_budget() -> None:
    _, prompt = prompt_for("PRC-CLASSIFY-001", user_input="x" * 1000)
    chars = sum(len(message.text) for message in prompt.messages)
    tokens = chars / shipped_snapshot().config.attention.chars_per_token + prompt.max_tokens
    assert tokens <= shipped_snapshot().config.budget.classify_budget


async def test_synthesis_with_tools_asks_for_the_one_that_answers() -> None:
    """A true answer comes from a tool result, not from the model."""
    tools = [
        ToolSpec(tool_id=tool_id, description=tool_id, parameters={})
        for tool_id in shipped_snapshot().agents["ADMIN"].tools
    ]
    _, prompt = prompt_for("PRC-SYNTHESIZE-001", tools)
    assert [call.tool_id for call in (await answered(prompt)).tool_calls] == ["list_packages"]


@pytest.mark.parametrize(
    "answer",
    [
        {"speech_act": "shout", "ambiguity": "low"},
        {"speech_act": "question"},
        {"speech_act": "question", "ambiguity": "low", "intent_signal": {"action": "new", "confidence": 1.1}},
        {"speech_act": "question", "ambiguity": "low", "intent_signal": {"confidence": 1}},
        {"speech_act": "question", "ambiguity": "low", "explicit_preference": {"statement": "short"}},
    ],
)
def test_a_classification_outside_its_vocabulary_of_acts_is_refused(answer: dict[str, Any]) -> None:
    checked, _ = prompt_for("PRC-CLASSIFY-001")
    assert checked.output is not None
    assert not checked.output.is_valid(answer)


def test_a_label_outside_the_vocabulary_is_no_reason_to_ask_again() -> None:
    """It is dropped and recorded by the supervisor; additional properties are ignored."""
    checked, _ = prompt_for("PRC-CLASSIFY-001")
    assert checked.output is not None
    assert checked.output.is_valid(
        {"speech_act": "question", "ambiguity": "low", "labels": {"domain": "weather"}, "mood": "sunny"}
    )
