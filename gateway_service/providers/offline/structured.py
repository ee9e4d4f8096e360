"""Structured answers: a classification, a line of memory, the least value of a schema. Pure; nothing runs a schema."""

from __future__ import annotations

import json
import re
from typing import Any

from hobus.bus.errors import GatewayError
from hobus.gateway_service.providers.offline.grammar import Grammar
from hobus.gateway_service.providers.offline.reading import Reading

_OBJECTIVE_WORDS, _SHORT_WORDS = 12, 3
_VOCABULARY = re.compile(r"^[ \t]+(domain|task): (.+)$", re.MULTILINE)
_SENTENCE = re.compile(
    r"(?<=[.!?\n])(?<!\b[DMdm]r\.)(?<!\b[Pp]rof\.)(?<!\b[A-Z]\.)\s+"
    r"|(?<=:)\n|\n(?=\W{0,8}[A-Z]|\s{0,8}(?:[-*+•#]|\d{1,9}[.)])\s)"
)
_BEFORE_WORDS = re.compile(r"(?:[\s\ufeff\u200b*_•#+-]|\d{1,9}[.)]\s)+")
_GREETINGS = ("greeting", "reentry_greeting", "farewell")


def classify(reading: Reading, grammar: Grammar) -> dict[str, Any]:
    """Return what these rules say of the message, by its words; labels are of the prompt's list alone."""
    message = reading.words
    text, objective = grammar.normalise(message), reading.blocks.get("active_objective", "")
    is_first = not objective and not reading.blocks.get("earlier_messages")
    act = _find_speech_act(text, grammar, is_first=is_first)
    ambiguity = _judge_ambiguity(text, grammar, act)
    domains = _find_domain(text, grammar), _find_domain(grammar.normalise(objective), grammar)
    is_elsewhere = "general" not in domains and domains[0] != domains[1]
    if act == "farewell":
        action = "close"
    elif is_first or is_elsewhere or grammar.says("topic_change", text):
        action = "new"
    else:
        action = "unclear" if ambiguity == "high" else "continue"
    labels = {"domain": domains[0], "task": _find_task(text, grammar)}
    labels = dict.fromkeys(labels, "general") if act in _GREETINGS else labels
    found: dict[str, Any] = {
        "speech_act": act,
        "ambiguity": ambiguity,
        "intent_signal": {
            "action": action,
            "candidate_objective": " ".join(message.split()[:_OBJECTIVE_WORDS]),
            "confidence": 0.4 if ambiguity == "high" else 0.8,
        },
        "labels": {kind: label for kind, label in labels.items() if label in _read_vocabulary(reading, kind)},
    }
    if wish := _find_lasting_wish(message, grammar):
        kind = "preference" if grammar.says("wish", grammar.normalise(wish)) else "constraint"
        found["explicit_preference"] = {"statement": wish, "kind": kind, "scope": "global"}
    return found


def _read_vocabulary(reading: Reading, kind: str) -> list[str]:
    return [
        word.strip() for name, row in _VOCABULARY.findall(reading.system) if name == kind for word in row.split(",")
    ]


def _find_speech_act(text: str, grammar: Grammar, *, is_first: bool) -> str:
    if grammar.says("farewell", text) and grammar.says("closes", text):
        return "farewell"
    if grammar.says("greeting", text):
        return "greeting" if is_first else "reentry_greeting"
    return "question" if grammar.says("question", text) else "command"


def _judge_ambiguity(text: str, grammar: Grammar, act: str) -> str:
    if act in _GREETINGS or grammar.find_intents(text):
        return "low"
    if not text or grammar.says("vague", text):
        return "high"
    return "medium" if len(text.split()) <= _SHORT_WORDS else "low"


def _find_lasting_wish(message: str, grammar: Grammar) -> str:
    """Return the last sentence that says how to be served, or what never to do, from now on; else empty."""
    for marked in reversed(_SENTENCE.split(grammar.read(message))):
        before = _BEFORE_WORDS.match(marked)
        one = marked[before.end() if before else 0 :].rstrip(" \t\r\n*_")
        text = grammar.normalise(one)
        if (grammar.says("wish", text) or grammar.says("rule", text)) and not grammar.says("question", text):
            return one
    return ""


def _find_domain(text: str, grammar: Grammar) -> str:
    intents = grammar.find_intents(text)
    return intents[0].domain if intents else grammar.label("domains", text) or "general"


def _find_task(text: str, grammar: Grammar) -> str:
    return grammar.label("tasks", text) or ("inspect" if grammar.find_intents(text) else "general")


