"""What `hobus session` takes and says before anybody is asked."""

from __future__ import annotations

from unittest.mock import AsyncMock

import pytest

from hobus.actors.ho2_supervisor.session.state import TRANSITIONS
from hobus.bus.messages.session import SessionClosed
from hobus.launch.cli import main as cli
from hobus.launch.cli.commands import steering


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = cli.run(["session", *words])
    out = capsys.readouterr()
    return code, out.out + out.err


def test_help_tells_the_life_of_a_run_from_the_table(capsys):
    text = said(capsys, "--help")[1]
    assert all(state in text for state in TRANSITIONS) and "docs/sessions.md" in text


def test_an_end_says_of_which_calls_its_tokens_are(monkeypatch, capsys):
    """A call that was cancelled on its way has no figures here, and is in `hobus cost` with what it may have cost."""
    closed = SessionClosed(
        session_id=f"{'1' * 8}-2222-4333-8444-{'5' * 12}", turn_count=0, total_tokens=0, cost_usd=None
    )
    monkeypatch.setattr(steering, "find_cluster", lambda _home: None)
    monkeypatch.setattr(steering, "end_session", AsyncMock(return_value=closed))
    assert said(capsys, "end", "SES-11111111")[1] == (
        "SES-11111111 ended after 0 answered turns: 0 tokens of ended calls, price unknown\n"
    )
