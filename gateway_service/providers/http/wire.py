"""What both kinds of provider share on the wire: reading what may be anything, ids as providers take them. Pure.

Each value of an answer is what it must be, or `BadAnswer` says which is not; no text of an answer is repeated in a
fault. A provider takes tool names of letters, digits, `_` and `-` only, and wants every call of a transcript under an
id of its own, while calls are numbered anew in each answer here.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from hobus.bus.messages.gateway import Prompt, PromptMessage, PromptResponse
from hobus.bus.messages.work_order import ToolCall

_COUNT_MAX = 2**53
"""Up to here a number is the same one for every reader of JSON."""


class BadAnswer(Exception):
    """An answer that came, and is none; `used` is what it says that it cost, None where it does not say."""

    def __init__(self, what: str, used: dict[str, int] | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.used = used


def an_object(value: Any, where: str) -> dict[str, Any]:
    """The JSON object; None counts as an empty one."""
    return value if type(value) is dict else _of_kind(dict, value, where)


def a_list(value: Any, where: str) -> list[Any]:
    """The JSON array; None counts as an empty one."""
    return value if type(value) is list else _of_kind(list, value, where)


def a_text(value: Any, where: str) -> str:
    """The text; None counts as none."""
    return value if type(value) is str else _of_kind(str, value, where)


def a_count(value: Any, where: str) -> int:
    """The number of something; None counts as 0."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _COUNT_MAX:
        raise BadAnswer(f"{where} is no count")
    return value


def call_arguments(text: str, tool: str) -> dict[str, Any]:
    """The arguments of a tool call; a model may write anything there."""
    try:
        value = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        raise BadAnswer(f"the arguments for tool {tool[:64]!r} are not JSON") from None
    if not isinstance(value, dict):
        raise BadAnswer(f"the arguments for tool {tool[:64]!r} are {_kind(value)}, not an object")
    return value


def _of_kind(kind: type[Any], value: Any, where: str) -> Any:
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise BadAnswer(f"{where} is {_kind(value)}, not {_KINDS[kind]}")
    return value


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "a number")


_KINDS: dict[type[Any], str] = {str: "text", list: "a list", dict: "an object", bool: "a truth value"}


_NAME_MAX_CHARS = 64
"""The shortest limit of any provider's."""

_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


class ToolNames:
    """Tool ids of one prompt under names that a provider takes: each its own, the same ones for the same ids."""

    def __init__(self, tool_ids: Sequence[str]) -> None:
        self._names: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        for tool_id in tool_ids:
            if tool_id in self._names:
                continue
            wanted = _FOREIGN.sub("_", tool_id)[:_NAME_MAX_CHARS] or "_"
            name, number = wanted, 1
            while name in self._ids:
                number += 1
                name = f"{wanted[: _NAME_MAX_CHARS - 1 - len(str(number))]}_{number}"
            self._names[tool_id], self._ids[name] = name, tool_id

    @staticmethod
    def of(prompt: Prompt) -> ToolNames:
        """Of the tools that a prompt offers, and those of the calls in its transcript."""
        asked = [call.tool_id for message in prompt.messages for call in message.tool_calls]
        return _names_of((*[tool.tool_id for tool in prompt.tools], *asked))

    def name(self, tool_id: str) -> str:
        """The name under which the provider knows a tool id."""
        return self._names[tool_id]

    def tool_id(self, name: str) -> str:
        """The tool id behind a provider's name for it; a name that a model made up is left as it is."""
        return self._ids.get(name, name)


_names_of = lru_cache(maxsize=64)(ToolNames)
"""Only speed depends on the number kept: nearly every prompt of an agent offers the same tools."""


def with_call_ids(messages: Sequence[PromptMessage]) -> Iterator[tuple[PromptMessage, list[str]]]:
    """Each message with the provider's ids of its calls, or of the call that it answers: the provider's own if there.

    An id that stood in an earlier answer too (some servers count anew each time) is made different.
    """
    used: set[str] = set()
    current: dict[str, str] = {}
    for number, message in enumerate(messages):
        if message.role == "assistant":
            current = {}
            for call in message.tool_calls:
                own = _FOREIGN.sub("_", call.provider_call_id)[:_NAME_MAX_CHARS]
                current[call.call_id] = own if own and own not in used else f"call_{number}_{call.call_id}"
                used.add(current[call.call_id])
            yield message, [current[call.call_id] for call in message.tool_calls]
        elif message.role == "tool":
            yield message, [current.get(message.tool_call_id, message.tool_call_id)]
        else:
            yield message, []


class CallSaid(NamedTuple):
    """A tool call, as an answer has it."""

    call_id: str
    name: str
    arguments: dict[str, Any]


@dataclass
class AnswerRead(ABC):
    """An answer as far as it has come, whole or in pieces; each kind of provider has its own way of saying it."""

    names: ToolNames
    said: list[str] = field(default_factory=list[str])
    finish_reason: str = ""
    """Why the model stopped; empty: it has not."""
    is_whole: bool = False
    """Nothing more is to come but its end."""

    @classmethod
    def whole(cls, answer: Any, names: ToolNames) -> PromptResponse:
        """The response of an answer that came whole. Raises BadAnswer."""
        read = cls(names)
        try:
            read.take_whole(an_object(answer, "the answer"))
        except BadAnswer as fault:
            raise BadAnswer(fault.what, read.used) from None
        return read.response()

    @abstractmethod
    def take_whole(self, answer: dict[str, Any]) -> None:
        """All that it says. Raises BadAnswer."""

    @abstractmethod
    def add(self, event: Any) -> str:
        """What the model says in this piece. Raises BadAnswer."""

    @abstractmethod
    def asked(self) -> Iterable[CallSaid]:
        """The tool calls, in order. Raises BadAnswer."""

    @property
    @abstractmethod
    def used(self) -> dict[str, int] | None:
        """What it says that it cost, in the words of this system; None where it does not say."""

    @property
    def is_estimated(self) -> bool:
        """Whether it does not say all of that."""
        return self.used is None

    def say(self, text: str) -> str:
        """The text, which is a part of the answer."""
        if text:
            self.said.append(text)
        return text

    def ended(self) -> PromptResponse:
        """The whole answer, once no piece follows. Raises BadAnswer for one that broke off."""
        if not self.finish_reason:
            raise BadAnswer("the answer ended before it was finished")
        return self.response()

    def response(self) -> PromptResponse:
        """What has come. Raises BadAnswer."""
        calls: list[ToolCall] = []
        try:
            for position, (call_id, name, arguments) in enumerate(self.asked(), 1):  # until the gateway numbers them
                tool_id, number = self.names.tool_id(name), str(position)
                calls.append(ToolCall(call_id=number, provider_call_id=call_id, tool_id=tool_id, arguments=arguments))
        except BadAnswer as fault:
            raise BadAnswer(fault.what, self.used) from None
        answer = PromptResponse(
            outcome="SUCCESS",
            content="".join(self.said),
            tool_calls=calls,
            finish_reason=self.finish_reason,
            usage_is_estimated=self.is_estimated,
        )
        return answer.model_copy(update=self.used) if self.used else answer


def call_said(call_id: Any, name: Any, arguments: Any) -> CallSaid:
    """A tool call; its arguments are an object, or the text of one. Raises BadAnswer."""
    tool = a_text(name, "a tool call's name")
    if not tool:
        raise BadAnswer("a tool call names no tool")
    if not isinstance(arguments, dict):
        arguments = call_arguments(a_text(arguments, "arguments"), tool)
    return CallSaid(a_text(call_id, "id"), tool, arguments)
