"""What happens to processes, as somebody in the foreground reads it."""

import pytest

from hobus.launch.launcher.progress import ProgressWord, StateChanged
from hobus.launch.launcher.starting import became, line_of
from hobus.launch.launcher.supervision import Member

MEMBER = Member(actor="ho1/1", role="ho1", instance="ho1/1@a", pid=7, ready_after_ms=42, restarts=2)


def change(was, now, about="", **fields):
    row = MEMBER.row().model_copy(update={"state": now, **fields})
    return StateChanged(at=100.0, was=was, row=row, about=about)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (change("ready", "backoff", note="signal 9", next_try_at=100.01), "died: signal 9; started again at once"),
        (change("starting", "backoff", note="exit 1: no zmq", next_try_at=101.5), "died: exit 1: no zmq; started again in 1.5 s"),
        (change("backoff", "starting"), "is started again (restart 2)"),
        (change("stopped", "starting", restarts=0), "is started"),
        (change("starting", "ready"), "is ready 42 ms after its start (pid 7)"),
        (change("starting", "ready", about="offline/rules"), "is ready 42 ms after its start (pid 7, offline/rules)"),
        (change("degraded", "ready"), "is ready again"),
        (change("ready", "degraded", note="ledger: no_route"), "is degraded: ledger: no_route"),
        (change("backoff", "failed", note="given up"), "failed: given up"),
        (change("ready", "draining"), "finishes its work, then ends"),
        (change("draining", "stopped", note="drained; hobus restart"), "has stopped: drained; hobus restart"),
        (change("draining", "stopped"), "has stopped"),
    ],
)  # fmt: skip
def test_each_change_is_a_sentence(word, said):
    assert became(word) == said


def test_a_line_has_time_and_process_and_commands_no_terminal(monkeypatch):
    """Last words of a process are its own: they are escaped."""
    monkeypatch.setenv("TZ", "UTC")
    line = line_of(change("ready", "failed", note="\x1b[2Jgone"))
    assert line.split("  ", 1)[1] == "ho1/1      failed: \\u001b[2Jgone"
    assert line_of(ProgressWord(at=100.0, text="stopping")).endswith("  stopping")
