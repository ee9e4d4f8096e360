"""The frozen strict base of everything that crosses the wire or stands in a record, and its canonical bytes."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Self, TypeVar

import msgpack
from msgspec.msgpack import Encoder
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from hobus.bus.text import cut

T = TypeVar("T")
_NAME_SHOWN, _DEPTH_SHOWN, _FAULTS_SHOWN = 64, 8, 5
"""A field that no message has is named by its sender, at any length and depth."""
_fill = object.__setattr__  # of a frozen model, as pydantic does it
_fill_set, _fill_extra, _fill_private = (
    getattr(BaseModel, f"__pydantic_{slot}__").__set__ for slot in ("fields_set", "extra", "private")
)

NonBlank = Annotated[str, Field(min_length=1, pattern=r"\S")]
Count = Annotated[int, Field(ge=0)]
SENDABLE_MAX = (1 << 63) - 1
Sendable = Annotated[int, Field(le=SENDABLE_MAX)]
"""A number that the wire can carry; for those that strangers choose."""
Chosen = Annotated[Sendable, Field(ge=1)]
Timestamp = Annotated[
    str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$", description="ISO 8601, UTC, microseconds")
]
"""ISO 8601, UTC, microseconds: `2026-11-21T22:00:00.123456Z` (made by `bus.messages.ids.iso`)."""


def cut_to(max_chars: int) -> BeforeValidator:
    """For a field of text that quotes others: what is longer is cut, where it is made and where it is read."""
    return BeforeValidator(lambda said: cut(said, max_chars) if isinstance(said, str) else said)


class Record(BaseModel):  # noqa: PLW1641 - pydantic gives a frozen model its hash
    """A frozen value that rejects unknown keys and never coerces; its checks are compiled at its first use."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    ADDED_LATER: ClassVar[int] = 0
    """How many of its last fields older entries of the record lack: packed within a value, those at their defaults are
    left out, so that what was packed before has the same bytes."""

    def __eq__(self, other: object) -> bool:
        """Same type, same fields: all that there is to a record."""
        return isinstance(other, Record) and type(self) is type(other) and self.__dict__ == other.__dict__

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """The same record with these fields, which are not checked: what it shares is frozen, and shared."""
        if deep:
            return super().model_copy(update=update, deep=True)
        changes = update or {}
        return self._made({**self.__dict__, **changes}, self.__pydantic_fields_set__.union(changes))

    @classmethod
    def model_construct(cls, _fields_set: set[str] | None = None, **values: Any) -> Self:
        """The record with these fields, which are not checked; where all are named in order, none is looked for."""
        if _fields_set is not None or [*values] != [*cls.__pydantic_fields__]:
            return super().model_construct(_fields_set, **values)
        return cls._made(values, set(values))

    @classmethod
    def _made(cls, values: dict[str, Any], fields_set: set[str]) -> Self:
        made = cls.__new__(cls)
        _fill(made, "__dict__", values)
        _fill_set(made, fields_set)
        _fill_extra(made, None)
        _fill_private(made, None)
        return made


def _positional(value: Any) -> list[Any]:
    """A record within a value that is packed: its fields, in their order. MessagePack asks for all that it has not."""
    if isinstance(value, Record):
        fields = [*value.__dict__.values()]  # fields alone, and in their order, however it was made
        return _shortened(type(value), fields) if value.ADDED_LATER else fields
    raise OverflowError("more than 64 bits") if isinstance(value, int) else TypeError(f"a {type(value).__name__}")


def _shortened(cls: type[Record], fields: list[Any]) -> list[Any]:
    for default in _later_defaults(cls):
        if fields[-1] != default:
            break
        fields.pop()
    return fields


@cache
def _later_defaults(cls: type[Record]) -> list[Any]:
    """Of the fields that older entries lack, the last one first; compared, and never handed out."""
    infos = [*cls.model_fields.values()]
    return [info.get_default(call_default_factory=True) for info in infos[: -cls.ADDED_LATER - 1 : -1]]


