"""Servers that nobody here wrote, asked by the official SDKs as the gateway asks; what they counted is what is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import astuple
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from bus.messages.gateway import PromptMessage, PromptResponse, ToolSpec
from bus.messages.work_order import Segment
from tests.gateway_service.providers.instances import ANTHROPIC, OPENAI, instance
from tests.gateway_service.rig import prompt
from tests.partners.started import KINDS, NAMES, Counted, Partner, started

pytestmark = pytest.mark.process

QUESTION = "why is the sky blue?"
TOOL = ToolSpec(
    tool_id="list_packages", description="what is installed", parameters={"type": "object", "properties": {}}
)
SCHEMA = {
    "type": "object",
    "properties": {"speech_act": {"enum": ["question", "command"]}, "ambiguity": {"enum": ["low", "high"]}},
    "required": ["speech_act", "ambiguity"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module", params=NAMES)
def partner(request, tmp_path_factory) -> Iterator[Partner]:
    """Each one in turn, for all tests of it."""
    with started(request.param, tmp_path_factory.mktemp(request.param)) as one:
        yield one


def since(before: Counted, now: Counted) -> Counted:
    """What it did between."""
    calls = None if before.calls is None or now.calls is None else now.calls - before.calls
    return Counted(calls, now.input_tokens - before.input_tokens, now.output_tokens - before.output_tokens)


def said(role: Any, text: str, **more: Any) -> PromptMessage:
    """One message."""
    return PromptMessage(role=role, segments=[Segment(text=text)], **more)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_sdk_and_a_partner_understand_each_other(partner: Partner, kind: str):
    """A plain answer, a streamed one, a tool's round, a schema, the models; each use is told as the partner counts it."""
    config = OPENAI if kind == "openai" else ANTHROPIC
    # On that wire llama.cpp knows no schema, and leaves a stream's first event out where a first token is half a letter.
    is_whole = partner.name != "llama" or kind == "openai"
    omit = ["temperature"] if kind == "anthropic" else []
    provider = instance(config, partner.url, secret=partner.key, omit=omit)
    await provider.prepare()
    before = await asyncio.to_thread(partner.counted)
    answers: list[PromptResponse] = []
    told: list[str] = []

    async def ask(on_delta: Any = None, **changes: Any) -> PromptResponse:
        wanted = prompt(**{"text": QUESTION, **changes})
        model_id = partner.models[kind]
        answers.append(await provider.complete(wanted, model_id=model_id, timeout_s=60, on_delta=on_delta))
        return answers[-1]

    plain = await ask()
    streamed = await ask(told.append)
    assert plain.content and "".join(told) == streamed.content != ""
    if partner.calls_tools:
        asked = await ask(text="use list_packages", tools=[TOOL])
        (call,) = asked.tool_calls
        assert (call.tool_id, call.arguments, asked.finish_reason in ("tool_calls", "tool_use")) == (
            TOOL.tool_id,
            {},
            True,
        )
        again = await ask(lambda _text: None, text="use list_packages", tools=[TOOL])
        assert [one.tool_id for one in again.tool_calls] == [TOOL.tool_id]
        transcript = [
            said("user", "use list_packages"),
            said("assistant", "", tool_calls=[call]),
            said("tool", "two packages", tool_call_id=call.call_id),
        ]
        assert (await ask(messages=transcript, tools=[TOOL])).content
    else:
        assert (await ask(tools=[TOOL])).outcome == "SUCCESS"
    classify = [said("system", "You classify one message. Answer in JSON."), said("user", QUESTION)]
    value = await ask(messages=classify, output_schema=SCHEMA, structured_output=True, max_tokens=500)
    if is_whole:
        Draft202012Validator(SCHEMA).validate(json.loads(value.content))
    if is_whole:
        assert not any(one.usage_is_estimated for one in answers)
        counted = since(before, await asyncio.to_thread(partner.counted))
        used = sum(one.input_tokens for one in answers), sum(one.output_tokens for one in answers)
        assert counted.calls in (None, len(answers)) and astuple(counted)[1:] == used
    assert partner.models[kind] in await provider.models(timeout_s=30)
    await provider._client._sdk.close()
