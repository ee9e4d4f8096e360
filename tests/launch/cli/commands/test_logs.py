"""`hobus logs`: which lines it chooses, and what it says where there are none."""

from __future__ import annotations

import json

import pytest

from hobus.bus.clock import SystemClock
from hobus.bus.messages.ids import iso
from hobus.launch.cli import main as cli
from hobus.launch.cluster.home import home_of, prepare
from hobus.launch.console import exit_codes


@pytest.fixture
def logs(tmp_path, capsys):
    """The command in a home where ho1/1 logged a line an hour ago: its output and what it said beside that."""
    home = home_of(tmp_path)
    prepare(home)
    at = iso(SystemClock().now() - 3700)
    home.log("ho1/1").write_text(json.dumps({"event": "turn_answered", "at": at, "actor": "ho1/1"}) + "\n")

    def run(*words: str, code: int = exit_codes.OK) -> tuple[str, str]:
        assert cli.run(["--home", str(tmp_path), "logs", *words]) == code
        printed = capsys.readouterr()
        return printed.out, printed.err

    return run


def test_an_empty_turn_is_refused(logs):
    """It named no turn and printed everybody's lines."""
    out, err = logs("--turn", "", code=exit_codes.USAGE)
    assert out == "" and "--turn: names no turn; write one such as SES-1a2b3c4d-2" in err


@pytest.mark.parametrize("actors", [(), ("ho1",), ("ho1/1",)])
def test_lines_that_are_too_old_are_not_called_missing(logs, actors):
    """Whose the newest is, and when it was, is said."""
    assert "turn_answered" in logs(*actors, "--since", "2h")[0]
    out, err = logs(*actors, "--since", "1s")
    assert out == "" and err.startswith("no line is that new; the last one is of ho1/1, at ") and " UTC" in err


def test_whoever_logged_nothing_is_named_with_those_who_did(logs):
    """Whatever --since says."""
    for since in ((), ("--since", "1s")):
        _, err = logs("ho2", *since, code=exit_codes.USAGE)
        assert "no line of ho2; there are logs of ho1/1" in err
