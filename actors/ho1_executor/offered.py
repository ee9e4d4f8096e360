"""The tools that a model is told of: its agent's, and those of whoever asked. Pure but for what is kept.

Which tools there are at all is known by `known_tools`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_

from hobus.actors.ho1_executor.tools.definition import ToolDefinition
from hobus.bus.errors import WorkOrderFault
from hobus.bus.messages.work_order import ToolSpec, WorkOrder
from hobus.config.assets import Agent, names


class Offers:
    """`offered_tools`, made anew only when something changed: of an agent nearly every order is told the same."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[Agent, list[str], list[ToolDefinition], list[ToolSpec]]] = {}  # by agent id

    def to(self, order: WorkOrder, agent: Agent | None, known: Mapping[str, ToolDefinition]) -> list[ToolSpec]:
        """What the model of this order is told of the agent's own tools."""
        if agent is None:
            return []
        last, allowed, tools = self._last.get(agent.agent_id), order.constraints.tools_allowed, list(known.values())
        # By identity: equal schemas may differ in their bytes.
        is_same = last is not None and agent is last[0] and allowed == last[1] and len(tools) == len(last[2])
        if last is None or not is_same or not all(map(is_, tools, last[2])):
            last = self._last[agent.agent_id] = (agent, allowed, tools, offered_tools(order, agent, known))
        return last[3]


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
