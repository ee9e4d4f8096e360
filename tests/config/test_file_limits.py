"""What one file costs whoever looks at it has a bound before it is looked at: who wrote it may be anybody."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from bench.builders import shipped_snapshot
from hobus.config import parse as forms
from hobus.config.assets import Framework, Package
from hobus.config.file_limits import explain_too_many, read_limits
from hobus.config.files import Layers
from hobus.config.limits import FILE_ENTRIES_MAX
from hobus.config.load import read
from hobus.config.parse import BadText, check_model
from hobus.config.yaml_text import parse_yaml
from tests.config.gates.homes import FRAMEWORK, clerk, write

CONFIG = shipped_snapshot().config
ENTRIES_MAX = FILE_ENTRIES_MAX


@pytest.mark.parametrize(
    ("value", "count"),
    [(1, 1), ([], 1), ([1, 2], 3), ({"a": [1, {"b": 2}]}, 5), ([[[[]]]], 4), ({str(one): 1 for one in range(99)}, 100)],
)
def test_every_value_counts(value: Any, count: int) -> None:
    assert explain_too_many(value, count) == "" and explain_too_many(value, None) == ""
    assert "more than" in explain_too_many(value, count - 1)


def test_yaml_is_put_together_no_further_than_it_may_hold() -> None:
    """Nor is a key taken that is no text, since its hash is whoever wrote it's to choose; nor a number of any length."""
    assert parse_yaml("a: [1, 2, 3]", 5) == {"a": [1, 2, 3]}
    for text in ("[" + "[]," * 1000 + "]", "".join(f"k{one}: 1\n" for one in range(1000))):
        with pytest.raises(BadText, match=r"more than 100 values"):
            parse_yaml(text, 100)
    for text, said in (
        ("1: x", "no text"), ("[]: x", "no text"), ("a: 1\na: 2", "written twice"), ("a: 1" + ":1" * 40, "digits"),
        ("a: 0x" + "f" * 40, "digits"),
    ):  # fmt: skip
        with pytest.raises(BadText, match=said):
            parse_yaml(text)


def faults_of(home: Any, name: str, text: str) -> list[str]:
    """Every fault of a home in which the clerk's file has this text."""
    clerk(home)
    path = write(home, name, text)
    return [one for one in read(Layers(own=home)).faults if one.startswith(f"{path}: ")]


def test_a_file_of_more_values_is_not_looked_at(tmp_path: Any) -> None:
    cases: Mapping[str, str] = {
        "frameworks/FMWK-900_Clerks/manifest.yaml": FRAMEWORK + "".join(f"k{n}: 1\n" for n in range(ENTRIES_MAX)),
        "agents/CLERK.json": json.dumps({f"k{number}": 1 for number in range(ENTRIES_MAX)}),
    }
    for name, text in cases.items():
        (fault,) = faults_of(tmp_path / name.split("/")[0], name, text)
        assert f"has more than {ENTRIES_MAX} values;" in fault


def test_the_first_faults_of_a_file_are_told_and_the_rest_counted() -> None:
    _, faults = check_model(Package, {f"key_{number}": 1 for number in range(20_000)})
    assert len(faults) == 51 and faults[-1].startswith("(the whole file): has 19")
    _, faults = check_model(Framework, {"title": [1e999] * 1000})
    assert len(faults) <= 101


def test_a_file_that_is_nested_deeply_is_a_fault_and_no_defect(tmp_path: Any) -> None:
    for depth in (100, 300, 450, 700, 950, 5000):
        text = '{"a":' * depth + "1" + "}" * depth
        assert faults_of(tmp_path / str(depth), "agents/CLERK.json", text), depth


def test_limits_are_the_shipped_ones_where_settings_are_none() -> None:
    """So that something is told beside a broken file of settings."""
    assert read_limits(None) == read_limits(CONFIG) == (CONFIG.ledger.bodies_max_bytes, ENTRIES_MAX)


def test_a_place_of_a_framework_has_one_form() -> None:
    for place in ("agents/[A-Z]*.json", "agents/?.json", "", "/agents/*", "a\n"):
        _, faults = check_model(Framework, {"path_authorizations": [place]})
        (said,) = [one for one in faults if one.startswith("path_authorizations")]
        assert said.endswith(forms.WORDS[forms.PLACES])
