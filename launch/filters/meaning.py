"""What a filter means for one kind of thing: its fields, and the test that a tree becomes. Pure."""

from __future__ import annotations

import operator as operators
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Generic, TypeVar

from hobus.launch.filters.syntax import And, Compare, FilterError, Node, Not, Operator, Or, Value, parse

S = TypeVar("S")
Test = Callable[[S], bool]
Match = Callable[[Value], Callable[[S], bool]]

_ORDER: dict[Operator, Callable[[float, float], bool]] = {
    "=": operators.eq,
    "!=": operators.ne,
    "<": operators.lt,
    ">": operators.gt,
    "<=": operators.le,
    ">=": operators.ge,
}


@dataclass(frozen=True, slots=True)
class Texts(Generic[S]):
    """A field of text: `=` holds if any of its values fits, `!=` if none does."""

    read: Callable[[S], tuple[str, ...]]
    check: Callable[[Value], None] | None = None
    """Raises ValueError for what no value can ever be, so that nobody waits for it."""


@dataclass(frozen=True, slots=True)
class Number(Generic[S]):
    """A field that is compared by size; None where it does not apply: then nothing but `!=` holds."""

    read: Callable[[S], float | None]
    parse: Callable[[str], float]


@dataclass(frozen=True, slots=True)
class Matching(Generic[S]):
    """A field with a rule of its own for `=`; `!=` is the opposite."""

    match: Match[S]


Field = Texts[S] | Number[S] | Matching[S]
Fields = Mapping[str, Field[S]]


def filter_of(texts: Sequence[str], fields: Fields[S]) -> Test[S]:
    """Return the filter behind the arguments: all must hold; none means everything. Raises FilterError."""
    tests = [bind_fields(parse(text), fields, text) for text in texts]
    return lambda subject: all(test(subject) for test in tests)


def bind_fields(node: Node, fields: Fields[S], text: str = "") -> Test[S]:
    """Return the test that a tree means. Raises FilterError for an unknown field, comparison or value."""
    match node:
        case Compare():
            return _bind_comparison(node, fields, text)
        case Not(inner):
            test = bind_fields(inner, fields, text)
            return lambda subject: not test(subject)
        case And(parts):
            all_of = [bind_fields(part, fields, text) for part in parts]
            return lambda subject: all(one(subject) for one in all_of)
        case Or(parts):
            any_of = [bind_fields(part, fields, text) for part in parts]
            return lambda subject: any(one(subject) for one in any_of)


def _bind_comparison(node: Compare, fields: Fields[S], text: str) -> Test[S]:
    field = fields.get(node.name)
    if field is None:
        raise FilterError(f"there is no field {node.name}", text, node.at)
    if isinstance(field, Number):
        return _bind_number(node, field, text)
    if node.operator not in ("=", "!="):
        raise FilterError(f"{node.name} takes = and != only", text, node.at + len(node.name))
    try:
        if isinstance(field, Matching):
            test = field.match(node.value)
        else:
            test = _make_text_test(field.read, node.value)
            if field.check is not None:
                field.check(node.value)
    except ValueError as error:
        raise FilterError(str(error), text, node.value_at) from None
    return test if node.operator == "=" else lambda subject: not test(subject)


def _bind_number(node: Compare, field: Number[S], text: str) -> Test[S]:
    try:
        limit = field.parse(node.value.text)
    except ValueError as error:
        raise FilterError(str(error), text, node.value_at) from None
    order, read, holds_for_none = _ORDER[node.operator], field.read, node.operator == "!="

    def test(subject: S) -> bool:
        value = read(subject)
        return holds_for_none if value is None else order(value, limit)

    return test


def _make_text_test(read: Callable[[S], tuple[str, ...]], value: Value) -> Test[S]:
    fits = make_matcher(value)
    return lambda subject: any(fits(text) for text in read(subject))


def make_matcher(value: Value) -> Callable[[str], bool]:
    """Return whether a text is the value; in a bare value `*` and `?` are wildcards."""
    wanted = value.text
    if value.is_literal or not ("*" in wanted or "?" in wanted):
        return lambda text: text == wanted
    pattern = re.compile("".join(_WILD.get(character, re.escape(character)) for character in wanted), re.DOTALL)
    return lambda text: pattern.fullmatch(text) is not None


def require_one_of(names: Iterable[str] | Callable[[], Iterable[str]], what: str) -> Callable[[Value], None]:
    """Return the check of a field that has these values alone; its fault names those like what was given, else all."""

    def check(value: Value) -> None:
        fits, known = make_matcher(value), sorted(names() if callable(names) else names)
        if any(fits(name) for name in known):
            return
        raise ValueError(f"there is no {what} {value.text!r}; there are {', '.join(_find_like(value.text, known))}")

    return check


def _find_like(text: str, known: Sequence[str]) -> list[str]:
    """Return those like what was given; else all, of many with a dot what they begin with."""
    plain = text.strip("*?").lower()
    near = [*get_close_matches(text, known), *(name for name in known if plain and plain in name.lower())]
    if near:
        return list(dict.fromkeys(near))[:_NAMED_AT_MOST]
    if len(known) <= _NAMED_AT_MOST:
        return list(known)
    families = (f"{family}.*" if dot else family for family, dot, _ in (name.partition(".") for name in known))
    return list(dict.fromkeys(families))


def require_role(roles: Iterable[str], *, may_be_none: bool = False) -> Callable[[Value], None]:
    """Return the check of a field of actors: `ho1`, `ho1/2`, `ho1/2@<incarnation>` of an existing role."""
    check_role = require_one_of(roles, "role")

    def check(value: Value) -> None:
        if not (may_be_none and not value.text):
            check_role(Value(value.text.partition("/")[0], value.is_literal))

    return check


_NAMED_AT_MOST = 20
_WILD = {"*": ".*", "?": "."}
