"""What a request says to the offline model, taken apart by its words: blocks between tags, tool rounds, tools. Pure.

A request is the body of a chat completion, as every server of the kind `openai` gets it. A part of a prompt is known by
the tag on the line before it, as a model knows it; what stands under no tag, or under another one, is no such part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

_TAG = re.compile(
    r"\n<(/?)(preferences|context|earlier_messages|classification|reviewer_note|message|draft|steer|active_objective"
    r"|excerpts)(?: [^<>\n]*)?>(?=\n|$)"
)
_SPOKEN = re.compile(r"^(?:- )?(user|assistant)(?: \(used [^)]*\))?: ", re.MULTILINE)
_TOLD_BEFORE = re.compile(r"(Instructions of the caller|Said earlier in this conversation):\n")
_STEER = re.compile(r"^- ", re.MULTILINE)
_DIGEST_NOTES = re.compile(r"(?<!\s)\s*\((?:(?:turn [0-9]+|input [^;)]+)(?:; )?)?[a-z_, ]*(?:; degraded)?\)$")


class Utterance(NamedTuple):
    """One earlier utterance."""

    who: Literal["user", "assistant"]
    text: str


class ToolAnswer(NamedTuple):
    """One tool call of this turn with what came back."""

    tool: str
    text: str


class ToolOffered(NamedTuple):
    """A tool as the request offers it."""

    name: str
    parameters: Mapping[str, Any]


class ToolWanted(NamedTuple):
    """A tool that the model asks for."""

    name: str
    arguments: dict[str, Any]


class Reading(NamedTuple):
    """A request, taken apart; a block that it lacks reads as empty text."""

    system: str
    plain: str  # what the user's side says outside of all blocks
    blocks: Mapping[str, str]
    answered: tuple[ToolAnswer, ...] = ()
    tools: tuple[ToolOffered, ...] = ()
    schema: Mapping[str, Any] | None = None  # of the answer, if the request asks for one
    must_call: bool = False  # the answer has to ask for a tool

    def block(self, name: str) -> str:
        """The text between the tags of this name."""
        return self.blocks.get(name, "")

    @property
    def message(self) -> str | None:
        """What is to be answered: the block `message`; all of a prompt without blocks; None: the prompt has none."""
        return self.blocks.get("message", None if self.blocks else self.plain)

    @property
    def words(self) -> str | None:
        """Of the message what its person says now; what a door's client told of before is not theirs."""
        if self.message is None or not _TOLD_BEFORE.match(self.message):
            return self.message
        return self.message.rpartition("\nMessage:\n")[2]

    @property
    def wants_object(self) -> bool:
        """Whether the whole answer is to be one JSON object."""
        return "one JSON object" in self.system

    @property
    def is_reduced(self) -> bool:
        """Whether the answer is to be one without memory, history and tools."""
        return "reduced mode" in self.system

    def said(self) -> list[Utterance]:
        """What was said before, oldest first."""
        return said_in(self.block("earlier_messages"))

    def steers(self) -> list[str]:
        """What was said while this turn was at work, oldest first."""
        return [text for piece in _STEER.split(self.block("steer")) if (text := piece.strip())]

    def offered(self) -> dict[str, ToolOffered]:
        """The tools by name."""
        return {tool.name: tool for tool in self.tools}


_Tag = tuple[str, str, tuple[int, int]]
"""A slash where a block ends, the block's name, from where to where."""


def read_request(request: Mapping[str, Any]) -> Reading:
    """The reading of a chat completion's request."""
    system: list[str] = []
    blocks: dict[str, str] = {}
    plain = ""
    for message in request["messages"]:
        if message["role"] not in ("system", "user"):
            continue
        found, rest = blocks_in(message["content"])
        if message["role"] == "system":
            system.append(message["content"])
        else:
            plain = rest.strip()
        blocks.update(found)
    wanted = request.get("response_format")
    return Reading(
        system="\n\n".join(system),
        plain=plain,
        blocks=blocks,
        answered=tuple(_answered(request["messages"])),
        tools=tuple(
            ToolOffered(tool["function"]["name"], tool["function"]["parameters"]) for tool in request.get("tools", ())
        ),
        schema=None if wanted is None else wanted.get("json_schema", {"schema": {"type": "object"}})["schema"],
        must_call=request.get("tool_choice") == "required",
    )


