"""The frozen strict base of everything that crosses the wire or stands in a record, and its canonical bytes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)

import msgpack
from msgspec import NODEFAULT, Meta, Struct, StructMeta, ValidationError, convert, field, json, structs, to_builtins
from msgspec.msgpack import Encoder, decode

from hobus.bus.text import cut

T = TypeVar("T")
_FIELD = re.compile(r"Object (missing required|contains unknown) field `(.*)`$", re.DOTALL)
_KEY_RULE = r"`str` matching regex '^[A-Za-z0-9._:@-]+\\Z'"  # as msgspec puts what an id of a turn or command may be
_GIVEN = re.compile(r"(?<=[Vv]alue) .*", re.DOTALL)
_NUMBER = re.compile(r"\[(\d+|\.\.\.)\]")
_PLACE_SHOWN, _FAULT_SHOWN = 200, 200
"""Characters: a field that no message has is named by its sender, at any length and depth."""

NonBlank = Annotated[str, Meta(min_length=1, pattern=r"\S")]
Count = Annotated[int, Meta(ge=0)]
SENDABLE_MAX = (1 << 63) - 1
Sendable = Annotated[int, Meta(le=SENDABLE_MAX)]
"""A number that the wire can carry; for those that strangers choose."""
Chosen = Annotated[Sendable, Meta(ge=1)]
Timestamp = Annotated[
    str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z\Z", description="ISO 8601, UTC, microseconds")
]
"""ISO 8601, UTC, microseconds: `2026-11-21T22:00:00.123456Z` (made by `bus.messages.ids.iso`)."""


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class RecordMeta(StructMeta):
    """Make classes of records: fields by name alone; a message's name on the wire comes from its class parameter."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], wire: str = "", **config: Any
    ) -> Any:
        """Make the class; `class Beat(Message, wire="bus.beat")` has that TYPE."""
        own = {**namespace, "TYPE": wire} if wire else namespace
        return super().__new__(mcls, name, bases, own, kw_only=True, **config)


class Record(Struct, metaclass=RecordMeta, frozen=True, forbid_unknown_fields=True):
    """A frozen value, checked where it comes from outside (`model_validate` and its like), not where it is made.

    There unknown keys are rejected and nothing is coerced, but that a whole number may stand where a float is meant.
    """

    ADDED_LATER: ClassVar[int] = 0
    """How many of its last fields older entries of the record lack: packed within a value, those at their defaults are
    left out, so that what was packed before has the same bytes."""

    @classmethod
    def model_validate(cls, value: Any) -> Self:
        """Return the record behind a JSON-like value. Raises msgspec.ValidationError, which is a ValueError."""
        return convert(value, cls)

    @classmethod
    def model_validate_json(cls, text: bytes | str) -> Self:
        """Return the record behind a JSON text. Raises ValueError."""
        return json.decode(text, type=cls)

    def checked(self) -> Self:
        """Return the record checked as if it had come from outside, for what people wrote. Raises ValidationError."""
        try:
            return decode(_encode(self), type=type(self))
        except UnicodeEncodeError:
            raise ValidationError("a text holds half a character: it is no Unicode") from None
        except OverflowError:
            raise ValidationError("a number needs more than 64 bits") from None

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """Return the record with these fields, which are not checked; everything else is frozen, and shared."""
        return structs.replace(self, **update)

    def model_dump(
        self, *, mode: Literal["python", "json"] = "python", exclude_defaults: bool = False
    ) -> dict[str, Any]:
        """Return the fields by name, at every depth; bytes as they are, in `json` mode as base64."""
        dumped: dict[str, Any] = (
            _without_defaults(self)
            if exclude_defaults
            else to_builtins(self, builtin_types=() if mode == "json" else (bytes,))
        )
        return dumped

    def model_dump_json(self, *, indent: int | None = None) -> str:
        text = json.encode(self)
        return (text if indent is None else json.format(text, indent=indent)).decode()

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> Any:
        """Check a record within a model of a program's own as anywhere else."""
        from pydantic_core import core_schema  # noqa: PLC0415 - whoever gets here has loaded it

        return core_schema.no_info_plain_validator_function(
            cls.model_validate,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda record, info: record.model_dump(mode=info.mode), info_arg=True
            ),
        )


_FLAT = frozenset({str, int, float, bool, bytes, type(None)})


def _without_defaults(value: Any) -> Any:
    """Return records, lists and maps as maps of what is not at its default."""
    kind = type(value)
    if kind is list or kind is tuple:
        return [one if type(one) in _FLAT else _without_defaults(one) for one in value]
    if kind is dict:
        return {key: one if type(one) in _FLAT else _without_defaults(one) for key, one in value.items()}
    names, defaults, held = _find_defaults(kind)
    held = dict(held)
    for name, found, default in zip(names, structs.astuple(value), defaults):  # noqa: B905 - of one class
        if found != default:
            held[name] = found if type(found) in _FLAT else _without_defaults(found)
    return held


@cache
def _find_defaults(cls: type[Record]) -> tuple[tuple[str, ...], tuple[Any, ...], dict[str, Any]]:
    """Return a class's fields, their defaults (to compare with, never to hand out), and its tag under its name."""
    form, found = cls.__struct_config__, dict(list_defaults(cls))
    return tuple(found), tuple(found.values()), {form.tag_field: form.tag} if form.tag_field is not None else {}


