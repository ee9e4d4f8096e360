"""What a schema fills in where a model left it out. Pure; no rule of the schema is judged here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from hobus.bus.messages.control import PARAMETERS_DEPTH_MAX
from hobus.config import limits
from hobus.config.schema_cost import find_at_pointer


def with_defaults(schema: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with the schema's default for each required one that is missing, at any depth.

    Objects in objects and items of lists count, behind references within the schema too, and in an alternative where
    it is the only one for such a value. Optional ones stay away: a tool may tell them from those that were given. The
    same object where nothing is missing.
    """
    return cast("dict[str, Any]", _Filling(schema).filled(schema, arguments))


@dataclass
class _Filling:
    root: Mapping[str, Any]
    left: int = limits.DEFAULTS_MAX
    height: int = PARAMETERS_DEPTH_MAX - 1
    """Levels that may still be below."""

    def filled(self, schema: Any, value: Any) -> Any:
        if isinstance(value, dict | list) and self.height:
            self.height -= 1
            for part in self._list_parts(schema, value):
                value = self._fill_object(part, value) if isinstance(value, dict) else self._list(part, value)
            self.height += 1
        return value

    def _fill_object(self, schema: Mapping[str, Any], value: dict[str, Any]) -> dict[str, Any]:
        properties = _read_mapping(schema.get("properties"))
        given = dict(value)
        for name in _list(schema.get("required")):
            of_it = _read_mapping(properties.get(name))
            if name not in given and self.left and (found := self._find_default(of_it)):
                self.left -= 1
                given[name] = found[0]
        others = schema.get("additionalProperties")
        found = {name: self.filled(properties.get(name, others), inner) for name, inner in given.items()}
        is_same = found.keys() == value.keys() and all(found[name] is value[name] for name in value)
        return value if is_same else found

    def _list(self, schema: Mapping[str, Any], value: list[Any]) -> list[Any]:
        first = _list(schema.get("prefixItems"))
        of_each = [*first, *[schema.get("items")] * max(0, len(value) - len(first))]
        found = [self.filled(of_it, inner) for of_it, inner in zip(of_each, value, strict=False)]
        return value if all(new is old for new, old in zip(found, value, strict=True)) else found

    def _find_default(self, schema: Mapping[str, Any]) -> list[Any]:
        """Return the default in a list, since it may be null; empty: there is none."""
        return next(([part["default"]] for part in self._list_parts(schema, None) if "default" in part), [])

    def _list_parts(self, schema: Any, value: Any) -> Iterator[Mapping[str, Any]]:
        """Yield the schema and all that applies to the same value."""
        waiting, seen = [schema], set[int]()
        while waiting:
            part = waiting.pop(0)
            if not isinstance(part, Mapping) or id(part) in seen:
                continue
            seen.add(id(part))
            part = cast("Mapping[str, Any]", part)
            yield part
            if isinstance(to := part.get("$ref"), str) and to.startswith("#"):
                waiting += find_at_pointer(self.root, to[1:])
            waiting += _list(part.get("allOf"))
            for word in ("anyOf", "oneOf"):
                fitting = [one for one in _list(part.get(word)) if self._may_be(one, value)]
                waiting += fitting if len(fitting) == 1 else []

    def _may_be(self, schema: Any, value: Any) -> bool:
        """Return whether an alternative says that it is for an object, or for a list, as the value is."""
        kind = {dict: "object", list: "array"}.get(type(value))
        to = _read_mapping(schema).get("$ref")
        targets = find_at_pointer(self.root, to[1:]) if isinstance(to, str) and to.startswith("#") else []
        return any(_read_mapping(one).get("type") == kind for one in (schema, *targets))


def _read_mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
