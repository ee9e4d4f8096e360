"""Taking down a cluster, as far as no process is needed for it; the rest is in `tests/process`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from hobus.launch.cluster.home import make_home
from hobus.launch.console.errors import CommandError, UnreachableFault
from hobus.launch.launcher import stop


def test_what_becomes_of_a_launcher_that_stands_still_is_said_as_it_comes(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends if it continues in time, and else it is killed: both are said before, and what came of it after."""
    monkeypatch.setattr(stop, "find_lock_holder", lambda _home: SimpleNamespace(pid=7, mark="m"))
    monkeypatch.setattr(stop.identity, "end", lambda *_: True)
    monkeypatch.setattr(stop.identity, "is_alive", lambda *_: True)
    monkeypatch.setattr(stop, "find_stall", lambda _pid: UnreachableFault("the launcher (pid 7) is stalled"))
    monkeypatch.setattr(stop, "drain_bound_s", lambda _config: 0.2)
    with pytest.raises(CommandError, match="did not end: killed"):
        stop.stop(make_home(memory_path / "home"))
    said = " ".join(capsys.readouterr().err.split())
    assert "it ends once it continues (kill -CONT 7), and is killed in 0 s otherwise" in said
