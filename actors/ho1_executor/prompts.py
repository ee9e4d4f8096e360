"""What a model is told for an order: the messages of its prompt, and its agent's tools with those of whoever asked.

Pure but for what is kept. The pack language is `config.prompt_pack`; which tools there are at all is known by
`known_tools`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import is_
from typing import NamedTuple

from hobus.actors.ho1_executor.tools.definition import SERVER_SAYS, ToolDefinition
from hobus.bus.errors import ConfigError, WorkOrderFault
from hobus.bus.messages.base import make_from
from hobus.bus.messages.gateway import PromptMessage, hash_tools
from hobus.bus.messages.transcript import NAME as HISTORY
from hobus.bus.messages.work_order import Exchange, Segment, ToolSpec, WorkOrder
from hobus.config.assets import AgentFile, names
from hobus.config.prompt_pack import PromptPack, fill_pack, parse_pack

_parsed = lru_cache(maxsize=64)(parse_pack)
"""A pack's text decides what it is parsed to; only speed depends on the number kept."""


def load_pack(packs: Mapping[str, str], pack_id: str) -> PromptPack:
    """Parse the pack. Raises WorkOrderFault: prompt_pack_not_found, or contract_schema_invalid if it is not a pack."""
    text = packs.get(pack_id)
    if text is None:
        raise WorkOrderFault("prompt_pack_not_found", f"no prompt pack {pack_id}; known: {', '.join(sorted(packs))}")
    try:
        return _parsed(pack_id, text)
    except ConfigError as fault:
        raise WorkOrderFault("contract_schema_invalid", fault.detail) from None


def render(pack: PromptPack, inputs: Mapping[str, Sequence[Segment]], order: WorkOrder) -> list[PromptMessage]:
    """Return the whole conversation: the pack's messages, then each earlier round of the run as the model saw it.

    Raises WorkOrderFault(input_schema_invalid) when the pack needs an input that is not there.
    """
    history = [one for one in order.input_context if one.name == HISTORY]
    return [
        *fill_pack(pack, inputs, history),
        *(message for one in order.exchanges for message in _make_round_messages(one)),
    ]


def make_own_inputs(order: WorkOrder) -> list[Segment]:
    """Return what the order gives to the sections of its pack: what it allows decides which rules on tools apply."""
    allowed = [*order.constraints.tools_allowed, *(tool.tool_id for tool in order.constraints.caller_tools)]
    given = [one for one in order.input_context if one.name != HISTORY]
    return [*given, Segment(name="tools", text=", ".join(allowed))] if allowed else given


def _make_round_messages(exchange: Exchange) -> list[PromptMessage]:
    """Return what the model said or asked for, a tool message per call in call order, and what was said to it then.

    A transcript is only valid for a provider when every call has its result, so a gap is refused here.
    """
    asked = [call.call_id for call in exchange.tool_calls]
    answered = [result.name for result in exchange.results]
    if asked != answered:
        raise WorkOrderFault("input_schema_invalid", f"a tool round asks for calls {asked} and answers {answered}")
    words = [exchange.text] if exchange.text.text else []
    said = [PromptMessage(role="assistant", segments=words, tool_calls=exchange.tool_calls)] if words or asked else []
    results = [PromptMessage(role="tool", segments=[result], tool_call_id=result.name) for result in exchange.results]
    return [*said, *results, *(PromptMessage(role="user", segments=[one]) for one in exchange.said)]


# --- tools ------------------------------------------------------------------------------------------------------------


class Offer(NamedTuple):
    """What an agent's model is told of, and the names of what it is not told of on purpose."""

    told: Sequence[ToolSpec] = ()
    withheld: Sequence[str] = ()
    digest: bytes | None = None
    """Of what it is told of (`hash_tools`)."""


_NOTHING = Offer()


class Offers:
    """Cache offers: an agent's orders that allow tools are nearly all told the same."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[AgentFile, list[str], list[ToolDefinition], Offer]] = {}  # by agent id

    def to(self, order: WorkOrder, agent: AgentFile | None, known: Mapping[str, ToolDefinition]) -> Offer:
        """Return what the model of this order is told of the agent's own tools."""
        allowed = order.constraints.tools_allowed
        if agent is None or not allowed:
            return _NOTHING
        last, tools = self._last.get(agent.agent_id), list(known.values())
        # By identity: equal schemas may differ in their bytes.
        is_same = last is not None and agent is last[0] and allowed == last[1] and len(tools) == len(last[2])
        if last is None or not is_same or not all(map(is_, tools, last[2])):
            told = list_offered_tools(order, agent, known)
            offer = Offer(told, list_withheld_tools(order, agent, known), hash_tools(told))
            last = self._last[agent.agent_id] = (agent, allowed, tools, offer)
        return last[3]


def list_withheld_tools(order: WorkOrder, agent: AgentFile, specs: Mapping[str, ToolDefinition]) -> list[str]:
    """Return tools that order and agent allow, but no model is told of: wildcards give none that writes."""
    allowed = order.constraints.tools_allowed
    return [
        tool_id
        for tool_id, tool in specs.items()
        if names(allowed, tool_id) and agent.is_withheld(tool_id, writes=tool.writes)
    ]


def list_offered_tools(order: WorkOrder, agent: AgentFile, specs: Mapping[str, ToolDefinition]) -> list[ToolSpec]:
    """Return what the model is told about: tools that this order allows and its agent may use.

    In the order's order; what one of its wildcards names, by id, so that it is the same whoever has which of them.
    """
    offered = dict.fromkeys(
        tool_id
        for name in order.constraints.tools_allowed
        for tool_id in ([name] if name in specs else sorted(specs))
        if names([name], tool_id) and agent.may_use(tool_id, writes=specs[tool_id].writes)
    )
    told, said = list[ToolSpec](), {""}
    for tool in map(specs.__getitem__, offered):
        own, _mark, about = tool.description.partition(SERVER_SAYS)
        told.append(make_from(ToolSpec, tool, description=own if about in said else tool.description))
        said.add(about)
    return told


def list_told_tools(order: WorkOrder, own: Sequence[ToolSpec]) -> list[ToolSpec]:
    """Return the agent's own tools and the caller's; where one has to be called, the caller's alone.

    Raises WorkOrderFault(tool_name_taken): of two tools of one name nobody could tell which a model means.
    """
    theirs, limits = order.constraints.caller_tools, order.constraints
    taken = {tool.tool_id for tool in own}
    exact = [name for name in limits.tools_allowed if name != "*"]
    for tool in theirs:
        if tool.tool_id in taken or names(exact, tool.tool_id):
            raise WorkOrderFault("tool_name_taken", f"agent {order.agent_id} has a tool {tool.tool_id} of its own")
    return list(theirs) if limits.tool_choice == "required" else [*own, *theirs]
