"""What a command's own process logs while it talks with a cluster."""

from __future__ import annotations

from typing import Any, cast

import pytest
import structlog

from launch import client
from launch.errors import CommandError
from launch.home import Home


async def test_what_a_client_logs_stands_beside_its_answer(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard output is the answer's alone, for a program that reads it as JSON."""
    structlog.reset_defaults()

    def no_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    class Place:
        home = Home(root=tmp_path)

    monkeypatch.setattr(client.Client, "open", no_disk)
    try:
        with pytest.raises(CommandError):
            async with client.connected(cast("Any", Place), "door"):
                pass
        structlog.get_logger("bus").warning("loop_stood_still", seconds=1.5)
    finally:
        structlog.reset_defaults()
    said = capsys.readouterr()
    assert (said.out, "loop_stood_still" in said.err) == ("", True)
