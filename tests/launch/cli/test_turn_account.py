"""How the account of a turn is shown."""

from __future__ import annotations

import pytest

from hobus.launch.cli.turn_account import TurnAccount, run_in
from hobus.launch.sessions.history import TurnSeen


def test_a_question_of_several_lines_is_shown_line_by_line(capsys):
    turn = TurnSeen(
        at="2026-01-01T00:00:00.000000Z", run=1, input_id="in-1", text="one\n  two", outcome="success", reply="a\nb"
    )
    TurnAccount("12345678-0000-0000-0000-000000000000", turn, []).show()
    shown = capsys.readouterr().out.splitlines()
    assert shown[:3] == ["SES-12345678-1, input in-1", "    < one", "    <   two"] and "    > b" in shown


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
    TurnAccount(WHOLE, turn, []).show()
    assert f"  {ended}; 0 model calls" in capsys.readouterr().out
