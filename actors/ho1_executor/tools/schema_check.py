"""Schemas of tools' arguments that somebody else wrote: whether one can be that, and what it fills in. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hobus.bus.messages.control import PARAMETERS_DEPTH_MAX
from hobus.config.json_schema import object_fault


def schema_fault(schema: Any, *, is_run_here: bool = True) -> str:
    """Why it cannot be; empty if it can. One whose tool runs at another worker is not run here, not even to try it."""
    fault = object_fault(schema, PARAMETERS_DEPTH_MAX, is_run=is_run_here)
    return f"its input schema {fault}" if fault else ""


def with_defaults(schema: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with the schema's default for each required one that is missing: models leave those out."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    missing = {
        name: properties[name]["default"]
        for name in schema.get("required", ())
        if name not in arguments and isinstance(properties.get(name), Mapping) and "default" in properties[name]
    }
    return {**arguments, **missing} if missing else arguments
