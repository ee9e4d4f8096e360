"""Answers by rules: ask the built-in tools, write what they said, look back, or say what cannot be done. Pure.

They are told as they come, in one line or as a list, as the message wishes or as was learned. Any tool can be asked for
by name: `use <tool id> {json arguments}`, one per line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from hobus.gateway_service.providers.offline.grammar import Grammar, Intent
from hobus.gateway_service.providers.offline.prose import tell
from hobus.gateway_service.providers.offline.reading import Reading, ToolOffered, ToolWanted

Form = Literal["full", "brief", "list"]
FORMS: tuple[Form, ...] = ("brief", "list", "full")
_ITEM = "- "
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def form_of(reading: Reading, grammar: Grammar) -> Form:
    """After a reviewer's note all of it; else as the newest steer, the message or the surest preference wishes."""
    if reading.block("reviewer_note"):
        return "full"
    wishes = (*reversed(reading.steers()), reading.message or "", *reading.block("preferences").splitlines())
    for wish in wishes:
        if (form := wished(wish, grammar)) is not None:
            return form
    return "full"


def wished(text: str, grammar: Grammar) -> Form | None:
    """The form that a text names, if it names one."""
    normal = grammar.normal(text)
    return next((form for form in FORMS if grammar.says(form, normal)), None)


def told(paragraphs: Sequence[str], more: str, form: Form) -> str:
    """The paragraphs in that form; `more` is what a brief answer leaves out."""
    match form:
        case "brief":
            return " ".join(_in_one_line(paragraph) for paragraph in paragraphs) or more
        case "list":
            lines = [line for text in (*paragraphs, more) if text for line in _as_list(text)]
            return "\n".join(lines)
        case "full":
            *before, last = paragraphs or [""]
            return "\n\n".join([*before, f"{last} {more}".strip()])


def first_sentences(text: str) -> list[str]:
    """The first sentence of each line that is not blank."""
    return [_SENTENCE.split(line.strip())[0] for line in text.splitlines() if line.strip()]


def _in_one_line(paragraph: str) -> str:
    """A heading and its items in one line; nothing is left out."""
    head, *rest = paragraph.splitlines() or [""]
    if not rest:
        return head
    items = [line.removeprefix(_ITEM) for line in rest if line.strip()]
    return f"{head} {'; '.join(items)}."


def _as_list(paragraph: str) -> list[str]:
    """Items as they are; anything else a sentence per item."""
    if f"\n{_ITEM}" in paragraph:
        return paragraph.splitlines()
    return [_ITEM + sentence for sentence in _SENTENCE.split(paragraph.strip())]


_LINE = re.compile(r"use[ \t]+([A-Za-z0-9_-]{1,64})[ \t]*(\{.*\})?[ \t]*", re.IGNORECASE)
_CALLS_MAX = 64
_SHOWN = 12


def named_in(text: str, offered: Collection[str]) -> tuple[str, tuple[ToolWanted, ...]] | None:
    """The calls that a message of this form names, or why there are none; None for any other message."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = [_LINE.fullmatch(line) for line in lines]
    if not found or len(found) > _CALLS_MAX or not all(found):
        return None
    calls: list[ToolWanted] = []
    for match in (one for one in found if one is not None):
        tool_id = match.group(1)
        if tool_id not in offered:
            # "use short words" is no tool: only what names one of something is taken for an order.
            if "__" not in tool_id and match.group(2) is None:
                return None
            return f"I was not given a tool {tool_id}. {_given(offered)}", ()
        arguments = _object(match.group(2))
        if arguments is None:
            return f"What follows {tool_id} is no JSON object, so I did not use it.", ()
        calls.append(ToolWanted(tool_id, arguments))
    return "", tuple(calls)


def _object(text: str | None) -> dict[str, Any] | None:
    """The JSON object in a text, an empty one in none; None for anything else."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _given(offered: Collection[str]) -> str:
    names = sorted(offered)
    if not names:
        return "I was given none."
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"I was given {', '.join(names[:_SHOWN])}{more}."


SELF = "I am hobus's embedded offline model: fixed rules, no language model"
PLUG_IN = (
    "hobus provider add local --kind openai --base-url http://127.0.0.1:11434/v1 --model llama3.2 --key none --default"
)
HELP = (
    f"A model that can is plugged in by two commands, `{PLUG_IN}` and `hobus up --wait --detach` (after `hobus down`; "
    "docs/providers.md)."
)
_NO_MESSAGE = f"{SELF}. The prompt shows me no message, so there is nothing that I could answer."
_EVENT_TYPE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_LIMIT = re.compile(r"\b(\d{1,3})\b.{0,20}\b(?:entries|events|records)\b")
_PATH = re.compile(r"\b[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+\b")
_ROLE = re.compile(r"\bYou are (the [^,.\n]+|an? [^,.\n]+)[,.\n]")
_QUOTED_CHARS = 300


