"""An agent of a program is the files of a home, and what cannot be one is told with its mend."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from bench.builders import changed, shipped_snapshot
from hobus.actors.ho1_executor.tools.entry_points import BadEntryPoint, load
from hobus.bus.messages.session import TurnResult
from hobus.bus.tool import parse_entry_point, tool
from hobus.config.assets import AgentFile
from hobus.config.schema import AdminConfig
from hobus.config.tool_faults import find_tool_faults
from hobus.launch.app.agent import Agent
from hobus.launch.sessions.client_errors import RequestError


@tool
def weather(city: str) -> str:
    """Weather of a city."""
    return f"Sunny in {city}"


def plain(city: str) -> str:
    """Not marked as a tool."""
    return city


@tool(idempotent=True, writes=False)
def is_far(city: str) -> bool:
    """Far away."""
    return city == "Tokyo"


@tool(idempotent=True, writes=False)
def is_late(hour: int) -> bool:
    """Late."""
    return hour > 20


def nested() -> Any:
    """A tool that no other process finds."""

    @tool
    def inner() -> str:
        """Inner."""
        return ""

    return inner


def in_a_cell() -> Any:
    """A tool that stands in no file, as in a notebook."""
    made: dict[str, Any] = {"tool": tool}
    exec("@tool\ndef in_a_cell(): pass", made)  # noqa: S102 - as a notebook does
    return made["in_a_cell"]


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
    assert parse_entry_point(entry) == ("weather", f"{Path(__file__).resolve()}:weather")
    declared = load(entry)
    assert (declared.tool_id, declared.idempotent, declared.writes) == ("weather", False, True)


def test_another_agent_is_a_tool_by_its_id() -> None:
    """Given as it is, or by the name that the cluster has it under, once or twice; its calls may wait for an approval."""
    desk = Agent("desk", "Be kind.", tools=[weather])
    files = Agent("clerk", "x", tools=[desk, weather], approval=[desk]).to_files()
    document = AgentFile.model_validate(files["agents/CLERK.json"])
    assert (document.tools, document.permissions.tools) == (("DESK", "weather"), ("DESK", "weather"))
    assert files["admin_config.json"]["tools"]["approval"] == ["DESK"]
    assert Agent("clerk", "x", tools=["DESK", weather, weather, desk], approval=["DESK"]).to_files() == files


def test_a_rule_of_an_approval_is_a_tool_that_the_agent_is_not_offered() -> None:
    """The settings name it; `True` is every call."""
    agent = Agent("clerk", "x", tools=[weather, "list_tools"], approval={"weather": is_far, "list_tools": True})
    files = agent.to_files()
    said = files["admin_config.json"]["tools"]
    assert said["approval"] == ["weather if is_far", "list_tools"]
    assert [parse_entry_point(one)[0] for one in said["entry_points"]] == ["weather", "is_far"]
    assert files["agents/CLERK.json"]["tools"] == ["weather", "list_tools"]
    config = AdminConfig.model_validate(
        changed(
            shipped_snapshot().config.model_dump(),
            [("tools.approval", said["approval"]), ("tools.entry_points", said["entry_points"][:1])],
        )
    )
    assert config.tools.approval_rules == [("weather", "is_far")]
    assert find_tool_faults(config.tools, {}) == [
        "tools.approval: weather if is_far: 'is_far' is none of tools.entry_points; add it there"
    ]


def result(response: str, outcome: Any) -> TurnResult:
    """A turn's end."""
    return TurnResult(response=response, outcome=outcome, session_id="", run_id=None, input_id="i")


class Forecast(BaseModel):
    """An answer."""

    city: str
    degrees: int


@dataclass
class Words:
    """Another."""

    said: list[str]


def test_its_output_is_a_schema_of_its_file_and_is_read_back_typed() -> None:
    """A pydantic model, a dataclass, or a JSON Schema; of an answer that is none is said so."""
    clerk = Agent("clerk", "Be brief.", output=Forecast)
    document = AgentFile.model_validate(clerk.to_files()["agents/CLERK.json"])
    assert document.output_schema == Forecast.model_json_schema() and document.memory
    assert clerk.parse(result('{"city": "Paris", "degrees": 20}', "success")).degrees == 20
    assert Agent("a", "x", output=Words).parse(result('{"said": ["a"]}', "success")) == Words(["a"])
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    plain = Agent("a", "x", output=schema, memory=False, budget={"session": "agent_token_limit"})
    document = AgentFile.model_validate(plain.to_files()["agents/A.json"])
    assert (document.output_schema, document.memory) == (schema, False)
    assert document.budget == {"session": "agent_token_limit"}
    assert plain.parse(result('{"n": 1}', "success")) == {"n": 1}
    with pytest.raises(RequestError, match=r"no clerk's output \(degraded\)"):
        clerk.parse(result("Sunny.", "degraded"))


def test_the_offline_model_is_named_by_one_word() -> None:
    """As the cluster without a provider answers, whatever its default is."""
    route = shipped_snapshot().config.gateway.default_route.model_dump()
    assert Agent("clerk", "x", model="offline").to_files()["agents/CLERK.json"]["model"] == route


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
def test_a_vendor_s_model_needs_no_provider_of_the_home(vendor: str) -> None:
    """It comes with the program, with any of its models, by the usual variable; never with a key."""
    files = Agent("clerk", "x", model=f"{vendor}:big-1").to_files()
    assert files["agents/CLERK.json"]["model"] == {"provider_id": vendor, "model_id": "big-1"}
    changes = [("gateway.providers", shipped_snapshot().config.gateway.model_dump()["providers"])]
    changes[0][1].update(files["admin_config.json"]["gateway"]["providers"])
    config = AdminConfig.model_validate(changed(shipped_snapshot().config.model_dump(), changes))
    instance = config.gateway.providers[vendor]
    assert (instance.kind, instance.key, instance.any_model) == (vendor, f"env:{vendor.upper()}_API_KEY", True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "two words"}, "letters, digits"),
        ({"name": 3}, "name: a text"),
        ({"name": "admin"}, "'admin': name: hobus has an agent ADMIN of its own"),
        ({"instructions": None}, "instructions: a text, or a Path"),
        ({"tools": weather}, "tools: a list"),
        ({"tools": [None]}, "None is no tool; write @tool"),
        ({"model": 4}, "model: a text"),
        ({"tools": [plain]}, "plain is no tool; write @tool"),
        ({"tools": [nested()]}, "move it to the top of"),
        ({"tools": [tool(lambda city: city)]}, "a lambda has no name .*; write a `def` with @tool in its place"),
        ({"tools": [lambda city: city]}, "a lambda has no name "),
        ({"tools": [in_a_cell()]}, "in_a_cell stands in no file"),
        ({"budget": 5}, "budget: purpose -> the name of a setting"),
        ({"tools": [], "approval": [weather]}, "add it to tools"),
        ({"tools": [weather], "approval": {"weather": "is_far"}}, "'is_far' is no tool"),
        ({"tools": [weather], "approval": {"weather": plain}}, "plain is no tool; write @tool"),
        ({"tools": [weather], "approval": {"weather": weather}}, r"write @tool\(idempotent=True, writes=False\)"),
        ({"tools": [weather], "approval": {"weather": is_late}}, "is_late, the approval of weather:.*no hour"),
        ({"tools": [weather], "approval": {"wether": is_far}}, "wether waits for an approval and is none"),
        ({"model": "llama"}, "expected PROVIDER/MODEL"),
        ({"model": "openai:"}, "expected PROVIDER/MODEL"),
        ({"output": list[int]}, "give it as the field of a class"),
        ({"output": object()}, "has no JSON Schema"),
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
