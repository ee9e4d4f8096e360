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
        if name not in found and "null" in _types(properties.get(name, {})):
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


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema, or the definition that it refers to."""
    one = _mapping(schema)
    where = re.fullmatch(r"#/(\$defs|definitions)/([^/~%]+)", str(one.get("$ref", "")))
    return one if where is None else _mapping(_mapping(root.get(where[1])).get(where[2]))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
