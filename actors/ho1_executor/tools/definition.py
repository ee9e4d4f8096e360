"""What a tool is and what it may use. Light on imports: tool processes load this and nothing of the bus."""

from __future__ import annotations

import json
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NoReturn, Protocol

from hobus.actors.ho1_executor.tools.print_pipe import cut_middle
from hobus.bus.limits import FILE_NAME_CHARS, TOOL_FILES_MAX
from hobus.bus.tool import File, FileBytes, ToolFault, ToolResult

Request = Callable[[str, str, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""(service, message type, body) -> the reply's fields; raises ToolFault."""


async def refuse_request(_service: str, _type_name: str, _body: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse: this call may ask nobody."""
    raise ToolFault("a tool cannot call the cluster here")


SERVER_SAYS = "\n\nOf all its tools their server says: "
"""Behind the description of each of them: a model is told so once, with the first that it is told of."""
NO_HOME = "this worker has no home of a cluster at hand"
"""What a tool is told that asks for a check elsewhere."""


class BadArguments(ToolFault):
    """Say that the arguments cannot be what the tool takes; it was not run."""


class ToolHost(Protocol):
    """Everything that a tool sees of the world."""

    @property
    def snapshot(self) -> Mapping[str, Any]:
        """Return the governed assets as plain values, secrets hidden (`view.make_snapshot_view`)."""
        ...

    @property
    def context(self) -> Mapping[str, Any]:
        """Return session_id, agent_id, wo_id, idempotency_key of this call."""
        ...

    async def request(self, service: str, type_name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reply to one message, sent by the executor under its own policy.

        Raises ToolFault with the code.
        """
        ...

    async def check(self, name: str) -> Mapping[str, Any]:
        """Return what a check of the home found (`verify_ledger`, `run_gates`). Raises ToolFault without a home."""
        ...


async def _refuse_elsewhere(_arguments: Mapping[str, Any], _host: ToolHost) -> NoReturn:
    raise AssertionError("this tool runs in another process")


@dataclass(frozen=True, slots=True, eq=False)
class ToolDefinition:
    """One tool as workers announce it, models are told about it, and runners run it. Compared by identity."""

    tool_id: str
    description: str
    parameters: dict[str, Any]  # JSON Schema of the arguments
    idempotent: bool  # whether running it twice is as good as once
    run: Callable[[Mapping[str, Any], ToolHost], Awaitable[Any]] = _refuse_elsewhere  # gives a JSON-like value
    needs_home: bool = False  # reads files of the cluster's own machine, so that it runs there alone
    writes: bool = False  # it may change something: an agent needs its exact id among its permissions
    source: str = "builtin"  # or `python`, or the name of an MCP server
    timeout_s: float | None = None  # of one call; None: `tools.timeout_ms`
    is_alone: bool = False  # a `def`: nothing else runs in its process meanwhile
    place: str = ""  # `file:line: ` of its function, for people

    @property
    def is_free(self) -> bool:
        """Whether it only reads, may run again, and no server keeps anything of it: its call leaves no record here."""
        return self.idempotent and not self.writes and self.source in _OF_CHILDREN


_OF_CHILDREN = frozenset({"builtin", "python"})
ANNOUNCED = ("tool_id", "source", "description", "idempotent", "writes")
"""What the word of a worker about a tool says beside its parameters, which are JSON text there."""


def make_not_done(code: str, text: str) -> ToolResult:
    """Return the result of a call that brought nothing."""
    return ToolResult(ok=False, code=code, text=text)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bytes: of what models are told, people are, of files (`tools.output_max_bytes`, `config/limits.py`)."""

    output: int
    said: int
    files: int


@dataclass(slots=True)
class KeptFiles:
    """The files of one call, as far as they may be kept; each is told in a sentence."""

    max_bytes: int  # 0: of a call that failed, which keeps none
    kept: list[FileBytes] = field(default_factory=list[FileBytes])

    def take(self, kind: str, name: str, media_type: str, data: bytes) -> str:
        """Keep a file and return the sentence that stands for it in its call's text, also where it is not kept."""
        name, media_type = ("".join(filter(str.isprintable, one))[:FILE_NAME_CHARS] for one in (name, media_type))
        told = f"{kind} {name}, {media_type}, {len(data)} bytes"
        if not self.max_bytes:
            return f"[{told}, not kept: the call failed]"
        if len(self.kept) >= TOOL_FILES_MAX:
            return f"[{told}, not kept: a call brings at most {TOOL_FILES_MAX} files]"
        if len(data) > self.max_bytes - sum(len(one) for _name, _type, one in self.kept):
            return f"[{told}, not kept: at most {self.max_bytes} bytes of files are]"
        self.kept.append((name, media_type, data))
        return f"[{told}]"

    def told(self, value: Any) -> str:
        """Do as `take` for what a tool returns. Raises TypeError for what is no file."""
        if not isinstance(value, File):
            raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
        return self.take(value.kind, value.name, value.media_type, value.data)


def write_value(value: Any, bounds: Bounds, tool_id: str = "the tool", place: str = "") -> ToolResult:
    """Return a tool's value as JSON text with sorted keys, cut to its bound and marked if so; its files in words."""
    files = KeptFiles(bounds.files)
    try:
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, default=files.told)
    except (TypeError, ValueError, RecursionError) as error:
        mend = "return texts, numbers, lists, dicts, dataclasses, pydantic models or files"
        said = f"{tool_id} returned a {type(value).__name__} that is no JSON; {mend} ({error})"
        return ToolResult(ok=False, code="tool_failed", text=cut(said, bounds.output)[0], traceback=place + said)
    text, truncated = cut(text, bounds.output)
    return ToolResult(ok=True, code="", text=text, truncated=truncated, files=files.kept)


def make_failed(error: BaseException, bounds: Bounds) -> ToolResult:
    """Return a tool's exception as its result: its sentence if it raised ToolFault, else only its class.

    A message may hold what no model is to see, an address with its key for one: it stands in the traceback, for people.
    """
    try:
        return _tell_error(error, bounds)
    except BaseException as raised:  # noqa: BLE001 - an exception is foreign code, down to the name of its class
        broke = f"the tool broke: {get_class_name(error)}"
        text, truncated = cut(broke, bounds.output)
        told = cut_middle(f"{broke}, which raises {get_class_name(raised)} when it is looked at", bounds.said)
        return ToolResult(ok=False, code="tool_failed", text=text, truncated=truncated, traceback=told)


def _tell_error(error: BaseException, bounds: Bounds) -> ToolResult:
    """Return what the exception says; raise whatever it raises when it is looked at."""
    is_meant = issubclass(type(error), ToolFault)
    text, truncated = cut(str(error) if is_meant else f"the tool broke: {get_class_name(error)}", bounds.output)
    told = "" if is_meant and error.__cause__ is None else format_traceback(error, bounds.said)
    code = "tool_invalid_args" if issubclass(type(error), BadArguments) else "tool_failed"
    return ToolResult(ok=False, code=code, text=text, truncated=truncated, traceback=told)


def get_class_name(error: BaseException) -> str:
    """Return the name of an exception's class without running any of its code."""
    return str.__str__(vars(type)["__name__"].__get__(type(error)))


def format_traceback(error: BaseException, max_bytes: int) -> str:
    """Return type, message and traceback of what a tool raised, from its own first line on."""
    frames = error.__traceback__
    while frames is not None and _is_ours(frames):
        frames = frames.tb_next
    lines = traceback.format_exception(type(error), error, frames or error.__traceback__)
    return cut_middle("".join(lines).rstrip(), max_bytes)


def _is_ours(frames: TracebackType) -> bool:
    """Return whether this frame belongs to what calls a tool; the process that does may have begun with it."""
    module = str(frames.tb_frame.f_globals.get("__name__", ""))
    return module == "__main__" or module.startswith(("hobus.", "asyncio.", "pydantic."))


async def run_tool(
    tools: Mapping[str, ToolDefinition], tool_id: str, arguments: Mapping[str, Any], host: ToolHost, bounds: Bounds
) -> ToolResult:
    tool = tools.get(tool_id)
    if tool is None:
        return make_not_done("tool_not_found", f"no tool {tool_id[:64]}")
    try:
        return write_value(await tool.run(arguments, host), bounds, tool_id, tool.place)
    except Exception as error:  # noqa: BLE001 - whatever a tool raises is its result
        return make_failed(error, bounds)
    except SystemExit as error:
        ended = make_failed(error, bounds)
        ended.text = "the tool tried to end its process"
        return ended


def cut(text: str, max_bytes: int) -> tuple[str, bool]:
    """Return the longest beginning of whole characters within `max_bytes` of UTF-8, and whether text is missing."""
    data = str.encode(text, "utf-8", "replace")  # a tool's text may be of a class of its own
    if len(data) <= max_bytes:
        return data.decode(), False
    return data[:max_bytes].decode("utf-8", "ignore"), True
