"""The quality gate: every criterion that exists is enforced."""

from __future__ import annotations

from typing import Any

import pytest

from hobus.actors.ho2_supervisor.turn.quality_gate import find_faults, rank
from hobus.bus.messages.work_order import OutputResult, Segment


def output(text: str = "", **fields: Any) -> OutputResult:
    """An answer."""
    return OutputResult(text=Segment(text=text), **fields)


@pytest.mark.parametrize(
    ("criteria", "answer", "is_accepted"),
    [
        ({}, output(""), True),
        ({"requires_response_text": True}, output("x"), True),
        ({"requires_response_text": True}, output(" \n\t"), False),
        ({"requires_response_text": False}, output(""), True),
        ({"min_response_length": 3}, output("abc"), True),
        ({"min_response_length": 3}, output(" ab "), False),
        ({"min_response_length": 0}, output(""), True),
        ({"a_criterion_of_tomorrow": True}, output("x"), False),
    ],
)
def test_each_criterion_decides(criteria: dict[str, Any], answer: OutputResult, is_accepted: bool) -> None:
    """Borders included: exactly the minimum is enough, and what cannot be enforced is a fault."""
    assert bool(find_faults(criteria, answer)) is not is_accepted


def test_every_unmet_criterion_is_named() -> None:
    """In words."""
    faults = find_faults({"requires_response_text": True, "min_response_length": 5, "unknown": 1}, output("  "))
    assert len(faults) == 3
    assert "at least 5" in faults[1]


def test_best_of_two_rejected_answers() -> None:
    """Some text beats none, fewer faults beat more."""
    assert rank(output("x"), ["a", "b"]) < rank(output("y"), ["a"]) == rank(output("z"), ["b"])
    assert rank(output(" "), []) < rank(output("x"), ["a", "b"])
