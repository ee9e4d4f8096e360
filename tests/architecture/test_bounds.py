"""Every field that another process fills has a bound, and nothing that the broker says can be too large to be said."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hobus.bus import limits
from hobus.bus.messages import control
from hobus.bus.messages.base import Message, Record, find_metas
from hobus.bus.messages.control import LIMITED_BY
from hobus.bus.messages.failure import FACTS_MAX_BYTES, Failure
from tests.architecture.source import ROOT, children, files, modules
from tests.architecture.test_catalog import hints_of

_SIZED = (str, bytes, list, dict)
_UNBOUNDED = {
    (Failure, "facts"): "cut where it is made and where it is read",
    (Failure, "detail"): "cut where it is made and where it is read",
    (control.Refused, "detail"): "cut where it is made and where it is read",
}
"""Field -> why it needs no bound."""

_SAID = (*vars(control).values(), Failure)
CLASSES = sorted(
    {cls for cls in _SAID if isinstance(cls, type) and issubclass(cls, Record) and cls not in (Record, Message)},
    key=lambda cls: cls.__name__,
)


def test_every_field_of_what_is_said_of_connections_is_bounded() -> None:
    """By its type (every text, list and map in it, at any depth), or by the limit that LIMITED_BY names."""
    assert len(CLASSES) > 30
    loose = [
        f"{cls.__name__}.{name}{part}"
        for cls in CLASSES
        for name, hint in hints_of(cls).items()
        if (cls, name) not in _UNBOUNDED
        for part in _loose(hint, [])
        if part or not any((base, name) in LIMITED_BY for base in cls.__mro__)
    ]
    assert loose == []


def _loose(annotation: Any, metadata: list[Any], path: str = "") -> Iterator[str]:
    """Where in this type something of any length may stand; "" is the field itself."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _loose(arguments[0], [*metadata, *arguments[1:]], path)
    elif origin in (Union, UnionType):
        for argument in arguments:
            yield from _loose(argument, metadata, path)
    elif origin is not Literal and ((origin or annotation) in _SIZED or annotation is Any):
        if not any(getattr(item, "max_length", None) is not None for item in metadata):
            yield path
        for argument in arguments:
            yield from _loose(argument, [], f"{path}[]")


def test_the_limits_that_bound_fields_are_limits() -> None:
    """A name that no constant has bounds nothing; neither does one of a field that no longer exists."""
    for (cls, field), limit in LIMITED_BY.items():
        assert field in cls.__struct_fields__
        assert hasattr(limits, limit.upper())


SAID_BY_THE_BROKER: dict[str, set[str]] = {
    "hobus.bus.broker.state": {
        "_pack",
        "say",
    },  # _pack: control and beats; say: a failure, a cancel; a reply comes to it packed
    "hobus.bus.broker.delivery": {
        "fail_for_a_defect"
    },  # reads headers of the broker's own, called where nothing may raise
    "hobus.bus.broker.records": {"_make_batch"},
    "hobus.bus.lane_server": {"_send"},
}
"""Module -> functions that encode outside of a `try`: only what is bounded by its type, see the next test."""


def test_what_can_be_too_large_is_encoded_where_that_is_caught() -> None:
    """Both raise for what a peer says or asks: each call stands in a `try` for RuntimeFault, or is listed."""
    calls = ("encode", "decode", "unpack_header")
    names = [name for name in files() if name.startswith("hobus.bus.broker.") or name == "hobus.bus.lane_server"]
    loose = {name: {function for function, call in _unguarded(modules()[name]) if call in calls} for name in names}
    assert {name: functions for name, functions in loose.items() if functions} == SAID_BY_THE_BROKER


def _unguarded(tree: ast.AST, function: str = "", *, is_guarded: bool = False) -> Iterator[tuple[str, str]]:
    """(function, called name) of every plain call outside of a `try` that catches a RuntimeFault."""
    for node in children(tree):
        name = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(node, ast.Try) and any(_catches(handler) for handler in node.handlers):
            for part in node.body:
                yield from _unguarded(part, name, is_guarded=True)
            for part in (*node.handlers, *node.orelse, *node.finalbody):
                yield from _unguarded(part, name, is_guarded=is_guarded)
            continue
        if isinstance(node, ast.With) and any("suppress" in ast.unparse(item) for item in node.items):
            yield from _unguarded(node, name, is_guarded=True)
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not is_guarded:
            yield name, node.func.id
        yield from _unguarded(node, name, is_guarded=is_guarded)


def _catches(handler: ast.ExceptHandler) -> bool:
    named = "" if handler.type is None else ast.unparse(handler.type)
    return any(name in named for name in ("RuntimeFault", "BusError", "Exception"))


def test_what_the_broker_says_of_itself_is_small() -> None:
    """The messages that are encoded without a guard: at every bound at once they are far below a body's limit."""
    limit = limits.BODY_MAX_BYTES
    for cls in (control.Welcome, control.Joined, control.Refused, control.Rehello, control.Cancelled, Failure):
        most = sum(_most_chars(hint) for name, hint in hints_of(cls).items())
        assert 4 * most < limit / 100, cls


def _most_chars(hint: Any) -> int:
    return max((meta.max_length for meta in find_metas(hint) if meta.max_length is not None), default=FACTS_MAX_BYTES)


def test_the_broker_s_loop_steps_the_core_in_one_place() -> None:
    """Where a defect is caught; and nothing else there calls the core's step."""
    source = Path(ROOT / "bus/zeromq/broker_loop.py").read_text(encoding="utf-8")
    assert source.count(".step(") == 1
    assert source.count("_core.step(event, now)") == 1
