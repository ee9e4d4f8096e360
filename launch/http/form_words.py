"""The form of an answer in OpenAI's words, of both its APIs, as the schema that a turn is given. Pure."""

from __future__ import annotations

import re
from typing import Any

from hobus.bus.messages.session import SessionConfig, TurnResult
from hobus.config.json_schema import schema_fault
from hobus.config.schema import SessionsConfig
from hobus.launch.http.problems import Problem

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def schema_of(wanted: Any, param: str, limits: SessionsConfig, *, is_nested: bool) -> dict[str, Any] | None:
    """The schema that the answer is to take; None: text. Raises Problem, which names the field.

    `is_nested`: what describes a schema stands in a field of its own, as in chat completions.
    """
    match wanted:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return {"type": "object"}
        case {"type": "json_schema", "json_schema": dict(described)} if is_nested:
            return _described(described, f"{param}.json_schema", limits)
        case {"type": "json_schema"} if not is_nested:
            return _described(wanted, param, limits)
        case {"type": "json_schema"}:
            raise Problem(400, "invalid_input", "an object with a name and a schema", param=f"{param}.json_schema")
        case {"type": kind}:
            said = f"not supported here: the form {str(kind)[:40]!r}: text, json_object or json_schema"
            raise Problem(400, "unsupported_parameter", said, param=f"{param}.type")
        case _:
            raise Problem(400, "invalid_input", "an object with a type", param=param)


def _described(described: dict[str, Any], place: str, limits: SessionsConfig) -> dict[str, Any]:
    """Every answer is held to its schema, `strict` or not; a description is for the model."""
    name, schema, strict = described.get("name"), described.get("schema"), described.get("strict")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise Problem(400, "invalid_input", "1 to 64 letters, digits, `-` and `_`", param=f"{place}.name")
    if strict is not None and not isinstance(strict, bool):
        raise Problem(400, "invalid_input", "true or false", param=f"{place}.strict")
    if not isinstance(schema, dict):
        raise Problem(400, "invalid_input", "a JSON Schema is missing", param=f"{place}.schema")
    if (description := described.get("description")) is not None:
        if not isinstance(description, str):
            raise Problem(400, "invalid_input", "a text", param=f"{place}.description")
        schema = {"description": description, **schema}
    if fault := schema_fault(schema, limits):
        raise Problem(400, "invalid_input", f"the schema {fault}", param=f"{place}.schema")
    return schema


def check_form(wanted: SessionConfig | None, param: str, limits: SessionsConfig) -> None:
    """Raises Problem, which names the field, for settings whose schema cannot be that of an answer."""
    schema = None if wanted is None else wanted.output_schema
    if schema is not None and (fault := schema_fault(schema, limits)):
        raise Problem(400, "invalid_input", f"the schema {fault}", param=f"{param}.output_schema")


def is_refusal(result: TurnResult, *, wants_form: bool) -> bool:
    """Whether words came where a form was asked for: the model refused, or nobody but the last resort answered.

    OpenAI's clients read them from a field of their own, and parse nothing.
    """
    return wants_form and (result.refused or result.outcome == "degraded")
