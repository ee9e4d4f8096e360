"""What a request says to the offline model: who said what, what tools brought, what is to be answered. Pure.

A request is the body of a chat completion, as every server of the kind `openai` gets it: a conversation, whose last
words are the person's, with material in tags before them where there is any.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

_BLOCK = re.compile(r"<([a-z_]+)(?: [^<>\n]*)?>\n(.*?)\n</\1>\s*", re.DOTALL)
_DIGEST = re.compile(r"Earlier in this conversation, shortened:\n((?:- .*(?:\n|\Z))*)\n?")
_DIGEST_LINE = re.compile(r"^- user: (.*?) \| assistant: .*$", re.MULTILINE)
_NOT_SENT = re.compile(r"(?:The answer above|Your answer) (?:was|has) not .*?(?:\n\n|\Z)", re.DOTALL)
_IMAGE = "[the image "
_TOLD_BEFORE = re.compile(r"(Instructions of the caller|Said earlier in this conversation):\n")


def read_words(content: str | list[Any]) -> str:
    """Return what stands in a message: parts of text as one, without what names an image before it is shown."""
    if isinstance(content, str):
        return content
    texts = [part["text"] for part in content if part["type"] == "text"]
    return "\n\n".join([text for text in texts if not text.startswith(_IMAGE)])


class Utterance(NamedTuple):
    """One earlier utterance."""

    who: Literal["user", "assistant"]
    text: str


class ToolAnswer(NamedTuple):
    """One tool call with what came back."""

    tool: str
    text: str


class ToolWanted(NamedTuple):
    """A tool that the model asks for."""

    name: str
    arguments: dict[str, Any]


class Heard:
    """Messages of a request, read in their order."""

    def __init__(self, messages: Sequence[Mapping[str, Any]]) -> None:
        self.answers: list[Utterance] = []
        """What is answered in them, oldest first."""
        self.blocks: dict[str, str] = {}
        """Material before the words that are to be answered, by its tags."""
        self.asked: list[str] = []
        """What is to be answered, oldest first: the message, then what was said while it was worked on."""
        self.answered: list[ToolAnswer] = []
        """What tools brought for it, and no answer has told."""
        self.done: set[str] = set()
        """Tools that were asked for it."""
        self.draft = ""
        """An answer to it that was not sent."""
        self._sent: tuple[list[str], set[str]] = ([], set())
        waiting: dict[str, str] = {}
        for message in messages:
            match message["role"]:
                case "tool":
                    name = waiting.get(message["tool_call_id"], "")
                    self.answered.append(ToolAnswer(name, message["content"]))
                    self.done.add(name)
                case "assistant" if message.get("tool_calls"):
                    waiting = {call["id"]: call["function"]["name"] for call in message["tool_calls"]}
                case "assistant":
                    self._note_answer(message["content"])
                case _:
                    self._hear(message["content"])

    def _note_answer(self, text: str) -> None:
        self._sent = (list(self.asked), set(self.done))
        self.answers += [*(Utterance("user", one) for one in self.asked), Utterance("assistant", text)]
        self.asked, self.answered, self.done, self.draft = [], [], set(), ""

    def _hear(self, content: str | list[Any]) -> None:
        if not (content := read_words(content)):
            return
        if (note := _NOT_SENT.match(content)) and self.answers:
            self.asked, self.done = self._sent
            self.draft = self.answers.pop().text
            del self.answers[len(self.answers) - len(self.asked) :]
            content = content[note.end() :]
        if digest := _DIGEST.match(content):
            self.answers += [Utterance("user", line) for line in _DIGEST_LINE.findall(digest[1])]
            content = content[digest.end() :]
        self.blocks = {} if content else self.blocks
        at = 0
        while block := _BLOCK.match(content, at):
            self.blocks[block[1]] = block[2].strip()
            at = block.end()
        content = content[at:]
        if content.strip() or "message" in self.blocks:
            self.asked.append(content or self.blocks["message"])


class Reading(Heard):
    """A request, taken apart; what was answered in it before is read once somebody asks for it."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        wanted = request.get("response_format")
        self.schema: Mapping[str, Any] | None = (
            None if wanted is None else wanted.get("json_schema", {"schema": {"type": "object"}})["schema"]
        )
        self.must_call: bool = request.get("tool_choice") == "required"
        self.tools: dict[str, Mapping[str, Any]] = {
            tool["function"]["name"]: tool["function"]["parameters"] for tool in request.get("tools", ())
        }
        """Parameters of the tools that are offered, by name."""
        self.system: str = "".join([one["content"] for one in request["messages"] if one["role"] == "system"][-1:])
        messages = [one for one in request["messages"] if one["role"] != "system"]
        new = len(messages)
        while new and (messages[new - 1]["role"] != "assistant" or messages[new - 1].get("tool_calls")):
            new -= 1
        heard = [read_words(one["content"]) for one in messages[new:] if one["role"] == "user"]
        if not all(heard or [""]) or any(map(_NOT_SENT.match, heard)):  # the last answer is none yet
            new = 0
        self._before = messages[:new]
        super().__init__(messages[new:])

    @cached_property
    def said(self) -> list[Utterance]:
        """Return what is answered, oldest first."""
        return Heard(self._before).answers + self.answers

    @property
    def words(self) -> str:
        """Return what the request's person says now; what a door's client told of before is not theirs."""
        message = self.asked[0] if self.asked else ""
        return message.rpartition("\nMessage:\n")[2] if _TOLD_BEFORE.match(message) else message
