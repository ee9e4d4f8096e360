"""Which tools an agent may use."""

from __future__ import annotations

import pytest

from hobus.config.assets import Permissions, names
from hobus.config.snapshot import load_snapshot


@pytest.mark.parametrize(
    ("has", "permitted", "writes", "expected"),
    [
        (["f__read"], ["f__read"], False, True),
        (["f__*"], ["f__*"], False, True),
        (["f__*"], ["*"], False, True),
        (["*"], ["f__read"], False, True),
        ([], ["*"], False, False),
        (["f__read"], [], False, False),
        (["f__read"], ["f__re*"], False, False),
        (["f__read"], ["g__*"], False, False),
        (["f__*"], ["f__*"], True, False),
        (["f__read"], ["*"], True, False),
        (["f__*"], ["f__*", "f__read"], True, True),
        (["f__read"], ["f__read"], True, True),
        ([], ["f__read"], True, False),
    ],
)
def test_a_tool_must_be_had_and_permitted_and_one_that_writes_by_its_exact_name(has, permitted, writes, expected):
    """No wildcard hands out a tool that changes something."""
    permissions = Permissions(tools=tuple(permitted), providers=(), models=(), paths=())
    agent = load_snapshot().agents["ADMIN"].model_copy(update={"tools": tuple(has), "permissions": permissions})
    assert agent.may_use("f__read", writes=writes) is expected


def test_patterns_are_a_server_or_everything_and_nothing_between():
    """`f__*` and `*`; anything else is an id."""
    assert names(["f__*"], "f__a__b")
    assert not names(["f__*"], "ff__a")
    assert not names(["f*"], "f__a")
    assert not names([], "f__a")
