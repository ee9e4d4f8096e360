"""Agents as tools of agents: what is refused before anything starts, each with its fix."""

from __future__ import annotations

import pytest

from bench.builders import shipped_with
from hobus.config.assets import AgentFile
from hobus.config.called_agents import call_faults, describe_agent, may_call

ADMIN = shipped_with().agents["ADMIN"]
TOOLS = shipped_with(("tools.entry_points", ("PAY = /x/y.py:PAY",)), ("tools.approval", ("erase_*",))).config.tools


def agents(**tools: str) -> dict[str, AgentFile]:
    """Agents by name, each with these tools."""
    return {
        name: ADMIN.model_copy(
            update={
                "agent_id": name, "tools": tuple(own.split()),
                "permissions": ADMIN.permissions.model_copy(update={"tools": tuple(own.split())}),
            }
        )
        for name, own in tools.items()
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"A": "B list_tools", "B": "C", "C": "D", "D": ""}, []),
        ({"A": "B C", "B": "C", "C": "PAY *"}, []),
        ({"A": "A"}, ["a cycle of agents, A -> A; remove one of these calls"]),
        ({"A": "B", "B": "A"}, ["a cycle of agents, A -> B -> A", "a cycle of agents, B -> A -> B"]),
        ({"Z": "A", "A": "B", "B": "C", "C": "A"}, ["a cycle of agents, "]),
        ({"A": "B", "B": "C", "C": "D", "D": "E", "E": ""}, ["A -> B -> C -> D -> E: at most 4 agents in a row"]),
        (
            {"A": "B", "B": "erase_all"},
            ["'B': its erase_all needs an approval (tools.approval), which a called agent cannot"],
        ),
        ({"A": "PAY", "PAY": ""}, ["'PAY' is an agent and one of tools.entry_points; rename one"]),
    ],
)
def test_what_an_agent_may_call(given: dict[str, str], said: list[str]) -> None:
    found = list(call_faults(TOOLS, agents(**given)))
    assert len(found) == min(1, len(said))
    assert not said or any(one in found[0] for one in said), found


def test_a_circle_is_named_from_caller_to_called() -> None:
    (found,) = call_faults(TOOLS, agents(A="B", B="C", C="A"))
    assert any(one in found for one in ("A -> B -> C -> A", "B -> C -> A -> B", "C -> A -> B -> C"))


def test_no_wildcard_permits_an_agent() -> None:
    known = agents(A="*", B="")
    assert not may_call(known["A"], "B", known)
    star = known["A"].model_copy(update={"tools": ("B",)})
    assert not may_call(star, "B", known)
    assert "needs its exact id" in next(call_faults(TOOLS, known | {"A": star}))
    assert may_call(agents(A="B")["A"], "B", known)


def test_a_model_is_told_of_an_agent_by_its_first_line() -> None:
    one = ADMIN.model_copy(update={"agent_id": "DESK", "system_prompt": "You book rooms.\nNever say no."})
    assert describe_agent(one).endswith("What it was told: You book rooms.")
