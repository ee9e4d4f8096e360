"""Tools of many prompts are held once."""

from __future__ import annotations

from bench.builders import prompt as built
from hobus.bus.messages.gateway import Prompt
from hobus.bus.messages.work_order import ToolSpec
from hobus.gateway_service import told_tools
from hobus.gateway_service.told_tools import ToldTools


def told(*names: str, description: str = "reads") -> Prompt:
    """A prompt as it arrives, with these tools."""
    tools = [ToolSpec(tool_id=name, description=description, parameters={"type": "object"}) for name in names]
    return Prompt.model_validate_json(built(tools=tools).model_dump_json())


def test_prompts_that_tell_the_same_tools_hold_them_once():
    """Whatever else they tell; each says what it said."""
    shared, first, second = ToldTools(), told("a", "b"), told("b", "c")
    for prompt in (first, second):
        shared.share(prompt)
    assert second == told("b", "c")
    assert second.tools[0] is first.tools[1]


def test_a_tool_that_is_described_otherwise_stays_as_it_was_told():
    """And the next prompt shares the newer words."""
    shared, old, new, next_one = (
        ToldTools(),
        told("a"),
        told("a", description="writes"),
        told("a", description="writes"),
    )
    for prompt in (old, new, next_one):
        shared.share(prompt)
    assert (old.tools[0].description, new.tools[0].description) == ("reads", "writes")
    assert next_one.tools[0] is new.tools[0]


def test_only_so_many_tools_are_kept_the_one_told_longest_ago_goes_first(monkeypatch):
    """What is told again is not the oldest any more."""
    monkeypatch.setattr(told_tools, "TOLD_TOOLS_MAX", 2)
    shared, first = ToldTools(), told("a", "b")
    shared.share(first)
    shared.share(told("a", "c"))
    again = told("a", "b")
    shared.share(again)
    assert again.tools[0] is first.tools[0]
    assert again.tools[1] is not first.tools[1]
