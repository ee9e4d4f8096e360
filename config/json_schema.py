"""JSON Schemas (2020-12): whether what should be one is one, and what breaks it. Pure: nothing is ever fetched.

A schema is a program, and many are a stranger's. Its patterns are matched in linear time, those with look-around or
back-references within a bound; how often it looks at a value is counted before it does (config/schema_cost.py).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from jsonschema_rs import Draft202012Validator, FancyRegexOptions, ValidationError, ValidationErrorKind

from hobus.bus.json_text import is_within, read_json
from hobus.bus.messages.control import PARAMETERS_DEPTH_MAX
from hobus.config import limits
from hobus.config.schema_cost import REFERENCES, NoEnd, SchemaCost, list_values, measure_extent, walk_nodes

_KEPT_MAX = 256
"""Schemas found right and remembered; only speed depends on it."""

_LOOKS_MAX = 50_000_000
"""In all, at a value that is checked: two seconds at worst."""

_AT_ONCE_MAX = 100_000
"""By all subschemas, at values without anything in them: what making a validator may cost, about half a second."""

_TOLD_LOOKS_MAX = 20_000
"""In all, at a value whose faults are told one by one: each of these costs a hundred times what a look does."""

_TOLD_SIZE_MAX = 200_000_000
"""Looks times the value's size: each fault may bring a copy of it along."""

_HEIGHT_MAX = 256
"""Of a value whose schema refers to itself: a library recurses with it."""

_BACKTRACKS_MAX = 1000
"""Of one pattern over one text: what look-around and back-references may cost, two seconds for a megabyte."""

_PATTERNS_BYTES = 32_000_000
"""For all patterns of a schema together, as they are run."""

_PATTERN_BYTES_MAX = 10_000_000

_PLAIN_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")

_META = Draft202012Validator(
    {"$ref": "https://json-schema.org/draft/2020-12/schema"}, validate_formats=True, offline=True
)


class SchemaFault(ValueError):
    """Say why something cannot be used as a schema, as the end of a sentence about it."""


@dataclass(frozen=True, slots=True, order=True)
class SchemaBreak:
    """What breaks a schema: where, which of its keywords, and in words. Never the value."""

    place: str
    rule: str
    words: str

    def __str__(self) -> str:
        return f"{self.place}: {self.words}"


