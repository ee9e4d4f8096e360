"""Functions of installed packages as tools: what they become, and every way in which they are none."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hobus import Invocation, ToolFault, tool
from hobus.actors.ho1_executor.tools.entry_points import BadEntryPoint, describe_entry_point, load, make_definition
from hobus.actors.ho1_executor.tools.in_process import InProcessHost
from tests.actors.ho1_executor.tools.packages import install

CONTEXT = {"idempotency_key": "WO-1", "session_id": "S", "agent_id": "A", "wo_id": "WO-1"}


async def nobody(*_):
    """A tool of a package asks nobody."""
    raise ToolFault("nobody is asked")


HOST = InProcessHost({}, CONTEXT, nobody, None)


@tool(idempotent=False, writes=True)
def greet(name: str, times: int = 1, *, call: Invocation) -> dict[str, str]:
    """Greets somebody."""
    return {"said": f"hello {name} " * times, "key": call.idempotency_key}


async def test_a_decorated_function_is_a_tool_and_stays_a_function():
    made = make_definition("greet", greet)
    assert (made.tool_id, made.description, made.idempotent, made.writes) == ("greet", "Greets somebody.", False, True)
    assert made.source == "python"
    assert await made.run({"name": "you"}, HOST) == {"said": "hello you ", "key": "WO-1"}
    assert greet("you", call=Invocation("k", "s", "a"))["key"] == "k"


def test_an_async_function_waits_in_the_loop_that_it_shares():
    """And a function that is none, and gives something to wait for, in one of its own."""

    @tool(idempotent=True, writes=False)
    async def wait() -> str:
        """Waits."""
        await asyncio.sleep(0)
        return "done"

    @tool(idempotent=True, writes=False)
    def plain_wait() -> Any:
        """Waits."""
        return wait()

    shared, alone = make_definition("wait", wait), make_definition("wait", plain_wait)
    assert (shared.is_alone, alone.is_alone) == (False, True)
    assert asyncio.run(shared.run({}, HOST)) == "done"
    steps = alone.run({}, HOST)
    with pytest.raises(StopIteration) as end:
        steps.send(None)
    assert end.value.value == "done"


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
def test_a_time_out_is_a_number_of_seconds(timeout: float):
    named = tool(idempotent=True, writes=False, timeout=timeout)(lambda: "x")
    with pytest.raises(BadEntryPoint, match="no number of seconds"):
        make_definition("greet", named)


def plain() -> None:
    """No tool."""


@tool(idempotent=True, writes=False)
def wordless(a: int) -> int:
    return a


@tool(idempotent=True, writes=False)
def shapeless(a) -> int:
    """Has no annotation."""
    return a


@pytest.mark.parametrize(
    ("function", "fix"),
    [(plain, "@hobus.tool"), (7, "@hobus.tool"), (wordless, "docstring"), (shapeless, "annotation")],
)
def test_what_is_no_tool_says_what_fixes_it(function, fix):
    with pytest.raises(BadEntryPoint, match=fix):
        make_definition("x", function)


GOOD = """
from typing import Annotated
from pydantic import WithJsonSchema
from hobus import tool
@tool(idempotent=True, writes=False)
def double(a: int) -> int:
    "Doubles."
    return 2 * a
@tool(idempotent=True, writes=False)
def unjson(a: Annotated[int, WithJsonSchema({"a": object()})]):
    "Has what no JSON has."
"""


def test_an_installed_one_is_found_by_its_name_and_described(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(install(tmp_path, "good_pack", GOOD)))
    said = json.loads(describe_entry_point("double = good_pack:double", 1000))
    assert said["description"] == "Doubles."
    assert said["parameters"]["required"] == ["a"]
    with pytest.raises(BadEntryPoint, match="more than 10 bytes"):
        describe_entry_point("double = good_pack:double", 10)


@pytest.mark.parametrize(
    ("source", "name", "attribute", "why"),
    [
        (
            "raise RuntimeError('no licence\\nsecond line')",
            "broken",
            "x",
            r"RuntimeError: no licence, \S+pack_broken\.py:1\)",
        ),
        ("raise SystemExit(3)", "exits", "x", "SystemExit"),
        (
            "class Unseen(Exception):\n    def __str__(self): raise SystemExit\nraise Unseen",
            "unseen",
            "x",
            r"cannot be imported \(Unseen\)",
        ),
        ("x = 1\n\ndef f(:", "crooked", "x", r"SyntaxError: .*pack_crooked\.py:3\)"),
        ("import no_such_module_at_all", "lacks", "x", "no_such_module_at_all"),
        (GOOD, "typo", "dubble", "AttributeError"),
        (GOOD, "unjson", "unjson", "no.*JSON"),
        (GOOD, "list_tools", "double", "built-in"),
    ],
)
def test_one_that_cannot_be_loaded_says_why(  # noqa: PLR0917 - two fixtures and a row
    tmp_path: Path, monkeypatch, source, name, attribute, why
):
    monkeypatch.syspath_prepend(str(install(tmp_path, f"pack_{name}", source)))
    with pytest.raises(BadEntryPoint, match=why) as caught:
        describe_entry_point(f"{name} = pack_{name}:{attribute}", 10_000)
    assert "\n" not in str(caught.value)


def test_a_package_that_is_not_there_is_to_be_installed():
    with pytest.raises(BadEntryPoint, match=r"no_such_pack cannot be imported .*; install it"):
        load("double = no_such_pack:double")
