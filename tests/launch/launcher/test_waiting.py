"""What somebody who waits for a start is told of who takes longer."""

from __future__ import annotations

from hobus.launch.launcher.progress import StartUnderWay, WaitingLine


def test_a_line_now_and_then(capsys):
    """On standard error, and no more than one in five seconds."""
    line = WaitingLine()
    for at, text in ((100.0, "1 of 9"), (100.2, "2 of 9"), (104.9, "8 of 9"), (105.0, "9 of 9")):
        line.show(StartUnderWay(at=at, actor="ledger/1", text=text))
    said = capsys.readouterr()
    assert said.out == "" and said.err == "ledger/1 1 of 9\nledger/1 9 of 9\n"
