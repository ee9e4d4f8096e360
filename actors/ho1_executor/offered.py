"""The tools that a model is told of: its agent's, and those of whoever asked. Pure but for what is kept.

Which tools there are at all is known by `known_tools`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import is_

from hobus.actors.ho1_executor.tools.definition import ToolDefinition
from hobus.bus.errors import WorkOrderFault
from hobus.bus.messages.work_order import ToolSpec, WorkOrder
from hobus.config.assets import Agent, names


@dataclass(frozen=True, slots=True)
class _Offer:
    """What was offered last to an agent, and of what it was made."""

    agent: Agent
    allowed: list[str]
    known: dict[str, ToolDefinition]
    tools: list[ToolSpec]

    def holds(self, agent: Agent, allowed: list[str], known: Mapping[str, ToolDefinition]) -> bool:
        """Whether the same would be made of these; by identity, since equal schemas may differ in their bytes."""
        return (
            agent is self.agent
            and allowed == self.allowed
            and list(known) == list(self.known)
            and all(map(is_, known.values(), self.known.values()))
        )


class Offers:
    """`offered_tools`, made anew only when something changed: of an agent nearly every order is told the same."""

    def __init__(self) -> None:
        self._last: dict[str, _Offer] = {}  # agent id -> offer

    def to(self, order: WorkOrder, agent: Agent | None, known: Mapping[str, ToolDefinition]) -> list[ToolSpec]:
        """What the model of this order is told of the agent's own tools."""
        if agent is None:
            return []
        allowed = order.constraints.tools_allowed
        last = self._last.get(agent.agent_id)
        if last is None or not last.holds(agent, allowed, known):
            last = _Offer(agent, allowed, dict(known), offered_tools(order, agent, known))
            self._last[agent.agent_id] = last
        return last.tools


def offered_tools(order: WorkOrder, agent: Agent | None, specs: Mapping[str, ToolDefinition]) -> list[ToolSpec]:
    """What the model is told about: tools that this order allows and its agent may use.

    In the order's order; what one of its wildcards names, by id, so that it is the same whoever has which of them.
    """
    if agent is None:
        return []
    offered = dict.fromkeys(
        tool_id
        for name in order.constraints.tools_allowed
        for tool_id in ([name] if name in specs else sorted(specs))
        if names([name], tool_id) and agent.may_use(tool_id, writes=specs[tool_id].writes)
    )
    return [
        ToolSpec(tool_id=tool_id, description=specs[tool_id].description, parameters=specs[tool_id].parameters)
        for tool_id in offered
    ]


def told_tools(order: WorkOrder, own: Sequence[ToolSpec]) -> list[ToolSpec]:
    """The agent's own tools and the caller's; where one has to be called, the caller's alone.

    Raises WorkOrderFault(tool_name_taken): of two tools of one name nobody could tell which a model means.
    """
    theirs, limits = order.constraints.caller_tools, order.constraints
    taken = {tool.tool_id for tool in own}
    exact = [name for name in limits.tools_allowed if name != "*"]
    for tool in theirs:
        if tool.tool_id in taken or names(exact, tool.tool_id):
            raise WorkOrderFault("tool_name_taken", f"agent {order.agent_id} has a tool {tool.tool_id} of its own")
    return list(theirs) if limits.tool_choice == "required" else [*own, *theirs]
