"""What somebody who waits for a start is told of who takes longer."""

from __future__ import annotations

import os

import pytest

from bench.builders import shipped_snapshot
from hobus.launch.cluster import identity, run_file
from hobus.launch.cluster.home import HomeLock, make_home, prepare
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError
from hobus.launch.launcher.progress import StartUnderWay, WaitingLine
from hobus.launch.launcher.supervision import Member
from hobus.launch.launcher.up_already import wait_ready


def test_a_line_now_and_then(capsys):
    """On standard error, and no more than one in five seconds."""
    line = WaitingLine()
    for at, text in ((100.0, "1 of 9"), (100.2, "2 of 9"), (104.9, "8 of 9"), (105.0, "9 of 9")):
        line.show(StartUnderWay(at=at, actor="ledger/1", text=text))
    said = capsys.readouterr()
    assert said.out == "" and said.err == "ledger/1 1 of 9\nledger/1 9 of 9\n"


def test_who_is_not_ready_in_time_is_named(tmp_path):
    """With the state, and exit 4; once all are ready nobody waits."""
    home = make_home(tmp_path)
    prepare(home)
    home.snapshot.write_bytes(shipped_snapshot().to_bytes())
    lock = HomeLock.take(home)
    assert lock is not None
    late = Member(actor="ho1/1", role="ho1").row().model_copy(update={"state": "starting", "note": "1 of 2 tools"})
    run = run_file.RunFile(
        phase="starting", launcher_pid=os.getpid(), launcher_mark=identity.start_mark(os.getpid()) or "", started_at=1.5,
        sockets=str(tmp_path), config_digest="sha256:00", config_origin="shipped", drain_bound_s=21.0, children=[late],
    )  # fmt: skip
    run_file.write(home.run_file, run)
    with pytest.raises(CommandError, match=r"^not ready after 0.1 s: ho1/1 is starting \(1 of 2 tools\)$") as refused:
        wait_ready(home, 0.1)
    assert refused.value.exit_code == exit_codes.UNREACHABLE
    run_file.write(home.run_file, run.model_copy(update={"children": [late.model_copy(update={"state": "ready"})]}))
    assert wait_ready(home, 0.1) == exit_codes.OK
    lock.release()
