"""Classification by rules: closed labels, an intent signal, how ambiguous a message is. Pure."""

from __future__ import annotations

from typing import Any

from gateway_service.providers.offline.grammar import Grammar
from gateway_service.providers.offline.reading import Reading

_OBJECTIVE_WORDS = 12
_SHORT_WORDS = 3
_SURE, _LIKELY, _GUESS = 0.95, 0.8, 0.4


def classify(reading: Reading, grammar: Grammar) -> dict[str, Any]:
    """The object that contract PRC-CLASSIFY-001 asks for."""
    text = grammar.normal(reading.user_input)
    is_first = not reading.history and not reading.named("active_intent")
    speech_act = _speech_act(text, grammar, is_first=is_first)
    ambiguity = _ambiguity(text, grammar, speech_act)
    action = _action(text, grammar, speech_act, ambiguity, is_first=is_first)
    confidence = _SURE if speech_act == "farewell" else {"low": _LIKELY, "medium": _LIKELY / 2}.get(ambiguity, _GUESS)
    return {
        "speech_act": speech_act,
        "ambiguity": ambiguity,
        "intent_signal": {
            "action": action,
            "candidate_objective": " ".join(reading.user_input.split()[:_OBJECTIVE_WORDS]),
            "confidence": confidence,
        },
        "labels": _labels(reading, text, grammar, speech_act),
    }


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


def _labels(reading: Reading, text: str, grammar: Grammar, speech_act: str) -> dict[str, str]:
    """One domain and one task; only words of the vocabulary that the prompt shows, if it shows one."""
    if speech_act in ("greeting", "reentry_greeting", "farewell"):
        domain, task = "general", "general"
    else:
        domain, task = domain_of(text, grammar), task_of(text, grammar)
    labels = {"domain": domain, "task": task}
    return {kind: label for kind, label in labels.items() if _is_known(label, reading.named(f"{kind}_labels"))}


def domain_of(text: str, grammar: Grammar) -> str:
    """What a normal text is about."""
    intents = grammar.intents_in(text)
    return intents[0].domain if intents else grammar.label("domains", text) or "general"


def task_of(text: str, grammar: Grammar) -> str:
    """What a normal text asks for."""
    return grammar.label("tasks", text) or ("inspect" if grammar.intents_in(text) else "general")


def _is_known(label: str, vocabulary: str) -> bool:
    return not vocabulary or label in [word.strip() for word in vocabulary.split(",")]
