"""What the kill matrix demands of a cell, and that the committed table is the committed figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.kills import DEADLINE_S, EVERYBODY, Cell, faults_of

ROOT = Path(__file__).parents[2]
GOOD = Cell(
    process="ho1", point="tool_effect", tool="charge_keyed", outcome="success", code="", tool_code="",
    answered_after_ms=900, answers=1, same_again=True, effects=1, tool_runs=2, prompts=2,
    prompts_open=0, open_at_kill=0, tool_orders=1, tool_ends=1, record="ok",
)  # fmt: skip
IN_DOUBT = replace(GOOD, tool="charge_unkeyed", tool_runs=1, tool_code="unknown_outcome")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("outcome", "error"), ("outcome", "degraded"), ("answered_after_ms", DEADLINE_S * 1000), ("answers", 0),
        ("answers", 2), ("same_again", False), ("effects", 0), ("effects", 2), ("tool_code", "unknown_outcome"),
        ("prompts", 3), ("prompts_open", 1), ("tool_ends", 0), ("record", "a fenced owner wrote"),
    ],
)  # fmt: skip
def test_each_thing_that_is_missing_is_a_fault(field, value):
    """One at a time; a good cell has none."""
    assert faults_of(GOOD) == []
    assert len(faults_of(replace(GOOD, **{field: value}))) == 1


def test_a_tool_without_a_key_is_in_doubt_where_its_executor_died_and_never_run_twice():
    """Silence about the doubt is a fault, and so is a second run."""
    assert faults_of(IN_DOUBT) == [] and faults_of(replace(IN_DOUBT, process=EVERYBODY)) == []
    assert len(faults_of(replace(IN_DOUBT, tool_code=""))) == 1
    assert len(faults_of(replace(IN_DOUBT, tool_runs=2))) == 1
    assert len(faults_of(replace(IN_DOUBT, process="broker"))) == 1


def test_a_further_model_call_is_right_where_the_gateway_died_with_an_answer_that_nobody_has():
    """Of a gateway that had nothing open, or of anybody else, it is a fault."""
    lost = replace(GOOD, process="gateway", point="in_llm2", open_at_kill=1, prompts=3)
    assert faults_of(lost) == []
    assert len(faults_of(replace(lost, open_at_kill=0))) == 1
    assert len(faults_of(replace(lost, process="ho2"))) == 1
