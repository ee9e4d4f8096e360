"""`hobus config`: shows, compares and changes settings; what is refused changes nothing."""

from __future__ import annotations

import json
import os

import pytest

from hobus.config.files import Layers
from hobus.config.snapshot import load_snapshot
from hobus.launch.cli import main as cli
from hobus.launch.cluster import run_file
from hobus.launch.cluster.home import make_home, prepare
from hobus.launch.cluster.run_file import RunFile
from hobus.launch.console import exit_codes


@pytest.fixture
def config(memory_path, capsys):
    def run(*words: str, code: int = exit_codes.OK) -> str:
        assert cli.run(["--home", str(memory_path), "config", *words]) == code
        printed = capsys.readouterr()
        return printed.out + printed.err

    return run


def test_a_setting_is_shown_changed_compared_and_taken_back(config, memory_path):
    """The file holds only what differs, and the next start uses it."""
    assert "20" in config("show", "ho2.history_turns_max")
    assert "ho2.history_turns_max = 256" in config("set", "ho2.history_turns_max", "256")
    own = memory_path / "config" / "admin_config.json"
    assert json.loads(own.read_text()) == {"ho2": {"history_turns_max": 256}} and own.parent.stat().st_mode & 0o077 == 0
    assert load_snapshot(Layers(own=memory_path / "config")).config.ho2.history_turns_max == 256
    config("set", "tools.approval", '["pay", "delete_*"]')
    config("set", "bus.listen", "127.0.0.1:7411")
    compared = json.loads(config("diff", "--json"))
    assert compared["settings"] == [
        {"setting": "bus.listen", "shipped": "", "here": "127.0.0.1:7411"},
        {"setting": "tools.approval", "shipped": [], "here": ["pay", "delete_*"]},
        {"setting": "ho2.history_turns_max", "shipped": 20, "here": 256},
    ]
    rows = {row["setting"]: row for row in json.loads(config("show", "--json"))["settings"]}
    assert rows["ho2.history_turns_max"]["origin"] == str(own) and rows["host.agent_id"]["origin"] == "shipped"
    assert str(own) in config("show", "ho2.history_turns_max", "--origin") and "shipped" in config(
        "show", "host", "--origin"
    )
    config("unset", "ho2.history_turns_max")
    config("unset", "tools")
    config("unset", "bus.listen")
    assert "nothing differs from what is shipped" in config("diff") and json.loads(own.read_text()) == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("set", "ho2.history_turns_mx", "1"), "ho2.history_turns_mx: unknown key"),
        (("set", "ho2.history_turns_max", "-1"), "greater than 0"),
        (("set", "ho2", "7"), "ho2: "),
        (("set", "http.body_max_bytes.x", "1"), "http.body_max_bytes is not an object"),
        (("set", "", "1"), "no path of a setting"),
        (("unset", "ho2.history_turns_max"), "as it is shipped"),
        (("set", "tools.approval", '["\\ud800"]'), "not valid text"),
        (("set", "." * 40_000, "1"), "no path of a setting"),
        (("set", "a" + ".a" * 4_000, "1"), "no path of a setting"),
        (("show", "nothing"), "there is no setting nothing; they are in bus, "),
        (
            ("show", "ho2.history_turns_mx"),
            "there is no setting ho2.history_turns_mx; did you mean ho2.history_turns_max",
        ),
        (("unset", "nope"), "there is no setting nope; they are in bus, "),
        (
            ("unset", "history_turns_max"),
            "there is no setting history_turns_max; did you mean ho2.history_turns_max",
        ),
        (("unset", "ho3.gate_mod"), "did you mean ho3.gate_mode"),
    ],
)
def test_what_cannot_be_changes_nothing_and_says_why(config, memory_path, words, said):
    assert said in config(*words, code=exit_codes.USAGE)
    assert not (memory_path / "config").exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"ho2": {"history_turns_max": 1}, "ho2": {}}', "\ud800"])
