"""What the launcher answers to a command that it has to load something for."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.clock import SystemClock
from hobus.bus.errors import BusError
from hobus.launch.cluster.home import make_home
from hobus.launch.console.errors import RefusedFault
from hobus.launch.launcher import reload as reload_module
from hobus.launch.launcher.control import CommandSender, ReloadCommand
from hobus.launch.launcher.launcher import Launcher

ON_DISK = {
    "no module": None,
    "without what it is to have": SimpleNamespace(),
    "another form": SimpleNamespace(Rolling=dict.fromkeys),
}


@pytest.mark.parametrize("found", ON_DISK.values(), ids=ON_DISK)
def test_a_reload_under_another_software_than_the_launchers_is_refused(
    found: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """By the launcher, which goes on; and the command says that nothing was changed, and the mend."""
    plan: Any = SimpleNamespace(snapshot=shipped_snapshot(), origin="")
    home = make_home(tmp_path)
    launcher: Any = Launcher(
        home=home, plan=plan, clock=SystemClock(), started_at=0.0, report=lambda _word: None, given={}
    )
    launcher._peer = SimpleNamespace()
    monkeypatch.setitem(sys.modules, "hobus.launch.launcher.rolling", found)
    with pytest.raises(BusError, match="the software on disk is another") as caught:
        launcher._take(None, ReloadCommand(digest="sha256:0", origin=""), CommandSender(1, "ana"))

    def refuse(*_: object, **__: object) -> None:
        raise caught.value

    monkeypatch.setattr(reload_module.operate, "send_command", refuse)
    home.run.mkdir(parents=True, exist_ok=True)
    module: Any = reload_module
    with pytest.raises(RefusedFault, match="nothing was changed: the software on disk is another") as said:
        module._offer(
            home, SimpleNamespace(snapshot=shipped_snapshot(), origin=""), SimpleNamespace(), restarts_executors=False
        )
    assert "down" in said.value.hint and "up" in said.value.hint
