"""Agents as tools of other agents: which calls are one's own to make, and what must hold of the graph of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from hobus.config.assets import AgentFile, list_approval_rules, needs_approval
from hobus.config.limits import AGENT_DEPTH_MAX
from hobus.config.sections.tools import ToolsConfig

TEXT = "text"
"""The one argument of such a call."""
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        TEXT: {"type": "string", "description": "the whole task: it sees nothing else of this conversation"}
    },
    "required": [TEXT],
    "additionalProperties": False,
}


def may_call(caller: AgentFile, tool_id: str, agents: Mapping[str, AgentFile]) -> bool:
    """Return whether this tool of the caller is another agent: named as it is, in both of its lists, by no wildcard."""
    return tool_id in agents and tool_id in caller.tools and tool_id in caller.permissions.tools


def describe_agent(agent: AgentFile) -> str:
    """Return what a caller's model is told of the agent: the first line of its own instructions."""
    about = agent.system_prompt.strip().partition("\n")[0]
    return f"Gives agent {agent.agent_id} a task and returns its answer. What it was told: {about}"


def call_faults(tools: ToolsConfig, agents: Mapping[str, AgentFile]) -> Iterator[str]:
    """Yield every fault of an agent's tools that are agents."""
    for agent_id, agent in agents.items():
        for name in agent.tools:
            path = f"agents/{agent_id}.json: tools: {name!r}"
            if name not in agents:
                continue
            if name in tools.python_tools:
                yield f"{path} is an agent and one of tools.entry_points; rename one"
            if name not in agent.permissions.tools:
                yield f"{path}: an agent needs its exact id; add it to permissions.tools"
            own = agents[name].tools
            if waiting := [one for one in own if needs_approval(tools, one) or list_approval_rules(tools, one)]:
                yield (
                    f"{path}: its {waiting[0]} needs an approval (tools.approval), which a called agent cannot "
                    "get; remove one of them"
                )
    called = {agent_id: [name for name in agent.tools if name in agents] for agent_id, agent in agents.items()}
    yield from _find_graph_faults(called)


def _find_graph_faults(calls: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a circle, one at a time, or a chain of callers that is too long."""
    chains: dict[str, list[str]] = {}
    try:
        for agent_id in TopologicalSorter(calls).static_order():  # called ones first
            chains[agent_id] = [agent_id, *max((chains[name] for name in calls[agent_id]), key=len, default=[])]
    except CycleError as circle:
        named = [*reversed(circle.args[1])]
        yield f"agents/{named[0]}.json: tools: a cycle of agents, {' -> '.join(named)}; remove one of these calls"
        return
    for agent_id, chain in chains.items():
        if len(chain) > AGENT_DEPTH_MAX:
            told = " -> ".join(chain)
            yield f"agents/{agent_id}.json: tools: {told}: at most {AGENT_DEPTH_MAX} agents in a row; take a call away"
            return
