"""What a command's own process logs while it talks with a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
import structlog

from hobus.launch.cluster import client
from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import CommandError
from hobus.launch.console.output import as_asked


@pytest.fixture(autouse=True)
def _defaults() -> Iterator[None]:
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
    as_asked([])


async def logged(root: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    class Place:
        home, connect = Home(root), None

    monkeypatch.setattr(client, "make_client", no_disk)
    with pytest.raises(CommandError):
        async with client.connect_bus(cast("Any", Place), "door"):
            pass
    structlog.get_logger("bus").warning("loop_stood_still", seconds=1.5, detail="\x1b[5m")


async def test_what_a_client_logs_disturbs_nobody(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the program that reads an answer as JSON, nor the person who chats: they are told in sentences."""
    await logged(tmp_path, monkeypatch)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")


@pytest.mark.parametrize("is_coloured", [True, False])
async def test_with_debug_it_stands_on_standard_error_in_colours_by_the_one_rule(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_coloured: bool
) -> None:
    """Standard output is the answer's alone; what else the line holds commands no terminal."""
    monkeypatch.setattr("hobus.launch.console.output.colours", lambda **_: is_coloured)
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_: False)  # what captures it is no terminal
    as_asked(["chat", "--debug"])
    await logged(tmp_path, monkeypatch)
    said = capsys.readouterr()
    assert (said.out, "loop_stood_still" in said.err) == ("", True)
    assert ("\x1b[33mwarning" in said.err, "\x1b" in said.err) == (is_coloured, is_coloured)
    assert "\x1b[5m" not in said.err