def blocks_in(text: str) -> tuple[dict[str, str], str]:
    """The outermost blocks by name, and the text outside of them; of two with one name the later one counts.

    Tags count while they pair up: a block may hold blocks of its own name. One whose tags do not pair ends at the last
    end of its name; without any end there is none.
    """
    text = "\n" + text
    tags: list[_Tag] = [(tag[1], tag[2], tag.span()) for tag in _TAG.finditer(text)]
    last_end = {name: number for number, (slash, name, _) in enumerate(tags) if slash}
    blocks: dict[str, str] = {}
    outside: list[str] = []
    number, position = 0, 0
    while number < len(tags):
        slash, name, (begins, opened) = tags[number]
        if slash or last_end.get(name, -1) < number:
            number += 1
            continue
        end = _end_of(tags, number, last_end[name])
        outside.append(text[position:begins])
        closes, closed = tags[end][2]
        blocks[name] = text[opened:closes].strip()
        number, position = end + 1, closed
    return blocks, "".join([*outside, text[position:]])


def _end_of(tags: Sequence[_Tag], start: int, last: int) -> int:
    name, depth = tags[start][1], 0
    for number in range(start, last + 1):
        slash, another, _ = tags[number]
        if another == name:
            depth += -1 if slash else 1
            if depth == 0:
                return number
    return last


def said_in(history: str) -> list[Utterance]:
    """Earlier utterances out of `user: …` and `assistant: …` paragraphs, or one-line digests of user messages."""
    pieces = _SPOKEN.split(history)
    return [
        Utterance("user" if who == "user" else "assistant", _DIGEST_NOTES.sub("", text.strip()))
        for who, text in zip(pieces[1::2], pieces[2::2], strict=True)
    ]


def _answered(messages: Sequence[Mapping[str, Any]]) -> list[ToolAnswer]:
    """The tool calls of this turn and their results, in order; a call without a result is not among them."""
    found: list[ToolAnswer] = []
    waiting: dict[str, str] = {}
    for message in messages:
        if message["role"] == "assistant":
            waiting = {call["id"]: call["function"]["name"] for call in message.get("tool_calls", ())}
        elif message["role"] == "tool" and (name := waiting.get(message["tool_call_id"])) is not None:
            found.append(ToolAnswer(name, message["content"]))
    return found


_KEY = re.compile(r'^- "([a-z_]+)"', re.MULTILINE)
_QUOTED = re.compile(r'"([a-z_]+)"')
_VOCABULARY = re.compile(r"^[ \t]+([a-z_]+): (.+)$", re.MULTILINE)


class Key(NamedTuple):
    """One key of the object, as the prompt tells of it."""

    text: str
    words: frozenset[str]  # those that it quotes
    vocabulary: Mapping[str, tuple[str, ...]]  # closed lists by what they are for

    def offers(self, word: str) -> bool:
        """Whether the prompt offers this value."""
        return word in self.words

    def known(self, kind: str, label: str) -> bool:
        """Whether the prompt's closed list of this kind has the label."""
        return label in self.vocabulary.get(kind, ())


@lru_cache(maxsize=16)
def keys_in(system: str) -> Mapping[str, Key]:
    """The keys that the object is to have: a list of `- "key": …`, each up to the next one or an empty line."""
    pieces = _KEY.split(system)
    keys: dict[str, Key] = {}
    for name, piece in zip(pieces[1::2], pieces[2::2], strict=True):
        text = piece.partition("\n\n")[0]
        vocabulary = {kind: tuple(word.strip() for word in row.split(",")) for kind, row in _VOCABULARY.findall(text)}
        keys[name] = Key(text, frozenset(_QUOTED.findall(text)), vocabulary)
    return keys
