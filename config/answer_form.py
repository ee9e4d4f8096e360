"""The form that whoever asks wants an answer in: may this JSON Schema be it? Pure; it is looked at and never run.

A schema of a stranger is run in one place alone, where its answer is judged, and there for a bounded time.
"""

from __future__ import annotations

import json
from typing import Any, cast

from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from bus.json_text import is_within, value_of
from config.json_schema import SchemaFault, check_schema
from config.schema import SessionsConfig


def schema_fault(schema: dict[str, Any], limits: SessionsConfig) -> str:
    """Why it cannot, as the end of a sentence about it; empty: it can, and stands for one JSON object."""
    if not is_within(schema, limits.output_schema_depth_max):
        return f"has more than {limits.output_schema_depth_max} levels (sessions.output_schema_depth_max)"
    text = json.dumps(schema)
    if len(text) > limits.output_schema_max_bytes:
        limit = f"{limits.output_schema_max_bytes} are taken (sessions.output_schema_max_bytes)"
        return f"has {len(text)} bytes; at most {limit}"
    try:
        value_of(text)
    except ValueError:
        return "has a value that is no JSON, or a number over 64 bits"
    if schema.get("type", "object") != "object":
        return "does not describe an object"
    try:
        check_schema(schema)
    except SchemaFault as fault:
        return str(fault)
    return "" if _leads_somewhere(schema) else "refers to something that is not there"


def _leads_somewhere(schema: dict[str, Any]) -> bool:
    """Whether each of its references names a schema in it."""
    resolver = Registry[Any]().with_resource("", Resource[Any](schema, DRAFT202012)).resolver()
    try:
        return all(isinstance(resolver.lookup(reference).contents, dict | bool) for reference in _references(schema))
    except (Unresolvable, ValueError, TypeError):  # the last two: a pointer into a list, or a text, that is none
        return False


def _references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [found for item in cast("list[Any]", value) for found in _references(item)]
    if not isinstance(value, dict):
        return []
    items = cast("dict[str, Any]", value)
    own = [items[name] for name in ("$ref", "$dynamicRef") if isinstance(items.get(name), str)]
    return [*own, *(found for item in items.values() for found in _references(item))]
