"""What is handed over from a user's environment, to whom, and what stays behind."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bench.builders import shipped_snapshot
from hobus.config.schema import AdminConfig
from hobus.launch.console.errors import CommandError
from hobus.launch.launcher import inherited

CONFIG = shipped_snapshot().config
SERVER = {
    "transport": "http", "url": "http://127.0.0.1:1/", "headers": {"Authorization": "env:A_KEY", "X": "file:/k"},
    "tools": None, "reads": [], "idempotent": [], "connect_timeout_ms": 1, "timeout_ms": None, "per": "worker", "elsewhere": False,
}  # fmt: skip


def with_tools(**fields: object) -> AdminConfig:
    tools = CONFIG.tools.model_dump(mode="json") | fields
    return AdminConfig.model_validate(CONFIG.model_dump(mode="json") | {"tools": tools})


def test_what_is_not_allowed_is_handed_over_beside_the_environment(monkeypatch):
    """The environment has the allowed names and the number of a descriptor; that is read once and holds the rest."""
    monkeypatch.setenv("A_KEY", "secret")
    monkeypatch.setenv("LC_TIME", "C")
    environ, file = inherited.hand_over(["PATH", "LC_*"], {"B_KEY": "kept", "PATH": "/given"})
    assert {name: environ[name] for name in ("PATH", "LC_TIME")} == {"PATH": "/given", "LC_TIME": "C"}
    assert "secret" not in json.dumps(environ)
    monkeypatch.setenv(inherited.VARIABLE, str(os.dup(file.fileno())))
    file.close()
    assert inherited.is_handed_over()
    rest = inherited.take(inherited.find_descriptor())
    assert not inherited.is_handed_over()
    assert (rest["A_KEY"], rest["B_KEY"], "PATH" in rest) == ("secret", "kept", False)


def test_a_process_that_nobody_gave_anything_takes_nothing(monkeypatch):
    """Nor does one whose variable names no open descriptor."""
    monkeypatch.delenv(inherited.VARIABLE, raising=False)
    assert inherited.take(inherited.find_descriptor()) == {}
    for number in ("999999", "x"):
        monkeypatch.setenv(inherited.VARIABLE, number)
        assert inherited.take(inherited.find_descriptor()) == {}


def test_a_role_gets_what_its_section_refers_to(monkeypatch):
    """Executors what servers and tools are named for; the gateway what stands in its own section; others nothing."""
    monkeypatch.setattr(inherited, "keep_memory_private", lambda: True)
    environ = {"A_KEY": "1", "TOOL_KEY": "2", "TOOL_OTHER": "3", "GATEWAY_KEY": "4"}
    assert inherited.select_by_role(CONFIG, environ) == {}
    config = with_tools(mcp_servers={"s": SERVER}, environment=["TOOL_*"])
    assert inherited.select_by_role(config, environ) == {"ho1": {"A_KEY": "1", "TOOL_KEY": "2", "TOOL_OTHER": "3"}}
    assert "A_KEY" not in inherited.select_for_tools(config, environ)
    assert inherited.select_for_tools(config, environ)["TOOL_KEY"] == "2"


def test_more_than_a_pipe_takes_is_refused():
    """In a sentence with the fix, before anything starts."""
    with pytest.raises(CommandError, match="bytes"):
        inherited.select_by_role(with_tools(environment=["BIG"]), {"BIG": "x" * 70_000})


@pytest.mark.parametrize(
    "text", ["", "[]", '{"launcher": {}}', '{"launcher": {"environment": [1]}}', "{", "[" * 100_000]
)
def test_names_are_the_shipped_ones_where_a_file_has_none(tmp_path, text):
    file = tmp_path / "admin_config.json"
    file.write_text(text)
    assert inherited.names_of(file) == CONFIG.launcher.environment
    file.write_text('{"launcher": {"environment": ["ONLY"]}}')
    assert inherited.names_of(file) == ["ONLY"]


def test_names_are_read_of_plain_files_alone(tmp_path):
    """A pipe, a device, a directory, one without end: as shipped, and at once; who checks them says what they are."""
    shipped = list(CONFIG.launcher.environment)
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    with large.open("wb") as file:
        file.truncate(1_000_000_000)
    for path in (pipe, large, tmp_path, Path("/dev/zero"), tmp_path / "gone"):
        assert inherited.names_of(path) == shipped
    own = tmp_path / "own.json"
    own.write_text('{"launcher": {"environment": ["MINE"]}}')
    assert inherited.names_of(own) == ["MINE"]
