"""How a turn ended, in words."""

from __future__ import annotations

import pytest

from hobus.bus.messages.session import ToolCallSummary, TurnResult
from hobus.bus.messages.work_order import Cost
from hobus.launch.cli.outcome import choose_worst, exit_code_of, render_about, render_warnings
from hobus.launch.console import exit_codes


def result(**changes) -> TurnResult:
    fields = {
        "response": "yes", "outcome": "success", "session_id": "0e8f7a52-1c1b-5b0e-9a59-7b0e4d1c6f21", "run_id": None,
        "input_id": "in-1", "quality_gate_passed": True, "elapsed_ms": 412,
        "cost": Cost(llm_calls=1, total_tokens=30, cost_usd=0.00123),
    }  # fmt: skip
    return TurnResult(**{**fields, **changes})


def test_a_turn_whose_calls_were_not_answered_says_that_their_price_is_unknown():
    lines = [text for text, _ in render_about(result(cost=Cost(cost_usd=None)))]
    assert lines == ["SES-0e8f7a52 · 412 ms · price unknown"]


def test_tools_that_were_not_there_are_named_a_few_of_them():
    """A success with fewer tools than the agent has is no plain one."""
    assert render_warnings(result(tools_missing=["charge", "s__*"])) == [
        ("answered without charge, s__*, which no worker had; see hobus tools", "yellow")
    ]
    (line,) = render_warnings(result(tools_missing=[f"t{number}" for number in range(7)]))
    assert "t4 and 2 more, which" in line[0]


def test_tools_are_named_and_a_failed_one_says_how():
    calls = [
        ToolCallSummary(tool_id="list_packages", status="Succeeded"),
        ToolCallSummary(tool_id="show_config", status="Failed", code="tool_failed"),
        ToolCallSummary(tool_id="charge", status="Failed", code="unknown_outcome"),
    ]
    lines = [text for text, _ in render_about(result(tool_calls=calls))]
    assert lines[:2] == ["tool list_packages", "tool show_config: failed (tool_failed)"]
    assert lines[2] == "tool charge: in doubt (unknown_outcome)"


@pytest.mark.parametrize(
    ("changes", "said", "code"),
    [
        ({}, "", exit_codes.OK),
        ({"quality_gate_passed": False}, "quality gate not passed", exit_codes.OK),
        ({"outcome": "degraded", "code": "degraded"}, "degraded: the supervisor, its executors or", exit_codes.OK),
        (
            {"outcome": "degraded", "code": "degraded", "reason": "provider mine answered 500: it failed."},
            "degraded: provider mine answered 500: it failed; answered by a bare model call",
            exit_codes.OK,
        ),
        ({"outcome": "error", "code": "run_active"}, "error (run_active): yes", exit_codes.REFUSED),
        ({"outcome": "error", "code": "x", "response": ""}, "error (x): this turn has no answer", exit_codes.FAILED),
        ({"outcome": "error", "code": "unavailable"}, "error (unavailable)", exit_codes.FAILED),
        (
            {"outcome": "error", "code": "invalid_input", "response": "no agent: put it back and call hobus reload"},
            "next: hobus agent list; with its file there again: hobus reload",
            exit_codes.REFUSED,
        ),
        ({"outcome": "error", "code": "disk_full"}, "free some space, then ask again; next: hobus doctor", 1),
    ],
)
def test_whatever_is_no_plain_success_is_said_in_words(changes, said, code):
    one = result(**changes)
    assert said in " ".join(text for text, _ in render_warnings(one))
    assert bool(render_warnings(one)) == bool(said)
    assert exit_code_of(one) == code


def test_the_worst_of_several_turns_is_the_exit_code():
    """An unreachable cluster is worse than a failed turn, that than a refused one."""
    assert choose_worst([]) == choose_worst([0, 0]) == exit_codes.OK
    assert choose_worst([0, 5, 1, 2]) == exit_codes.FAILED
    assert choose_worst([1, 4]) == exit_codes.UNREACHABLE


def test_a_session_beyond_its_budget_is_named():
    (told,) = [text for text, _ in render_warnings(result(over_budget=1200))]
    assert "1,200 tokens beyond its budget" in told and "hobus budget" in told


def test_a_tool_that_was_withheld_is_named_with_what_gives_it():
    """A success all the same, that could have been another one."""
    (told,) = [text for text, _ in render_warnings(result(tools_withheld=["pay"]))]
    assert "not told of pay" in told and "permissions.tools" in told


def test_a_template_that_was_taken_away_is_said():
    told = render_warnings(result(template_fault="there is no attention template 'ATT-X-001'; there are none"))
    assert told == [
        (
            "its attention template: there is no attention template 'ATT-X-001'; there are none",
            "yellow",
        )
    ]
