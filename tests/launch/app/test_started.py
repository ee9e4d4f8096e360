"""Agents of a Python file, and their documents in a home beside what a person wrote there."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from hobus.launch.app.agent import Agent
from hobus.launch.app.started import import_agents, take_agents_in, take_in
from hobus.launch.cluster.home import Home, make_home
from hobus.launch.console.errors import CommandError
from tests.launch.app.test_agent import weather


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no file"),
        ("def x(:", r"\.py:1\)"),
        ("import nothing_like_that", "nothing_like_that"),
        ("x = 1", "has no Agent at its top"),
        ("from hobus import Agent\na = Agent('a', 'x')\nb = Agent('A', 'y')", r"A \(.*\.py:2, .*\.py:3\)"),
        ("from hobus import Agent\n\n\na = Agent('admin', 'x')", r"has an agent ADMIN.*\.py:4$"),
        (
            "from hobus import Agent\nb = Agent('b', 'y', tools=[Agent('a', 'x')])",
            r"\.py:2: b: tools: a: an agent that is none of this cluster's; add it to agents",
        ),
        ("from hobus import Agent\na = Agent('a b', 'x')", r"^'a b': name: a letter.*\.py:2$"),
        ("from hobus import Agent\n\na = Agent('a', 5)", r"^'a': instructions: a text.*\.py:3$"),
        ("import os, signal\nfor _ in '12':\n    os.kill(os.getpid(), signal.SIGALRM)", r"more than 30 s; put.*\.py:3"),
    ],
)
def test_a_file_that_is_no_app_is_told(tmp_path: Path, text: str | None, said: str) -> None:
    """With its place, before anything is written."""
    app = tmp_path / f"app_{abs(hash(text))}.py"
    if text is not None:
        app.write_text(text)
    with pytest.raises(CommandError, match=said), take_agents_in(make_home(tmp_path / "home"), import_agents(app)):
        pass
    assert not (tmp_path / "home").exists()


@pytest.mark.slow
def test_an_import_that_tries_again_for_ever_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it takes for a fault of its own, also everything."""
    monkeypatch.setattr("hobus.launch.app.started.IMPORT_LONG_S", 1)
    monkeypatch.setattr("hobus.launch.app.started.IMPORT_MAX_S", 2)
    for caught in (
        "OSError",
        "Exception",
        "BaseException as error:\n        seen += 1\n        if seen > 1: raise\n    except ValueError",
    ):
        app = tmp_path / f"tries_{len(caught)}.py"
        app.write_text(
            f"import time\nseen = 0\nwhile True:\n    try:\n        time.sleep(60)\n    except {caught}:\n        pass"
        )
        with pytest.raises(CommandError, match="more than 2 s"):
            import_agents(app)


def test_an_import_that_takes_long_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = tmp_path / "slow_app.py"
    app.write_text(
        "import os, signal\nfrom hobus import Agent\nos.kill(os.getpid(), signal.SIGALRM)\na = Agent('a', 'x')"
    )
    assert [one.name for one in import_agents(app)] == ["a"]
    assert f"importing {app} takes long (30 s at most)" in capsys.readouterr().err


def test_what_a_person_wrote_in_the_home_stays(tmp_path: Path) -> None:
    """Settings, other tools and approvals, who answers by default; the same agents again change nothing."""
    home = make_home(tmp_path)
    home.config.mkdir()
    own = {
        "host": {"agent_id": "OTHER"}, "gateway": {"attempts_max": 2},
        "tools": {"entry_points": ["weather = a:b", "search_mail = a:c"], "approval": ["search_mail"], "timeout_ms": 5},
    }  # fmt: skip
    (home.config / "admin_config.json").write_text(json.dumps(own))
    clerk = Agent("clerk", "Be brief.", tools=[weather], approval=[weather])
    with take_agents_in(home, [clerk]) as changed:
        pass
    assert [path.name for path in changed] == ["CLERK.json", "admin_config.json"]
    settings = json.loads((home.config / "admin_config.json").read_text())
    [entry] = clerk.to_files()["admin_config.json"]["tools"]["entry_points"]
    assert settings == own | {
        "tools": {"entry_points": [entry, "search_mail = a:c"], "approval": ["search_mail", "weather"], "timeout_ms": 5}
    }
    with take_agents_in(home, [clerk]) as changed:
        assert changed == []
    (home.config / "admin_config.json").write_text("[")
    with pytest.raises(CommandError, match=r"admin_config\.json"), take_agents_in(home, [clerk]):
        pass


TOOL = """from pathlib import Path
from hobus import Agent, tool
@tool
def {tool}(city: str) -> str:
    'Weather of a city.'
    return city
{agent} = Agent("{agent}", {said}, tools=[{tool}], approval=[{tool}])
"""


JUST = "from hobus import Agent\n\ncook = Agent('cook', 'Hi.', {})\n"


