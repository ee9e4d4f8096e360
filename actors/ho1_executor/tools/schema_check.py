"""Whether a schema that somebody else wrote can be the schema of a tool's arguments. Pure."""

from __future__ import annotations

from typing import Any

from hobus.bus.json_text import is_within
from hobus.bus.messages.control import PARAMETERS_DEPTH_MAX
from hobus.config.json_schema import SchemaFault, check_schema, validator_of


def schema_fault(schema: Any, *, is_run_here: bool = True) -> str:
    """Why it cannot be; empty if it can. One whose tool runs at another worker is not run here, not even to try it."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return "its input schema does not describe an object"
    if not is_within(schema, PARAMETERS_DEPTH_MAX):
        return "its input schema is nested too deeply"
    try:
        (validator_of if is_run_here else check_schema)(schema)
    except SchemaFault as fault:
        return f"its input schema {fault}"
    return ""
