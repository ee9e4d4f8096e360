"""A start and the gates: refused with everything at once."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from hobus.launch.app.agent import Agent
from hobus.launch.cluster.home import Home, make_home
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError
from hobus.launch.launcher import gates
from hobus.launch.launcher.options import StartOptions
from tests.config.gates.homes import clerk, package, write


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_home(tmp_path)


def start(home: Home) -> list[str]:
    return list(gates.start_plan(home, StartOptions(), {}).warnings)


def test_what_a_cluster_that_runs_cannot_go_over_to_changes_nothing(home: Home) -> None:
    clerk(home.config)
    package(home.config, spec_id="SPEC-GHOST-001")
    with pytest.raises(CommandError) as refused:
        gates.start_plan(home, StartOptions(), {}, running="sha256:0123456789abcdef")
    assert "nothing was changed, the cluster goes on under sha256:0123456789ab\n" in refused.value.message
    with pytest.raises(CommandError, match="nothing is started"):
        start(home)


def test_an_address_at_which_its_own_cluster_listens_is_taken_by_nobody(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`hobus config check` beside it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listens = {"http": {"listen": f"127.0.0.1:{taken.getsockname()[1]}"}}
        home.config.mkdir(exist_ok=True)
        (home.config / "admin_config.json").write_text(json.dumps(listens))
        with pytest.raises(CommandError, match="already in use"):
            gates.make_checked_plan(home, StartOptions())
        monkeypatch.setattr(gates, "find_holder", lambda _home: 1)
        assert gates.make_checked_plan(home, StartOptions())


def test_warnings_are_told_at_each_start_and_what_is_mended_is_found_mended(home: Home) -> None:
    """A failure between two starts changes nothing for the next one."""
    clerk(home.config)
    write(home.config, "prompt_packs/PRM-DEGRADED-001.txt", "[[user]]\n{{ user_input }}")
    said = start(home)
    assert any(line.startswith("gates: ") and "warning" in line for line in said) and start(home) == said
    package(home.config, spec_id="SPEC-GHOST-001")
    with pytest.raises(CommandError) as refused:
        start(home)
    assert refused.value.exit_code == exit_codes.INTEGRITY and refused.value.code == "gate_failed"
    package(home.config)
    assert start(home) == said


def test_a_key_that_is_not_set_is_told_at_the_start(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a provider that an agent is answered by; before the first question."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for name, document in Agent("clerk", "Hi.", model="openai:big").to_files().items():
        write(home.config, name, json.dumps(document))
    said = "provider openai cannot be used: the environment variable OPENAI_API_KEY is not set; set it before"
    assert [one for one in start(home) if one.startswith(said)]
    monkeypatch.setenv("OPENAI_API_KEY", "sk")
    assert not [one for one in start(home) if "OPENAI_API_KEY" in one]
