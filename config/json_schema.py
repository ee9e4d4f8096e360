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


def check_schema(schema: Any) -> None:
    """Raises SchemaFault for what is no schema that stands on its own; takes as long as the schema is large.

    For schemas of strangers: it is not run. One that is run takes as long as its author likes (a pattern without an
    end, references that double at each step), so a process that others wait for runs those of its configuration alone.
    """
    try:
        _check(json.dumps(schema, sort_keys=True))
    except RecursionError:
        raise SchemaFault("is nested too deeply") from None


def validator_of(schema: Any) -> Draft202012Validator:
    """The validator of a schema that stands on its own and can be run; it fetches nothing. Raises SchemaFault."""
    check_schema(schema)
    validator = Draft202012Validator(schema, registry=Registry())
    try:
        list(validator.iter_errors({}))
    except Unresolvable:
        raise SchemaFault("refers to something that is not there") from None
    except RecursionError:
        raise SchemaFault("is nested too deeply") from None
    except Exception as error:  # noqa: BLE001 - jsonschema wraps references that lead nowhere in classes of its own
        raise SchemaFault(f"cannot be used ({type(error).__name__})") from None
    return validator


@functools.lru_cache(maxsize=_KEPT_MAX)
def _check(text: str) -> None:
    """One that was found right is not looked at again."""
    schema = json.loads(text)
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise SchemaFault(f"is no JSON Schema at {error.json_path}") from None
    except OverflowError:
        raise SchemaFault("has a pattern that is none") from None  # a{99999999999999999999}
    if _leads_outside(schema):
        raise SchemaFault("refers to something outside itself")


def _leads_outside(value: Any) -> bool:
    if isinstance(value, list):
        return any(_leads_outside(item) for item in cast("list[Any]", value))
    if not isinstance(value, dict):
        return False
    return any(
        (key in _REFERENCES and isinstance(item, str) and not item.startswith("#")) or _leads_outside(item)
        for key, item in cast("dict[str, Any]", value).items()
    )
