"""Structured answers: a classification, a consolidation, a form filled in, the least value of a schema. Pure.

Nothing here runs a schema, and nothing is said that the prompt does not offer: a key that it does not name is not
filled, a word that it does not list is not used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from hobus.bus.errors import GatewayError
from hobus.gateway_service.providers.offline.grammar import Grammar
from hobus.gateway_service.providers.offline.reading import Key, Reading, said_in

_OBJECTIVE_WORDS = 12
_SHORT_WORDS = 3
_SURE, _LIKELY, _GUESS = 0.95, 0.8, 0.4
_SENTENCE = re.compile(
    r"(?<=[.!?\n])(?<!\b[DMJdmj]r\.)(?<!\b[Mm]rs\.)(?<!\bMs\.)(?<!\bSt\.)(?<!\b[Pp]rof\.)(?<!\b[A-Z]\.)\s+"
    r"|(?<=:)\n|\n(?=\W{0,8}[A-Z]|\s{0,8}(?:[-*+•#]|\d{1,9}[.)])\s)"
)
"""Where one begins: behind a stop that ends no title or initial, and on a line that begins as one, or as an item."""
_BEFORE_WORDS = re.compile(r"(?:[\s\ufeff\u200b*_•#+-]|\d{1,9}[.)]\s)+")


def classify(reading: Reading, message: str, keys: Mapping[str, Key], grammar: Grammar) -> dict[str, Any]:
    """What these rules have to say of the message for each key; only in words that the prompt offers for it."""
    text = grammar.normal(message)
    # The prompt shows an active objective and earlier messages, and there are none.
    is_first = all(reading.blocks.get(name) == "" for name in ("active_objective", "earlier_messages"))
    speech_act = _speech_act(text, grammar, is_first=is_first)
    ambiguity = _ambiguity(text, grammar, speech_act)
    is_new = is_first or _is_elsewhere(text, grammar, reading.block("active_objective"))
    action = _action(text, grammar, speech_act, ambiguity, is_new=is_new)
    confidence = _SURE if speech_act == "farewell" else {"low": _LIKELY, "medium": _LIKELY / 2}.get(ambiguity, _GUESS)
    signal = {
        "action": action,
        "candidate_objective": " ".join(message.split()[:_OBJECTIVE_WORDS]),
        "confidence": confidence,
    }
    found: dict[str, Any] = {}
    if (key := keys.get("speech_act")) and key.offers(speech_act):
        found["speech_act"] = speech_act
    if (key := keys.get("ambiguity")) and key.offers(ambiguity):
        found["ambiguity"] = ambiguity
    if (key := keys.get("intent_signal")) and key.offers(action):
        found["intent_signal"] = {name: value for name, value in signal.items() if key.offers(name)}
    if key := keys.get("labels"):
        labels = _labels(text, grammar, speech_act)
        found["labels"] = {kind: label for kind, label in labels.items() if key.known(kind, label)}
    key = keys.get("explicit_preference")
    if key and key.offers("global") and (wish := _lasting_wish(message, grammar)):
        kind = "preference" if grammar.says("wish", grammar.normal(wish)) else "constraint"
        told = {"kind": kind} if key.offers(kind) else {}
        found["explicit_preference"] = {"statement": wish, "scope": "global", **told}
    return found


def _speech_act(text: str, grammar: Grammar, *, is_first: bool) -> str:
    if grammar.says("farewell", text) and grammar.says("closes", text):
        return "farewell"
    if grammar.says("greeting", text):
        return "greeting" if is_first else "reentry_greeting"
    return "question" if grammar.says("question", text) else "command"


def _ambiguity(text: str, grammar: Grammar, speech_act: str) -> str:
    if speech_act in ("greeting", "reentry_greeting", "farewell") or grammar.intents_in(text):
        return "low"
    if not text or grammar.says("vague", text):
        return "high"
    return "medium" if len(text.split()) <= _SHORT_WORDS else "low"


def _action(text: str, grammar: Grammar, speech_act: str, ambiguity: str, *, is_new: bool) -> str:
    if speech_act == "farewell":
        return "close"
    if is_new or grammar.says("topic_change", text):
        return "new"
    return "unclear" if ambiguity == "high" else "continue"


def _is_elsewhere(text: str, grammar: Grammar, objective: str) -> bool:
    """Whether a message is about another matter than the active objective; both have to be about something."""
    domains = domain_of(text, grammar), domain_of(grammar.normal(objective), grammar)
    return "general" not in domains and domains[0] != domains[1]


def _labels(text: str, grammar: Grammar, speech_act: str) -> dict[str, str]:
    """One domain and one task."""
    if speech_act in ("greeting", "reentry_greeting", "farewell"):
        return {"domain": "general", "task": "general"}
    return {"domain": domain_of(text, grammar), "task": task_of(text, grammar)}


def _lasting_wish(message: str, grammar: Grammar) -> str:
    """The last sentence of a message that says how to be served, or what never to do, from now on; empty without one.

    A sentence that asks does not; others of its message may.
    """
    for marked in reversed(_SENTENCE.split(grammar.read(message))):
        before = _BEFORE_WORDS.match(marked)
        one = marked[before.end() if before else 0 :].rstrip(" \t\r\n*_")
        text = grammar.normal(one)
        if (grammar.says("wish", text) or grammar.says("rule", text)) and not grammar.says("question", text):
            return one
    return ""


def domain_of(text: str, grammar: Grammar) -> str:
    """What a normal text is about."""
    intents = grammar.intents_in(text)
    return intents[0].domain if intents else grammar.label("domains", text) or "general"


def task_of(text: str, grammar: Grammar) -> str:
    """What a normal text asks for."""
    return grammar.label("tasks", text) or ("inspect" if grammar.intents_in(text) else "general")


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
        found["labels"] = _labels_of_signal(kind, label, excerpts, key, grammar)
    if "context_line" in keys and f'"{kind}"' in reading.system:
        says = SAYS.get(f"{kind}:{label}") or SAYS.get(kind) or _OTHERWISE
        found["context_line"] = says.format(kind=kind, label=label)
    if "weight" in keys and (seen := _SEEN.search(reading.plain)):
        found["weight"] = _weight(int(seen.group(1)), int(seen.group(2)))
    return found


def _weight(count: int, sessions: int) -> float:
    """More with each session; one counts as half that was seen in it once."""
    return round(min(_MOST, _BASE_WEIGHT + _PER_SESSION * min(sessions, count / 2)), 2)


def _labels_of_signal(kind: str, label: str, excerpts: str, key: Key, grammar: Grammar) -> dict[str, list[str]]:
    """Where the line applies: what the signal itself names, else what most of the excerpts are about."""
    domain = task = ""
    match kind:
        case "domain":
            domain = label
        case "task":
            task = label
        case "tool":
            domain = next((intent.domain for intent in grammar.intents if intent.tool_id == label), "tools")
            task = "inspect"
        case _:
            asked = [grammar.normal(said.text) for said in said_in(excerpts) if said.who == "user"]
            domain = _most([domain_of(text, grammar) for text in asked])
            task = _most([task_of(text, grammar) for text in asked])
    found = {"domain": domain, "task": task}
    return {name: [word] if key.known(name, word) else [] for name, word in found.items()}


def _most(labels: list[str]) -> str:
    """The label that most have; of equals the one that came first; empty for none."""
    return max(labels, key=labels.count, default="")


def least_instance(schema: dict[str, Any]) -> Any:  # noqa: C901 - a case per type
    """A value that a plain JSON Schema takes: first of an enum, required keys only, empty or minimal otherwise.

    Raises GatewayError(INVALID_INPUT) where even the least one is very large: schemas come from whoever sends prompts.
    """
    left_chars = LEAST_MAX_CHARS

    def take(chars: int) -> None:
        nonlocal left_chars
        left_chars -= chars
        if left_chars < 0:
            raise _too_much(f"has more than {LEAST_MAX_CHARS} characters")

    def given(value: Any) -> Any:
        take(len(json.dumps(value)))
        return value

    def least(one: dict[str, Any]) -> Any:
        if "const" in one or one.get("enum"):
            return given(one["const"] if "const" in one else one["enum"][0])
        if choices := one.get("anyOf") or one.get("oneOf"):
            return least(choices[0])
        take(1)
        wanted, text = one.get("type", "object"), {"type": "string"}
        match wanted[0] if isinstance(wanted, list) else wanted:
            case "object":
                properties = one.get("properties", {})
                return {given(name): least(properties.get(name, text)) for name in one.get("required", [])}
            case "array":
                return [least(one.get("items", text)) for _ in range(one.get("minItems", 0))]
            case "integer" | "number":
                return given(one.get("minimum", 0))
            case "boolean":
                return False
            case "null":
                return None
            case _:
                length = max(0, one.get("minLength", 0))
                take(length)
                return "unknown".ljust(length, ".")

    try:
        return least(schema)
    except RecursionError:
        raise _too_much("is nested too deeply") from None


def _too_much(why: str) -> GatewayError:
    detail = f"the least value that output_schema takes {why}"
    return GatewayError("INVALID_INPUT", detail, facts={"unbilled": True})


_SAID = re.compile(r"\b(\w+)\s*[:=]\s*\"?([^,;\"\n]+)")
"""`name: value` in a message."""


def filled(schema: dict[str, Any], message: str, answer: str) -> dict[str, Any]:
    """The least object that the schema takes, with what the message says as `name: value`; any object: the answer."""
    properties = schema.get("properties")
    if not properties and schema.get("additionalProperties") is not False:
        return {"answer": answer}
    found: dict[str, Any] = least_instance(schema)
    for name, said in _SAID.findall(message):
        match (properties or {}).get(name, {}).get("type"):
            case "string":
                found[name] = said.strip()
            case "integer" if said.strip().isdecimal():
                found[name] = int(said)
            case _:
                pass
    return found
