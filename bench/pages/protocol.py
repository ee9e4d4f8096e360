"""`bus/PROTOCOL.md`, from the catalog, the message classes and the hand-written text."""

from __future__ import annotations

import inspect
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT
from msgspec.structs import FieldInfo, fields

from hobus.bus.broker.admission import HEADER_ROOM_BYTES
from hobus.bus.broker.tap_record import VERDICTS, TapRecord
from hobus.bus.broker.tap_wire import TAP_VERSION
from hobus.bus.catalog import CLASSES, ROLES, ROWS, Row
from hobus.bus.codec import HEADER_MAX_BYTES
from hobus.bus.envelope import HEADER_VERSION, Header, Kind
from hobus.bus.messages import control
from hobus.bus.messages.base import Message, Record, find_metas
from hobus.bus.messages.failure import FAILURE_CODES, Failure
from hobus.bus.messages.ids import ID_MAX_CHARS, PRINCIPAL_PATTERN

Described = type[Record] | type[tuple[Any, ...]]
"""A record, which is a map on the wire, or a named tuple, which is an array."""

_COMMON_MIN = 2
_TYPES = {
    r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$": "time",
    r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$": "uuid", r"^[A-Za-z0-9._:@-]+$": "key",
    rf"^{PRINCIPAL_PATTERN}$": "principal", rf"^{PRINCIPAL_PATTERN}?$": "principal", r"^[!-~]+$": "word",
    r"^[ -~]*$": "line",
}  # fmt: skip
_TOLD_BY_TYPE = re.compile(r"(^|; )(ISO 8601, UTC, microseconds|(empty|None|0): (none|nothing|not (known|said)))$")
_TOLD_BY_ROUTE = re.compile(r"^([A-Z][\w, ]* -> [\w ]+(, post)?: |Answer to \w+[:,.]? ?)")
_AS_ARRAY = " An array."

_KINDS = {
    Kind.REQUEST: "awaits one answer", Kind.REPLY: "the answer", Kind.FAILURE: "the other answer: `bus.failure`",
    Kind.POST: "awaits nothing", Kind.PUBLISH: "to subscribers; unused in this version",
    Kind.STREAM: "a part on the way to the answer", Kind.CANCEL: "the request is no longer needed",
    Kind.HELLO: "peer to server: who it is", Kind.READY: "peer to server: its readiness",
    Kind.BEAT: "both ways: the loop is alive", Kind.CREDIT: "peer to server: its slots",
    Kind.BYE: "peer to server: it leaves",
    Kind.WELCOME: "server to peer: welcome, joined, refused, rehello, or a failure",
    Kind.JOIN: "worker elsewhere to broker: enrol my key",
    Kind.TOOLS: "worker to broker: the tools that it can run now",
}  # fmt: skip
_CONTROL: tuple[type[Message], ...] = (
    control.Hello, control.Welcome, control.Join, control.Joined, control.Refused, control.Rehello, control.Ready,
    control.Beat, control.Credit, control.AnnounceTools, control.Bye, control.Cancelled, control.Probe,
    control.Probed, Failure,
)  # fmt: skip


def render() -> str:
    facts = {
        "protocol": str(HEADER_VERSION), "header_max": str(HEADER_MAX_BYTES), "header_room": str(HEADER_ROOM_BYTES),
        "id_max": str(ID_MAX_CHARS), "header_fields": _block(_lines(Header)),
        "kinds": _block(f"{kind.name} {int(kind)}  {_KINDS[kind]}" for kind in Kind),
        "hello": f"`{control.Hello.TYPE}`", "tap_version": str(TAP_VERSION),
        "tap_fields": ", ".join(f"`{name}`" for name in TapRecord._fields),
        "verdicts": ", ".join(f"`{verdict}`" for verdict in VERDICTS),
    }  # fmt: skip
    by_type = {cls.TYPE: cls for cls in (*CLASSES.values(), *_CONTROL)}
    described: list[Described] = [*(by_type[name] for name in sorted(by_type)), *_records(by_type.values())]
    common = common_fields(line for cls in described for line in _lines(cls))
    facts |= {
        "routes": "\n\n".join(_routes()), "common": _block(sorted(set(common.values()))),
        "messages": "\n\n".join(_described(cls, common) for cls in described),
        "codes": ", ".join(f"`{code}`" for code in FAILURE_CODES),
    }  # fmt: skip
    page = Path(__file__).with_name("protocol.md").read_text(encoding="utf-8")
    for name, value in facts.items():
        page = page.replace("{" + name + "}", value)
    return page


