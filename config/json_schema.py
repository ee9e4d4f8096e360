"""JSON Schemas themselves: whether what should be one is one. Pure."""

from __future__ import annotations

import functools
import json
from typing import Any

from jsonschema import Draft202012Validator

_KEPT_MAX = 256
"""Schemas found right and remembered; only speed depends on it."""


def check_schema(schema: dict[str, Any]) -> None:
    """Raises jsonschema's SchemaError for what is no JSON Schema; one that was found right is not looked at again."""
    _check(json.dumps(schema, sort_keys=True))


@functools.lru_cache(maxsize=_KEPT_MAX)
def _check(text: str) -> None:
    Draft202012Validator.check_schema(json.loads(text))