class RulesAnswer(NamedTuple):
    """Text, or the tools to ask first."""

    text: str = ""
    calls: tuple[ToolWanted, ...] = ()


def answer(reading: Reading, grammar: Grammar) -> RulesAnswer:
    """The next step of a turn: what a steer asks for comes first; tool results are written down; else rules answer."""
    message = reading.words
    if message is None:
        return RulesAnswer(_NO_MESSAGE)
    if further := _further_calls(reading, message, grammar):
        return RulesAnswer(calls=further)
    form = form_of(reading, grammar)
    draft = told(reading.block("draft").split("\n\n"), "", form)
    text = ""
    if not draft or reading.answered:
        own = _unsteered(reading, message, form, grammar, draft)
        if own.calls:
            return own
        text = own.text
    heard = [_heard(steer, reading.offered(), grammar) for steer in reading.steers()]
    parts = [draft, text, *(one for one in heard if one not in draft), _reviewed(reading)]
    return RulesAnswer("\n\n".join(part for part in parts if part))


def reduced(reading: Reading) -> str:
    """The short reply of the reduced mode: it claims nothing about the system."""
    message = reading.words
    if message is None:
        return _NO_MESSAGE
    return (
        "I can only answer in a reduced mode right now, without memory, earlier messages and tools. "
        f"{SELF}{_role(reading)}. Without the tools I cannot look anything up, and so not answer “{_short(message)}”. "
        "Please ask again in a moment."
    )


def _unsteered(reading: Reading, message: str, form: Form, grammar: Grammar, draft: str) -> RulesAnswer:
    """What the message alone leads to: tool results are written down; else tools are asked for; else rules answer.

    What the draft has said already is not said again.
    """
    if reading.answered:
        results = [tell(answered) for answered in reading.answered]
        return RulesAnswer(told([one for one in results if told([one], "", form) not in draft], "", form))
    offered = reading.offered()
    if (named := named_in(message, offered)) is not None:
        return RulesAnswer(told([named[0]], "", form), named[1])
    text = grammar.normal(message)
    if looked_back := _look_back(reading, text, grammar):
        return RulesAnswer(told([looked_back], "", form))
    asked, question = _asked(reading, message, text, grammar)
    if grammar.changes.search(text):
        refusal = "I can look things up in this system, but I change nothing."
        return RulesAnswer(told([refusal], _abilities(offered, grammar), form))
    wanted = [intent for intent in asked if intent.tool_id in offered]
    if wanted:
        return RulesAnswer(calls=_calls([(intent, question) for intent in wanted], offered, grammar))
    said, more = _alone(reading, message, text, asked, grammar)
    return RulesAnswer(told([said], more, form))


def _calls(
    wanted: Sequence[tuple[Intent, str]], offered: Mapping[str, ToolOffered], grammar: Grammar
) -> tuple[ToolWanted, ...]:
    """One call per intent, with the arguments that the words beside it name."""
    rows = ((intent.tool_id, words) for intent, words in wanted)
    return tuple(ToolWanted(tool_id, _arguments(offered[tool_id], words, grammar)) for tool_id, words in rows)


def _further_calls(reading: Reading, message: str, grammar: Grammar) -> tuple[ToolWanted, ...]:
    """Tools that steers ask for and that this turn has not asked yet; the message's own come with them."""
    steers = reading.steers()
    if not steers:
        return ()
    offered = reading.offered()
    done = {answered.tool for answered in reading.answered}
    steered = {
        intent.tool_id: (intent, steer)
        for steer in steers
        for intent in grammar.intents_in(grammar.normal(steer))
        if intent.tool_id in offered and intent.tool_id not in done
    }
    if not steered:
        return ()
    own = () if reading.block("draft") else _unsteered(reading, message, "full", grammar, "").calls
    asked = {call.name for call in own}
    return (*own, *_calls([row for tool_id, row in steered.items() if tool_id not in asked], offered, grammar))


def _heard(steer: str, offered: Mapping[str, ToolOffered], grammar: Grammar) -> str:
    """What became of a steer: it was asked for, it named a form, or rules cannot follow it."""
    asked = [intent.says for intent in grammar.intents_in(grammar.normal(steer)) if intent.tool_id in offered]
    said = f"Meanwhile you said: “{_short(steer)}”"
    if asked:
        return f"{said} So I was to {' and '.join(asked)}."
    if wished(steer, grammar) is not None:
        return f"{said} So I told it in that form."
    return f"{said} {SELF}, so I cannot follow that."