def _routes() -> Iterable[str]:
    for service in dict.fromkeys(row.service for row in ROWS):
        yield f"### Service `{service}`"
        yield _block(_route(row) for row in ROWS if row.service == service)


def _route(row: Row) -> str:
    """`type -> reply  senders  mode, marks`."""
    marks = [name for name in ("redeliver", "sensitive", "low", "by_tool", "about", "pages") if getattr(row, name)]
    reply = row.reply.TYPE if row.reply is not None else "(post)"
    senders = "everybody" if len(row.senders) == len(ROLES) else ",".join(r for r in ROLES if r in row.senders)
    return f"{row.cls.TYPE} -> {reply}  {senders}  {','.join((row.mode, *marks))}"


def common_fields(lines: Iterable[str]) -> dict[str, str]:
    """Fields that several messages have and that mean the same wherever they are written so, each as it is told once."""
    seen = Counter(lines)
    meanings: defaultdict[str, set[str]] = defaultdict(set)
    times: Counter[tuple[str, str]] = Counter()
    for line, count in seen.items():
        head, name, meaning = _parts(line)
        meanings[head].add(meaning)
        meanings[name].add(meaning)
        times[name, meaning] += count
    told: dict[str, str] = {}
    for line in seen:
        head, name, meaning = _parts(line)
        if meaning and len(meanings[head]) == 1 and times[name, meaning] >= _COMMON_MIN:
            told[line] = f"{name if len(meanings[name]) == 1 else head}  {meaning}"
    return told


def _parts(line: str) -> tuple[str, str, str]:
    """`name:type=default`, the name alone, and the meaning of a field."""
    head, _, meaning = line.partition("  ")
    return head, head.partition(":")[0], meaning


def _described(cls: Described, common: Collection[str]) -> str:
    """A message or a record: what it is, and its fields; those that are told above, or by their names, on one line."""
    is_message = issubclass(cls, Message)
    name = f"`{cls.TYPE}`" if is_message else cls.__name__
    version = f" (version {cls.VERSION})" if is_message and cls.VERSION != 1 else ""
    text = " ".join((inspect.getdoc(cls) or "").split())
    text = _TOLD_BY_ROUTE.sub("", text) if is_message else text
    text = text[:1].upper() + text[1:]
    text += _AS_ARRAY if is_message and cls.to_bytes is not Message.to_bytes else ""
    lines: list[str] = []
    for is_told, run in groupby(_lines(cls), key=lambda line: "  " not in line or line in common):
        same = list(run)
        lines += [", ".join(line.partition("  ")[0] for line in same)] if is_told else same
    return "\n\n".join(filter(None, (f"### {name}{version}", text, _block(lines) if lines else "")))


def _lines(cls: Described) -> list[str]:
    """`name:type=default  meaning` of each field."""
    hints = get_type_hints(cls, include_extras=True)
    if not issubclass(cls, Record):
        return [f"{name}:{_bounded(hint)}  {_meaning(hint)}".rstrip() for name, hint in hints.items()]
    kind = cls.__struct_config__
    return ([f'{kind.tag_field}:"{kind.tag}"'] if kind.tag else []) + [
        f"{one.name}:{_bounded(hints[one.name])}{_default(one)}  {_meaning(hints[one.name])}".rstrip()
        for one in fields(cls)
    ]


def _block(lines: Iterable[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def _meaning(hint: Any) -> str:
    """What is said last of it: of its field, else of its type."""
    said = next((meta.description for meta in find_metas(hint) if meta.description), "")
    return _TOLD_BY_TYPE.sub("", " ".join(said.split()))


def _bounded(annotation: Any) -> str:
    """A type with the bounds of its values, or of their length."""
    found = {
        name: value
        for meta in reversed([*find_metas(annotation)])
        for name in ("ge", "gt", "le", "min_length", "max_length", "pattern")
        if (value := getattr(meta, name)) is not None
    }
    least, most = found.get("ge", found.get("min_length", "")), found.get("le", found.get("max_length", ""))
    bounds = f">{found['gt']}" if "gt" in found else f"{least}..{most}" if f"{least}{most}" else ""
    kind, pattern = type_text(annotation), found.get("pattern", "").replace(r"\Z", "$")
    kind = kind.replace("str", _TYPES[pattern]) if pattern in _TYPES else kind
    pattern = "" if pattern in _TYPES else f"~`{pattern}`" if pattern else ""
    return f"{kind}({bounds}){pattern}" if bounds else kind + pattern


def _default(field: FieldInfo) -> str:
    if field.required:
        return ""
    value = field.default if field.default_factory is NODEFAULT else field.default_factory()
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