pack: Callable[[Any], bytes] = msgpack.Packer(use_bin_type=True, default=_positional).pack
"""MessagePack bytes of a JSON-like value (bytes and records allowed); dicts keep their insertion order."""


class Message(Record):
    """A typed body of an envelope; on the wire it is named by its class parameter `wire`, and `VERSION`."""

    TYPE: ClassVar[str] = ""
    VERSION: ClassVar[int] = 1

    def __init_subclass__(cls, wire: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.TYPE = wire

    def to_bytes(self) -> bytes:
        """The body on the wire. Raises OverflowError for a number that needs more than 64 bits."""
        return pack(self.__pydantic_serializer__.to_python(self))  # model_dump() does it directly

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The message behind a body, checked. Raises ValueError (pydantic's ValidationError is one)."""
        message: Self = cls.__pydantic_validator__.validate_python(unpack(data))  # what model_validate() does, directly
        return message


def faults_in(error: ValidationError) -> str:
    """Where a message is not as it should be, and how, in a line: the first few places, and no value."""
    found = error.errors(include_input=False, include_url=False, include_context=False)[:_FAULTS_SHOWN]
    places = [".".join(cut(str(part), _NAME_SHOWN) for part in fault["loc"][:_DEPTH_SHOWN]) for fault in found]
    return "; ".join(f"{place or 'body'}: {fault['msg']}" for place, fault in zip(places, found, strict=True))


def unpack(data: bytes) -> Any:
    """The value behind `pack`; raises ValueError for anything that is not one whole MessagePack value."""
    try:
        return msgpack.unpackb(data, raw=False, strict_map_key=True)
    except ValueError:
        raise
    except Exception as error:  # msgpack raises a family without a common base
        raise ValueError(f"not MessagePack: {type(error).__name__}") from error


def named(value: Any) -> Any:
    """Messages, records and named tuples as dicts, at every depth; what has no names as it is."""
    if isinstance(value, BaseModel):
        return {name: named(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, tuple) and (fields := getattr(type(value), "_fields", ())):
        return {name: named(item) for name, item in zip(fields, value, strict=True)}
    if isinstance(value, dict):
        return {key: named(item) for key, item in value.items()}
    return [named(item) for item in value] if isinstance(value, (list, tuple)) else value


def made_of(cls: type[T], *sources: object, **own: Any) -> T:
    """A value of this class: `own` fields, and others that a source has under the same name; the first one's counts."""
    found: dict[str, Any] = {}
    for source in reversed(sources):
        held = getattr(source, "__dict__", {})  # where a model's fields are found sooner
        for name in _common(cls, type(source)):
            found[name] = held[name] if name in held else getattr(source, name)
    return cls(**(found | own))


@cache
def _common(cls: type, source: type) -> tuple[str, ...]:
    """Fields of `cls` that each value of the class `source` has, as a field or as a property.

    Asked once of two classes: a model looks long for a name that it has not.
    """
    has = frozenset(_field_names(source))
    return tuple(name for name in _field_names(cls) if name in has or hasattr(source, name))


def _field_names(cls: type) -> Iterable[str]:
    """Of a model, a named tuple or a dataclass."""
    known = (getattr(cls, kind, ()) for kind in ("model_fields", "_fields", "__dataclass_fields__"))
    return next(filter(None, known), ())


canonical_value: Callable[[Any], bytes] = Encoder(order="deterministic").encode
"""The canonical bytes of a record that was dumped already (`mode="json"`)."""


def canonical_bytes(record: BaseModel) -> bytes:
    """The one byte encoding of a record: MessagePack with keys sorted at every depth. Same value, same bytes."""
    return canonical_value(record.model_dump(mode="json"))


def digest_of(data: bytes) -> str:
    """`sha256:<64 hex>` of some bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def build_models() -> None:
    """Compile the checks of every model that is loaded, else done at its first use.

    For a process that others are forked from: whoever compiles one later writes to pages that all share.
    """
    models = deque(BaseModel.__subclasses__())
    while models:  # in the order in which they were made: what stands in another one is shared by it
        models += (model := models.popleft()).__subclasses__()
        model.model_rebuild()
