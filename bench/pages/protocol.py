"""`bus/PROTOCOL.md`, from the catalog, the message classes and the hand-written preface."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from hobus.bus.broker.admission import HEADER_ROOM_BYTES
from hobus.bus.broker.tap_record import VERDICTS, TapRecord
from hobus.bus.broker.tap_wire import TAP_VERSION
from hobus.bus.catalog import CLASSES, ROLES, ROWS, Row
from hobus.bus.codec import HEADER_MAX_BYTES
from hobus.bus.envelope import HEADER_VERSION, Header, Kind
from hobus.bus.messages import control
from hobus.bus.messages.base import Message, Record
from hobus.bus.messages.failure import FAILURE_CODES, Failure
from hobus.bus.messages.ids import ID_MAX_CHARS

Described = type[Record] | type[tuple[Any, ...]]
"""A record, which is a map on the wire, or a named tuple, which is an array."""

_COMMON_MIN = 2
_FORM = (
    "A map unless it says so; a field is `name:type=default  meaning (bounds)`. Fields that mean the same in several "
    "messages are described here, and have name and type alone there."
)
_SIGNS = {
    "ge": ">=", "gt": ">", "le": "<=", "lt": "<", "min_length": "length>=", "max_length": "length<=", "pattern": "~",
}  # fmt: skip
_AS_ARRAY = " Its body is an array of these fields, in this order."

_KINDS = {
    Kind.REQUEST: "awaits one answer",
    Kind.REPLY: "the answer",
    Kind.FAILURE: "the other answer: `bus.failure`",
    Kind.POST: "awaits nothing",
    Kind.PUBLISH: "to whoever subscribed; no type is published in this version",
    Kind.STREAM: "a part on the way to the answer",
    Kind.CANCEL: "the request is not wanted any more",
    Kind.HELLO: "peer to server: who it is",
    Kind.READY: "peer to server: its readiness",
    Kind.BEAT: "both ways: the loop is alive",
    Kind.CREDIT: "peer to server: its slots",
    Kind.BYE: "peer to server: it leaves",
    Kind.WELCOME: "server to peer: welcome, joined, refused, say hello again, or that what it said does not count",
    Kind.JOIN: "worker elsewhere to broker: enrol my key",
    Kind.TOOLS: "worker to broker: the tools that it can run now",
}
_CONTROL: tuple[type[Message], ...] = (
    control.Hello, control.Welcome, control.Join, control.Joined, control.Refused, control.Rehello, control.Ready,
    control.Beat, control.Credit, control.AnnounceTools, control.Bye, control.Cancelled, control.Probe,
    control.Probed, Failure,
)  # fmt: skip


def render() -> str:
    """The whole page."""
    preface = Path(__file__).with_name("protocol.md").read_text(encoding="utf-8")
    facts = {
        "protocol": str(HEADER_VERSION),
        "header_max": str(HEADER_MAX_BYTES),
        "header_room": str(HEADER_ROOM_BYTES),
        "id_max": str(ID_MAX_CHARS),
        "header_table": _table(("field", "type", "meaning"), _items(Header)),
        "kind_table": _table(("kind", "number", "meaning"), ((k.name, str(int(k)), _KINDS[k]) for k in Kind)),
        "hello": f"`{control.Hello.TYPE}`",
        "tap_version": str(TAP_VERSION),
        "tap_fields": ", ".join(f"`{name}`" for name in TapRecord._fields),
        "verdicts": ", ".join(f"`{verdict}`" for verdict in VERDICTS),
    }
    for name, value in facts.items():
        preface = preface.replace("{" + name + "}", value)
    by_type = {cls.TYPE: cls for cls in (*CLASSES.values(), *_CONTROL)}
    described: list[Described] = [*(by_type[name] for name in sorted(by_type)), *_records(by_type.values())]
    lines = Counter(line for cls in described for line in _lines(cls))
    common = {line for line, count in lines.items() if count >= _COMMON_MIN}
    parts = [preface.rstrip(), "## Who may send what", *_routes(), "## Messages", _FORM]
    parts += ["Common fields:", _block(sorted(common)), *(_described(cls, common) for cls in described)]
    parts += [
        "## Failure codes",
        "Codes of the bus and of what it carries: " + ", ".join(f"`{code}`" for code in FAILURE_CODES) + ".",
    ]
    return "\n\n".join(parts) + "\n"


def _routes() -> Iterable[str]:
    yield (
        "`redeliver`: goes to another worker when its worker is lost. `low`: waits behind other work. "
        "`sensitive`: its body may hold text. `by_tool`: its key names a tool; it goes to workers that announce it. "
        "`about`: a command about what its sender has open, counted apart from that. "
        "`work n`: what it costs a client's rate, 1 if nothing is said."
    )
    for service in dict.fromkeys(row.service for row in ROWS):
        yield f"### Service `{service}`"
        yield _block(_route(row) for row in ROWS if row.service == service)


def _route(row: Row) -> str:
    """`type -> reply  senders  mode, marks`."""
    marks = [name for name in ("redeliver", "sensitive", "low", "by_tool", "about", "pages") if getattr(row, name)]
    reply = row.reply.TYPE if row.reply is not None else "(post)"
    senders = "everybody" if len(row.senders) == len(ROLES) else ",".join(r for r in ROLES if r in row.senders)
    return f"{row.cls.TYPE} -> {reply}  {senders}  {','.join((row.mode, *marks))}"


def _described(cls: Described, common: Collection[str]) -> str:
    """A message or a record: what it is, and a line for each field; of a common one its name and type alone."""
    is_message = issubclass(cls, Message)
    name = f"`{cls.TYPE}`" if is_message else cls.__name__
    version = f" (version {cls.VERSION})" if is_message and cls.VERSION != 1 else ""
    text = " ".join((inspect.getdoc(cls) or "").split())
    text += _AS_ARRAY if is_message and cls.to_bytes is not Message.to_bytes else ""
    lines = _with_common_ones_together(_lines(cls), common)
    return "\n\n".join(filter(None, (f"### {name}{version}", text, _block(lines) if lines else "")))


def _with_common_ones_together(lines: Iterable[str], common: Collection[str]) -> list[str]:
    """Put neighbours that are described above on one line, by name and type; their order is kept."""
    parts: list[str] = []
    for is_common, run in groupby(lines, key=lambda line: line in common):
        told = list(run)
        parts += [", ".join(line.partition("  ")[0] for line in told)] if is_common else told
    return parts


def _lines(cls: Described) -> list[str]:
    """`name:type=default  meaning` of each field."""
    if not issubclass(cls, Record):
        return [f"{name.strip('`')}:{kind}  {meaning}".rstrip() for name, kind, meaning in _items(cls)]
    return [
        f"{name}:{type_text(field.annotation)}{_default(field)}  {_meaning(field)}".rstrip()
        for name, field in cls.model_fields.items()
    ]


def _block(lines: Iterable[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def _items(cls: type[tuple[Any, ...]]) -> Iterable[tuple[str, ...]]:
    for name, hint in get_type_hints(cls, include_extras=True).items():
        field = next((item for item in getattr(hint, "__metadata__", ()) if isinstance(item, FieldInfo)), FieldInfo())
        yield f"`{name}`", type_text(hint), _meaning(field)


def _meaning(field: FieldInfo) -> str:
    bounds = " ".join(filter(None, (_bound(item) for item in field.metadata)))
    return " ".join((field.description or "").split()) + (f" ({bounds})" if bounds else "")


def _bound(item: Any) -> str:
    found = ((sign, getattr(item, name, None)) for name, sign in _SIGNS.items())
    return " ".join(f"{sign}{value}" for sign, value in found if value is not None)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return ""
    value = field.get_default(call_default_factory=True, validated_data={})
    return f"={type(value).__name__}()" if isinstance(value, Record) else f"={'null' if value is None else repr(value)}"


def type_text(annotation: Any) -> str:
    """A type as a reader of the page knows it: `list[str]`, `int|null`, `"a"|"b"`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in (None, NoneType):
        return "null"
    if annotation is Any:
        return "any"
    if origin is Literal:
        return "|".join(f'"{argument}"' for argument in arguments)
    if origin in (Union, UnionType):
        return "|".join(type_text(argument) for argument in arguments)
    if origin in (list, Sequence):
        return f"list[{type_text(arguments[0])}]"
    if origin is dict:
        return f"map[{type_text(arguments[0])},{type_text(arguments[1])}]"
    if hasattr(annotation, "__metadata__"):
        return type_text(arguments[0])
    return str(getattr(annotation, "__name__", annotation))


def _records(classes: Iterable[type[Record]]) -> list[Described]:
    """Every record that these messages hold, at any depth, by name; messages among them are described elsewhere."""
    found: dict[str, Described] = {}
    left: list[Described] = list(classes)
    seen: set[Described] = set()
    while left:
        cls = left.pop()
        if cls in seen:
            continue
        seen.add(cls)
        if not issubclass(cls, Message):
            found[cls.__name__] = cls
        for annotation in get_type_hints(cls, include_extras=True).values():
            left += _held(annotation)
    return [found[name] for name in sorted(found)]


def _held(annotation: Any) -> list[Described]:
    if isinstance(annotation, type) and get_origin(annotation) is None:
        is_positional = issubclass(annotation, tuple) and hasattr(annotation, "_fields")
        return [annotation] if is_positional or issubclass(annotation, Record) else []
    return [cls for argument in get_args(annotation) for cls in _held(argument)]


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)
