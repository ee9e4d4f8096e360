"""A program's agents become a package, which another home takes through the same gates."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hobus.launch.app.started import import_agents, take_in
from hobus.launch.cli import main as cli
from hobus.launch.cluster.home import make_home
from hobus.launch.console import exit_codes

pytestmark = pytest.mark.slow

APP = """from hobus import Agent, tool
@tool
def weather(city: str) -> str:
    'Weather of a city.'
    return city
clerk = Agent("clerk_7", "Be brief.", tools=[weather], approval=[weather], model="openai:gpt-5")
cook = Agent("cook", "Be kind.")
"""


def test_a_package_of_a_program_is_built_and_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a framework and a spec of its own; what it cannot bring is said, and a home has it before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "packaged_app", raising=False)
    Path("packaged_app.py").write_text(APP)
    assert cli.run(["package", "key", "my.key"]) == exit_codes.OK
    [clerk, _] = import_agents(Path("packaged_app.py"))
    openai = json.dumps(clerk.to_files()["admin_config.json"]["gateway"]["providers"]["openai"])
    here, home = (["--home", str(tmp_path / name)] for name in ("home", "other"))
    assert cli.run([*home, "config", "set", "gateway.providers.openai", openai]) == exit_codes.OK
    entry = json.dumps([f"weather = {tmp_path}/packaged_app.py:weather"])
    assert cli.run([*home, "config", "set", "tools.entry_points", entry]) == exit_codes.OK
    assert cli.run([*home, "config", "set", "tools.approval", '["weather"]']) == exit_codes.OK
    build = [*here, "package", "build", "packaged_app.py", "--key", "my.key"]
    assert cli.run([*build, "--version", "1.2.0", "--framework", "FMWK-321"]) == exit_codes.OK
    said = capsys.readouterr().out
    needs = "weather = /path/to/packaged_app.py:weather; tools.approval: weather; gateway.providers: openai"
    assert "PKG-CLERK-7-001 1.2.0, 5 files" in said and needs in said
    install = ["package", "install", "PKG-CLERK-7-001-1.2.0.hobus-package"]
    assert cli.run(["--home", str(tmp_path / "bare"), *install]) == exit_codes.INTEGRITY
    told = capsys.readouterr().err
    assert "do before what its maker says" in told and needs in told
    assert cli.run([*home, *install]) == exit_codes.OK
    capsys.readouterr()
    assert cli.run([*home, "agent", "show", "CLERK_7", "--json"]) == exit_codes.OK
    shown = json.loads(capsys.readouterr().out)
    assert (shown["package_id"], shown["framework_id"], shown["model"]) == (
        "PKG-CLERK-7-001", "FMWK-321", "openai/gpt-5",
    )  # fmt: skip
    assert shown["tools"] == shown["approval"] == ["weather"]


@pytest.mark.parametrize("is_other", [False, True], ids=["tool-less", "other tools"])
def test_it_is_built_in_the_home_of_another_program(
    is_other: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent that answers there is in none of the package's files, nor a matter of it."""
    monkeypatch.chdir(tmp_path)
    for name in ("packaged_app", "served_app"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    Path("packaged_app.py").write_text(
        APP if is_other else "from hobus import Agent\npoet = Agent('poet', 'Be brief.')\n"
    )
    Path("served_app.py").write_text("from hobus import Agent\nclerk = Agent('clerk', 'Be kind.')\n")
    home = make_home(tmp_path / "home")
    take_in(home, import_agents(Path("served_app.py")), Path("served_app.py"))
    assert cli.run(["package", "key", "my.key"]) == exit_codes.OK
    build = ["--home", str(home.root), "package", "build", "packaged_app.py", "--key", "my.key"]
    assert cli.run(build) == exit_codes.OK, capsys.readouterr().err
    assert cli.run([*build, "--version", "1.0"]) == exit_codes.USAGE
    assert "--version '1.0': expected three numbers" in capsys.readouterr().err
    assert cli.run([*build, "--framework", "x"]) == exit_codes.USAGE
    said = capsys.readouterr().err
    assert "--framework 'x': expected `FMWK-` and three digits" in said and "draft" not in said


def test_what_no_package_is_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the gates that judge every package; and there is no file."""
    words = ["--framework", "FMWK-107"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "packaged_app", raising=False)
    Path("packaged_app.py").write_text(APP)
    assert cli.run(["package", "key", "my.key"]) == exit_codes.OK
    assert cli.run(["package", "build", "packaged_app.py", "--key", "my.key", *words]) == exit_codes.INTEGRITY
    assert "'FMWK-107' is defined by another file too" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.hobus-package"))
