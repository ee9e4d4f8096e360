"""Tools that bring what a cassette has, in place of doing it again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from inspect import get_annotations, iscoroutinefunction, signature
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from hobus.actors.ho1_executor.tools.entry_points import module_of
from hobus.bus.tool import Invocation
from hobus.launch.app.agent import Agent, entry_of_function
from hobus.launch.testing.cassette import key_of

_MODULE = """from hobus.launch.testing.replayed import like
"""
_FUNCTION = """

{kind}def {name}(*given, **named):
    return {wait}{name}.replay({name}, given, named)


{name} = like({name}, {entry!r}, {answers!r})
"""


def with_replayed(agents: Sequence[Agent], directory: Path, answers: Path) -> list[Agent]:
    """The agents, whose functions look into this file first; they stand in a module of this directory."""
    functions = {one.__name__: one for agent in agents for one in agent.tools if not isinstance(one, str | Agent)}
    text = _MODULE
    for name, function in functions.items():
        is_async = iscoroutinefunction(function)
        text += _FUNCTION.format(
            kind="async " if is_async else "", wait="await " if is_async else "", name=name,
            entry=entry_of_function(function).partition(" = ")[2], answers=str(answers),
        )  # fmt: skip
    module = directory / f"replayed_{directory.name.rpartition('-')[2]}.py"  # each test module has its own
    module.write_text(text, encoding="utf-8")
    made = vars(module_of(module))

    def known(tools: Sequence[Any]) -> list[Any]:
        named = [
            one.agent_id if isinstance(one, Agent) else one for one in tools
        ]  # in the cluster it is another object
        return [one if isinstance(one, str) else made[one.__name__] for one in named]

    return [
        replace(
            one,
            tools=known(one.tools),
            approval=one.approval if isinstance(one.approval, Mapping) else known(one.approval),
        )
        for one in agents
    ]


def like(function: Callable[..., Any], entry: str, answers: str) -> Callable[..., Any]:
    """The function with all that the tool behind this entry says of itself."""
    path, _, name = entry.rpartition(":")
    original = getattr(module_of(Path(path)), name)
    function.__dict__.update(original.__dict__)
    function.__doc__, function.__annotations__ = original.__doc__, get_annotations(original, eval_str=True)
    taken = signature(original, eval_str=True)
    setattr(function, "__signature__", taken)  # noqa: B010 - no attribute that a checker knows of a function
    seen = Counter[str]()

    def replay(_self: Any, given: Any, named: Any) -> Any:
        said = {
            one: to_jsonable_python(value)
            for one, value in taken.bind(*given, **named).arguments.items()
            if not isinstance(value, Invocation)
        }
        key = key_of(name, said)
        brought = _answers(answers, Path(answers).stat().st_mtime_ns if Path(answers).exists() else 0).get(key)
        if not brought:
            return original(*given, **named)
        seen[key] += 1
        value = brought[min(seen[key], len(brought)) - 1]
        return _at_once(value) if iscoroutinefunction(original) else value

    setattr(function, "replay", replay)  # noqa: B010
    return function


@cache
def _answers(path: str, written_ns: int) -> dict[str, list[Any]]:
    return json.loads(Path(path).read_text(encoding="utf-8")) if written_ns else {}


async def _at_once(value: Any) -> Any:
    return value
