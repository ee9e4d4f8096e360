"""JSON Schemas themselves: whether what should be one is one, and its validator. Pure: nothing is ever fetched."""

from __future__ import annotations

import functools
import json
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable

_KEPT_MAX = 256
"""Schemas found right and remembered; only speed depends on it."""

_REFERENCES = ("$ref", "$dynamicRef")


class SchemaFault(ValueError):
    """Why something cannot be used as a schema, as the end of a sentence about it."""


def validator_of(schema: Any) -> Draft202012Validator:
    """The validator of a schema that stands on its own. Raises SchemaFault for any other.

    It fetches nothing, wherever a schema leads to. How long it takes over a value is the schema's doing (a pattern may
    take for ever): a process that serves others makes it of schemas of its own configuration alone.
    """
    try:
        _check(json.dumps(schema, sort_keys=True))
    except RecursionError:
        raise SchemaFault("is nested too deeply") from None
    return Draft202012Validator(schema, registry=Registry())


@functools.lru_cache(maxsize=_KEPT_MAX)
def _check(text: str) -> None:
    """One that was found right is not looked at again."""
    schema = json.loads(text)
    try:
        Draft202012Validator.check_schema(schema)
        if _leads_outside(schema):
            raise SchemaFault("refers to something outside itself")
        list(Draft202012Validator(schema, registry=Registry()).iter_errors({}))
    except SchemaError as error:
        raise SchemaFault(f"is no JSON Schema at {error.json_path}") from None
    except Unresolvable:
        raise SchemaFault("refers to something that is not there") from None
    except (SchemaFault, RecursionError):
        raise
    except Exception as error:  # noqa: BLE001 - jsonschema wraps references that lead nowhere in classes of its own
        raise SchemaFault(f"cannot be used ({type(error).__name__})") from None


def _leads_outside(value: Any) -> bool:
    if isinstance(value, list):
        return any(_leads_outside(item) for item in cast("list[Any]", value))
    if not isinstance(value, dict):
        return False
    return any(
        (key in _REFERENCES and isinstance(item, str) and not item.startswith("#")) or _leads_outside(item)
        for key, item in cast("dict[str, Any]", value).items()
    )
