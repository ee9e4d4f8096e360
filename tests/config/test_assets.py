"""Which tools an agent may use."""

from __future__ import annotations

import pytest

from hobus.config.assets import Package, Permissions, names
from hobus.config.parse import check_model
from hobus.config.snapshot import load_snapshot
from tests.launch.packages import parts


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
    permissions = Permissions(tools=tuple(permitted), providers=(), models=(), paths=())
    agent = load_snapshot().agents["ADMIN"].model_copy(update={"tools": tuple(has), "permissions": permissions})
    assert agent.may_use("f__read", writes=writes) is expected


def test_patterns_are_a_server_or_everything_and_nothing_between():
    assert names(["f__*"], "f__a__b")
    assert not names(["f__*"], "ff__a")
    assert not names(["f*"], "f__a")
    assert not names([], "f__a")


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("framework_id", "200", "has another form; write `FMWK-` and three digits, such as FMWK-200"),
        ("package_id", "clerk", "has another form; write `PKG-`"),
        ("version", "1", "has another form; write three numbers, such as 1.0.0"),
        ("title", " ", "is blank; write a text that is not blank"),
    ],
)
def test_a_text_of_another_form_is_told_in_words_with_the_mend(field, value, said):
    _model, faults = check_model(Package, parts.manifest(**{field: value}))
    assert len(faults) == 1 and faults[0].startswith(f"{field}: {said}") and "pattern" not in faults[0]
