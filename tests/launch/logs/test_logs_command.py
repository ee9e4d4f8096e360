"""What `hobus logs` says where nothing that was asked for is there."""

from __future__ import annotations

import json

import pytest

from hobus.bus.clock import SystemClock
from hobus.bus.messages.ids import format_iso
from hobus.launch.cli import main as cli
from hobus.launch.console import exit_codes

OLD_S = 3_600


@pytest.fixture
def logs(tmp_path, capsys):
    """Exit code and words of `hobus logs`, where ho1/1 has logged an hour ago."""
    line = {"at": format_iso(SystemClock().now() - OLD_S), "level": "info", "event": "begun", "actor": "ho1/1"}
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "ho1-1.log").write_text(f"{json.dumps(line)}\n")

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = cli.run(["logs", *words, "--home", str(tmp_path)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_where_no_line_is_that_new_that_is_said(logs):
    for words in ((), ("ho1",), ("ho1/1",)):
        code, out, err = logs(*words, "--since", "1s")
        assert (code, out) == (exit_codes.OK, "") and "no line matches" in err, err
        assert logs(*words, "--since", "2h")[1].count("begun") == 1


def test_who_logged_nothing_is_told_who_did(logs):
    for words in (("ho2",), ("ho2", "--since", "1s")):
        code, out, err = logs(*words)
        assert (code, out) == (exit_codes.USAGE, "") and "no line of ho2; there are logs of ho1/1" in err, err


def test_an_empty_turn_is_none(logs):
    code, out, err = logs("--turn", "")
    assert (code, out) == (exit_codes.USAGE, "") and "names no turn" in err
