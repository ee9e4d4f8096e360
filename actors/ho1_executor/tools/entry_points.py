"""Tools of Python files and packages: functions that `tools.entry_points` names, loaded in tool processes alone.

Their imports may be anything, so no worker makes them: a tool process loads one and describes it, and its worker goes
by that description; the schema of its arguments is made from its annotations. Light on imports, as everything that tool
processes load.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import os
import sys
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, TypeAdapter, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, SchemaError, to_jsonable_python

from hobus.actors.ho1_executor.tools.definition import BadArguments, ToolDefinition, ToolHost, get_class_name
from hobus.actors.ho1_executor.tools.registry import BUILTIN
from hobus.bus.tool import ANSWERS, IMPORTING, MARK, Declared, Invocation, call_key, parse_entry_point
from hobus.config.json_schema import find_input_schema_fault


class BadEntryPoint(Exception):
    """Say why this cannot be a tool, and what mends it."""


class _Words(GenerateJsonSchema):
    """Make schemas without a title for each field, which repeats the name, and without defaults that are no JSON."""

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Pass over such a default: the function has it."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - as pydantic calls it
        return False


class Signature(Struct, frozen=True):
    """What a function takes, from its annotations by pydantic: schema and conversion are the same."""

    model: type[BaseModel]
    invocation: str | None  # the parameter that wants to know the call

    def schema(self) -> dict[str, Any]:
        """Return an object schema with one property per parameter and no other. Raises BadEntryPoint."""
        try:
            schema = self.model.model_json_schema(schema_generator=_Words)
        except PydanticUserError as error:
            said = f"its annotations have no JSON Schema ({_get_first_line(error)}); use types that JSON has"
            raise BadEntryPoint(said) from None
        schema.pop("title", None)
        return {"properties": {}, "required": [], **schema}

    def converted(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the function takes them: an Enum, a dataclass, a datetime. Raises BadArguments."""
        try:
            given = self.model.model_validate(dict(arguments))
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False, include_input=False)
            said = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults)
            raise BadArguments("; ".join(said)) from None
        return {str(self.model.model_fields[name].alias): getattr(given, name) for name in given.model_fields_set}


