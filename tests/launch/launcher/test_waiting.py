"""What somebody who waits for a start is told of who takes longer."""

from __future__ import annotations

from hobus.launch.launcher.progress import PROGRESS, StartUnderWay, WaitingLine
from hobus.launch.launcher.starting import _Rows


def test_into_a_pipe_a_line_now_and_then(capsys):
    """On standard error, and no more than one in five seconds."""
    line = WaitingLine()
    for at, text in ((100.0, "1 of 9"), (100.2, "2 of 9"), (104.9, "8 of 9"), (105.0, "9 of 9")):
        line.show(text, at)
    line.hide()
    said = capsys.readouterr()
    assert said.out == "" and said.err == "1 of 9\n9 of 9\n"


def test_a_start_that_is_to_be_quiet_says_nothing(tmp_path, capsys):
    """The demo's; any other names the process."""
    word = PROGRESS.decode(StartUnderWay(at=100.0, actor="ledger/1", text="1 of 9").model_dump_json())
    _Rows(tmp_path, is_quiet=True).take(word)
    assert capsys.readouterr().err == ""
    _Rows(tmp_path).take(word)
    assert capsys.readouterr().err == "ledger/1 1 of 9\n"
