"""The filter language's text: `turn=SES-1a2b3c4d-2 & kind=wo.* & !actor=ho3 & size>10k`, parsed.

    filter     = and ("|" and)*                `&` binds tighter than `|`
    and        = unary ("&" unary)*
    unary      = "!" unary | "(" filter ")" | comparison
    comparison = NAME ("=" | "!=" | "<" | ">" | "<=" | ">=") VALUE

A bare value ends at a blank, `&`, `|` or a parenthesis; in it `*` stands for any text and `?` for one character. A
value in quotes means exactly its text; a backslash takes the next character as it is. What a name means, and which
comparisons it takes, is `meaning.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Operator = Literal["=", "!=", "<", ">", "<=", ">="]
OPERATORS: tuple[Operator, ...] = ("=", "!=", "<=", ">=", "<", ">")
"""Longer ones before their beginnings."""

DEPTH_MAX = 50
"""Parentheses and exclamation marks inside each other: far more than anybody reads, far less than the stack."""

_NAME = re.compile(r"[A-Za-z_]+")
_OPERATOR = re.compile("|".join(re.escape(operator) for operator in OPERATORS))
_BARE = re.compile(r"""(?![=<>"'])[^\s&|()]*""")
_BLANKS = re.compile(r"\s*")
_QUOTES = "\"'"


class FilterError(ValueError):
    """Say that a text is no filter, and the place in it."""

    def __init__(self, message: str, text: str, at: int) -> None:
        super().__init__(message)
        self.message = message
        self.text = text
        self.at = at

    def point_at(self) -> str:
        shown = re.sub(r"\s", " ", self.text)
        return f"  {shown}\n  {' ' * self.at}^"


@dataclass(frozen=True, slots=True)
class Value:
    """What a field is compared with; `is_literal`: it stood in quotes, nothing in it is a wildcard."""

    text: str
    is_literal: bool = False


@dataclass(frozen=True, slots=True)
class Compare:
    """One comparison; the places are for messages alone."""

    name: str
    operator: Operator
    value: Value
    at: int = field(default=0, compare=False)
    value_at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite."""

    inner: Node


@dataclass(frozen=True, slots=True)
class And:
    """All of two or more."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of two or more."""

    parts: tuple[Node, ...]


Node = Compare | Not | And | Or


def parse(text: str) -> Node:
    """Return the tree behind a text. Raises FilterError."""
    return _Parser(text).whole()


def list_comparisons(node: Node) -> list[Compare]:
    match node:
        case Compare():
            return [node]
        case Not(inner):
            return list_comparisons(inner)
        case And(parts) | Or(parts):
            return [found for part in parts for found in list_comparisons(part)]


class _Parser:
    """Parse in one pass from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._parse_any()
        if self._at < len(self._text):
            unmatched = self._text[self._at] == ")"
            raise self._make_error("no parenthesis was opened for this one" if unmatched else "expected & or |")
        return node

    def _parse_any(self) -> Node:
        return _join(Or, self._parse_separated("|", self._parse_all))

    def _parse_all(self) -> Node:
        return _join(And, self._parse_separated("&", self._parse_unary))

    def _parse_separated(self, separator: str, part: Callable[[], Node]) -> list[Node]:
        parts = [part()]
        while self._takes(separator):
            self._takes_at_once(separator)  # `&&` and `||` are what programmers type
            parts.append(part())
        return parts

    def _parse_unary(self) -> Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._make_error(f"nested deeper than {DEPTH_MAX}")
        node = self._parse_unary_inside()
        self._depth -= 1
        return node

    def _parse_unary_inside(self) -> Node:
        if self._takes("!"):
            return Not(self._parse_unary())
        if self._takes("("):
            node = self._parse_any()
            if not self._takes(")"):
                raise self._make_error("expected )")
            return node
        return self._parse_comparison()

    def _parse_comparison(self) -> Compare:
        self._skip_blanks()
        at = self._at
        name = self._match(_NAME)
        if not name:
            raise self._make_error("expected NAME=VALUE")
        self._skip_blanks()
        operator = self._match(_OPERATOR)
        if not operator:
            raise self._make_error(f"expected one of {' '.join(sorted(OPERATORS, key=len))} after {name}")
        self._skip_blanks()
        value_at = self._at
        return Compare(name, operator, self._parse_value(), at, value_at)  # type: ignore[arg-type] - matched above

    def _parse_value(self) -> Value:
        if self._at < len(self._text) and self._text[self._at] in _QUOTES:
            return Value(self._parse_quoted(), is_literal=True)
        found = _BARE.match(self._text, self._at)
        if found is None:
            raise self._make_error("expected a value")
        self._at = found.end()
        return Value(found[0])

    def _parse_quoted(self) -> str:
        quote, began = self._text[self._at], self._at
        self._at += 1
        taken: list[str] = []
        while self._at < len(self._text):
            character = self._text[self._at]
            self._at += 1
            if character == quote:
                return "".join(taken)
            if character == "\\" and self._at < len(self._text):
                character = self._text[self._at]
                self._at += 1
            taken.append(character)
        self._at = began
        raise self._make_error("this quote is never closed")

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found[0]

    def _takes(self, character: str) -> bool:
        self._skip_blanks()
        return self._takes_at_once(character)

    def _takes_at_once(self, character: str) -> bool:
        if self._text.startswith(character, self._at):
            self._at += 1
            return True
        return False

    def _skip_blanks(self) -> None:
        self._match(_BLANKS)

    def _make_error(self, message: str) -> FilterError:
        return FilterError(message, self._text, self._at)


def _join(kind: type[And | Or], parts: Sequence[Node]) -> Node:
    return parts[0] if len(parts) == 1 else kind(tuple(parts))