class Validator:
    """A schema that stands on its own and can be run, made once."""

    def __init__(self, schema: Any) -> None:
        self._cost = _check_cost(schema)
        pattern_bytes = min(_PATTERN_BYTES_MAX, _PATTERNS_BYTES // max(1, _count_patterns(schema)))
        try:
            self._validator = Draft202012Validator(
                schema,
                offline=True,
                pattern_options=FancyRegexOptions(backtrack_limit=_BACKTRACKS_MAX, size_limit=pattern_bytes),
            )
        except ValidationError as error:
            if isinstance(error.kind, ValidationErrorKind.Referencing):
                raise SchemaFault("refers to a missing definition") from None
            raise SchemaFault(f"has a pattern that cannot be used at {_place(error.instance_path)}") from None
        except ValueError as error:
            raise SchemaFault(f"cannot be used ({error})"[:100]) from None

    def is_valid(self, value: Any) -> bool:
        return not self.faults(value)

    def faults(self, value: Any) -> list[SchemaBreak]:
        """Return every break, in order of place."""
        try:
            # One without references looks at a value no more often than both are long.
            if self._cost.refers and self._looks(value)[0] > _LOOKS_MAX:
                return [SchemaBreak("$", "size", "too large for its schema, or nested too deeply")]
            if self._validator.is_valid(value):
                return []
            looks, size = self._looks(value)
            if looks > _TOLD_LOOKS_MAX or looks * size > _TOLD_SIZE_MAX:
                return [SchemaBreak("$", "size", "breaks its schema, and is too large to say where")]
            return _list_breaks(self._validator.iter_errors(value))
        except ValueError:  # What it says of bytes, for one.
            return [SchemaBreak("$", "type", "is no JSON value")]

    def _looks(self, value: Any) -> tuple[int, int]:
        """Return how often values are looked at, at most, and the value's size."""
        extent = measure_extent(value)
        if extent.height > _HEIGHT_MAX:
            return _LOOKS_MAX + 1, extent.size
        return self._cost.looks(extent.height) * extent.value_count, extent.size


def get_validator(schema: Any) -> Validator:
    """Return the validator of a schema that stands on its own and can be run. Raises SchemaFault."""
    return cast("Validator", check_schema(schema, is_run=True))


def check_schema(schema: Any, *, is_run: bool) -> Validator | None:
    """Return the validator, if it is to be run. Raises SchemaFault for what is no schema that stands on its own."""
    try:
        return _keep_validator(json.dumps(schema, sort_keys=True), is_run=is_run)
    except RecursionError:
        raise SchemaFault("is nested too deeply") from None


@functools.lru_cache(maxsize=_KEPT_MAX)
def _keep_validator(text: str, *, is_run: bool) -> Validator | None:
    """Return a validator, cached: what was found right is not looked at again."""
    schema = json.loads(text)
    try:
        faults = sorted(_place(error.instance_path) for error in _META.iter_errors(schema))
    except ValueError:
        raise SchemaFault("is nested too deeply") from None
    if faults:
        raise SchemaFault(f"is no JSON Schema at {faults[0]}")
    if _leads_outside(schema):
        raise SchemaFault("refers to something outside itself")
    return Validator(schema) if is_run else None


def _check_cost(schema: Any) -> SchemaCost:
    try:
        cost = SchemaCost(schema)
    except NoEnd:
        raise SchemaFault("refers to itself without end") from None
    except KeyError:
        raise SchemaFault("refers to a missing definition") from None
    if cost.at_once > _AT_ONCE_MAX:
        raise SchemaFault("would check one value too often")
    return cost


def _leads_outside(schema: Any) -> bool:
    refs = [node[key] for node in walk_nodes(schema) for key in REFERENCES if key in node]
    return any(isinstance(ref, str) and not ref.startswith("#") for ref in refs)


def _count_patterns(schema: Any) -> int:
    return sum(("pattern" in node) + len(list_values(node.get("patternProperties"))) for node in walk_nodes(schema))


def _list_breaks(errors: Iterable[ValidationError]) -> list[SchemaBreak]:
    faults: set[SchemaBreak] = set()
    missing: dict[str, list[str]] = {}
    for error in errors:
        place = _place(error.instance_path)
        if isinstance(error.kind, ValidationErrorKind.Required):
            missing.setdefault(place, []).append(error.kind.property)
        else:
            faults.add(SchemaBreak(place, *_describe_rule(error)))
    for place, names in missing.items():
        faults.add(SchemaBreak(place, "required", f"required, missing {', '.join(dict.fromkeys(names))}"))
    return sorted(faults)


def _describe_rule(error: ValidationError) -> tuple[str, str]:
    """Return the keyword's name, and in words."""
    kind = error.kind
    if isinstance(kind, ValidationErrorKind.BacktrackLimitExceeded):
        return "pattern", "pattern, takes too long to match"
    # Without `properties` beside it the keyword is told as the `false` that it holds.
    is_false = isinstance(kind, ValidationErrorKind.FalseSchema)
    if kind.name == "additionalProperties" or (is_false and error.schema_path[-1:] == ["additionalProperties"]):
        return "additionalProperties", "additional properties are not allowed"
    if kind.name not in _TOLD_WHOLE:
        return kind.name, kind.name
    wanted = kind.types[0] if isinstance(kind, ValidationErrorKind.Type) and len(kind.types) == 1 else kind.value
    return kind.name, f"{kind.name} {json.dumps(wanted, sort_keys=True)}"


_TOLD_WHOLE = frozenset(
    {"type", "enum", "const", "pattern", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems"}
)


def _place(path: list[str | int]) -> str:
    return "$" + "".join(_format_step(part) for part in path)


def _format_step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    if _PLAIN_NAME.fullmatch(part):
        return f".{part}"
    escaped = part.replace("\\", "\\\\").replace("'", r"\'")
    return f"['{escaped}']"


def find_schema_fault(schema: dict[str, Any]) -> str:
    """Return why this cannot be a schema of one JSON object, as the end of a sentence; empty: it can."""
    if not is_within(schema, limits.OUTPUT_SCHEMA_DEPTH_MAX):
        return f"has more than {limits.OUTPUT_SCHEMA_DEPTH_MAX} levels"
    text = json.dumps(schema)
    if len(text) > limits.OUTPUT_SCHEMA_MAX_BYTES:
        limit = f"{limits.OUTPUT_SCHEMA_MAX_BYTES} are taken"
        return f"has {len(text)} bytes; at most {limit}"
    try:
        read_json(text)
    except ValueError:
        return "has a value that is no JSON, or a number over 64 bits"
    return find_object_fault(schema, limits.OUTPUT_SCHEMA_DEPTH_MAX)


def find_object_fault(schema: Any, depth_max: int, *, is_run: bool = True) -> str:
    """Return why this cannot be the schema of an object, as the end of a sentence about it; empty: it can.

    `is_run`: it is run here, at least to try it; else nothing of it is.
    """
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return "does not describe an object"
    if not is_within(schema, depth_max):
        return "is nested too deeply"
    try:
        check_schema(schema, is_run=is_run)
    except SchemaFault as fault:
        return str(fault)
    return ""


def find_input_schema_fault(schema: Any, *, is_run_here: bool = True) -> str:
    """Return why this cannot be an input schema; empty if it can. Another worker's is not even tried here."""
    fault = find_object_fault(schema, PARAMETERS_DEPTH_MAX, is_run=is_run_here)
    return f"its input schema {fault}" if fault else ""
