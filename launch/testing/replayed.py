"""Tools that bring what a cassette has, in place of doing it again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from inspect import get_annotations, isawaitable, iscoroutinefunction, signature
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from hobus.actors.ho1_executor.tools.entry_points import module_of
from hobus.bus.tool import Invocation
from hobus.launch.app.agent import Agent, entry_of_function
from hobus.launch.testing.cassette import key_of


def with_replayed(agents: Sequence[Agent], directory: Path, answers: Path) -> list[Agent]:
    """Return the agents with functions that look into this file first; they stand in a module of this directory."""
    functions = {one.__name__: one for agent in agents for one in agent.tools if not isinstance(one, str | Agent)}
    text = f"from {__name__} import like\n"
    for name, function in functions.items():
        text += f"{name} = like(__file__, {name!r}, {entry_of_function(function)!r}, {str(answers)!r})\n"
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


def like(file: str, name: str, entry: str, answers: str) -> Callable[..., Any]:
    """Return a function of this file, with all that the tool behind this entry says of itself."""
    path, _, target = entry.partition(" = ")[2].rpartition(":")
    original = getattr(module_of(Path(path)), target)
    taken = signature(original, eval_str=True)
    seen = Counter[str]()

    def replay(*given: Any, **named: Any) -> Any:
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
        return brought[min(seen[key], len(brought)) - 1]

    async def replay_later(*given: Any, **named: Any) -> Any:
        value = replay(*given, **named)
        return await value if isawaitable(value) else value

    made = replay_later if iscoroutinefunction(original) else replay
    made.__dict__.update(original.__dict__)
    made.__name__ = made.__qualname__ = name
    made.__doc__, made.__annotations__ = original.__doc__, get_annotations(original, eval_str=True)
    made.__code__ = made.__code__.replace(co_filename=file)  # where tool processes import it
    setattr(made, "__signature__", taken)  # noqa: B010 - no attribute that a checker knows of a function
    return made


@cache
def _answers(path: str, written_ns: int) -> dict[str, list[Any]]:
    return json.loads(Path(path).read_text(encoding="utf-8")) if written_ns else {}
