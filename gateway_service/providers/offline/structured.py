"""Structured answers but classification: consolidation artifacts, the least object that a schema takes. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from hobus.bus.errors import GatewayError
from hobus.gateway_service.providers.offline.asked import Key
from hobus.gateway_service.providers.offline.classify import domain_of, task_of
from hobus.gateway_service.providers.offline.grammar import Grammar
from hobus.gateway_service.providers.offline.reading import Reading, said_in

LEAST_MAX_CHARS = 100_000
"""No contract asks for so much; a schema that does was made to."""

_SIGNAL = re.compile(r"^Signal: ([a-z_]+):(\S+)$", re.MULTILINE)
_SEEN = re.compile(r"^Seen (\d+) times in (\d+) sessions\.$", re.MULTILINE)
_TYPES = {"domain": "topic_affinity", "intent": "interaction_style", "outcome": "constraint"}
_OTHER_TYPE = "task_pattern"
_BASE_WEIGHT, _PER_SESSION, _MOST = 0.3, 0.1, 0.9

SAYS = {
    "domain": "This person keeps coming back to {label} matters; have those facts at hand and lead with them.",
    "task:general": "What this person asks for varies; ask back only when two readings would lead elsewhere.",
    "task": "This person mostly asks to {label}; do that before anything else.",
    "tool": "What this person asks is usually answered by the tool {label}; consult it early when it fits.",
    "intent:greeting": "This person likes to open with a greeting; greet back in a few words and offer help.",
    "intent:reentry_greeting": "This person comes back with a greeting; greet in a few words and take up the thread.",
    "intent:question": "This person asks direct questions; give the answer first and the detail after it.",
    "intent:command": "This person gives short commands; carry them out and report the result in one line.",
    "intent:farewell": "This person says goodbye when done; close in a few words and ask nothing further.",
    "outcome:failed": "Requests of this kind have failed before; check what they need and say early what is missing.",
    "outcome:escalated": "Answers of this kind were not good enough before; answer in full and name ids exactly.",
    "outcome:success": "Answers of this kind have served this person well; keep to the form of the earlier ones.",
}
"""What is said of a signal, by its name or its kind."""

_OTHERWISE = "This person's turns often carry {kind} {label}; expect it again."


def is_about_a_signal(reading: Reading) -> bool:
    """Whether the prompt names a counted signal."""
    return _SIGNAL.search(reading.plain) is not None


def consolidate(reading: Reading, keys: Mapping[str, Key], grammar: Grammar) -> dict[str, Any]:
    """What these rules have to say of a signal for each key, from its name, its counts and the excerpts."""
    signal = _SIGNAL.search(reading.plain)
    excerpts = reading.block("excerpts")
    if signal is None or not excerpts:
        return {}
    kind, label = signal.groups()
    found: dict[str, Any] = {}
    if (key := keys.get("artifact_type")) and key.offers(wanted := _TYPES.get(kind, _OTHER_TYPE)):
        found["artifact_type"] = wanted
    if key := keys.get("labels"):
        found["labels"] = _labels(kind, label, excerpts, key, grammar)
    if "context_line" in keys and f'"{kind}"' in reading.system:
        says = SAYS.get(f"{kind}:{label}") or SAYS.get(kind) or _OTHERWISE
        found["context_line"] = says.format(kind=kind, label=label)
    if "weight" in keys and (seen := _SEEN.search(reading.plain)):
        found["weight"] = _weight(int(seen.group(1)), int(seen.group(2)))
    return found


def _weight(count: int, sessions: int) -> float:
    """More with each session; one counts as half that was seen in it once."""
    return round(min(_MOST, _BASE_WEIGHT + _PER_SESSION * min(sessions, count / 2)), 2)


def _labels(kind: str, label: str, excerpts: str, key: Key, grammar: Grammar) -> dict[str, list[str]]:
    """Where the line applies: what the signal itself names, else what most of the excerpts are about."""
    domain = task = ""
    match kind:
        case "domain":
            domain = label
        case "task":
            task = label
        case "tool":
            domain, task = _domain_of_tool(label, grammar), "inspect"
        case _:
            asked = [grammar.normal(said.text) for said in said_in(excerpts) if said.who == "user"]
            domain = _most([domain_of(text, grammar) for text in asked])
            task = _most([task_of(text, grammar) for text in asked])
    found = {"domain": domain, "task": task}
    return {name: [word] if key.known(name, word) else [] for name, word in found.items()}


def _most(labels: list[str]) -> str:
    """The label that most have; of equals the one that came first; empty for none."""
    return max(labels, key=labels.count, default="")


def least_instance(schema: dict[str, Any]) -> Any:
    """A value that a plain JSON Schema takes: first of an enum, required keys only, empty or minimal otherwise.

    Raises GatewayError(INVALID_INPUT) where even the least one is very large: schemas come from whoever sends prompts.
    """
    try:
        return _Least().of(schema)
    except RecursionError:
        raise _too_much("is nested too deeply") from None


class _Least:
    """One value in the making, and how much of it may still come."""

    def __init__(self) -> None:
        self._left_chars = LEAST_MAX_CHARS

    def of(self, schema: dict[str, Any]) -> Any:
        if "const" in schema:
            return self._given(schema["const"])
        if schema.get("enum"):
            return self._given(schema["enum"][0])
        for choice in ("anyOf", "oneOf"):
            if schema.get(choice):
                return self.of(schema[choice][0])
        self._take(1)
        wanted = schema.get("type", "object")
        match wanted[0] if isinstance(wanted, list) else wanted:
            case "object":
                return self._object(schema)
            case "array":
                items = schema.get("items", {"type": "string"})
                return [self.of(items) for _ in range(schema.get("minItems", 0))]
            case "integer" | "number":
                return self._given(schema.get("minimum", 0))
            case "boolean":
                return False
            case "null":
                return None
            case _:
                length = max(0, schema.get("minLength", 0))
                self._take(length)
                return "unknown".ljust(length, ".")

    def _object(self, schema: dict[str, Any]) -> dict[str, Any]:
        properties, made = schema.get("properties", {}), dict[str, Any]()
        for name in schema.get("required", []):
            self._take(len(name))
            made[name] = self.of(properties.get(name, {"type": "string"}))
        return made

    def _given(self, value: Any) -> Any:
        self._take(len(json.dumps(value)))
        return value

    def _take(self, chars: int) -> None:
        self._left_chars -= chars
        if self._left_chars < 0:
            raise _too_much(f"has more than {LEAST_MAX_CHARS} characters")


def _too_much(why: str) -> GatewayError:
    detail = f"the least value that output_schema takes {why}"
    return GatewayError("INVALID_INPUT", detail, facts={"unbilled": True})


def _domain_of_tool(tool_id: str, grammar: Grammar) -> str:
    return next((intent.domain for intent in grammar.intents if intent.tool_id == tool_id), "tools")
