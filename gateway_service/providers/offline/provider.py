"""The provider `offline`: deterministic, no key, no network; honest about what it is in its metadata.

Source: spec page "Gateway", Providers. It recognises prompts by their contract and segments by their names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

from bus.messages.gateway import Prompt, PromptResponse
from bus.messages.work_order import ToolCall
from gateway_service import pricing
from gateway_service.providers.offline import answer as rules
from gateway_service.providers.offline.classify import classify
from gateway_service.providers.offline.grammar import load_grammar
from gateway_service.providers.offline.reading import Reading, read_prompt
from gateway_service.providers.offline.structured import consolidate, least_instance

MODEL_ID = "offline-rules-1"
_WORD = re.compile(r"\s*\S+|\s+\Z")


class OfflineProvider:
    """`bus.port.Provider` by rules."""

    def __init__(
        self,
        *,
        provider_id: str,
        latency_ms: int,
        chars_per_token: int,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._provider_id = provider_id
        self._latency_s = latency_ms / 1000
        self._chars_per_token = chars_per_token
        self._sleep = sleep
        self._grammar = load_grammar()

    @property
    def provider_id(self) -> str:
        """The configured instance's name."""
        return self._provider_id

    async def prepare(self) -> None:
        """It needs nothing."""

    async def complete(
        self,
        prompt: Prompt,
        *,
        model_id: str,  # noqa: ARG002 - there is one
        timeout_s: float,  # noqa: ARG002 - nothing here can outlast it
        on_delta: Callable[[str], None] | None = None,
    ) -> PromptResponse:
        """The answer of the rules after the configured thinking time; told word by word, it takes just as long."""
        if on_delta is None:
            if self._latency_s:
                await self._sleep(self._latency_s)
            return self._response(prompt, self._answer(prompt, read_prompt(prompt)))
        response = self._response(prompt, self._answer(prompt, read_prompt(prompt)))
        words = _WORD.findall(response.content)
        for word in words or [""]:
            if self._latency_s:
                await self._sleep(self._latency_s / max(1, len(words)))
            if word:
                on_delta(word)
        return response

    def _answer(self, prompt: Prompt, reading: Reading) -> rules.Answer:
        contract = prompt.contract_id
        if contract.startswith("PRC-CLASSIFY-"):
            return rules.Answer(text=_json(classify(reading, self._grammar)))
        if contract.startswith("PRC-CONSOLIDATE-"):
            return rules.Answer(text=_json(consolidate(reading, self._grammar)))
        if contract.startswith("PRC-DEGRADED-"):
            return rules.Answer(text=rules.degraded())
        if prompt.structured_output or (prompt.output_schema or {}).get("type") == "object":
            return rules.Answer(text=_json(least_instance(prompt.output_schema or {"type": "object"})))
        return rules.answer(reading, prompt.tools, self._grammar)

    def _response(self, prompt: Prompt, answer: rules.Answer) -> PromptResponse:
        """The answer within max_tokens, with its usage."""
        ratio = self._chars_per_token
        room = prompt.max_tokens * ratio
        text, calls = answer.text[:room], _that_fit(answer.tool_calls, room)
        is_cut = len(text) < len(answer.text) or len(calls) < len(answer.tool_calls)
        length = len(text) + sum(_length(call) for call in calls)
        return PromptResponse(
            outcome="SUCCESS",
            content=text,
            tool_calls=calls,
            finish_reason="length" if is_cut else "tool_calls" if calls else "stop",
            input_tokens=pricing.input_tokens(prompt, ratio),
            output_tokens=max(1, pricing.text_tokens(length, ratio)),
            provider_id=self._provider_id,
            model_id=MODEL_ID,
        )


def _that_fit(calls: tuple[ToolCall, ...], room: int) -> list[ToolCall]:
    kept: list[ToolCall] = []
    for call in calls:
        room -= _length(call)
        if room < 0:
            break
        kept.append(call)
    return kept


def _length(call: ToolCall) -> int:
    return len(call.tool_id) + len(json.dumps(call.arguments))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