def taken(home: Home, app: Path, text: str) -> None:
    """The file with this text, as a fresh process takes it in."""
    app.write_text(text)
    sys.modules.pop(app.stem, None)
    shutil.rmtree(app.with_name("__pycache__"), ignore_errors=True)
    take_in(home, import_agents(app), app)


@pytest.mark.slow
def test_what_a_program_no_longer_has_goes_and_what_others_have_stays(tmp_path: Path) -> None:
    """Its agents, their tools and approvals, and who answers by default; other programs' and a person's stay."""
    home = make_home(tmp_path / "home")
    home.config.mkdir(parents=True)
    (home.config / "admin_config.json").write_text(json.dumps({"tools": {"timeout_ms": 60000}}))
    app, other = tmp_path / "taken_app.py", tmp_path / "taken_other.py"
    taken(home, app, TOOL.format(tool="weather", agent="clerk", said="'Hi.'"))
    taken(home, other, TOOL.format(tool="tides", agent="sailor", said="'Hi.'"))
    taken(home, app, TOOL.format(tool="forecast", agent="cook", said="'Hi.'"))
    settings = json.loads((home.config / "admin_config.json").read_text())
    assert sorted(path.stem for path in (home.config / "agents").iterdir()) == ["COOK", "SAILOR"]
    assert settings["host"] == {"agent_id": "COOK"}
    assert settings["tools"] == {
        "timeout_ms": 60000, "approval": ["tides", "forecast"],
        "entry_points": [f"tides = {other}:tides", f"forecast = {app}:forecast"],
    }  # fmt: skip


@pytest.fixture(scope="module")
def began(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, Path]:
    """A home that a program was taken into, and its file: one for all that is refused."""
    home, app = make_home(tmp_path_factory.mktemp("began") / "home"), tmp_path_factory.mktemp("app") / "refused_app.py"
    taken(home, app, TOOL.format(tool="weather", agent="clerk", said="'Hi.'"))
    return home, app


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TOOL.format(tool="list_tools", agent="cook", said="'Hi.'"), r"\.py:7: cook: .*a built-in tool"),
        (
            TOOL.format(tool="other", agent="cook", said="'Hi.'").replace(": str)", ")"),
            r"\.py:7: cook: tools: 'other': .*\.py:3: parameter city has no annotation; add one$",
        ),
        (TOOL.format(tool="other", agent="cook", said="'Hi.'").replace("@tool", "@tool(timeout=0)"), r"\.py:3: its"),
        (
            TOOL.format(tool="other", agent="cook", said="'Hi.'").replace("s=[other]", "s=[other, 'x__*']", 1),
            r"\.py:7: cook: tools: 'x__\*': no MCP server 'x'",
        ),
        (
            TOOL.format(tool="other", agent="cook", said="'Hi.'").replace("s=[other]", "s=[other, 'othr']", 1),
            r"\.py:7: cook: tools: 'othr': there is no such tool or agent; did you mean 'other'\?",
        ),
        (TOOL.format(tool="a__b", agent="cook", said="'Hi.'"), r"\.py:7: cook: tools: 'a__b': a tool's name has"),
        (JUST.format("model='nix/da'"), r"\.py:3: cook: model: no provider 'nix' .*or add it: hobus provider add"),
        (JUST.format("output={'type': 'objekt'}"), r"\.py:3: cook: output: does not describe an object; write "),
        (JUST.format("budget={'session': 'nix'}"), r"\.py:3: cook: budget\.session: no setting budget\.nix; name one"),
        (JUST.format("tools=['cook']"), r"\.py:3: cook: tools: 'cook': there is .*did you mean 'COOK'\?"),
        (JUST.format("tools=['COOK']"), r"\.py:3: cook: tools: a cycle of agents, COOK -> COOK; remove one"),
        (JUST.format("memory='no'"), r"\.py:3: cook: memory: is text; write true or false"),
        (TOOL.format(tool="other", agent="cook", said="' '"), r"\.py:7: cook: instructions: is blank"),
        (
            TOOL.format(tool="other", agent="cook", said="Path('nothere.md')"),
            r"\.py:7: cook: instructions: /.*/nothere\.md cannot be read",
        ),
        (TOOL.format(tool="other", agent="cook", said=f"Path({sys.executable!r})"), "is not UTF-8"),
    ],
)
def test_where_a_file_cannot_be_taken_in_the_home_is_as_it_was(began: tuple[Home, Path], text: str, said: str) -> None:
    """So that it starts as before, for other programs too; told with the file's own place."""
    home, app = began
    before = {path: path.read_bytes() for path in home.config.rglob("*") if path.is_file()}
    with pytest.raises(CommandError, match=said) as told:
        taken(home, app, text)
    assert str(app) in told.value.message
    assert {path: path.read_bytes() for path in home.config.rglob("*") if path.is_file()} == before