@cache
def list_defaults(cls: type[Record]) -> tuple[tuple[str, Any], ...]:
    """Return fields and their defaults; NODEFAULT, which nothing equals, for none."""
    return tuple(
        (one.name, one.default if one.default_factory is NODEFAULT else one.default_factory())
        for one in structs.fields(cls)
    )


def _list_fields(value: Any) -> list[Any]:
    """Return a packed record's fields in their order; MessagePack asks this for every type that it does not know."""
    if isinstance(value, Record):
        fields = [*structs.astuple(value)]
        return _shorten(type(value), fields) if value.ADDED_LATER else fields
    raise OverflowError("more than 64 bits") if isinstance(value, int) else TypeError(f"a {type(value).__name__}")


def _shorten(cls: type[Record], fields: list[Any]) -> list[Any]:
    for _, default in list_defaults(cls)[: -cls.ADDED_LATER - 1 : -1]:
        if fields[-1] != default:
            break
        fields.pop()
    return fields


pack: Callable[[Any], bytes] = msgpack.Packer(use_bin_type=True, default=_list_fields).pack
"""MessagePack bytes of a JSON-like value (bytes and records allowed); dicts keep their insertion order."""
_encode = Encoder().encode


class Message(Record):
    """A typed body of an envelope; on the wire it is named by its class parameter `wire`, and `VERSION`."""

    TYPE: ClassVar[str] = ""
    VERSION: ClassVar[int] = 1

    if TYPE_CHECKING:

        def __init_subclass__(cls, wire: str = "") -> None:
            """Tell type checkers of `wire`."""

    def to_bytes(self) -> bytes:
        """Return the body on the wire. Raises OverflowError for a number that needs more than 64 bits."""
        return _encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the checked message behind a body. Raises ValueError."""
        return convert(unpack(data), cls)  # a typed decoder is faster, and lets through maps that `unpack` refuses


def locate_fault(error: ValidationError) -> tuple[str, str]:
    """Return (place, what is wrong there) of a value that is not as its class says, without the value."""
    said, _, place = str(error).partition(" - at `$")
    if (about := _FIELD.match(said)) is not None:
        place, said = f"{place.rstrip('`')}.{about[2]}", "is missing" if about[1] == "missing required" else "unknown"
    place = _NUMBER.sub(r".\1", place.rstrip("`")).removeprefix(".")
    said = _GIVEN.sub("", said).replace(_KEY_RULE, "letters, digits and ._:@-")
    return cut(place, _PLACE_SHOWN), cut(said, _FAULT_SHOWN)


def describe_fault(error: ValidationError) -> str:
    """Return the place and the fault in one line."""
    place, said = locate_fault(error)
    return f"{place or 'body'}: {said}"


def unpack(data: bytes) -> Any:
    """Return the value behind `pack`; raises ValueError for anything that is not one whole MessagePack value."""
    try:
        return msgpack.unpackb(data, raw=False, strict_map_key=True)
    except ValueError:
        raise
    except Exception as error:  # msgpack raises a family without a common base
        raise ValueError(f"not MessagePack: {type(error).__name__}") from error


def name_fields(value: Any) -> Any:
    """Return messages, records and named tuples as dicts, at every depth; what has no names as it is."""
    if isinstance(value, Record):
        return {name: name_fields(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, tuple) and (fields := getattr(type(value), "_fields", ())):
        return {name: name_fields(item) for name, item in zip(fields, value, strict=True)}
    if isinstance(value, dict):
        return {key: name_fields(item) for key, item in value.items()}
    return [name_fields(item) for item in value] if isinstance(value, (list, tuple)) else value


def make_from(cls: type[T], *sources: object, **own: Any) -> T:
    """Build a value of this class: `own` fields, and others from the first source that has the name."""
    found: dict[str, Any] = {}
    for source in reversed(sources):
        names, values_in = _find_common(cls, type(source))
        found.update(zip(names, values_in(source)))  # noqa: B905 - the first name is asked for twice
    return cls(**(found | own))


@cache
def _find_common(cls: type, source: type) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """Return fields of `cls` that each value of the class `source` has, and a function that takes them."""
    has = frozenset(_list_field_names(source))
    names = tuple(name for name in _list_field_names(cls) if name in has or hasattr(source, name))
    return names, attrgetter(*names, names[0]) if names else lambda _source: ()


def _list_field_names(cls: type) -> Iterable[str]:
    """Return the field names of a record, a model, a named tuple or a dataclass."""
    known = (
        getattr(cls, kind, ()) for kind in ("__struct_fields__", "model_fields", "_fields", "__dataclass_fields__")
    )
    return next(filter(None, known), ())


canonical_bytes: Callable[[Any], bytes] = Encoder(order="sorted").encode
"""Encode what is hashed: MessagePack with keys sorted at every depth. Same value, same bytes."""


def find_metas(hint: Any) -> Iterator[Meta]:
    """Yield what annotations say of a field, of type `T`, `T | None`, or what these are made of: outermost first."""
    if get_origin(hint) is Annotated:
        yield from (meta for meta in reversed(hint.__metadata__) if isinstance(meta, Meta))
        yield from find_metas(hint.__origin__)
    elif get_origin(hint) in (Union, UnionType):
        for part in get_args(hint):
            yield from find_metas(part)


def compute_digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
