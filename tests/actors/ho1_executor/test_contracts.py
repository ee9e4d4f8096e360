"""Contracts: choice, schema check, inputs."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.builders import shipped_snapshot
from hobus.actors.ho1_executor.contracts import (
    CheckedContract,
    check_contract,
    gather_inputs,
    list_schema_faults,
    make_label_inputs,
    strip_fence,
)
from hobus.bus.errors import WorkOrderFault
from hobus.bus.messages.work_order import Segment
from hobus.config.assets import Boundary, Contract
from hobus.config.json_schema import get_validator


def contract(**changed: Any) -> Contract:
    """A contract with one input `a` of at least two characters."""
    fields: dict[str, Any] = {
        "contract_id": "PRC-TEST-001",
        "version": "1.0.0",
        "prompt_pack_id": "PRM-TEST-001",
        "boundary": Boundary(max_tokens=10, temperature=0.0),
        "input_schema": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "minLength": 2}}},
        "output_schema": {"type": "string"},
    }
    return Contract(**{**fields, **changed})


def checked(**changed: Any) -> CheckedContract:
    """Such a contract, checked."""
    one = contract(**changed)
    return check_contract({one.contract_id: one}, one.contract_id)


@pytest.mark.parametrize("contract_id", ["PRC-OTHER-001", ""])
def test_an_unknown_contract_is_contract_not_found(contract_id: str) -> None:
    with pytest.raises(WorkOrderFault) as caught:
        check_contract({"PRC-TEST-001": contract()}, contract_id)
    assert caught.value.code == "contract_not_found"


@pytest.mark.parametrize("which", ["input_schema", "output_schema"])
def test_a_schema_that_is_none_is_refused_by_name(which: str) -> None:
    with pytest.raises(WorkOrderFault) as caught:
        checked(**{which: {"type": "objekt"}})
    assert caught.value.code == "contract_schema_invalid"
    assert which in caught.value.detail


def test_inputs_are_checked_against_the_whole_schema() -> None:
    with pytest.raises(WorkOrderFault) as caught:
        gather_inputs(checked(), [Segment(name="a", text="§")], {})
    assert caught.value.code == "input_schema_invalid"
    assert "$.a: minLength 2" in caught.value.detail
    assert "§" not in caught.value.detail


def test_a_missing_input_is_named_once() -> None:
    with pytest.raises(WorkOrderFault) as caught:
        gather_inputs(checked(), [], {})
    assert caught.value.detail == "PRC-TEST-001: $: required, missing a"


def test_the_order_wins_over_configuration_and_that_over_defaults() -> None:
    """One rule of precedence; segments of one name are joined for the check and kept apart for the prompt."""
    schema = {"type": "object", "properties": {name: {"type": "string", "default": "d"} for name in "abc"}}
    made = gather_inputs(
        checked(input_schema=schema),
        [Segment(name="a", text="1"), Segment(name="a", text="2")],
        {"a": [Segment(name="a", text="s")], "b": [Segment(name="b", text="s")]},
    )
    assert {name: [segment.text for segment in segments] for name, segments in made.items()} == {
        "a": ["1", "2"],
        "b": ["s"],
        "c": ["d"],
    }


@pytest.mark.parametrize(("text", "is_good"), [("[1]", True), ('["x"]', False), ("[", False), ("[" * 100_000, False)])
def test_an_input_that_is_no_text_is_read_as_json(text: str, is_good: bool) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}
    one = checked(input_schema=schema)
    if is_good:
        assert gather_inputs(one, [Segment(name="a", text=text)], {})["a"][0].text == text
        return
    with pytest.raises(WorkOrderFault) as caught:
        gather_inputs(one, [Segment(name="a", text=text)], {})
    assert caught.value.code == "input_schema_invalid"


def test_a_value_that_its_schema_cannot_follow_breaks_it() -> None:
    tree = {"$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "$ref": "#/$defs/t"}
    value: list[Any] = []
    for _ in range(400):
        value = [value]
    assert list_schema_faults(get_validator(tree), value) == ["$: too large for its schema, or nested too deeply"]


def test_a_default_that_is_no_text_is_written_as_json() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "default": []}}}
    assert gather_inputs(checked(input_schema=schema), [], {})["a"][0].text == "[]"


@pytest.mark.parametrize(
    ("structured", "schema", "wants_json"),
    [(True, None, True), (False, {"type": "object"}, True), (False, {"type": "string"}, False), (False, None, False)],
)
def test_who_wants_json(structured: bool, schema: dict[str, Any] | None, wants_json: bool) -> None:
    boundary = Boundary(max_tokens=1, temperature=0.0, structured_output=structured)
    assert checked(boundary=boundary, output_schema=schema).wants_json is wants_json


def test_the_vocabulary_is_the_configured_one() -> None:
    inputs = make_label_inputs(shipped_snapshot().config.classify_labels)
    assert inputs["domain_labels"][0].text == "system, config, session, tools, docs, general"


@given(st.text(alphabet="`` \n\r\tj{", max_size=24))
def test_a_fence_goes_with_its_line_ends_and_blanks(inner: str) -> None:
    """As one pattern says it, which takes too long for a long answer."""
    pattern = re.compile(r"\A\s*```[A-Za-z0-9_+-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```\s*\Z", re.DOTALL)
    for text in (inner, f"```{inner}```", f" ```j\n{inner}``` "):
        found = pattern.match(text)
        assert strip_fence(text) == (found[1] if found else text)


def test_an_answer_of_blanks_in_a_fence_is_judged_at_once() -> None:
    """Four times as long takes about four times as long; squares would take sixteen times."""

    def took(count: int) -> float:
        begun = time.thread_time()
        strip_fence(f"```\n{' ' * count}!")
        return time.thread_time() - begun

    assert any((taken := took(40_000)) < 0.02 or taken < 9 * took(10_000) for _ in range(3))
