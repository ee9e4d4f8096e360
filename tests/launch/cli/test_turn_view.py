"""How the account of a turn is shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hobus.launch.cli.turn_reading import run_in
from hobus.launch.cli.turn_view import MOMENT_BY_MOMENT, _went, failure_rows, waterfall
from hobus.launch.console.view import print_view
from hobus.launch.sessions.account import make_account
from hobus.launch.sessions.evidence import Evidence
from hobus.launch.sessions.history import TurnSeen
from hobus.launch.sessions.steps import Kind, Step

NOTHING = Evidence(turn=(), session=())


def test_a_question_of_several_lines_is_shown_line_by_line(capsys):
    turn = TurnSeen(
        at="2026-01-01T00:00:00.000000Z", run=1, input_id="in-1", text="one\n  two", outcome="success", reply="a\nb"
    )
    print_view(MOMENT_BY_MOMENT, make_account("12345678-0000-0000-0000-000000000000", turn, NOTHING))
    shown = capsys.readouterr().out.splitlines()
    assert shown[:3] == ["SES-12345678-1: success, input in-1", "    < one", "    <   two"] and "    > b" in shown


WHOLE = "1f75a111-0000-0000-0000-000000000000"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("SES-1f75a111-1", ("SES-1f75a111", "1")), ("1f75a111-12", ("1f75a111", "12")), (f"{WHOLE}-1", (WHOLE, "1")),
        ("SES-1f75a-2", ("SES-1f75a", "2")), ("1f75-2", ("1f75", "2")), ("1f7-2", None), ("1f75a111-2469-5-1", None),
        ("SES-1f75a111/in-1", ("SES-1f75a111", "in-1")), ("SES-1f75a111", None), ("1f75a111", None), (WHOLE, None),
        ("9096", None), ("1f75a111-2469", None), ("1f75a111-2469-51ce", None),
    ],
)  # fmt: skip
def test_a_run_is_named_behind_each_form_of_its_session(given, named):
    """Four digits behind the first dash are the next group of an id."""
    assert run_in(given) == named


@pytest.mark.parametrize(
    ("outcome", "code", "ended"),
    [
        ("success", "", "success"),
        ("failed", "CIRCUIT_OPEN", "failed (CIRCUIT_OPEN)"),
        ("cancelled", "x", "cancelled (x)"),
    ],
)
def test_how_a_turn_ended_and_why_are_told_apart(outcome, code, ended, capsys):
    turn = TurnSeen(at="2026-01-01T00:00:00.000000Z", run=1, input_id="in-1", text="q", outcome=outcome, code=code)
    print_view(MOMENT_BY_MOMENT, make_account(WHOLE, turn, NOTHING))
    assert f"  {ended}; 0 model calls" in capsys.readouterr().out


def step(kind: Kind, begin_us: int, end_us: int | None = None, **values: object) -> Step:
    return Step(kind=kind, order="1.1.1", begin_us=begin_us, end_us=end_us, sequences=[begin_us], **values)


def test_a_bar_begins_and_ends_where_its_work_did():
    """In the time of the whole turn; what took no time is seen, and what has not ended reaches the end."""
    steps = [step("order", 0, 4000), step("model", 1000, 3000), step("tool", 4000, 4000), step("wait", 2000)]
    bars, whole_ms = waterfall(steps)
    assert [(one.step.kind, one.x, one.width, one.took_ms) for one in bars] == [
        ("order", 0, 1000, 4), ("model", 250, 500, 2), ("tool", 997, 3, 0), ("wait", 500, 500, None),
    ]  # fmt: skip
    assert whole_ms == 4 and waterfall([]) == ([], 0)


def test_the_picture_ends_with_the_turn():
    """A late classification reaches its edge, a consolidation has no bar; how long each took stands beside it."""
    steps = [step("order", 0, 9000), step("model", 1000, 2000), step("order", 2000, 50_000), step("model", 3000)]
    bars, whole_ms = waterfall(steps, 2000)
    assert [(one.x, one.width, one.took_ms) for one in bars] == [
        (0, 1000, 9), (500, 500, 1), (1000, 0, 48), (1000, 0, None),
    ]  # fmt: skip
    assert whole_ms == 2
    turn = TurnSeen(at="2026-01-01T00:00:00.000000Z", run=1, input_id="in-1", text="q")
    account = make_account(WHOLE, turn, NOTHING)
    late = replace(account, figures=replace(account.figures, late_ms=1200))
    assert [_went(one).partition(" ms went")[2] for one in (account, late)] == ["", ", and 1,200 ms behind the answer"]


def test_what_failed_again_and_again_is_one_row():
    """For each order and reason: which attempts, where they stand; the words once."""

    def failed(kind: Kind, sequence: int, order: str, attempt: int | None, words: str = "shut") -> Step:
        one = step(kind, sequence, sequence, attempt=attempt, code="x", words=words, verdict="failed")
        return replace(one, order=order)

    failures = (
        failed("model", 7, "1.1.1", 1), failed("model", 8, "1.1.2.001", 1),
        failed("model", 9, "1.1.1", 2), failed("order", 10, "1.1.2.001", None, "broke"),
    )  # fmt: skip
    turn = TurnSeen(at="2026-01-01T00:00:00.000000Z", run=1, input_id="in-1", text="q")
    account = replace(make_account(WHOLE, turn, NOTHING), steps=failures)
    assert [(one.what, one.attempts, one.sequences, one.words) for one in failure_rows(account)] == [
        ("model call", "1 to 2", [7, 9], "shut"), ("model call", "1", [8], "as #7 says"), ("order", "", [10], "broke"),
    ]  # fmt: skip
