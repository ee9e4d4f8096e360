"""What `hobus session` takes and says before anybody is asked."""

from __future__ import annotations

import pytest

from hobus.actors.ho2_supervisor.session.state import TRANSITIONS
from hobus.launch.cli import main as cli


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = cli.run(["session", *words])
    out = capsys.readouterr()
    return code, out.out + out.err


def test_help_tells_the_life_of_a_run_from_the_table(capsys):
    text = said(capsys, "--help")[1]
    assert all(state in text for state in TRANSITIONS) and "docs/sessions.md" in text
