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
from hobus.gateway_service.providers.offline.reading import Reading, ToolWanted
from hobus.gateway_service.providers.offline.structured import classify, consolidate, fill_schema, make_least_instance

MODELS = ("offline-rules-1",)
"""The models there are."""


def complete(request: Mapping[str, Any], grammar: Grammar, chars_per_token: int) -> dict[str, Any]:
    """Return the answer within max_tokens. Raises GatewayError where the request's schema takes large values only."""
    answer = _answer(Reading(request), grammar)
    room = request["max_tokens"] * chars_per_token
    text, calls = answer.text[:room], _select_fitting(answer.calls, room)
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
    if '"speech_act"' in reading.system:
        return RulesAnswer(_write_json(classify(reading, grammar)))
    if '"context_line"' in reading.system and (line := consolidate(reading, grammar)):
        return RulesAnswer(_write_json(line))
    answer = rules.answer(reading, grammar)
    if answer.calls:
        return answer
    if reading.must_call and reading.tools:
        name, parameters = next(iter(reading.tools.items()))
        return RulesAnswer(calls=(ToolWanted(name, make_least_instance(dict(parameters))),))
    if reading.schema is not None:
        return RulesAnswer(_write_json(fill_schema(dict(reading.schema), reading.words, answer.text)))
    return answer


def _select_fitting(calls: tuple[ToolWanted, ...], room: int) -> list[ToolWanted]:
    kept: list[ToolWanted] = []
    for call in calls:
        room -= len(call.name) + len(json.dumps(call.arguments))
        if room < 0:
            break
        kept.append(call)
    return kept


def _write_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
