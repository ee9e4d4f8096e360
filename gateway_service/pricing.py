"""Tokens and money of a call: estimates before it, settlement after it. Pure.

An unknown price gives an unknown cost (None), never zero; an unknown usage is
settled at its reservation, never passed for free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from hobus.bus.errors import GatewayError
from hobus.bus.json_text import write_json
from hobus.bus.messages.base import pack, unpack
from hobus.bus.messages.gateway import Prompt, PromptResponse, SeenImage
from hobus.bus.messages.work_order import ToolCall
from hobus.config.sections.gateway import ModelConfig
from hobus.gateway_service.limits import IMAGE_TOKENS

_PER_MILLION = 1_000_000
_TOOLS_KEPT = 64
_TOOLS_KEPT_BYTES = 64 * 1024
"""Only speed depends on these."""
TOKENS_MAX = 2**63 - 1  # the largest number that every reader of MessagePack takes


class Settlement(NamedTuple):
    """What a reservation became. `is_unknown`: nobody could say what was used, so all that was reserved counts."""

    tokens: int
    cost_usd: float | None
    is_unknown: bool
    was_sent: bool


NEVER_SENT = Settlement(tokens=0, cost_usd=0.0, is_unknown=False, was_sent=False)


def estimate_text_tokens(length: int, chars_per_token: int) -> int:
    """Return the tokens of a text of this many characters, by the configured ratio (`attention.chars_per_token`)."""
    return length // chars_per_token


def estimate_input_tokens(prompt: Prompt, chars_per_token: int) -> int:
    """Estimate by length, rounded up, what a provider counts as input.

    All that a model reads: messages with their images, tool calls in the transcript, tools, schema.
    """
    # Tools with their schemas are the same in nearly every prompt; known by their bytes, in which 1 is not 1.0.
    tools = pack([(tool.tool_id, tool.description, tool.parameters) for tool in prompt.tools])
    chars = (_count_packed if len(tools) > _TOOLS_KEPT_BYTES else _counted_once)(tools)
    segments = [segment for message in prompt.messages for segment in message.segments]
    calls = [call for message in prompt.messages for call in message.tool_calls]
    chars += len("".join([segment.text for segment in segments])) + _count_said_chars(calls)
    images = [file for segment in segments for file in segment.files if isinstance(file, SeenImage)]
    chars += len(images) * IMAGE_TOKENS * chars_per_token
    if prompt.structured_output:
        chars += len(write_json(prompt.output_schema))
    return -(-chars // chars_per_token) or 1


def _count_said_chars(calls: Sequence[ToolCall]) -> int:
    if not calls:
        return 0
    said = "".join([call.tool_id for call in calls]) + write_json([call.arguments for call in calls])
    return len(said) - len(calls) - 1  # brackets and commas of the list


def _count_packed(packed: bytes) -> int:
    return sum(
        len(tool_id) + len(description) + len(write_json(schema)) for tool_id, description, schema in unpack(packed)
    )


_counted_once = lru_cache(maxsize=_TOOLS_KEPT)(_count_packed)


def with_usage(
    prompt: Prompt, answer: PromptResponse, chars_per_token: int, *, thought_chars: int = 0
) -> PromptResponse:
    """Return the answer with its usage; what nobody counted, or as nothing, is estimated by lengths: never for free."""
    thought = answer.reasoning_tokens or estimate_text_tokens(thought_chars, chars_per_token)
    if answer.input_tokens and answer.output_tokens:
        return answer if thought == answer.reasoning_tokens else answer.model_copy(update={"reasoning_tokens": thought})
    length = len(answer.content) + _count_said_chars(answer.tool_calls) + thought_chars
    return answer.model_copy(
        update={
            "input_tokens": answer.input_tokens or estimate_input_tokens(prompt, chars_per_token),
            "output_tokens": answer.output_tokens or estimate_text_tokens(length, chars_per_token) or 1,
            "reasoning_tokens": thought,
            "usage_is_estimated": True,
        }
    )


def compute_cost_usd(model: ModelConfig | None, response: PromptResponse) -> float | None:
    """Return the money for the reported usage; cached tokens are part of the input and have a price of their own."""
    if model is None:
        return None
    fresh = max(0, response.input_tokens - response.cached_tokens)
    total = 0.0
    for tokens, price in (
        (fresh, model.input_usd_per_million),
        (response.cached_tokens, model.cached_usd_per_million),
        (response.output_tokens, model.output_usd_per_million),
    ):
        if tokens and price is None:
            return None
        total += tokens * (price or 0.0) / _PER_MILLION
    return total


def settle_response(response: PromptResponse, model: ModelConfig | None) -> Settlement:
    """Return what an answered call used, as the provider reports it."""
    return Settlement(
        tokens=response.input_tokens + response.output_tokens,
        cost_usd=compute_cost_usd(model, response),
        is_unknown=False,
        was_sent=True,
    )


SETTLED = ("input_tokens", "output_tokens", "cached_tokens")


def settle_unusable(answer: PromptResponse, reserved_tokens: int, model: ModelConfig | None) -> Settlement:
    """Return what an unrecordable answer used: its reported usage, or all that was reserved where that is none."""
    try:
        used = {name: getattr(answer, name) for name in SETTLED}
        return _settle(used, reserved_tokens, model)
    except (ArithmeticError, AttributeError, ValueError):
        return make_unknown(reserved_tokens)


def make_unknown(reserved_tokens: int) -> Settlement:
    return Settlement(tokens=reserved_tokens, cost_usd=None, is_unknown=True, was_sent=True)


def settle_fault(fault: GatewayError, reserved_tokens: int, model: ModelConfig | None) -> Settlement:
    """Return what a failed call used.

    A provider's fault may carry the facts `input_tokens` and `output_tokens` (billed) or `unbilled: True` (refused
    before any work); without them the outcome is unknown and the whole reservation counts.
    """
    if fault.facts.get("unbilled") is True:
        return Settlement(tokens=0, cost_usd=0.0, is_unknown=False, was_sent=True)
    if "input_tokens" in fault.facts or "output_tokens" in fault.facts:
        used = {name: int(fault.facts.get(name, 0)) for name in SETTLED}
        return _settle(used, reserved_tokens, model)
    return make_unknown(reserved_tokens)


def _settle(used: Mapping[str, Any], reserved_tokens: int, model: ModelConfig | None) -> Settlement:
    """Settle by these figures; one that no record holds says nothing. Raises ValueError for one that is none."""
    settlement = settle_response(PromptResponse.model_validate({"outcome": "ERROR", **used}), model)
    return settlement if settlement.tokens <= TOKENS_MAX else make_unknown(reserved_tokens)
