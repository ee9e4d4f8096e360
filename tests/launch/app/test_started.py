"""Agents of a Python file, and their documents in a home beside what a person wrote there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hobus.launch.app.agent import Agent
from hobus.launch.app.started import agents_in, write_files
from hobus.launch.cluster.home import home_of
from hobus.launch.console.errors import CommandError
from tests.launch.app.test_agent import weather


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no file"),
        ("def x(:", r"\.py:1\)"),
        ("import nothing_like_that", "nothing_like_that"),
        ("x = 1", "has no Agent at its top"),
        ("from hobus import Agent\na = Agent('a', 'x')\nb = Agent('A', 'y')", "two agents are called A"),
        ("from hobus import Agent\na = Agent('a b', 'x')", "letters, digits"),
    ],
)
def test_a_file_that_is_no_app_is_told(tmp_path: Path, text: str | None, said: str) -> None:
    """With its place, before anything is written."""
    app = tmp_path / f"app_{abs(hash(text))}.py"
    if text is not None:
        app.write_text(text)
    with pytest.raises(CommandError, match=said):
        write_files(home_of(tmp_path / "home"), agents_in(app))
    assert not (tmp_path / "home").exists()


def test_what_a_person_wrote_in_the_home_stays(tmp_path: Path) -> None:
    """Settings, other tools and approvals, who answers by default; the same agents again change nothing."""
    home = home_of(tmp_path)
    home.config.mkdir()
    own = {
        "host": {"agent_id": "OTHER"}, "gateway": {"attempts_max": 2},
        "tools": {"entry_points": ["weather", "search_mail"], "approval": ["search_mail"], "timeout_ms": 5},
    }  # fmt: skip
    (home.config / "admin_config.json").write_text(json.dumps(own))
    clerk = Agent("clerk", "Be brief.", tools=[weather], approval=[weather])
    assert write_files(home, [clerk]) == ["agents/CLERK.json", "admin_config.json"]
    settings = json.loads((home.config / "admin_config.json").read_text())
    [entry] = clerk.to_files()["admin_config.json"]["tools"]["entry_points"]
    assert settings == own | {
        "tools": {"entry_points": [entry, "search_mail"], "approval": ["search_mail", "weather"], "timeout_ms": 5}
    }
    assert write_files(home, [clerk]) == []
    (home.config / "admin_config.json").write_text("[")
    with pytest.raises(CommandError, match=r"admin_config\.json"):
        write_files(home, [clerk])
