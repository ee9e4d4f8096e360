"""From an order to the messages of its prompt. Pure; the pack language itself is `config.prompt_pack`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from hobus.bus.errors import ConfigError, WorkOrderFault
from hobus.bus.messages.gateway import PromptMessage
from hobus.bus.messages.work_order import Exchange, Segment
from hobus.config.prompt_pack import PromptPack, fill_pack, parse_pack

_parsed = lru_cache(maxsize=64)(parse_pack)
"""A pack's text decides what it is parsed to; only speed depends on the number kept."""


def load_pack(packs: Mapping[str, str], pack_id: str) -> PromptPack:
    """The parsed pack. Raises WorkOrderFault: prompt_pack_not_found, or contract_schema_invalid if it is not a pack."""
    text = packs.get(pack_id)
    if text is None:
        raise WorkOrderFault("prompt_pack_not_found", f"no prompt pack {pack_id}; known: {', '.join(sorted(packs))}")
    try:
        return _parsed(pack_id, text)
    except ConfigError as fault:
        raise WorkOrderFault("contract_schema_invalid", fault.detail) from None


def render(
    pack: PromptPack, inputs: Mapping[str, Sequence[Segment]], exchanges: Sequence[Exchange]
) -> list[PromptMessage]:
    """The whole transcript: the pack's messages, then each earlier tool round as the model saw it.

    Raises WorkOrderFault(input_schema_invalid) when the pack needs an input that is not there.
    """
    messages = fill_pack(pack, inputs)
    for exchange in exchanges:
        messages.extend(_round(exchange))
    return messages


def _round(exchange: Exchange) -> list[PromptMessage]:
    """An answer that asked for tools, and one tool message per call, in call order.

    A transcript is only valid for a provider when every call has its result, so a gap is refused here.
    """
    asked = [call.call_id for call in exchange.tool_calls]
    answered = [result.name for result in exchange.results]
    if asked != answered:
        raise WorkOrderFault("input_schema_invalid", f"a tool round asks for calls {asked} and answers {answered}")
    said = [exchange.text] if exchange.text.text else []
    results = [PromptMessage(role="tool", segments=[result], tool_call_id=result.name) for result in exchange.results]
    return [PromptMessage(role="assistant", segments=said, tool_calls=exchange.tool_calls), *results]