def test_a_broken_file_is_named_and_left_as_it_is(config, memory_path, text):
    (memory_path / "config").mkdir()
    own = memory_path / "config" / "admin_config.json"
    own.write_bytes(text.encode("utf-8", "surrogatepass"))
    for words in (("show",), ("diff",), ("set", "ho2.history_turns_max", "1"), ("unset", "ho2")):
        assert str(own) in config(*words, code=exit_codes.USAGE)
    assert own.read_bytes() == text.encode("utf-8", "surrogatepass")


def test_a_secret_that_was_written_out_is_hidden_and_it_is_said_where(config, memory_path):
    """By its name, by its form, as an argument, in an address; a reference is none."""
    secret = "hunter2" + "x" * 10
    (memory_path / "config").mkdir()
    server = {
        "command": "x", "args": ["run", "--password", secret], "url": f"https://h/?token={secret}",
        "env": {"API_KEY": secret, "DB": "postgres://me:" + secret + "@h/db", "OK_TOKEN": "env:OK", "LANG": "C"},
    }  # fmt: skip
    (memory_path / "config" / "admin_config.json").write_text(
        json.dumps({"mcpServers": {"a": server}, "api_key": secret})
    )
    paths = ["api_key", "mcpServers.a.args", "mcpServers.a.env.API_KEY", "mcpServers.a.env.DB", "mcpServers.a.url"]
    for words in (("show",), ("show", "--origin"), ("diff",)):
        said = config(*words)
        assert "hunter2" not in said, words
        hidden = [line.split()[1] for line in said.splitlines() if line.startswith("hidden: ")]
        assert sorted(hidden) == paths
    document = json.loads(config("show", "mcpServers", "--json"))
    assert sorted(document["hidden"]) == paths[1:]
    values = {row["setting"]: row["value"] for row in document["settings"]}
    assert values["mcpServers.a.args"] == ["run", "--password", "(hidden)"]
    assert {"env:OK", "C"} <= {str(value) for value in values.values()}, "what is no secret is shown"
    assert json.loads(config("diff", "--json"))["hidden"]


def test_files_of_a_home_are_part_of_what_differs(config, memory_path):
    cli.run(["--home", str(memory_path), "init", "agents/ADMIN.json"])
    assert "agents/ADMIN.json" in config("diff")
    assert json.loads(config("diff", "--json"))["files"] == ["agents/ADMIN.json"]


def test_the_schema_is_one(config):
    assert json.loads(config("schema"))["properties"]["ho2"]
    assert json.loads(config("schema", "--template"))["properties"]["pipeline"]


def test_a_link_to_the_file_stays_one_and_a_pipe_is_refused(config, memory_path):
    (memory_path / "config").mkdir()
    kept, own = memory_path / "kept.json", memory_path / "config" / "admin_config.json"
    kept.write_text("{}")
    own.symlink_to(kept)
    config("set", "ho2.history_turns_max", "256")
    assert own.is_symlink() and json.loads(kept.read_text()) == {"ho2": {"history_turns_max": 256}}
    own.unlink()
    os.mkfifo(own)
    for words in (("show",), ("set", "ho2.history_turns_max", "1")):
        assert "not a plain file" in config(*words, code=exit_codes.USAGE)


def test_what_a_cluster_that_runs_goes_by_already_is_not_said_to_need_a_stop(config, memory_path, monkeypatch):
    """Set back, or taken back, to what runs: nothing differs; else the mend is that of all that differs."""
    home = make_home(memory_path)
    prepare(home)
    snapshot = load_snapshot()
    home.snapshot.write_bytes(snapshot.to_bytes())
    run = RunFile(
        phase="running", launcher_pid=1, launcher_mark="m", started_at=1.0, sockets="/s", drain_bound_s=1.0,
        config_digest=snapshot.digest, config_origin="shipped", children=[],
    )  # fmt: skip
    run_file.write(home.run_file, run)
    monkeypatch.setattr("hobus.launch.cli.commands.config.find_gone", lambda _: None)
    assert "in force after hobus down" in config("set", "bus.attempts_max", "99")
    said = config("set", "ho2.history_turns_max", "99")
    assert "in force after hobus down" in said, "a reload would refuse the other one"
    config("unset", "ho2.history_turns_max")
    assert "already uses it" in config("unset", "bus.attempts_max")
    assert "in force after hobus reload" in config("set", "ho2.history_turns_max", "99")
