"""Classification by rules: closed labels, an intent signal, how ambiguous a message is. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hobus.gateway_service.providers.offline.asked import Key
from hobus.gateway_service.providers.offline.grammar import Grammar
from hobus.gateway_service.providers.offline.reading import Reading

_OBJECTIVE_WORDS = 12
_SHORT_WORDS = 3
_SURE, _LIKELY, _GUESS = 0.95, 0.8, 0.4
_SENTENCE = re.compile(r"(?<=[.!?\n])\s+")


def classify(reading: Reading, message: str, keys: Mapping[str, Key], grammar: Grammar) -> dict[str, Any]:
    """What these rules have to say of the message for each key; only in words that the prompt offers for it."""
    text = grammar.normal(message)
    is_first = _is_first(reading)
    speech_act = _speech_act(text, grammar, is_first=is_first)
    ambiguity = _ambiguity(text, grammar, speech_act)
    action = _action(text, grammar, speech_act, ambiguity, is_first=is_first)
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
    if key and key.offers("global") and (wish := _lasting_wish(message, grammar)) and speech_act != "question":
        found["explicit_preference"] = {"statement": wish, "scope": "global"}
    return found


def _is_first(reading: Reading) -> bool:
    """Whether the prompt shows an active objective and earlier messages, and there are none."""
    return all(reading.blocks.get(name) == "" for name in ("active_objective", "earlier_messages"))


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


def _action(text: str, grammar: Grammar, speech_act: str, ambiguity: str, *, is_first: bool) -> str:
    if speech_act == "farewell":
        return "close"
    if is_first or grammar.says("topic_change", text):
        return "new"
    return "unclear" if ambiguity == "high" else "continue"


def _labels(text: str, grammar: Grammar, speech_act: str) -> dict[str, str]:
    """One domain and one task."""
    if speech_act in ("greeting", "reentry_greeting", "farewell"):
        return {"domain": "general", "task": "general"}
    return {"domain": domain_of(text, grammar), "task": task_of(text, grammar)}


def _lasting_wish(message: str, grammar: Grammar) -> str:
    """The sentence of a message that says how to be served from now on; empty without one."""
    beginning = message[: grammar.read_chars]
    return next((one.strip() for one in _SENTENCE.split(beginning) if grammar.says("wish", grammar.normal(one))), "")


def domain_of(text: str, grammar: Grammar) -> str:
    """What a normal text is about."""
    intents = grammar.intents_in(text)
    return intents[0].domain if intents else grammar.label("domains", text) or "general"


def task_of(text: str, grammar: Grammar) -> str:
    """What a normal text asks for."""
    return grammar.label("tasks", text) or ("inspect" if grammar.intents_in(text) else "general")
