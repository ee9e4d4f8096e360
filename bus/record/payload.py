"""Body 0 of an entry as a typed value: a named tuple with described fields, positional in the record. Pure.

A class says all: its annotations are what a reader holds the bytes against, exactly (True is no int here, and nothing
is coerced; a whole number may stand where a float is meant). A record of a message stands in it as an array, its fields
in their order. What an entry's own fields say already (its session, its
order, its reason, the call in its id) is no field of a payload. Fields with defaults come last: a writer leaves those
out that are at theirs, and a reader fills them in, so that one that is added later is no reason to refuse an old entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import ValidationError

from hobus.bus.messages.base import Record, pack, unpack

P = TypeVar("P", bound=tuple[Any, ...])

_Read = Callable[[Any], Any]
"""What stands there, as its annotation has it. Raises ValueError: `: <why>`, or `.<field>: <why>` from deeper down."""


class HasBodies(Protocol):
    """An entry, as it is written or as it is read."""

    @property
    def bodies(self) -> Sequence[bytes | None]:
        """The first is the payload; None where one was erased."""
        ...


def pack_payload(value: tuple[Any, ...]) -> bytes:
    """The bytes of a payload; fields at their defaults behind the last other one are left out."""
    defaults = _defaults(type(value))
    end = len(value)
    least = end - len(defaults)
    while end > least and value[end - 1] == defaults[end - 1 - least]:
        end -= 1
    return pack(value if end == len(value) else value[:end])


def payload_of(cls: type[P], body: bytes) -> P:
    """The payload behind a body. Raises ValueError, naming the first field that is not as its class has it."""
    try:
        found: P = _reader(cls)(unpack(body))
    except ValueError as fault:
        raise ValueError(f"{cls.__name__}{fault}") from None
    return found


def payload_in(cls: type[P], entry: HasBodies) -> P | None:
    """The payload of an entry; None where it was erased, or was not asked for. Raises ValueError as `payload_of`."""
    body = entry.bodies[0] if entry.bodies else None
    return None if body is None else payload_of(cls, body)


# --- readers, made from annotations -----------------------------------------------------------------------------------


@cache
def _defaults(cls: type) -> tuple[Any, ...]:
    """Of the last fields, in their order."""
    defaults: dict[str, Any] = getattr(cls, "_field_defaults", {})
    return tuple(defaults.values())


@cache
def _reader(cls: type) -> _Read:
    """Reads one named tuple."""
    hints = get_type_hints(cls, include_extras=True)
    names: tuple[str, ...] = getattr(cls, "_fields", ())
    fields = tuple((name, _reads(hints[name])) for name in names)
    most, least = len(fields), len(fields) - len(_defaults(cls))
    wanted = str(most) if most == least else f"{least} to {most}"

    def read(found: Any) -> Any:
        if type(found) is not list:
            raise ValueError(f": {type(found).__name__}, not {wanted} fields")
        if not least <= len(found) <= most:
            raise ValueError(f": {len(found)} fields, not {wanted}")
        values: list[Any] = []
        for (name, reads), value in zip(fields, found, strict=False):
            try:
                values.append(reads(value))
            except ValueError as fault:
                raise ValueError(f".{name}{fault}") from None
        return cls(*values)

    return read


def _reads(annotation: Any) -> _Read:
    """What reads a field of this annotation. Raises TypeError for one that no payload may have."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _reads(arguments[0])
    if origin in (Union, UnionType):
        return _one_of(arguments)
    if origin is Literal:
        return _word_of(arguments)
    if origin is tuple and arguments[1:] == (...,):
        return _each(_reads(arguments[0]))
    if origin is dict and arguments[0] is str:
        return _by_name(_reads(arguments[1]))
    if annotation is Any:
        return lambda value: value
    if annotation in (str, int, float, bool, bytes, NoneType):
        return _plain(annotation)
    if isinstance(annotation, type) and hasattr(annotation, "_fields"):
        return _reader(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return partial(_record, annotation)
    raise TypeError(f"no field of a payload is a {annotation}")


def _record(cls: type[Record], found: Any) -> Record:
    names = tuple(cls.model_fields)
    if type(found) is not list or len(found) != len(names):
        raise ValueError(f": {type(found).__name__}, not {len(names)} fields")
    try:
        return cls.model_validate(dict(zip(names, found, strict=True)))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        raise ValueError(f".{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _plain(kind: type) -> _Read:
    kinds = (float, int) if kind is float else (kind,)

    def read(value: Any) -> Any:
        if type(value) not in kinds:
            raise ValueError(f": {type(value).__name__}, not {kind.__name__}")
        return value

    return read


def _word_of(words: tuple[Any, ...]) -> _Read:
    def read(value: Any) -> Any:
        if value not in words or type(value) is not str:
            raise ValueError(f": none of {', '.join(words)}")
        return value

    return read


def _each(reads: _Read) -> _Read:
    def read(value: Any) -> Any:
        if type(value) is not list:
            raise ValueError(f": {type(value).__name__}, not a list")
        return tuple(_at(number, reads, item) for number, item in enumerate(value))

    return read


def _by_name(reads: _Read) -> _Read:
    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise ValueError(f": {type(value).__name__}, not a map")
        return {name: _at(number, reads, item) for number, (name, item) in enumerate(value.items())}

    return read


def _one_of(kinds: tuple[Any, ...]) -> _Read:
    """The first that takes it; the fault is that of the last one."""
    *first, last = (_reads(kind) for kind in sorted(kinds, key=lambda kind: kind is not NoneType))

    def read(value: Any) -> Any:
        for reads in first:
            try:
                return reads(value)
            except ValueError:
                continue
        return last(value)

    return read


def _at(number: int, reads: _Read, item: Any) -> Any:
    try:
        return reads(item)
    except ValueError as fault:
        raise ValueError(f".{number}{fault}") from None