_SIGNAL = re.compile(r"^Signal: ([a-z_]+):(\S+)\nSeen (\d+) times in (\d+) sessions\.$", re.MULTILINE)
_ASKED = re.compile(r"^user: (.*)$", re.MULTILINE)
_TYPES = {"domain": "topic_affinity", "intent": "interaction_style", "outcome": "constraint"}
_OTHERWISE = "This person's turns often carry {label}; expect it again."
SAYS = {
    "domain": "This person keeps coming back to {label} matters; have those facts at hand and lead with them.",
    "task": "This person mostly asks to {label}; do that before anything else.",
    "tool": "What this person asks is usually answered by the tool {label}; consult it early when it fits.",
    "intent:command": "This person gives short commands; carry them out and report the result in one line.",
    "intent": "This person often comes with a {label}; answer that form first, and the rest briefly after it.",
    "outcome": "Requests of this kind often ended as {label}; check what they need and say early what is missing.",
}
"""What is said of a signal, by its name or its kind."""


def consolidate(reading: Reading, grammar: Grammar) -> dict[str, Any]:
    """Return a line about a counted signal, from its name, counts and excerpts; empty where none is shown."""
    signal = _SIGNAL.search(reading.asked[0]) if reading.asked else None
    if signal is None:
        return {}
    kind, label, count, sessions = signal.groups()
    asked = [grammar.normalise(text) for text in _ASKED.findall(reading.asked[0])]
    labels = {
        "domain": [label] if kind == "domain" else _list_most([_find_domain(text, grammar) for text in asked]),
        "task": [label] if kind == "task" else _list_most([_find_task(text, grammar) for text in asked]),
    }
    return {
        "artifact_type": _TYPES.get(kind, "task_pattern"),
        "labels": {
            name: [one for one in found if one in _read_vocabulary(reading, name)] for name, found in labels.items()
        },
        "context_line": (SAYS.get(f"{kind}:{label}") or SAYS.get(kind, _OTHERWISE)).format(label=label),
        "weight": round(min(0.9, 0.3 + 0.1 * min(int(sessions), int(count) / 2)), 2),
    }


def _list_most(labels: list[str]) -> list[str]:
    return [max(labels, key=labels.count)] if labels else []


LEAST_MAX_CHARS = 100_000
"""No contract asks for so much; a schema that does was made to."""


def make_least_instance(schema: dict[str, Any]) -> Any:  # noqa: C901 - a case per type
    """Return a value that a plain JSON Schema takes: first of an enum, required keys only, empty or minimal otherwise.

    Raises GatewayError(INVALID_INPUT) where even the least one is very large: schemas come from whoever sends prompts.
    """
    left_chars = LEAST_MAX_CHARS

    def charge_chars(value: Any, chars: int = 0) -> Any:
        nonlocal left_chars
        left_chars -= chars or len(json.dumps(value))
        if left_chars < 0:
            raise _refuse_too_much(f"has more than {LEAST_MAX_CHARS} characters")
        return value

    def make_least(one: dict[str, Any]) -> Any:
        if "const" in one or one.get("enum"):
            return charge_chars(one["const"] if "const" in one else one["enum"][0])
        if choices := one.get("anyOf") or one.get("oneOf"):
            return make_least(choices[0])
        wanted, text = one.get("type", "object"), {"type": "string"}
        match wanted[0] if isinstance(wanted, list) else wanted:
            case "object":
                properties = one.get("properties", {})
                return {charge_chars(name): make_least(properties.get(name, text)) for name in one.get("required", [])}
            case "array":
                return [make_least(charge_chars(one.get("items", text), 1)) for _ in range(one.get("minItems", 0))]
            case "integer" | "number":
                return charge_chars(one.get("minimum", 0))
            case "boolean":
                return False
            case "null":
                return None
            case _:
                length = charge_chars(max(0, one.get("minLength", 0)), one.get("minLength", 0) + 1)
                return "unknown".ljust(length, ".")

    try:
        return make_least(schema)
    except RecursionError:
        raise _refuse_too_much("is nested too deeply") from None


def _refuse_too_much(why: str) -> GatewayError:
    detail = f"the least value that output_schema takes {why}"
    return GatewayError("INVALID_INPUT", detail, facts={"unbilled": True})


_SAID = re.compile(r"\b(\w+)\s*[:=]\s*\"?([^,;\"\n]+)")
"""`name: value` in a message."""


def fill_schema(schema: dict[str, Any], message: str, answer: str) -> dict[str, Any]:
    """Return the least object that the schema takes, with `name: value` of the message; any object: the answer."""
    properties = schema.get("properties")
    if not properties and schema.get("additionalProperties") is not False:
        return {"answer": answer}
    found: dict[str, Any] = make_least_instance(schema)
    for name, said in _SAID.findall(message):
        match (properties or {}).get(name, {}).get("type"):
            case "string":
                found[name] = said.strip()
            case "integer" if said.strip().isdecimal():
                found[name] = int(said)
            case _:
                pass
    return found
