"""Answers by rules: ask the tools that a message names, tell what they brought, look back, or say what cannot be done.

Any tool can be asked for by name: `use <tool id> {json arguments}`, one per line, or, where it takes one text,
`use <tool id> for <text>`. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from hobus.gateway_service.providers.offline.grammar import Grammar
from hobus.gateway_service.providers.offline.reading import Reading, ToolAnswer, ToolWanted

SELF = "I am hobus's embedded offline model: fixed rules, no language model"
PLUG_IN = (
    "hobus provider add local --kind openai --base-url http://127.0.0.1:11434/v1 --model llama3.2 --key none --default"
)
HELP = (
    f"A model that can is plugged in by two commands, `{PLUG_IN}` and `hobus up --wait --detach` (after `hobus down`; "
    "docs/providers.md)."
)
_NO_MESSAGE = f"{SELF}. The prompt shows me no message, so there is nothing that I could answer."
_LINE = re.compile(r"use[ \t]+([A-Za-z0-9_-]{1,64})[ \t]*(?:(\{.*\})|for[ \t]+(\S.*))?[ \t]*", re.IGNORECASE)
_CALLS_MAX, _SHOWN, _QUOTED_CHARS, _CHAIN_CHARS = 64, 12, 300, 16
_ERROR = re.compile(r"error ([A-Za-z_]+): ?(.*)", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_EVENT_TYPE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_LIMIT = re.compile(r"\b(\d{1,3})\b.{0,20}\b(?:entries|events|records)\b")
_PATH = re.compile(r"\b[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+\b")


class RulesAnswer(NamedTuple):
    """Text, or the tools to ask first."""

    text: str = ""
    calls: tuple[ToolWanted, ...] = ()


def answer(reading: Reading, grammar: Grammar) -> RulesAnswer:
    """Return the next step: tools that are named and not asked yet, else what they brought or rules can say."""
    if not reading.asked:
        return RulesAnswer(_NO_MESSAGE)
    if "reduced mode" in reading.system:
        return RulesAnswer(_write_reduced(reading))
    words, steers = reading.words, reading.asked[1:]
    if not reading.done and (named := find_named_calls(words, reading.tools)) is not None:
        return RulesAnswer(*named)
    asked, text = words, grammar.normalise(words)
    if grammar.says("again", text):
        asked = next(
            (one.text for one in reversed(reading.said) if one.who == "user" and _find_ids(one.text, grammar)), words
        )
    is_change = grammar.changes.search(text) is not None
    looked_back = _look_back(reading, text, grammar)
    calls = [] if is_change or looked_back else _list_calls(asked, reading, grammar)
    calls = [one for steer in steers for one in _list_calls(steer, reading, grammar) if one not in calls] + calls
    if calls and len(reading.done) < _CALLS_MAX:
        return RulesAnswer(calls=tuple(calls))
    told = [told for one in reading.answered if (told := tell(one)) not in reading.draft]
    if not told and not reading.draft:
        told = [looked_back or _answer_alone(reading, text, asked, grammar, is_change=is_change)]
    heard = [line for steer in steers if (line := f"Meanwhile you said: “{_shorten(steer)}”") not in reading.draft]
    answer = "\n\n".join([*([reading.draft] if reading.draft else []), *told, *heard])
    wishes = [*steers, words, *reading.blocks.get("preferences", "").splitlines()]
    forms = (name for wish in map(grammar.normalise, wishes) for name in ("brief", "full") if grammar.says(name, wish))
    is_brief = next(forms, "") == "brief"
    return RulesAnswer(" ".join(answer.replace(":\n- ", ": ").replace("\n- ", "; ").split()) if is_brief else answer)


def tell(answered: ToolAnswer) -> str:
    """Return what one tool call brought: rows one by one, all else as it came; a failed one is said to be that."""
    if failed := _ERROR.fullmatch(answered.text):
        return f"{answered.tool} failed ({failed[1]}): {failed[2].strip() or 'no reason given'}"
    try:
        value = json.loads(answered.text)
    except (ValueError, RecursionError):
        return f"{answered.tool}: {answered.text.strip()[:_QUOTED_CHARS]}"
    if answered.tool == "verify_ledger" and isinstance(value, dict) and value.get("ok"):
        chain = str(value.get("chain"))[:_CHAIN_CHARS]
        return (
            f"The ledger is intact: {value.get('entries')} entries, up to entry {value.get('head')} (chain {chain}…)."
        )
    heading, rows = _HEADINGS.get(answered.tool), None
    if heading is not None and isinstance(value, dict):
        rows = next((one for one in value.values() if isinstance(one, list)), None)
    if isinstance(value, dict) and value and not {list, dict} & set(map(type, value.values())):
        said = (f"{name.replace('_', ' ')} {one}" for name, one in value.items() if name != "session_id")
        return f"{answered.tool.replace('_', ' ')}: {', '.join(said)}."
    if rows is None or not set(map(type, rows)) <= {dict}:
        return f"{answered.tool}: {json.dumps(value, ensure_ascii=False, sort_keys=True)}"
    told = [[" ".join(map(str, filter(None, map(row.get, names)))) for names in _COLUMNS] for row in rows]
    lines = [f"- {': '.join(filter(None, row))}" for row in told]
    return "\n".join([f"{len(rows)} {heading}{':' if rows else '.'}", *lines])


_HEADINGS = {
    "list_packages": "packages are installed",
    "list_frameworks": "frameworks govern this system",
    "list_tools": "tools are available",
}
_COLUMNS = (("package_id", "framework_id", "tool_id", "version"), ("title", "description"))


def _write_reduced(reading: Reading) -> str:
    return (
        "I can only answer in a reduced mode right now, without memory, earlier messages and tools. "
        f"{SELF}. Without the tools I cannot look anything up, and so not answer “{_shorten(reading.words)}”. "
        "Please ask again in a moment."
    )


def find_named_calls(text: str, offered: Mapping[str, Mapping[str, Any]]) -> tuple[str, tuple[ToolWanted, ...]] | None:
    """Return the calls that a message of that form names, or why there are none; None for any other message."""
    found = [_LINE.fullmatch(line.strip()) for line in text.splitlines() if line.strip()]
    calls: list[ToolWanted] = []
    for match in found:
        if match is None or len(found) > _CALLS_MAX:
            return None
        tool_id, arguments = match[1], _read_object(match[2])
        if match[3] and (takes := offered.get(tool_id)) is not None:
            texts = [name for name, one in takes.get("properties", {}).items() if one.get("type") == "string"]
            needed = takes.get("required") or texts[:1]
            arguments = {needed[0]: match[3]} if len(needed) == 1 and needed[0] in texts else None
        if tool_id not in offered:
            # "use short words" is no tool: only what names one of something is taken for an order.
            given = ", ".join(sorted(offered)[:_SHOWN]) or "none"
            is_name = "__" in tool_id or match[2] is not None
            return (f"I was not given a tool {tool_id}. I was given {given}.", ()) if is_name else None
        if arguments is None:
            return f"What follows {tool_id} is no JSON object with its arguments, so I did not use it.", ()
        calls.append(ToolWanted(tool_id, arguments))
    return ("", tuple(calls)) if calls else None


def _read_object(text: str | None) -> dict[str, Any] | None:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _find_ids(text: str, grammar: Grammar) -> list[str]:
    return [intent.tool_id for intent in grammar.find_intents(grammar.normalise(text))]


def _list_calls(text: str, reading: Reading, grammar: Grammar) -> list[ToolWanted]:
    """Return a call for each tool that a text is about and that was not asked yet."""
    wanted = [
        tool_id for tool_id in _find_ids(text, grammar) if tool_id in reading.tools and tool_id not in reading.done
    ]
    return [ToolWanted(tool_id, _find_arguments(reading.tools[tool_id], text, grammar)) for tool_id in wanted]


def _look_back(reading: Reading, text: str, grammar: Grammar) -> str:
    """Return an answer from the conversation itself; empty if the normal text of the message does not ask for one."""
    if grammar.says("asked_before", text):
        asked = [said.text for said in reading.said if said.who == "user"]
        first = "This is the first message of our conversation that I can see."
        return f"You asked: “{_shorten(asked[0] if grammar.says('first', text) else asked[-1])}”" if asked else first
    if grammar.says("said_before", text):
        answers = [said.text for said in reading.said if said.who == "assistant"]
        said = "I have not said anything in this conversation yet."
        return f"I said: “{_shorten(answers[-1])}”" if answers else said
    return _summarise(reading) if grammar.says("summarise", text) else ""


def _summarise(reading: Reading) -> str:
    """Return the first sentence of each thing that the prompt shows, in order."""
    said = [f"{'You' if one.who == 'user' else 'I'}: {one.text}" for one in reading.said if one.text.strip()]
    lines = [line for line in reading.blocks.get("context", "").splitlines()[1:] if line.strip()] + said
    if not lines:
        return "There is nothing to summarise: I was given no context and no earlier messages."
    return "\n".join(["In short:", *(f"- {_SENTENCE.split(line.strip().splitlines()[0])[0]}" for line in lines)])


def _answer_alone(reading: Reading, text: str, asked: str, grammar: Grammar, *, is_change: bool) -> str:
    """Return what rules say without tools to the message's normal text, which may mean one that was asked before."""
    abilities = _list_abilities(reading, grammar)
    if is_change:
        return f"I can look things up in this system, but I change nothing. {abilities}"
    if grammar.says("farewell", text) and grammar.says("closes", text):
        return "You are welcome. Goodbye."
    if grammar.says("greeting", text):
        return f"Hello{' again' if reading.said else ''}. {abilities}"
    if grammar.says("identity", text):
        return f"{SELF}. {abilities}"
    if missing := [one.says for one in grammar.find_intents(grammar.normalise(asked))]:
        return f"To {' and '.join(missing)} I would need a tool that I was not given here. {abilities}"
    if reading.blocks.get("context"):
        return f"{SELF}, so I cannot reason about this. What I was given says:\n{_summarise(reading)}\n{HELP}"
    return f"{SELF}, so I cannot answer that. {HELP} {abilities}"


