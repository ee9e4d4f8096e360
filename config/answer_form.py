"""The form that whoever asks wants an answer in: may this JSON Schema be it? Pure.

What a stranger's schema may cost whoever runs it is bounded where schemas are (config/json_schema.py).
"""

from __future__ import annotations

import json
from typing import Any

from hobus.bus.json_text import is_within, value_of
from hobus.config.json_schema import SchemaFault, validator_of
from hobus.config.schema import SessionsConfig


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
        validator_of(schema)
    except SchemaFault as fault:
        return str(fault)
    return ""
