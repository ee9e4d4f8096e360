"""Answers by rules: ask the built-in tools, write what they said, look back, or say what cannot be done. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bus.messages.gateway import ToolSpec
from bus.messages.ids import call_id
from bus.messages.work_order import ToolCall
from gateway_service.providers.offline.by_name import named_in
from gateway_service.providers.offline.grammar import Grammar, Intent
from gateway_service.providers.offline.prose import tell
from gateway_service.providers.offline.reading import Reading, Said

SELF = "I am hobus's embedded offline model: fixed rules, no language model"
_EVENT_TYPE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_LIMIT = re.compile(r"\b(\d{1,3})\b.{0,20}\b(?:entries|events|records)\b")
_PATH = re.compile(r"\b[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+\b")
_QUOTED_CHARS = 300
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class Answer:
    """Text, or the tools to ask first."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()


def answer(reading: Reading, tools: Sequence[ToolSpec], grammar: Grammar) -> Answer:
    """The next step of a turn: tool results are written down; else tools are asked for; else rules answer alone."""
    if reading.answered:
        return Answer(text="\n\n".join(tell(answered) for answered in reading.answered))
    offered = {tool.tool_id: tool for tool in tools}
    if (named := named_in(reading.user_input, offered)) is not None:
        return Answer(text=named.said, tool_calls=named.calls)
    text = grammar.normal(reading.user_input)
    if looked_back := _look_back(reading, text, grammar):
        return Answer(text=looked_back)
    asked, question = _asked(reading, text, grammar)
    if grammar.changes.search(text):
        return Answer(text=f"I can look things up in this system, but I change nothing. {_abilities(offered, grammar)}")
    wanted = [intent for intent in asked if intent.tool_id in offered]
    if wanted:
        calls = [
            ToolCall(
                call_id=call_id(number),
                tool_id=intent.tool_id,
                arguments=_arguments(offered[intent.tool_id], question, grammar),
            )
            for number, intent in enumerate(wanted, start=1)
        ]
        return Answer(tool_calls=tuple(calls))
    return Answer(text=_alone(reading, text, asked, offered, grammar))


def degraded() -> str:
    """The short reply of the reduced mode: it claims nothing about the system."""
    return (
        "I can only answer in a reduced mode right now: memory, earlier messages and tools cannot be reached. "
        f"{SELF}, so without the tools I cannot look anything up. Please ask again in a moment."
    )


def _asked(reading: Reading, text: str, grammar: Grammar) -> tuple[list[Intent], str]:
    """What is asked for, and in which words: `again` and the like mean the last question that asked for something."""
    intents = grammar.intents_in(text)
    if intents or not grammar.says("again", text):
        return intents, reading.user_input
    for said in reversed(reading.history):
        if said.who == "user" and (before := grammar.intents_in(grammar.normal(said.text))):
            return before, said.text
    return [], reading.user_input


def _look_back(reading: Reading, text: str, grammar: Grammar) -> str:
    """An answer from the conversation itself; empty if the message does not ask for one."""
    if grammar.says("asked_before", text):
        asked = [said for said in reading.history if said.who == "user"]
        if not asked:
            return "This is the first message of our conversation that I can see."
        said = asked[0] if grammar.says("first", text) else asked[-1]
        return f"You asked: “{_quoted(said)}”"
    if grammar.says("said_before", text):
        spoken = [said for said in reading.history if said.who == "assistant"]
        return f"I said: “{_quoted(spoken[-1])}”" if spoken else "I have not said anything in this conversation yet."
    if grammar.says("summarise", text):
        return _summary(reading)
    return ""


def _summary(reading: Reading) -> str:
    """The first sentence of each thing that the prompt shows, in order."""
    context = reading.named("assembled_context")
    lines = [_SENTENCE.split(paragraph.strip())[0] for paragraph in context.splitlines() if paragraph.strip()]
    lines += [
        f"{'You' if said.who == 'user' else 'I'}: {_SENTENCE.split(said.text.strip())[0][:_QUOTED_CHARS]}"
        for said in reading.history
        if said.text.strip()
    ]
    if not lines:
        return "There is nothing to summarise: I was given no context and no earlier messages."
    return "\n".join(["In short:", *(f"- {line}" for line in lines)])


def _alone(reading: Reading, text: str, asked: Sequence[Intent], offered: dict[str, ToolSpec], grammar: Grammar) -> str:
    if grammar.says("farewell", text) and grammar.says("closes", text):
        return "You are welcome. Goodbye."
    if grammar.says("greeting", text):
        return f"Hello{' again' if reading.history else ''}. {_abilities(offered, grammar)}"
    if grammar.says("identity", text):
        return f"{SELF}. {_abilities(offered, grammar)}"
    if asked:
        missing = " and ".join(intent.says for intent in asked)
        return f"To {missing} I would need a tool that I was not given here. {_abilities(offered, grammar)}"
    if reading.named("assembled_context"):
        return f"{SELF}, so I cannot reason about this. What I was given says:\n{_summary(reading)}"
    return f"{SELF}, so I cannot answer that. {_abilities(offered, grammar)}"


def _abilities(offered: dict[str, ToolSpec], grammar: Grammar) -> str:
    able = [intent.says for intent in grammar.intents if intent.tool_id in offered]
    if not able:
        return "Without tools I can only talk about this conversation."
    if len(able) == 1:
        return f"Ask me about this system: I can {able[0]}."
    return f"Ask me about this system: I can {', '.join(able[:-1])}, and {able[-1]}."


def _arguments(tool: ToolSpec, question: str, grammar: Grammar) -> dict[str, Any]:
    """Arguments that the question names, of those that the tool declares."""
    text = grammar.normal(question)
    found: dict[str, Any] = {}
    if (path := _PATH.search(text)) and path.group().partition(".")[0] in grammar.config_sections:
        found["path"] = path.group()
    elif section := next((name for name in grammar.config_sections if _names(name, text)), None):
        found["path"] = section
    if event_type := _EVENT_TYPE.search(question):
        found["event_type"] = event_type.group()
    if limit := _LIMIT.search(text):
        found["limit"] = int(limit.group(1))
    if "this session" in text:
        found["session_id"] = "this"
    declared: dict[str, Any] = tool.parameters.get("properties", {})
    return {name: _bounded(value, declared[name]) for name, value in found.items() if name in declared}


def _names(section: str, text: str) -> bool:
    words = section.replace("_", "[_ ]")
    return re.search(rf"\b{words}s?\b", text) is not None


def _bounded(value: Any, schema: Any) -> Any:
    if isinstance(value, int) and isinstance(schema, dict):
        return max(schema.get("minimum", value), min(schema.get("maximum", value), value))
    return value


def _quoted(said: Said) -> str:
    return said.text if len(said.text) <= _QUOTED_CHARS else said.text[: _QUOTED_CHARS - 1] + "…"
