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
    """The next step of a turn: what a steer asks for comes first; tool results are written down; else rules answer."""
    if further := _further_calls(reading, tools, grammar):
        return Answer(tool_calls=further)
    own = _unsteered(reading, tools, grammar)
    if own.tool_calls or not reading.steers:
        return own
    return Answer(text="\n\n".join([own.text, *(_heard(steer, tools, grammar) for steer in reading.steers)]))


def _unsteered(reading: Reading, tools: Sequence[ToolSpec], grammar: Grammar) -> Answer:
    """What the message alone leads to: tool results are written down; else tools are asked for; else rules answer."""
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
        return Answer(tool_calls=_calls([(intent, question) for intent in wanted], offered, grammar))
    return Answer(text=_alone(reading, text, asked, offered, grammar))


def _calls(
    wanted: Sequence[tuple[Intent, str]], offered: dict[str, ToolSpec], grammar: Grammar
) -> tuple[ToolCall, ...]:
    """One call per intent, with the arguments that the words beside it name."""
    return tuple(
        ToolCall(
            call_id=call_id(number),
            tool_id=intent.tool_id,
            arguments=_arguments(offered[intent.tool_id], words, grammar),
        )
        for number, (intent, words) in enumerate(wanted, start=1)
    )


def _further_calls(reading: Reading, tools: Sequence[ToolSpec], grammar: Grammar) -> tuple[ToolCall, ...]:
    """Tools that steers ask for and that this turn has not asked yet; the message's own come with them."""
    offered = {tool.tool_id: tool for tool in tools}
    done = {answered.call.tool_id for answered in reading.answered}
    steered = {
        intent.tool_id: (intent, steer)
        for steer in reading.steers
        for intent in grammar.intents_in(grammar.normal(steer))
        if intent.tool_id in offered and intent.tool_id not in done
    }
    if not steered or not (own := _unsteered(reading, tools, grammar)).tool_calls:
        return _calls(list(steered.values()), offered, grammar)
    asked = {call.tool_id for call in own.tool_calls}
    further = _calls([row for tool_id, row in steered.items() if tool_id not in asked], offered, grammar)
    return tuple(
        call.model_copy(update={"call_id": call_id(number)})
        for number, call in enumerate([*own.tool_calls, *further], start=1)
    )


def _heard(steer: str, tools: Sequence[ToolSpec], grammar: Grammar) -> str:
    """What became of a steer: it was asked for, or rules cannot follow it."""
    offered = {tool.tool_id for tool in tools}
    asked = [intent.says for intent in grammar.intents_in(grammar.normal(steer)) if intent.tool_id in offered]
    said = f"Meanwhile you said: “{_short(steer)}”"
    return f"{said} So I was to {' and '.join(asked)}." if asked else f"{said} {SELF}, so I cannot follow that."


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
    return _short(said.text)


def _short(text: str) -> str:
    return text if len(text) <= _QUOTED_CHARS else text[: _QUOTED_CHARS - 1] + "…"
