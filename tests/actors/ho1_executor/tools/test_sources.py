"""What a worker announces stays within one message."""

from __future__ import annotations

import pytest

from hobus.actors.ho1_executor.tools.definition import ToolResult
from hobus.actors.ho1_executor.tools.sources import bound_refused, bound_words, read_described
from hobus.bus import limits
from hobus.bus.messages.base import pack
from hobus.bus.messages.control import ToolSource, ToolWord


def word(name, size, source="s"):
    """One tool with so many bytes of definition."""
    return ToolWord(
        tool_id=name, source=source, description="x" * (size - 2), parameters="{}", idempotent=True, writes=True
    )


def test_an_announcement_is_cut_at_its_border_and_says_what_it_left_out(monkeypatch: pytest.MonkeyPatch):
    """Exactly full is not too much, in bytes and in tools; by source."""
    words = [word("a", 50), word("b", 50), word("c", 10, "t"), word("d", 10, "t")]
    sizes = [len(pack(one.model_dump())) for one in words]
    left_out = {"t": ["2 tools: with them a worker would announce too much"]}
    page = limits.PAGE_MAX_BYTES
    monkeypatch.setattr(limits, "ANNOUNCEMENT_MAX_BYTES", page + sum(sizes[:2]))
    assert bound_words(words) == (words[:2], left_out)
    monkeypatch.setattr(limits, "ANNOUNCEMENT_MAX_BYTES", page + sum(sizes))
    assert bound_words(words) == (words, {})
    monkeypatch.setattr(limits, "TOOLS_MAX", 2)
    assert bound_words(words) == (words[:2], left_out)
    monkeypatch.setattr(limits, "TOOLS_MAX", 4)
    assert bound_words(words) == (words, {})


def test_reasons_are_as_many_and_as_long_as_an_announcement_takes():
    """A server that lists thousands of tools that are none does not keep its good ones from being announced."""
    reasons = bound_refused(["x" * 5000] * 300)
    assert (len(reasons), reasons[-1]) == (64, "and 237 more")
    assert ToolSource(name="s", kind="mcp", state="ready", refused=reasons).refused == reasons
    assert "(5000 characters)" in reasons[0]
    assert bound_refused(["a", "b"]) == ["a", "b"]


def test_a_listing_is_told_as_far_as_it_can_be():
    """Beyond the whole's bound, or itself too large, a tool is named alone; what cannot be sent is no schema."""
    from hobus.actors.ho1_executor.mcp_servers.session import list_rows  # noqa: PLC0415 - half a second

    good = {"name": "a", "inputSchema": {"type": "object"}, "description": "d"}
    rows = list_rows(
        [
            good,
            "no tool",
            {"name": 1},
            {"name": "n", "inputSchema": {"maximum": 10**30}},
            {"name": "big", "inputSchema": "x" * 5000},
        ],
        1000,
        10_000,
    )
    assert rows == [
        {"name": "a", "description": "d", "schema": {"type": "object"}},
        {"name": "n", "description": "", "schema": None},
        {"name": "big", "description": "", "schema": None, "is_too_large": True},
    ]
    assert [row.get("is_too_large", False) for row in list_rows([good] * 3, 1000, 150)] == [False, False, True]


def test_a_description_from_a_tool_process_is_a_tool_or_a_reason():
    text = '{"description": "d", "parameters": {"type": "object"}, "idempotent": true, "writes": false}'
    tool = read_described("t", ToolResult(ok=True, code="", text=text))
    assert not isinstance(tool, str)
    assert (tool.tool_id, tool.source, tool.writes) == ("t", "python", False)
    assert read_described("t", ToolResult(ok=False, code="tool_failed", text="why")) == "why"
