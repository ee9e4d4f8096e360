"""An agent as a program writes it, compiled to the files that `hobus init --agent` makes: the same gates judge them."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from traceback import walk_stack
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from pydantic import TypeAdapter

from hobus.bus.messages.session import TurnResult
from hobus.bus.tool import MARK, Declared, Invocation
from hobus.config.files import ADMIN_CONFIG, SHIPPED_ROOT
from hobus.launch.cluster import own_config
from hobus.launch.cluster.vendors import ADDRESSES, make_vendor_instance
from hobus.launch.sessions.client_errors import RequestError
from hobus.launch.sessions.session_client import make_schema

Tool: TypeAlias = "Callable[..., Any] | str | Agent[Any]"
"""A function with `@tool`, another agent, or a name: of a built-in tool, of one of an MCP server (`<server>__*`: all of
that), of an agent as the cluster has it, in capitals.
"""
if TYPE_CHECKING:
    import typing_extensions

    T = typing_extensions.TypeVar("T", default=Any)  # so that an Agent without an output needs no type
else:
    T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class Agent(Generic[T]):
    """Who answers. Raises RequestError for what cannot be one, with the mend.

    `name`: letters, digits and `_`; in capitals it is the agent's id. `instructions`: its system prompt, or a `Path` to
    it. `tools`: what it has, and may use. `approval`: those of them whose calls wait for a person; or tool -> the rule,
    a tool that only reads, that is given the arguments of each call and says whether it waits. `model`:
    `PROVIDER/MODEL` of the cluster; `openai:MODEL` or `anthropic:MODEL`, whose key is in OPENAI_API_KEY or
    ANTHROPIC_API_KEY; `offline`; None: that of the cluster (`gateway.default_route`: as shipped, `offline`). `output`:
    what each answer is, read by `parse`: a class with typed fields (pydantic, dataclass, TypedDict), or the JSON Schema
    of an object. `budget`: purpose -> setting of section `budget`. `memory`: False: its turns teach nothing.
    """

    name: str
    instructions: str | Path
    tools: Sequence[Tool] = ()
    approval: Sequence[Tool] | Mapping[str, Callable[..., Any] | Literal[True]] = ()
    model: str | None = None
    output: type[T] | dict[str, Any] | None = None
    budget: Mapping[str, str] = field(default_factory=dict[str, str])
    memory: bool = True
    written_at: str = field(init=False, default="", compare=False, repr=False)
    """`file:line` that made it, for faults that are found later."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "written_at", _place_of_caller())
        if fault := next(self._find_faults(), ""):
            raise _make_invalid(f"{self.name!r}: {fault}")

    def _find_faults(self) -> Iterator[str]:
        """Yield what keeps it from being an agent, each with its mend. Raises RequestError for a tool that is none."""
        yield from (
            f"{one}: {said}" for one, (kind, said) in _KINDS.items() if not isinstance(getattr(self, one), kind)
        )
        if _NAME.fullmatch(self.name) is None:
            yield "name: a letter, then letters, digits and `_`, 64 at most"
        if (SHIPPED_ROOT / "agents" / f"{self.agent_id}.json").is_file():
            yield f"name: hobus has an agent {self.agent_id} of its own; choose another"
        for one in self.functions:
            make_entry_point(one)
        tools = {_get_name(one): one for one in self.tools}
        for name, rule in self._waiting.items():
            if name not in tools:
                yield f"{name} waits for an approval and is none of its tools; add it to tools"
            elif rule is not True and (fault := _find_rule_fault(rule, tools[name])):
                yield f"{rule.__name__}, the approval of {name}: {fault}"
        if self.model not in (None, _OFFLINE) and not all(self.model.partition(":" if self._vendor else "/")):
            forms = "PROVIDER/MODEL (hobus provider list), openai:MODEL, anthropic:MODEL or offline"
            yield f"the model {self.model!r}: expected {forms}"
        self._make_schema()

    @property
    def agent_id(self) -> str:
        """Return the name as the cluster has it."""
        return self.name.upper()

    def to_files(self) -> dict[str, dict[str, Any]]:
        """Return documents by their paths in a home's `config/`, which make this agent there. Raises RequestError."""
        names = list(dict.fromkeys(map(_get_name, self.tools)))
        agent: dict[str, Any] = {
            "agent_id": self.agent_id, "agent_class": "RESIDENT", "framework_id": "FMWK-107", "tier": "hot",
            "system_prompt": self._read_prompt(), "attention": [], "tools": names, "budget": dict(self.budget),
            "memory": self.memory, "permissions": {"tools": names, "providers": ["*"], "models": ["*"], "paths": []},
        }  # fmt: skip
        if (schema := self._make_schema()) is not None:
            agent["output_schema"] = schema
        settings: dict[str, Any] = {}
        offline = own_config.read_shipped()["gateway"]["providers"][_OFFLINE]
        if self.model is not None:
            provider, _, model = self.model.partition(":" if self._vendor else "/")
            agent["model"] = {"provider_id": provider, "model_id": model or offline["models"][0]["model_id"]}
        if self._vendor:
            instance = make_vendor_instance(self._vendor, offline["concurrency_max"])
            settings["gateway"] = {"providers": {self._vendor: instance}}
        settings["tools"] = {
            "entry_points": list(dict.fromkeys(map(make_entry_point, self.functions))),
            "approval": [
                name if rule is True else f"{name} if {rule.__name__}" for name, rule in self._waiting.items()
            ],
        }
        return {f"agents/{self.agent_id}.json": agent, ADMIN_CONFIG: settings}

    def parse(self, result: TurnResult) -> T:
        """Return the answer as `output` says. Raises RequestError for none: refused, or degraded to words."""
        kind: Any = Any if self.output is None or isinstance(self.output, dict) else self.output
        try:
            return TypeAdapter[Any](kind).validate_json(result.response)
        except ValueError as fault:
            raise _make_invalid(f"the answer is no {self.name}'s output ({result.outcome}): {fault}") from None

    @property
    def _waiting(self) -> Mapping[str, Callable[..., Any] | Literal[True]]:
        """Return the rule by the name of each tool whose calls may wait; True: all of them do."""
        return self.approval if isinstance(self.approval, Mapping) else {_get_name(one): True for one in self.approval}

    @property
    def functions(self) -> list[Callable[..., Any]]:
        """Return the functions that tool processes import: the agent's tools, and rules of its approvals."""
        given = (*self.tools, *self.approval, *self._waiting.values())
        return [one for one in given if not isinstance(one, str | Agent | bool)]

    @property
    def _vendor(self) -> str:
        """Return the vendor of `openai:MODEL`; empty: the model is one of the cluster's own providers."""
        vendor, separator, _ = (self.model or "").partition(":")
        return vendor if separator and vendor in ADDRESSES else ""

    def _read_prompt(self) -> str:
        """Return the instructions. Raises RequestError, which says where an unreadable file was looked for."""
        if isinstance(self.instructions, str):
            return inspect.cleandoc(self.instructions)
        file = self.instructions.absolute()
        try:
            return file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            why = f"{file} is not UTF-8 ({error.reason}); save it as that"
        except OSError as error:
            why = f"{file} cannot be read ({error.strerror}); write it, or name another"
        raise _make_invalid(f"{self.written_at}: {self.name}: instructions: {why}")

    def _make_schema(self) -> dict[str, Any] | None:
        """Return what answers keep. Raises RequestError for an output that no object is."""
        return None if self.output is None else make_schema(self.output, f"{self.name}: its output")