def read_signature(function: Callable[..., Any]) -> Signature:
    """Return the function's signature. Raises BadEntryPoint, naming the parameter."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise BadEntryPoint(f"its annotations cannot be read ({error}); import what they name") from None
    fields: dict[str, Any] = {}
    invocation: str | None = None
    for name, parameter in inspect.signature(function).parameters.items():
        if hints.get(name) is Invocation:
            invocation = name
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise BadEntryPoint(f"parameter {name} cannot be given by name; make it one that can")
        if name not in hints:
            raise BadEntryPoint(f"parameter {name} has no annotation; add one")
        default = ... if parameter.default is parameter.empty else parameter.default
        try:
            TypeAdapter(hints[name])
        except (PydanticUserError, SchemaError) as error:  # the latter's last line says what, as of a pattern
            why = _get_first_line(error) if isinstance(error, PydanticUserError) else str(error).splitlines()[-1]
            said = f"parameter {name}: no JSON Schema for its annotation ({why}); mend it, or use a type that JSON has"
            raise BadEntryPoint(said) from None
        # Under a name of ours: a parameter may have any name, also one that a model has.
        fields[f"argument_{len(fields)}"] = (hints[name], Field(default, alias=name))
    return Signature(create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields), invocation)


def _get_first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].rstrip(".")


SOURCE = "python"
DESCRIBED = ("description", "parameters", "idempotent", "writes", "timeout_s", "is_alone")


def load(entry: str) -> ToolDefinition:
    """Return the tool of one of `tools.entry_points`. Raises BadEntryPoint, whatever its package does."""
    name = parse_entry_point(entry)[0]
    if name in BUILTIN:
        raise BadEntryPoint("a built-in tool has this name; rename yours")
    function = _load_function(entry)
    try:
        return make_definition(name, function)
    except BadEntryPoint as bad:
        raise BadEntryPoint(f"{_locate_function(function)}{bad}") from None


def _load_function(entry: str) -> Any:
    """Return what stands under `/path/to/file.py:name` or `package.module:name`. Raises BadEntryPoint."""
    target = parse_entry_point(entry)[1]
    where, _, name = target.rpartition(":")
    if not where.endswith(".py"):
        found = _imported(where, where)
    elif Path(where).is_file():
        found = import_file(Path(where))
    else:
        raise BadEntryPoint(f"there is no file {where}; it has to be on the machine of each worker")
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        raise BadEntryPoint(f"{target} cannot be imported ({_explain_import(error)}); fix that file") from None
    return found


def _locate_function(function: Any) -> str:
    """Return file and line of a function as the beginning of a sentence; empty where it has none."""
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}: "


def import_file(file: Path) -> Any:
    """Import the module that a file is. Raises BadEntryPoint, whatever the file does."""
    folder, module = file.resolve().parent, file.stem
    while (folder / "__init__.py").is_file():
        folder, module = folder.parent, f"{folder.name}.{module}"
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))  # as where Python runs the file: what lies beside it is imported, too
    found = _imported(module, file)
    if (loaded := getattr(found, "__file__", None)) is None or not file.samefile(loaded):
        raise BadEntryPoint(f"another module is called {module} ({loaded}); rename {file}")
    return found


def prepare() -> None:
    """Look up, for all processes forked from this one, what each would for its first tool."""
    read_signature(prepare).schema()


def _imported(module: str, named: Path | str) -> Any:
    IMPORTING.append(Path(named))
    try:
        return import_module(module)
    except BaseException as error:  # noqa: BLE001 - an import may raise anything, SystemExit too
        mend = "install it" if isinstance(error, ModuleNotFoundError) and error.name == module else "fix that file"
        raise BadEntryPoint(f"{named} cannot be imported ({_explain_import(error)}); {mend}") from None
    finally:
        IMPORTING.pop()


def make_definition(name: str, function: Any) -> ToolDefinition:
    """Return the tool that a function is. Raises BadEntryPoint."""
    declared: Declared | None = getattr(function, MARK, None)
    if not callable(function) or not isinstance(declared, Declared):
        raise BadEntryPoint("it is not a tool; decorate the function with @hobus.tool(idempotent=..., writes=...)")
    if declared.timeout_s is not None and not 0 < declared.timeout_s < math.inf:
        raise BadEntryPoint(f"its timeout={declared.timeout_s} is no number of seconds above 0")
    if not (description := (inspect.getdoc(function) or "").strip()):
        raise BadEntryPoint("nothing says what it does; give it a docstring")
    signature = read_signature(function)
    return ToolDefinition(
        tool_id=name,
        description=description,
        parameters=signature.schema(),
        idempotent=declared.idempotent,
        run=_make_runner(name, function, signature),
        writes=declared.writes,
        source=SOURCE,
        timeout_s=declared.timeout_s,
        is_alone=not inspect.iscoroutinefunction(function),
        place=_locate_function(function),
    )


def describe_entry_point(entry: str, max_bytes: int) -> str:
    """Return what a worker has to know of an entry point, as JSON text. Raises BadEntryPoint."""
    tool = load(entry)
    try:
        text = json.dumps({name: getattr(tool, name) for name in DESCRIBED}, allow_nan=False)
    except (TypeError, ValueError):
        raise BadEntryPoint("its schema is not JSON; mend the annotations that it is made from") from None
    if fault := find_input_schema_fault(tool.parameters):
        raise BadEntryPoint(f"{tool.place}{fault}; mend the annotations that it is made from")
    if len(text.encode()) > max_bytes:
        raise BadEntryPoint(f"its description and schema have more than {max_bytes} bytes; shorten them")
    return text


def _make_runner(
    name: str, function: Callable[..., Any], signature: Signature
) -> Callable[[Mapping[str, Any], ToolHost], Any]:
    async def run(arguments: Mapping[str, Any], host: ToolHost) -> Any:
        named = signature.converted(arguments)
        if found := _recorded(call_key(name, arguments)):
            return found[0]
        if signature.invocation is not None:
            known = {field: host.context[field] for field in ("idempotency_key", "session_id", "agent_id")}
            named[signature.invocation] = Invocation(**known)
        value = function(**named)
        if inspect.isawaitable(value):
            value = await value if inspect.iscoroutinefunction(function) else asyncio.run(_await_value(value))
        with suppress(PydanticSerializationError, ValueError):  # what is no JSON then is said where it is written
            return to_jsonable_python(value)
        return value

    return run


_replayed = Counter[tuple[int, str]]()


def _recorded(key: str) -> list[Any]:
    """Return what the next call of these words brought when a cassette was recorded, alone; empty: it is made."""
    file = Path(os.environ.get(ANSWERS, ""))
    if not file.is_file():
        return []
    found = json.loads(file.read_text(encoding="utf-8")).get(key, [])
    _replayed[place := (file.stat().st_mtime_ns, key)] += 1
    return found[: _replayed[place]][-1:]


async def _await_value(value: Awaitable[Any]) -> Any:
    """Await the value of a `def` that returns an awaitable, where no loop runs."""
    return await value


def _explain_import(error: BaseException) -> str:
    """Say what an import raised, and where; the name of its class alone where the error raises when it is looked at."""
    try:  # its first line, printable and short: no traceback, since no call was made yet
        first = "".join(char if char.isprintable() and char.isascii() else "?" for char in _get_first_line(error)[:160])
        return f"{get_class_name(error)}: {first}{place_of(error)}"
    except BaseException:  # noqa: BLE001 - an exception is foreign code
        return get_class_name(error)


_OTHERS = tuple(f"{folder}{os.sep}" for folder in (Path(__file__).parents[3], Path(os.__file__).parent))
"""Hobus, and the standard library, below which installed packages may lie."""
_INSTALLED = f"{os.sep}site-packages{os.sep}"


def place_of(error: BaseException) -> str:
    """Return `, file:line` of the code that raised it, unless all of it is in installed packages."""
    if isinstance(error, SyntaxError) and error.filename:
        return f", {error.filename}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_file()]
    own = [one for one in frames if _INSTALLED not in one.filename and not one.filename.startswith(_OTHERS)]
    found = own or [one for one in frames if _INSTALLED in one.filename and not one.filename.startswith(_OTHERS[0])]
    return f", {found[-1].filename}:{found[-1].lineno}" if found else ""


def main() -> None:
    """Run as `python -m` this module, MAX_BYTES ENTRY...: print [why it is no tool, whether it writes] of each as JSON.

    Each line as soon as it is known: an entry that ends the process has none, and those before it have theirs.
    """
    out = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # what a package prints while it is imported is no part of the answer
    os.dup2(nowhere, 2)
    for entry in sys.argv[2:]:
        try:
            found = "", json.loads(describe_entry_point(entry, int(sys.argv[1])))["writes"]
        except BadEntryPoint as bad:
            found = str(bad), False
        os.write(out, f"{json.dumps(found)}\n".encode())
    os._exit(0)  # threads that a package left behind are nobody's business


if __name__ == "__main__":
    main()
