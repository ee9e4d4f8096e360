"""What two configurations differ in."""

from __future__ import annotations

from dataclasses import replace

from bench.builders import shipped_snapshot
from hobus.config.difference import NOT_THERE, list_differences

SHIPPED = shipped_snapshot()


def with_settings(section, **values):
    """The shipped configuration with these settings of one section."""
    changed = getattr(SHIPPED.config, section).model_copy(update=values)
    return replace(SHIPPED, config=SHIPPED.config.model_copy(update={section: changed}))


def test_nothing_differs_from_itself():
    assert list_differences(SHIPPED, replace(SHIPPED, origins={"x": "y"})) == []


def test_settings_are_named_by_their_paths_with_both_values():
    slots = SHIPPED.config.ho1.orders_max
    assert list_differences(SHIPPED, with_settings("ho1", orders_max=7)) == [("ho1.orders_max", slots, 7, "")]
    gone = replace(SHIPPED, config=SHIPPED.config.model_copy(update={"ho3": None}))
    found = {one.name: one for one in list_differences(SHIPPED, gone)}
    assert found["ho3.enabled"].after is NOT_THERE and found["ho3"].before is NOT_THERE
    assert all(one.is_setting for one in found.values())


def test_files_beside_the_settings_are_named():
    agent = SHIPPED.agents["ADMIN"]
    other = replace(SHIPPED, agents={"ADMIN": agent.model_copy(update={"tools": ()}), "NEW": agent}, prompt_packs={})
    found = list_differences(SHIPPED, other)
    assert [one.name for one in found[:2]] == ["agent ADMIN", "agent NEW"] and not any(one.is_setting for one in found)
    assert [one.how for one in found[:3]] == ["altered", "added", "removed"]
    assert {one.name for one in found[2:]} == {f"prompt pack {name}" for name in SHIPPED.prompt_packs}
