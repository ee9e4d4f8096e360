"""An agent of a program is the files of a home, and what cannot be one is told with its mend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hobus.actors.ho1_executor.tools.entry_points import BadEntryPoint, load
from hobus.bus.tool import entry_of, tool
from hobus.config.assets import AgentFile
from hobus.launch.app.agent import Agent
from hobus.launch.sessions.client_errors import RequestError


@tool
def weather(city: str) -> str:
    """Weather of a city."""
    return f"Sunny in {city}"


def plain(city: str) -> str:
    """Not marked as a tool."""
    return city


def nested() -> Any:
    """A tool that no other process finds."""

    @tool
    def inner() -> str:
        """Inner."""
        return ""

    return inner


def test_it_compiles_to_the_files_of_a_home(tmp_path: Path) -> None:
    """Which are judged as any other's; its tool is imported by its file."""
    (tmp_path / "prompt.md").write_text("Be brief.\n")
    agent = Agent(
        "clerk", tmp_path / "prompt.md", tools=[weather, "list_tools"], approval=[weather], model="local/llama"
    )
    files = agent.to_files()
    document = AgentFile.model_validate(files["agents/CLERK.json"])
    assert (document.agent_id, document.tools, document.permissions.tools) == (
        "CLERK", ("weather", "list_tools"), ("weather", "list_tools"),
    )  # fmt: skip
    assert document.system_prompt == "Be brief.\n" and document.model is not None
    assert (document.model.provider_id, document.model.model_id) == ("local", "llama")
    [entry] = files["admin_config.json"]["tools"]["entry_points"]
    assert files["admin_config.json"]["tools"]["approval"] == ["weather"]
    assert entry_of(entry) == ("weather", f"{Path(__file__).resolve()}:weather")
    declared = load(entry)
    assert (declared.tool_id, declared.idempotent, declared.writes) == ("weather", False, True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "two words"}, "letters, digits"),
        ({"tools": [plain]}, "plain is no tool; write @tool"),
        ({"tools": [nested()]}, "move it to the top of"),
        ({"tools": [tool(eval("lambda city: city"))]}, "stands in no file"),  # noqa: S307 - as a notebook's cell
        ({"tools": [weather, weather]}, "weather is named twice"),
        ({"tools": [], "approval": [weather]}, "add it to tools"),
        ({"model": "llama"}, "expected PROVIDER/MODEL"),
    ],
)
def test_what_cannot_be_one_is_told_at_once(given: dict[str, Any], said: str) -> None:
    """Where it is written, before any cluster starts."""
    with pytest.raises(RequestError, match=said):
        Agent(**({"name": "clerk", "instructions": "Be brief."} | given))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no file"),
        ("raise SystemExit", "cannot be imported"),
        ("def it(): pass", "decorate the function"),
        ("it = 1", "decorate the function"),
        ("other = 1", "has no attribute 'it'"),
    ],
)
def test_a_file_that_holds_no_such_tool_says_why(tmp_path: Path, text: str | None, said: str) -> None:
    """Whatever its import does."""
    file = tmp_path / f"told_{abs(hash((text, said)))}.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(BadEntryPoint, match=said):
        load(f"it = {file}:it")


def test_a_file_of_a_package_is_imported_as_that_packages(tmp_path: Path) -> None:
    """So that its relative imports hold; a name that is taken is told."""
    package = tmp_path / "told_package"
    package.mkdir()
    for name, text in {
        "__init__.py": "",
        "words.py": "WORD = 'yes'",
        "tools.py": "from hobus import tool\nfrom .words import WORD\n@tool\ndef said() -> str:\n    'Says it.'\n    return WORD",
    }.items():
        (package / name).write_text(text)
    assert load(f"said = {package}/tools.py:said").description == "Says it."
    (tmp_path / "json.py").write_text("")
    with pytest.raises(BadEntryPoint, match="another module is called json"):
        load(f"said = {tmp_path}/json.py:said")
