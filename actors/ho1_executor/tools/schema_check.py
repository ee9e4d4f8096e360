"""Whether a schema that somebody else wrote can be the schema of a tool's arguments. Pure."""

from __future__ import annotations

from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

_REFERENCES = ("$ref", "$dynamicRef")


def schema_fault(schema: Any) -> str:
    """Why it cannot be; empty if it can."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return "its input schema does not describe an object"
    try:
        Draft202012Validator.check_schema(schema)
        if _leads_outside(schema):
            return "its input schema refers to something outside itself"
        list(Draft202012Validator(schema, registry=Registry()).iter_errors({}))
    except (SchemaError, ValidationError):
        return "its input schema is no JSON Schema"
    except Unresolvable:
        return "its input schema refers to something that is not there"
    except RecursionError:
        return "its input schema is nested too deeply"
    except Exception as error:  # noqa: BLE001 - jsonschema wraps references that lead nowhere in classes of its own
        return f"its input schema cannot be used ({type(error).__name__})"
    return ""


def _leads_outside(value: Any) -> bool:
    if isinstance(value, list):
        return any(_leads_outside(item) for item in cast("list[Any]", value))
    if not isinstance(value, dict):
        return False
    return any(
        (key in _REFERENCES and isinstance(item, str) and not item.startswith("#")) or _leads_outside(item)
        for key, item in cast("dict[str, Any]", value).items()
    )
