"""Whether a schema that somebody else wrote can be the schema of a tool's arguments. Pure."""

from __future__ import annotations

from typing import Any

from config.json_schema import SchemaFault, validator_of


def schema_fault(schema: Any) -> str:
    """Why it cannot be; empty if it can."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return "its input schema does not describe an object"
    try:
        validator_of(schema)
    except SchemaFault as fault:
        return f"its input schema {fault}"
    return ""
