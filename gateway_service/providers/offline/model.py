"""The embedded model: the request of a chat completion in, its answer out, in the words of that API. Pure.

This is all that it gets, as every server of the kind `openai` gets it: roles and texts, tools and their results, the
schema of the answer, the name of the model. What a prompt does not say here, no model is told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hobus.gateway_service.providers.offline import answer as rules
from hobus.gateway_service.providers.offline.answer import RulesAnswer
from hobus.gateway_service.providers.offline.grammar import Grammar
from hobus.gateway_service.providers.offline.reading import (
    Reading,
    ToolWanted,
    keys_in,
    read_request,
)
from hobus.gateway_service.providers.offline.structured import (
    classify,
    consolidate,
    filled,
    is_about_a_signal,
    least_instance,
)

MODELS = ("offline-rules-1",)
"""The models there are."""


def complete(request: Mapping[str, Any], grammar: Grammar, chars_per_token: int) -> dict[str, Any]:
    """The answer within max_tokens. Raises GatewayError where the request's schema takes large values only."""
    answer = _answer(read_request(request), grammar)
    room = request["max_tokens"] * chars_per_token
    text, calls = answer.text[:room], _that_fit(answer.calls, room)
    is_cut = len(text) < len(answer.text) or len(calls) < len(answer.calls)
    message = {
        "role": "assistant",
        "content": text,
        "tool_calls": [
            {"type": "function", "function": {"name": call.name, "arguments": call.arguments}} for call in calls
        ],
    }
    reason = "length" if is_cut else "tool_calls" if calls else "stop"
    return {"choices": [{"index": 0, "message": message, "finish_reason": reason}]}


def _answer(reading: Reading, grammar: Grammar) -> RulesAnswer:
    if reading.wants_object:
        return RulesAnswer(_object(reading, grammar))
    if reading.is_reduced:
        return RulesAnswer(rules.reduced(reading))
    answer = rules.answer(reading, grammar)
    if reading.schema is not None and not answer.calls:
        return RulesAnswer(_json(filled(dict(reading.schema), grammar.read(reading.words or ""), answer.text)))
    if reading.must_call and reading.tools and not answer.calls:
        first = reading.tools[0]
        return RulesAnswer(calls=(ToolWanted(first.name, least_instance(dict(first.parameters))),))
    return answer


def _object(reading: Reading, grammar: Grammar) -> str:
    """The object that the prompt asks for, with the keys that these rules can fill; in words why there is none."""
    keys = keys_in(reading.system)
    if not keys:
        return f"{rules.SELF}. I am to answer with a JSON object, but the prompt does not say with which keys."
    if is_about_a_signal(reading):
        found = consolidate(reading, keys, grammar)
    elif "message" in reading.blocks:
        found = classify(reading, reading.words or "", keys, grammar)
    else:
        return f"{rules.SELF}. I am to answer with a JSON object, but the prompt does not show about what."
    if not found:
        return f"{rules.SELF}, so I cannot fill in {', '.join(keys)} from what the prompt shows. {rules.HELP}"
    return _json({name: found[name] for name in keys if name in found})


def _that_fit(calls: tuple[ToolWanted, ...], room: int) -> list[ToolWanted]:
    kept: list[ToolWanted] = []
    for call in calls:
        room -= len(call.name) + len(json.dumps(call.arguments))
        if room < 0:
            break
        kept.append(call)
    return kept


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
