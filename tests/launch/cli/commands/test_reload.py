"""`hobus reload`: what it says of a change."""

from __future__ import annotations

import pytest

from hobus.config.difference import Difference
from hobus.launch.cli import main as cli
from hobus.launch.cluster.takes_effect import sum_effects
from hobus.launch.console import exit_codes
from hobus.launch.launcher.reload import Reloaded


@pytest.mark.parametrize(
    ("changes", "beside", "said"),
    [
        ([Difference("agent CLERK", how="added")], [], "changed: agent CLERK (added)"),
        ([], ["the code of pay"], "changed: the code of pay"),
        ([], [], "changed: no value and no file but in how settings are written down"),
    ],
)
def test_what_was_taken_in_is_said(tmp_path, capsys, monkeypatch, *, changes, beside, said):
    """With what became of it; also where another digest stands for the same values."""
    done = Reloaded("sha256:a", "sha256:b", changes, beside, sum_effects(changes), (), 5)
    monkeypatch.setattr("hobus.launch.cli.commands.reload.reloaded", lambda *_, **__: done)
    assert cli.run(["--home", str(tmp_path), "reload"]) == exit_codes.OK
    assert said in capsys.readouterr().out
