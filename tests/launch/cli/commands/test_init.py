"""`hobus init`: copies, never overwrites, says what is what."""

from bench.builders import shipped_snapshot
from hobus.config.files import Layers
from hobus.config.snapshot import load_snapshot
from hobus.launch.app.started import import_agents
from hobus.launch.cli import main as cli
from hobus.launch.console import exit_codes


def test_all_files_are_copied_and_mean_the_same(tmp_path, capsys):
    """Fresh copies are what is shipped, byte for byte; they are the home's own now."""
    assert cli.run(["init", "--home", str(tmp_path)]) == exit_codes.OK
    assert "admin_config.json" in capsys.readouterr().out
    copied = load_snapshot(Layers(own=tmp_path / "config"))
    shipped = shipped_snapshot()
    assert {name: one.sha256 for name, one in copied.files.items()} == {
        name: one.sha256 for name, one in shipped.files.items()
    }
    assert {one.package_id for name, one in copied.files.items() if not name.startswith("packages/")} == {"PKG-HOME"}
    assert {name.partition("/")[0] for name, origin in copied.origins.items() if origin == "shipped"} == {"packages"}


def test_nothing_is_overwritten(tmp_path, capsys):
    """One file that is there already stops all of it, unless others are named."""
    mine = tmp_path / "config" / "admin_config.json"
    mine.parent.mkdir()
    mine.write_text("mine")
    assert cli.run(["init", "--home", str(tmp_path)]) == exit_codes.REFUSED
    assert "admin_config.json" in capsys.readouterr().err
    assert [path.name for path in mine.parent.iterdir()] == ["admin_config.json"] and mine.read_text() == "mine"
    assert cli.run(["init", "agents/ADMIN.json", "--home", str(tmp_path)]) == exit_codes.OK
    assert (tmp_path / "config" / "agents" / "ADMIN.json").exists() and mine.read_text() == "mine"


def test_the_name_of_an_agent_that_there_is_is_taken(tmp_path, capsys, monkeypatch):
    """Of a shipped one, and of one's own: with what to do instead; nothing is written."""
    monkeypatch.chdir(tmp_path)
    words = ["--home", str(tmp_path / "home"), "init", "--agent"]
    assert cli.run([*words, "ADMIN"]) == exit_codes.USAGE
    said = capsys.readouterr().err
    assert "the name is taken, by an agent (shipped)" in said
    assert cli.run([*words, "c-3"]) == exit_codes.USAGE
    assert "a name has a letter" in (said := capsys.readouterr().err) and "hobus init --agent clerk --home" in said
    assert list(tmp_path.iterdir()) == []
    (own := tmp_path / "home" / "config" / "agents").mkdir(parents=True)
    (own / "CLERK.json").write_text("{}")
    assert cli.run([*words, "clerk"]) == exit_codes.USAGE
    assert f"the name is taken, by an agent ({own}" in capsys.readouterr().err
    assert not (tmp_path / "clerk.py").exists()


def test_an_agent_is_written_whole_or_not_at_all(tmp_path, capsys, monkeypatch):
    """A file that is there already stays, and its test is not written; the same command succeeds once that is away."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_clerk.py").write_text("in the way")
    words = ["--home", str(tmp_path / "home"), "init", "--agent", "CLERK"]
    assert cli.run(words) == exit_codes.REFUSED
    assert "test_clerk.py: nothing was written" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["test_clerk.py"]
    (tmp_path / "test_clerk.py").unlink()
    assert cli.run(words) == exit_codes.OK
    assert "hobus dev clerk.py" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clerk.py", "test_clerk.py"]
    [clerk] = import_agents(tmp_path / "clerk.py")
    assert (clerk.agent_id, [one.__name__ for one in clerk.tools]) == ("CLERK", ["clerk_notes", "clerk_note"])