def _list_abilities(reading: Reading, grammar: Grammar) -> str:
    able = [intent.says for intent in grammar.intents if intent.tool_id in reading.tools]
    if not able:
        return "Without tools I can only talk about this conversation."
    *before, last = able
    return f"Ask me about this system: I can {', '.join(before)}{', and ' if before else ''}{last}."


def _find_arguments(parameters: Mapping[str, Any], question: str, grammar: Grammar) -> dict[str, Any]:
    """Return arguments that the question names, of those that the tool declares."""
    declared: Mapping[str, Any] = parameters.get("properties", {})
    if not declared:
        return {}
    text = grammar.normalise(question)
    found: dict[str, Any] = {}
    if (path := _PATH.search(text)) and path.group().partition(".")[0] in grammar.config_sections:
        found["path"] = path.group()
    elif section := next((name for name, pattern in grammar.config_sections.items() if pattern.search(text)), None):
        found["path"] = section
    if event_type := _EVENT_TYPE.search(question):
        found["event_type"] = event_type.group()
    if limit := _LIMIT.search(text):
        found["limit"] = int(limit.group(1))
    if "this session" in text:
        found["session_id"] = "this"
    return {name: _bound(value, declared[name]) for name, value in found.items() if name in declared}


def _bound(value: Any, schema: Any) -> Any:
    if isinstance(value, int) and isinstance(schema, dict):
        return max(schema.get("minimum", value), min(schema.get("maximum", value), value))
    return value


def _shorten(text: str) -> str:
    return text if len(text) <= _QUOTED_CHARS else text[: _QUOTED_CHARS - 1] + "…"
