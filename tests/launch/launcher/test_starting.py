"""A start as whoever asked for it follows it, and what becomes of it when they stop doing so."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from hobus.launch.cluster.home import make_home
from hobus.launch.launcher import starting
from hobus.launch.launcher.options import StartOptions


@pytest.mark.parametrize(("ends_with_us", "said"), [(True, "the start is undone"), (False, "the start goes on")])
def test_ctrl_c_in_a_start_says_what_becomes_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, *, ends_with_us: bool, said: str
) -> None:
    """A command whose cluster ends with it takes it back; another one leaves it."""
    back: list[int] = []

    def interrupted(*_: Any, **__: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(starting, "_start_launcher", lambda *_: starting.Background(7, io.BytesIO()))
    monkeypatch.setattr(starting, "_follow", interrupted)
    monkeypatch.setattr(starting, "_take_back", lambda launcher: back.append(launcher.pid))
    monkeypatch.setattr(starting, "keep_on", lambda: None)
    with pytest.raises(KeyboardInterrupt):
        starting.start_detached(make_home(tmp_path), StartOptions(), wait=True, ends_with_us=ends_with_us)
    assert said in capsys.readouterr().err
    assert back == ([7] if ends_with_us else [])
