"""An answer in the form that a request's schema asks for, from its words alone; what they do not say is left out. Pure.

A value comes from the message (`name: value`, or a JSON object in it), from a closed list one of whose words it uses,
or is what these rules answer anyway: then it is the one text that is still open. Nothing here runs the schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_MISSING = object()
_TRUE, _FALSE = ("true", "yes"), ("false", "no")
_TRIES_MAX = 16
"""Braces at which a message's object may begin."""
_SEVERAL = ("anyOf", "oneOf")


def filled(schema: Mapping[str, Any], message: str, answer: str) -> tuple[dict[str, Any], list[str]]:
    """The object, and the required keys for which nothing is said. `message`: as far as it is to be read."""
    properties = {name: _resolved(one, schema) for name, one in _mapping(schema.get("properties")).items()}
    if not properties and schema.get("additionalProperties") is not False:
        return _object_in(message) or {"answer": answer}, []
    given = _object_in(message)
    required = [name for name in schema.get("required", ()) if isinstance(name, str)]
    found: dict[str, Any] = {}
    for name, one in properties.items():
        value = given[name] if name in given else _said(name, one, message)
        if value is not _MISSING:
            found[name] = value
    unsaid = [name for name in required if name not in found]
    texts = [name for name in unsaid if _is_text(properties.get(name, {}))]
    if len(texts) == 1 and answer:
        found[texts[0]] = answer
    for name in unsaid:
        if name not in found and _may_be_null(properties.get(name, {})):
            found[name] = None
    return {name: found[name] for name in properties if name in found}, [n for n in required if n not in found]


def _object_in(message: str) -> dict[str, Any]:
    """The first JSON object that stands in the message; empty for none."""
    decoder = json.JSONDecoder()
    for number, brace in enumerate(re.finditer(r"\{", message)):
        if number == _TRIES_MAX:
            break
        try:
            value, _end = decoder.raw_decode(message, brace.start())
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else {}
    return {}


def _said(name: str, schema: Mapping[str, Any], message: str) -> Any:
    """The value that the message names, or the only one that there can be."""
    if "const" in schema:
        return schema["const"]
    words = re.escape(name).replace("_", "[_ ]")
    told = re.search(rf"\b{words}\s*(?:[:=]|\bis\b)\s*(?:\"([^\"\n]*)\"|([^,;\n]+))", message, re.IGNORECASE)
    value = "" if told is None else (told[1] if told[1] is not None else told[2].strip().rstrip(".!?"))
    if isinstance(choices := schema.get("enum"), list):
        return _chosen(choices, value or message)
    if told is None:
        return _MISSING
    return next((one for kind in _types(schema) if (one := _as(kind, value)) is not _MISSING), _MISSING)


def _chosen(choices: list[Any], text: str) -> Any:
    """The one that the text uses as a word, the longest of several; the only one that there is."""
    if len(choices) == 1:
        return choices[0]
    used = [one for one in choices if re.search(rf"(?<!\w){re.escape(str(one))}(?!\w)", text, re.IGNORECASE)]
    return max(used, key=lambda one: len(str(one)), default=_MISSING)


def _as(kind: str, value: str) -> Any:
    match kind:
        case "string":
            return value
        case "integer" if re.fullmatch(r"[+-]?\d{1,18}", value):
            return int(value)
        case "number" if re.fullmatch(r"[+-]?\d{1,18}(\.\d{1,18})?", value):
            return float(value)
        case "boolean" if value.lower() in (*_TRUE, *_FALSE):
            return value.lower() in _TRUE
        case _:
            return _MISSING


def _types(schema: Mapping[str, Any]) -> list[str]:
    """What it may be, the ones that say the most first."""
    kinds = schema.get("type")
    found = [kinds] if isinstance(kinds, str) else list(kinds) if isinstance(kinds, list) else []
    for name in _SEVERAL:
        for one in schema.get(name, ()) if isinstance(schema.get(name), list) else ():
            found += _types(_mapping(one))
    order = ("boolean", "integer", "number", "string", "null")
    return [kind for kind in order if kind in found]


def _is_text(schema: Mapping[str, Any]) -> bool:
    return "string" in _types(schema) and not {"enum", "const", "pattern", "format"} & schema.keys()


def _may_be_null(schema: Mapping[str, Any]) -> bool:
    return "null" in _types(schema)


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema, or the definition that it refers to."""
    one = _mapping(schema)
    where = re.fullmatch(r"#/(\$defs|definitions)/([^/~%]+)", str(one.get("$ref", "")))
    return one if where is None else _mapping(_mapping(root.get(where[1])).get(where[2]))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
