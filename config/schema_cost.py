"""How often a schema looks at a value: what references, alternatives and nesting add up to. Pure.

A schema is a program of its author's. Two references to one definition at each of thirty levels are a billion looks,
and no library counts them. What is counted here is an upper bound, by the height of a value: along any one chain from
the value's top down to a leaf, how many times a subschema is applied. Times the value's size it bounds all the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

REFERENCES = ("$ref", "$dynamicRef")
_HERE = ("not", "if", "then", "else")
_HERE_EACH = ("allOf", "anyOf", "oneOf")
_HERE_NAMED = ("dependentSchemas", "dependencies")
_BELOW = ("additionalProperties", "propertyNames", "items", "contains", "unevaluatedItems", "unevaluatedProperties")
_UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")
_UNEVALUATED_LOOKS = 4
"""What such a keyword asks anew of what stands beside it: measured, and more than twice."""


class NoEnd(ValueError):
    """Say that references lead back to themselves with nothing in between, or to more places than anybody counts."""


class SchemaCost:
    """Counts for one schema, worked out for deeper values when these are asked about."""

    def __init__(self, schema: Any) -> None:
        """Count a schema. Raises NoEnd; KeyError for a reference that leads nowhere; RecursionError."""
        targets = _Targets(schema)
        self._parts = dict(_list_parts(schema, targets))
        self._root = id(schema)
        self._schema = schema  # Its parts are known by their identity, which it holds.
        self._level = self._sum_next({})
        self._looks = [self._level.get(self._root, 0)]
        self._is_whole = False
        self.refers = targets.asked_count > 0
        self.at_once = sum(self._level.values())
        """How often all subschemas together look at values without anything in them."""

    def looks(self, height: int) -> int:
        """Return how often a value of this height is looked at, at most, along one chain; 0: without content."""
        while len(self._looks) <= height and not self._is_whole:
            level = self._sum_next(self._level)
            # The same twice: the schema ends here, and what is deeper in a value it does not look at.
            # Or more than anybody takes.
            self._is_whole = level == self._level or level.get(self._root, 0) > _ENOUGH
            self._level = level
            self._looks.append(level.get(self._root, 0))
        return self._looks[min(height, len(self._looks) - 1)]

    def _sum_next(self, below: Mapping[int, int]) -> dict[int, int]:
        level: dict[int, int] = {}
        for name in self._parts:
            self._count(name, level, below)
        return level

    def _count(self, name: int, level: dict[int, int], below: Mapping[int, int]) -> int:
        known = level.get(name)
        if known == _COUNTING:
            raise NoEnd
        if known is None:
            level[name] = _COUNTING
            part = self._parts[name]
            here = sum(self._count(other, level, below) for other in part.here)
            deeper = sum(below.get(other, 0) for other in part.below)
            deeper += max((below.get(other, 0) for other in part.one_of_below), default=0)
            known = level[name] = part.own + part.times * here + deeper
        return known


_ENOUGH = 10**9
_TARGETS_MAX = 100_000
_COUNTING = -1


class _Part:
    """A subschema: the parts that look at the same value, those for what is in it, and of which one looks at most."""

    def __init__(self, schema: Mapping[str, Any], targets: _Targets) -> None:
        self.own = 1 + sum(measure_extent(schema[key]).value_count for key in ("enum", "const") if key in schema)
        self.times = _UNEVALUATED_LOOKS if any(key in schema for key in _UNEVALUATED) else 1
        here = [to for key in REFERENCES if isinstance(at := schema.get(key), str) for to in targets.of(at)]
        here += [schema.get(key) for key in _HERE]
        here += [item for key in _HERE_EACH for item in _list_items(schema.get(key))]
        here += [item for key in _HERE_NAMED for item in list_values(schema.get(key))]
        below = [*(schema.get(key) for key in _BELOW), *list_values(schema.get("patternProperties"))]
        one_of_below = [*list_values(schema.get("properties")), *_list_items(schema.get("prefixItems"))]
        self.leads_to = list(_list_schemas([*here, *below, *one_of_below]))
        self.here = [id(item) for item in _list_schemas(here)]
        self.below = [id(item) for item in _list_schemas(below)]
        self.one_of_below = [id(item) for item in _list_schemas(one_of_below)]


def _list_parts(schema: Any, targets: _Targets) -> Iterator[tuple[int, _Part]]:
    """Yield everything that a validator may come to."""
    waiting, seen = list(_list_schemas([schema])), set[int]()
    while waiting:
        found = waiting.pop()
        if id(found) not in seen:
            seen.add(id(found))
            part = _Part(found, targets)
            waiting.extend(part.leads_to)
            yield id(found), part


class _Targets:
    """Where references lead. Where a schema holds documents of their own ($id), in each of them: that is more."""

    def __init__(self, schema: Any) -> None:
        self._documents = [schema]
        self._anchors: dict[str, list[Any]] = {}
        self.asked_count = 0
        for node in walk_nodes(schema):
            if isinstance(node.get("$id"), str) and node is not schema:
                self._documents.append(node)
            for anchor in {node.get("$anchor"), node.get("$dynamicAnchor")}:
                if isinstance(anchor, str):
                    self._anchors.setdefault(anchor, []).append(node)

    def of(self, reference: str) -> list[Any]:
        """Return what a reference may mean. Raises KeyError if there is nothing, and NoEnd beyond any measure."""
        name = unquote(reference.removeprefix("#"))
        is_anchor = name and not name.startswith("/")
        among = self._anchors[name] if is_anchor else self._documents
        self.asked_count += len(among)
        if self.asked_count > _TARGETS_MAX:
            raise NoEnd
        found = among if is_anchor else [to for document in among for to in find_at_pointer(document, name)]
        if not found or not all(isinstance(to, dict | bool) for to in found):
            raise KeyError(reference)
        return found


def find_at_pointer(document: Any, pointer: str) -> list[Any]:
    """Return what stands there, in a list; empty: nothing."""
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        try:
            document = document[int(key)] if isinstance(document, list) else document[key]
        except (KeyError, IndexError, ValueError, TypeError):
            return []
    return [document]


def _list_schemas(values: list[Any]) -> Iterator[dict[str, Any]]:
    return (cast("dict[str, Any]", value) for value in values if isinstance(value, dict))


def walk_nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a value, itself included, however deep: nothing recurses."""
    waiting = [schema]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            yield cast("dict[str, Any]", found)
        waiting.extend([*_list_items(found), *list_values(found)])


def _list_items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def list_values(value: Any) -> list[Any]:
    """Return the values of an object; none of anything else."""
    return list(cast("dict[str, Any]", value).values()) if isinstance(value, dict) else []


class Extent(NamedTuple):
    """How large a value is."""

    height: int  # 0: nothing is in it
    value_count: int  # itself included
    size: int  # the same, and its characters


def measure_extent(value: Any) -> Extent:
    """Measure a value level by level: however deep it is, nothing recurses."""
    height, count, chars, level = 0, 1, 0, [value]
    while True:
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                members = cast("dict[Any, Any]", item)
                inner.extend(members.values())
                chars += sum(len(key) for key in members if isinstance(key, str))
            elif isinstance(item, list):
                inner.extend(cast("list[Any]", item))
            elif isinstance(item, str):
                chars += len(item)
        if not inner:
            return Extent(height, count, count + chars)
        height, count, level = height + 1, count + len(inner), inner
