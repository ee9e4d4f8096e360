"""What is taken from a server's listing, under which name, and what is not."""

from __future__ import annotations

import pytest

from hobus.actors.ho1_executor import limits
from hobus.actors.ho1_executor.mcp_servers.listing import derive_tool_id, take_listed
from hobus.config.sections.tools import StdioServer


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    """Borders that a test can reach."""
    monkeypatch.setattr(limits, "LISTED_MAX", 150)
    monkeypatch.setattr(limits, "DEFINITION_MAX_BYTES", 1000)


OBJECT = {"type": "object", "properties": {}}


def server(**changes):
    fields = {
        "transport": "stdio", "command": ["x"], "env": {}, "tools": None, "reads": [], "idempotent": [],
        "connect_timeout_ms": 1000, "timeout_ms": None, "per": "worker", "elsewhere": False,
    }  # fmt: skip
    return StdioServer.model_validate(fields | changes)


def tool(name, schema=OBJECT, description="does it", **more):
    return {"name": name, "description": description, "schema": schema, **more}


def found(*tools, **changes):
    return take_listed("files", server(**changes), tools)


def test_a_tool_is_known_by_its_server_and_name_and_is_held_to_write():
    one = found(tool("read"), tool("write"), tool("put"), reads=["read"], idempotent=["put"])
    assert {name: (spec.idempotent, spec.writes) for name, spec in one.tools.items()} == {
        "files__read": (True, False),
        "files__write": (False, True),
        "files__put": (True, True),
    }
    assert all(spec.source == "files" for spec in one.tools.values())
    some = found(tool("get_a"), tool("put_a"), reads=["get_*"]).tools
    assert [one.writes for one in some.values()] == [False, True]
    everything = found(tool("a"), tool("b"), reads=["*"]).tools.values()
    assert [spec.writes for spec in everything] == [False, False]


def test_names_become_what_every_provider_takes():
    one = found(tool("späce x/y.z"))
    assert one.names == {"files__sp_ce_x_y_z": "späce x/y.z"}
    assert derive_tool_id("a", "b-c_D9") == "a__b-c_D9"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (tool("x" * 80), "64 characters"),
        (tool("t", schema="nonsense"), "does not describe an object"),
        (tool("t", schema=None), "does not describe an object"),
        (tool("t", schema={"type": "array"}), "does not describe an object"),
        (tool("t", schema={"type": "object", "properties": {"a": {"type": "strange"}}}), "no JSON Schema"),
        (tool("t", schema={"type": "object", "$ref": "http://127.0.0.1:1/x"}), "outside itself"),
        (tool("t", schema={"type": "object", "allOf": [{"$ref": "#/nowhere"}]}), "refers to a missing definition"),
        (tool("t", schema={"type": "object", "allOf": [{"$ref": "#"}]}), "to itself without end"),
        (tool("t", schema={**OBJECT, "description": "x" * 2000}), "at most 1000 are taken"),
        (tool("t", description="x" * 2000), "at most 1000 are taken"),
        (tool("t", schema=None, is_too_large=True), "exceed 1000 bytes"),
        (tool("t", schema={"type": "object", "maximum": float("nan")}), "no JSON"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_with_its_reason(row, reason):
    one = found(row, tool("good"))
    assert list(one.tools) == ["files__good"]
    assert len(one.refused) == 1
    assert reason in one.refused[0]


def test_two_names_with_one_id_are_one_tool_and_one_refusal():
    one = found(tool("a b"), tool("a_b"))
    assert one.names == {"files__a_b": "a b"}
    assert "same id files__a_b as 'a b'" in one.refused[0]


def test_limits_and_the_list_of_wanted_tools():
    many = found(*(tool(f"t{n}") for n in range(200)))
    assert len(many.tools) == 150
    assert many.refused == ["50 more: it lists 200, at most 150 are taken"]
    some = found(tool("a"), tool("b"), tools=["b", "c"])
    assert list(some.tools) == ["files__b"]
    assert some.refused == ["c: the server does not list it"]
    bad = found(*(tool(f"\x1b[31m{n}", schema=1) for n in range(100)))
    assert len(bad.refused) == 100  # announced as far as that takes them (`bound_refused`)
    assert all(line.isprintable() for line in bad.refused)


@pytest.mark.parametrize("setting", ["reads", "idempotent"])
def test_a_pattern_that_means_no_tool_of_the_server_is_told(setting):
    """A misspelt name would leave a tool held to write, and say nothing."""
    one = found(tool("get_a"), **{setting: ["gte_*", "get_*", "*"]})
    assert one.refused == [f"gte_*: is in {setting}, and none of the server's tools is called so"]
