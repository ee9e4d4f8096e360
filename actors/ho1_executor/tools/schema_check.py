"""Whether a schema that somebody else wrote can be the schema of a tool's arguments. Pure."""

from __future__ import annotations

from typing import Any

from hobus.bus.messages.control import PARAMETERS_DEPTH_MAX
from hobus.config.json_schema import object_fault


def schema_fault(schema: Any, *, is_run_here: bool = True) -> str:
    """Why it cannot be; empty if it can. One whose tool runs at another worker is not run here, not even to try it."""
    fault = object_fault(schema, PARAMETERS_DEPTH_MAX, is_run=is_run_here)
    return f"its input schema {fault}" if fault else ""
