"""How the account of a turn is shown."""

from __future__ import annotations

from hobus.launch.cli.turn_account import TurnAccount
from hobus.launch.sessions.history import TurnSeen


def test_a_question_of_several_lines_is_shown_line_by_line(capsys):
    """As its answer is; a line end is no character that cannot be shown."""
    turn = TurnSeen(
        at="2026-01-01T00:00:00.000000Z", run=1, input_id="in-1", text="one\n  two", outcome="success", reply="a\nb"
    )
    TurnAccount("12345678-0000-0000-0000-000000000000", turn, []).show()
    shown = capsys.readouterr().out.splitlines()
    assert shown[:3] == ["SES-12345678-1, input in-1", "    < one", "    <   two"] and "    > b" in shown
