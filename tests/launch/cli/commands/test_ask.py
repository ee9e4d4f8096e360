"""What `hobus ask` says where it got no answer."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

from hobus.config.snapshot import load_snapshot
from hobus.launch.cli.main import run
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import UnreachableFault

ask = importlib.import_module("hobus.launch.cli.commands.ask")


def test_who_loses_the_cluster_learns_how_to_get_the_answer(tmp_path, monkeypatch, capsys):
    """The same words without its id would be another turn, and pay once more."""

    async def lose(*_: Any, **__: Any) -> None:
        raise UnreachableFault("the cluster is gone", hint="hobus up")

    monkeypatch.setattr(ask, "_ask", lose)
    monkeypatch.setattr(ask, "find_cluster", lambda _home: SimpleNamespace(snapshot=load_snapshot()))
    code = run(["ask", "hello", "--input-id", "in-1", "--home", str(tmp_path)])
    said = " ".join(capsys.readouterr().err.split())
    assert code == exit_codes.UNREACHABLE
    assert "next: hobus up, then hobus ask hello" in said and "--input-id in-1 " in said
    assert said.endswith("(it never runs twice)")