def make_entry_point(function: Callable[..., Any]) -> str:
    """Return the function as one of `tools.entry_points`: tool processes import the file in which it stands.

    Raises RequestError for one that is no tool, or that another process cannot import.
    """
    name = getattr(function, "__qualname__", repr(function))
    if "<lambda>" in name:
        raise _make_invalid(
            "a lambda has no name by which a tool process finds it; write a `def` with @tool in its place"
        )
    if not callable(function) or not hasattr(function, MARK):
        raise _make_invalid(f"{name} is no tool; write @tool above its `def`")
    file = Path(inspect.unwrap(function).__code__.co_filename)
    if "<locals>" in name:
        why = f"{name} stands inside a function, where no tool process finds it; move it to the top of {file}"
    elif not file.is_file():
        why = f"{name} stands in no file ({file}), as in a notebook's cell; move it to a .py file, and import it"
    else:
        return f"{_get_name(function)} = {file.resolve()}:{name}"
    raise _make_invalid(why)


def _place_of_caller() -> str:
    """Return `file:line` of the code that makes an Agent, by itself or by `dataclasses.replace`."""
    frames = ((one.f_code.co_filename, line) for one, line in walk_stack(inspect.currentframe()))
    return next((f"{file}:{line}" for file, line in frames if file not in _BETWEEN), "")


_BETWEEN = (__file__, dataclasses.__file__, "<string>")


_KINDS: Mapping[str, tuple[Any, str]] = {
    "name": (str, "a text"),
    "instructions": (str | Path, "a text, or a Path of the file that holds it"),
    "tools": ((list, tuple), "a list"),
    "approval": ((list, tuple, Mapping), "a list, or tool -> a function with @tool, or True"),
    "model": (str | None, "a text"),
    "budget": (Mapping, "purpose -> the name of a setting of section `budget`, such as session_token_limit"),
}
"""What each field is to be, and in words: nobody type-checks a notebook."""


def _find_rule_fault(rule: Callable[..., Any], tool: Tool) -> str:
    """Return why this function cannot judge calls of this tool; empty: it can. Raises RequestError for none."""
    make_entry_point(rule)
    declared: Declared = getattr(rule, MARK)
    if declared.writes or not declared.idempotent:
        return "it is asked before each call and may be asked twice; write @tool(idempotent=True, writes=False)"
    if isinstance(tool, str | Agent):
        return ""  # what its calls are given is known where it runs
    known = inspect.signature(tool).parameters
    given = [one for one in inspect.signature(rule).parameters.values() if one.default is one.empty]
    lacking = [one.name for one in given if one.name not in known and one.annotation not in (Invocation, "Invocation")]
    return f"it is given the arguments of the call, and there is no {lacking[0]}" if lacking else ""


def _get_name(tool: Tool) -> str:
    if isinstance(tool, Agent):
        return tool.agent_id
    return tool if isinstance(tool, str) else tool.__name__


def _make_invalid(said: str) -> RequestError:
    return RequestError("invalid_input", said)
