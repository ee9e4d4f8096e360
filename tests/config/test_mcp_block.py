"""A pasted `mcpServers` block: what it becomes, and every fault at the path where it stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hobus.bus.errors import ConfigError
from hobus.config.files import Layers
from hobus.config.mcp_block import PastedServer
from hobus.config.secret_refs import looks_secret, secret_argument
from hobus.config.snapshot import Snapshot, load_snapshot

BASE = {
    "tools": None,
    "reads": [],
    "idempotent": [],
    "connect_timeout_ms": 10000,
    "timeout_ms": None,
    "per": "worker",
    "elsewhere": False,
}


def loaded(tmp_path: Path, servers: Any, **tools: Any) -> Snapshot:
    """The configuration of a home whose file has this block."""
    own = {"mcpServers": servers} | ({"tools": tools} if tools else {})
    (tmp_path / "admin_config.json").write_text(json.dumps(own))
    return load_snapshot(Layers(own=tmp_path))


def faults(tmp_path: Path, servers: Any, **tools: Any) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, servers, **tools)
    return [fault.replace(f"{tmp_path / 'admin_config.json'}: ", "") for fault in refused.value.facts["faults"]]


def test_a_block_is_read_as_servers_that_were_written_out(tmp_path):
    snapshot = loaded(
        tmp_path,
        {
            "time": {"command": "uvx", "args": ["mcp-server-time", "--local-timezone", "UTC"]},
            "github": {
                "type": "stdio", "command": "docker", "args": ["run", "-i"],
                "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "LANG": "C", "API_KEY": "file:~/.key", "B_TOKEN": "${env:B}"},
            },
            "far": {
                "type": "streamable-http", "url": "https://example.org/mcp", "headers": {"Authorization": "env:AUTH"},
                "profile": "reading", "tools": ["a", "b"], "connect_timeout_ms": 5,
            },
            "also": {"url": "http://127.0.0.1:1/mcp"},
            "off": {"command": "x", "disabled": True},
        },
    )  # fmt: skip
    servers = snapshot.config.model_dump(mode="json")["tools"]["mcp_servers"]
    assert servers == {
        "time": BASE | {"transport": "stdio", "command": ["uvx", "mcp-server-time", "--local-timezone", "UTC"], "env": {}},
        "github": BASE
        | {
            "transport": "stdio",
            "command": ["docker", "run", "-i"],
            "env": {"GITHUB_TOKEN": "env:GITHUB_TOKEN", "LANG": "C", "API_KEY": "file:~/.key", "B_TOKEN": "env:B"},
        },
        "far": BASE
        | {
            "transport": "http", "url": "https://example.org/mcp", "headers": {"Authorization": "env:AUTH"},
            "reads": ["*"], "tools": ["a", "b"], "connect_timeout_ms": 5,
        },
        "also": BASE | {"transport": "http", "url": "http://127.0.0.1:1/mcp", "headers": {}},
    }  # fmt: skip
    assert Snapshot.from_bytes(snapshot.to_bytes()) == snapshot


def test_the_profile_of_a_server_that_names_none_is_a_setting(tmp_path):
    mine = BASE | {"elsewhere": True}
    snapshot = loaded(tmp_path, {"a": {"command": "x"}}, mcp_profiles={"mine": mine}, mcp_profile="mine")
    assert snapshot.config.tools.mcp_servers["a"].elsewhere
    assert "careful" in snapshot.config.tools.mcp_profiles


WRONG = [
    ("mcp-server-time", "mcpServers.a: is not an object; write"),
    ({}, "mcpServers.a: needs either command"),
    ({"command": "x", "url": "http://h/"}, "mcpServers.a: needs either command"),
    ({"command": "x", "arg": []}, "mcpServers.a.arg: unknown key; did you mean 'args'?"),
    ({"command": "x", "args": "-v"}, "mcpServers.a.args: is text; write a list"),
    ({"command": "x", "env": {"N": 1}}, "mcpServers.a.env.N: is 1; write text"),
    ({"command": "x", "type": "http"}, "mcpServers.a: type http does not fit"),
    ({"url": "http://h/sse", "type": "sse"}, "mcpServers.a: the transport sse, older than"),
    ({"url": "http://h/", "transport": "pigeon"}, "mcpServers.a: type 'pigeon': one of stdio, http"),
    ({"url": "http://h/", "type": "http", "transport": "sse"}, "mcpServers.a: type and transport say different"),
    ({"url": "http://h/", "args": ["x"]}, "mcpServers.a: args and env need a command"),
    ({"command": "x", "headers": {"a": "b"}}, "mcpServers.a: headers need a url"),
    ({"command": "x", "autoApprove": ["*"]}, "mcpServers.a.autoApprove: remove it: permissions.tools"),
    ({"command": "x", "profile": "brave"}, "mcpServers.a.profile: there is no profile 'brave' in tools.mcp_profiles; there are careful, reading"),
    ({"command": "x", "env": {"A": "Bearer ${T}"}}, "mcpServers.a.env.A: a variable must be the whole value"),
    ({"command": "x", "env": {"A": "${input:t}"}}, "mcpServers.a.env.A: a variable must be the whole value"),
    ({"command": "x", "env": {"GITHUB_TOKEN": "abc"}}, "mcpServers.a.env.GITHUB_TOKEN: a secret must not stand here; write `env:NAME` or `file:PATH`"),
    ({"command": "x", "env": {"DB": "postgres://me:" + "pw@h/db"}}, "mcpServers.a.env.DB: a secret must not stand here"),
    ({"command": "x", "args": ["--key", "sk-" + "a" * 20]}, "mcpServers.a.args: an argument looks like a secret"),
    ({"command": "x", "args": ["--password", "abc"]}, "mcpServers.a.args: an argument looks like a secret"),
    ({"command": "x", "args": ["run", "--api-key=abc"]}, "mcpServers.a.args: an argument looks like a secret"),
    ({"command": "x", "args": ["-H", "Authorization: Bearer 12345678"]}, "mcpServers.a.args: an argument looks like a secret"),
    ({"command": "x", "env": {"PGPASSWORD": "abc"}}, "mcpServers.a.env.PGPASSWORD: a secret must not stand here"),
    ({"command": "x", "env": {"MY_PASS": "abc"}}, "mcpServers.a.env.MY_PASS: a secret must not stand here"),
    ({"url": "https://h/y?token=abc"}, "mcpServers.a.url: holds what looks like a secret"),
    ({"url": "http://h/", "headers": {"Authorization": "Bearer 12345678"}}, "mcpServers.a.headers.Authorization: a secret"),
    ({"url": "ftp://h/"}, "mcpServers.a.url: expected http"),
    ({"command": " "}, "mcpServers.a.command: blank text; name the program"),
    ({"command": "x", "reads": ["y"], "tools": ["z"]}, "mcpServers.a.reads: 'y' is not in its `tools`"),
    ({"command": "x", "connect_timeout_ms": 0}, "mcpServers.a.connect_timeout_ms: is 0; write a number greater than 0"),
]  # fmt: skip


@pytest.mark.parametrize(("server", "said"), WRONG)
def test_a_fault_stands_at_its_path_with_what_mends_it(tmp_path, server, said):
    [told] = faults(tmp_path, {"a": server})
    assert told.startswith(said)
    assert not any(secret in told for secret in ("sk-a", "12345678", "abc"))


def test_names_and_blocks_that_are_none(tmp_path):
    assert faults(tmp_path, {"Brave_Search": {"command": "x"}})[0].startswith(
        "mcpServers.Brave_Search: a server's name"
    )
    written_out = BASE | {"transport": "stdio", "command": ["x"], "env": {}}
    assert faults(tmp_path, {"a": {"command": "x"}}, mcp_servers={"a": written_out}) == [
        "mcpServers.a: tools.mcp_servers has a server of this name, too; remove one of them"
    ]
    assert faults(tmp_path, ["a"])[0].startswith("mcpServers: is not an object")
    assert faults(tmp_path, {}, mcp_profile="none")[0].startswith("tools.mcp_profile: there is no profile 'none'")


def test_all_faults_of_a_block_are_told_at_once(tmp_path):
    assert len(faults(tmp_path, {"a": {"command": "x", "arg": 1, "typ": "x"}, "b": {}, "c": {"url": 1}})) == 4


EVERYTHING_WRONG = {
    "command": "x", "args": ["--password", "abc"], "arg": 1, "autoApprove": ["*"], "profile": "brave", "type": "http",
    "env": {"API_KEY": "abc", "A": "Bearer ${T}", "N": "1"}, "reads": ["y"], "tools": ["z"], "connect_timeout_ms": 0,
}  # fmt: skip


def test_all_faults_of_one_server_are_told_at_once_with_their_file(tmp_path):
    found = faults(tmp_path, {"a": EVERYTHING_WRONG, "b": {"command": "y", "env": {"B_TOKEN": "abc"}}})
    paths = [fault.partition(": ")[0] for fault in found]
    assert sorted(paths) == ["mcpServers.a.arg", "mcpServers.a.autoApprove", "mcpServers.a.connect_timeout_ms"]
    with pytest.raises(ConfigError) as refused:
        load_snapshot(Layers(own=tmp_path))
    assert all(one.startswith(f"{tmp_path / 'admin_config.json'}: ") for one in refused.value.facts["faults"])
    assert "abc" not in refused.value.detail


@pytest.mark.parametrize(
    "value",
    ["ghp_" + "a" * 36, "github_pat_" + "a" * 30, "sk-proj-" + "a" * 30, "AKIA" + "A" * 16, "xoxb-" + "1" * 20,
     "Bearer abcdefgh", "https://me:" + "secret@example.org/x", "-----BEGIN " + "RSA PRIVATE KEY-----", "glpat-" + "a" * 20],
)  # fmt: skip
def test_keys_are_known_by_their_form(value):
    assert looks_secret(value)


@pytest.mark.parametrize(
    "value", ["C.UTF-8", "/usr/bin/x", "https://example.org/mcp", "task-list", "env:GITHUB_TOKEN", "a@b.c"]
)
def test_plain_values_are_none(value):
    assert not looks_secret(value)


@pytest.mark.parametrize(
    "arguments", [["--token"], ["--token", "--verbose"], ["--token-file", "t"], ["--key", "k.pem"], ["password", "x"]]
)
def test_flags_without_a_secret_are_none(arguments):
    assert not secret_argument(arguments)


def test_every_field_says_what_it_is():
    schema = PastedServer.model_json_schema()["properties"]
    assert all(field.get("description") for field in schema.values())
