"""Body 0 of an entry as a typed value: a named tuple with described fields, positional in the record. Pure.

A class says all: its annotations are what a reader holds the bytes against, exactly (True is no int here, and nothing
is coerced; a whole number may stand where a float is meant). A record of a message stands in it as an array, its fields
in their order. What an entry's own fields say already (its session, its
order, its reason, the call in its id) is no field of a payload. Fields with defaults come last: a writer leaves those
out that are at theirs, and a reader fills them in, so that one that is added later is no reason to refuse an old entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from types import UnionType
from typing import Any, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import ValidationError, convert
from msgspec.msgpack import Decoder

from hobus.bus.messages.base import Record, pack, unpack

P = TypeVar("P", bound=tuple[Any, ...])

_AT = re.compile(r" - at .*`\$\[(\d+)\](.*)`$")
"""How msgspec says where in an array a fault is: the position of the field, and the way on from there."""


class HasBodies(Protocol):
    """An entry, as it is written or as it is read."""

    @property
    def bodies(self) -> Sequence[bytes | None]:
        """Return the bodies, the payload first; None where one was erased."""
        ...


def pack_payload(value: tuple[Any, ...]) -> bytes:
    """Return the bytes of a payload; fields at their defaults behind the last other one are left out."""
    least, end, defaults = _find_defaults(type(value))
    while end > least and value[end - 1] == defaults[end - 1 - least]:
        end -= 1
    return pack(value[:end])


def unpack_payload(cls: type[P], body: bytes) -> P:
    """Return the payload behind a body. Raises ValueError, naming the first field that is not as its class has it."""
    try:
        expand = _find_expansion(cls)
        return _make_decoder(cls).decode(body) if expand is None else convert(expand(unpack(body)), cls)
    except ValidationError as fault:
        said = str(fault)
        at = _AT.search(said)
        where = f".{_list_fields(cls)[int(at[1])]}{at[2]}" if at else ""
        raise ValueError(f"{cls.__name__}{where}: {said[: at.start()] if at else said}") from None
    except ValueError as fault:
        raise ValueError(f"{cls.__name__}: {fault}") from None


def read_payload(cls: type[P], entry: HasBodies) -> P | None:
    """Return the payload of an entry; None if erased, or not asked for. Raises ValueError as `unpack_payload`."""
    body = entry.bodies[0] if entry.bodies else None
    return None if body is None else unpack_payload(cls, body)


@cache
def _find_defaults(cls: type) -> tuple[int, int, tuple[Any, ...]]:
    """Return how many fields have no default, how many there are, and the defaults of the last ones in order."""
    defaults: dict[str, Any] = getattr(cls, "_field_defaults", {})
    count = len(_list_fields(cls))
    return count - len(defaults), count, tuple(defaults.values())


def _list_fields(cls: type) -> tuple[str, ...]:
    names: tuple[str, ...] = getattr(cls, "_fields", ())
    return names


@cache
def _make_decoder(cls: type[P]) -> Decoder[P]:
    return Decoder(cls)


_Expand = Callable[[Any], Any]


@cache
def _find_expansion(hint: Any) -> _Expand | None:
    """Return how a packed value of this type gets the field names of its records; None: it holds none."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (tuple, list):
        each = _find_expansion(inner[0])
        return each and (lambda found: [each(one) for one in found] if type(found) is list else found)
    if origin in (Union, UnionType):
        forms = [form for one in inner if (form := _find_expansion(one)) is not None]
        return (lambda found: forms[0](found) if type(found) is list else found) if forms else None
    if not isinstance(hint, type):
        return None
    if issubclass(hint, Record):
        return partial(name_packed, hint)
    hints = get_type_hints(hint) if hasattr(hint, "_fields") else {}
    held = [
        (position, form) for position, one in enumerate(hints.values()) if (form := _find_expansion(one)) is not None
    ]
    return partial(_expand, held) if held else None


def _expand(held: Sequence[tuple[int, _Expand]], found: Any) -> Any:
    for position, form in held:
        if type(found) is list and position < len(found) and found[position] is not None:
            found[position] = form(found[position])
    return found


def name_packed(cls: type[Record], found: Any) -> Any:
    """Return a packed record as a dict by names, and so the records in it; of anything else a text that says so."""
    names = cls.__struct_fields__
    if type(found) is not list or not len(names) - cls.ADDED_LATER <= len(found) <= len(names):
        return f"{type(found).__name__}, not {len(names)} fields"
    return dict(zip(names, _expand(_find_records(cls), found), strict=False))


@cache
def _find_records(cls: type[Record]) -> list[tuple[int, _Expand]]:
    hints = get_type_hints(cls)
    forms = [_find_expansion(hints[name]) for name in cls.__struct_fields__]
    return [(position, form) for position, form in enumerate(forms) if form is not None]