def _reviewed(reading: Reading) -> str:
    """What became of a reviewer's note: the form of the answer is full, and more than that rules cannot do."""
    note = reading.block("reviewer_note")
    return f"A reviewer wrote: “{_short(note)}” Rules have no more to say than this." if note else ""


def _asked(reading: Reading, message: str, text: str, grammar: Grammar) -> tuple[list[Intent], str]:
    """What is asked for, and in which words: `again` and the like mean the last question that asked for something."""
    intents = grammar.intents_in(text)
    if intents or not grammar.says("again", text):
        return intents, message
    for said in reversed(reading.said()):
        if said.who == "user" and (before := grammar.intents_in(grammar.normal(said.text))):
            return before, said.text
    return [], message


def _look_back(reading: Reading, text: str, grammar: Grammar) -> str:
    """An answer from the conversation itself; empty if the message does not ask for one."""
    if grammar.says("asked_before", text):
        asked = [said for said in reading.said() if said.who == "user"]
        if not asked:
            return "This is the first message of our conversation that I can see."
        said = asked[0] if grammar.says("first", text) else asked[-1]
        return f"You asked: “{_short(said.text)}”"
    if grammar.says("said_before", text):
        said = [f"I said: “{_short(one.text)}”" for one in reading.said() if one.who == "assistant"]
        return said[-1] if said else "I have not said anything in this conversation yet."
    if grammar.says("summarise", text):
        return _summary(reading)
    return ""


def _summary(reading: Reading) -> str:
    """The first sentence of each thing that the prompt shows, in order."""
    lines = first_sentences(reading.block("context"))
    lines += [
        f"{'You' if said.who == 'user' else 'I'}: {first_sentences(said.text)[0][:_QUOTED_CHARS]}"
        for said in reading.said()
        if said.text.strip()
    ]
    if not lines:
        return "There is nothing to summarise: I was given no context and no earlier messages."
    return "\n".join(["In short:", *(f"- {line}" for line in lines)])


def _alone(reading: Reading, message: str, text: str, asked: Sequence[Intent], grammar: Grammar) -> tuple[str, str]:
    """What rules say without tools, and what they add where there is room for it."""
    abilities = _abilities(reading.offered(), grammar)
    labels = _object(reading.block("classification")) or {}
    if labels.get("speech_act") == "farewell" or (grammar.says("farewell", text) and grammar.says("closes", text)):
        return "You are welcome. Goodbye.", ""
    if grammar.says("greeting", text):
        return f"Hello{' again' if reading.block('earlier_messages') else ''}.", abilities
    if grammar.says("identity", text):
        return f"{SELF}{_role(reading)}.", abilities
    if asked:
        missing = " and ".join(intent.says for intent in asked)
        return f"To {missing} I would need a tool that I was not given here.", abilities
    if reading.block("context"):
        return f"{SELF}, so I cannot reason about this. What I was given says:\n{_summary(reading)}", f"\n{HELP}"
    if labels.get("ambiguity") == "high":
        return f"I cannot tell what “{_short(message)}” is about: say it in a whole sentence.", abilities
    return f"{SELF}, so I cannot answer that.", f"{HELP} {abilities}"


def _role(reading: Reading) -> str:
    """Who the system's words say that it is."""
    role = _ROLE.search(reading.system)
    return f", here as {role.group(1)}" if role else ""


def _abilities(offered: Mapping[str, ToolOffered], grammar: Grammar) -> str:
    able = [intent.says for intent in grammar.intents if intent.tool_id in offered]
    if not able:
        return "Without tools I can only talk about this conversation."
    if len(able) == 1:
        return f"Ask me about this system: I can {able[0]}."
    return f"Ask me about this system: I can {', '.join(able[:-1])}, and {able[-1]}."


def _arguments(tool: ToolOffered, question: str, grammar: Grammar) -> dict[str, Any]:
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
    declared: Mapping[str, Any] = tool.parameters.get("properties", {})
    return {name: _bounded(value, declared[name]) for name, value in found.items() if name in declared}


def _names(section: str, text: str) -> bool:
    words = section.replace("_", "[_ ]")
    return re.search(rf"\b{words}s?\b", text) is not None


def _bounded(value: Any, schema: Any) -> Any:
    if isinstance(value, int) and isinstance(schema, dict):
        return max(schema.get("minimum", value), min(schema.get("maximum", value), value))
    return value


def _short(text: str) -> str:
    return text if len(text) <= _QUOTED_CHARS else text[: _QUOTED_CHARS - 1] + "…"
