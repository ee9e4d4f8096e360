"""Structured answers but classification: consolidation artifacts, the least object that a schema takes. Pure."""

from __future__ import annotations

from typing import Any

from gateway_service.providers.offline.grammar import Grammar
from gateway_service.providers.offline.reading import Reading

_LINE_CHARS = 200
_TYPES = {"domain": "topic_affinity", "intent": "interaction_style", "outcome": "constraint"}
_BASE_WEIGHT, _PER_SESSION, _MOST = 0.3, 0.1, 0.9


def consolidate(reading: Reading, grammar: Grammar) -> dict[str, Any]:
    """The object that contract PRC-CONSOLIDATE-001 asks for, from the signal's own labels and counts."""
    kind, _colon, label = reading.named("signal_id").partition(":")
    sessions = _number(reading.named("session_count"))
    domain = label if kind == "domain" else _domain_of_tool(label, grammar) if kind == "tool" else ""
    task = label if kind == "task" else "inspect" if kind == "tool" else ""
    labels = {
        "domain": _known(domain, reading.named("domain_labels")),
        "task": _known(task, reading.named("task_labels")),
    }
    line = (
        f"In {sessions} sessions this person's turns carried {kind or 'signal'} {label or 'unknown'}; expect it again."
    )
    return {
        "artifact_type": _TYPES.get(kind, "task_pattern"),
        "labels": labels,
        "context_line": line[:_LINE_CHARS],
        "weight": round(min(_MOST, _BASE_WEIGHT + _PER_SESSION * sessions), 2),
    }


def least_instance(schema: dict[str, Any]) -> Any:
    """A value that a plain JSON Schema takes: first of an enum, required keys only, empty or minimal otherwise."""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for choice in ("anyOf", "oneOf"):
        if schema.get(choice):
            return least_instance(schema[choice][0])
    wanted = schema.get("type", "object")
    match wanted[0] if isinstance(wanted, list) else wanted:
        case "object":
            properties = schema.get("properties", {})
            return {
                name: least_instance(properties.get(name, {"type": "string"})) for name in schema.get("required", [])
            }
        case "array":
            return [least_instance(schema.get("items", {"type": "string"})) for _ in range(schema.get("minItems", 0))]
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return "unknown".ljust(schema.get("minLength", 0), ".")


def _domain_of_tool(tool_id: str, grammar: Grammar) -> str:
    return next((intent.domain for intent in grammar.intents if intent.tool_id == tool_id), "tools")


def _known(label: str, vocabulary: str) -> list[str]:
    words = [word.strip() for word in vocabulary.split(",")]
    return [label] if label and (not vocabulary or label in words) else []


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0
