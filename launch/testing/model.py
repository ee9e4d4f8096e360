"""A model that says what a test tells it to, and remembers what it was shown. Pure."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field, to_builtins

from hobus.bus.messages.gateway import PromptMessage


class ScriptedCall(Struct, frozen=True):
    """A tool that the model calls."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])


class TapedAnswer(Struct):
    """What a model said, with what it called."""

    text: str
    calls: list[ScriptedCall]


def call(tool: str, /, **arguments: Any) -> ScriptedCall:
    """Answer with a call of this tool."""
    return ScriptedCall(tool, arguments)


class ShownMessage(Struct, frozen=True):
    """One message that a model is shown; `calls` of an assistant's."""

    role: str
    text: str
    calls: tuple[ScriptedCall, ...] = ()


class Request(Struct, frozen=True, omit_defaults=True):
    """What a model was asked with."""

    messages: tuple[ShownMessage, ...]
    tools: tuple[str, ...] = ()
    output_schema: Mapping[str, Any] | None = None

    @property
    def text(self) -> str:
        """Return what the person said last."""
        return next((one.text for one in reversed(self.messages) if one.role == "user"), "")

    @property
    def results(self) -> list[str]:
        """Return what the tools brought since then, as the model reads it."""
        last = max((number for number, one in enumerate(self.messages) if one.role == "user"), default=-1)
        return [one.text for one in self.messages[last + 1 :] if one.role == "tool"]


def request_of(
    messages: Sequence[PromptMessage], tools: Iterable[str], schema: Mapping[str, Any] | None = None
) -> Request:
    """Return what a test sees of a prompt."""
    shown = [
        ShownMessage(one.role, one.text, tuple(ScriptedCall(each.tool_id, each.arguments) for each in one.tool_calls))
        for one in messages
    ]
    return Request(tuple(shown), tuple(sorted(tools)), schema)


Answer = str | Mapping[str, Any] | ScriptedCall | Sequence[ScriptedCall] | Exception | Callable[[Request], Any]
"""A text; an object, as JSON; one call or several at once; a fault of the provider; or what makes one of a request."""


class ScriptedModel:
    """Gives these answers, one for each request, in order; `requests` are those that came.

    Made for `hobus_cluster.use(ScriptedModel([...]))`. A request behind the last answer fails its turn with a sentence,
    and an answer that nobody asked for fails the test.
    """

    origin = "the script"
    """Who gives the answers, in sentences."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.requests: list[Request] = []
        self._count = len(answers)
        self._left = deque(answers)
        self._lock = threading.Lock()

    def reply(self, request: Request) -> dict[str, Any]:
        """Return the answer's document: `text` and `calls`, or `fault`."""
        with self._lock:
            self.requests.append(request)
            if not self._left:
                said = f"{self.origin} has {self._count} answers, and was asked once more: {request.text[:200]!r}"
                return {"fault": said}
            return answer_document(self._left.popleft(), request)

    def fault(self) -> str:
        """Return what is wrong at the end of a test; empty: nothing."""
        return f"{len(self._left)} of {self._count} answers of {self.origin} were not asked for" if self._left else ""


def answer_document(answer: Any, request: Request) -> dict[str, Any]:
    """Return what goes over the wire for an answer."""
    match answer:
        case str():
            return {"text": answer, "calls": []}
        case TapedAnswer():
            return to_builtins(answer)
        case ScriptedCall():
            return {"text": "", "calls": [to_builtins(answer)]}
        case Exception():
            return {"fault": str(answer)}
        case Mapping():
            return {"text": json.dumps(answer), "calls": []}
        case [*calls] if calls and all(isinstance(one, ScriptedCall) for one in calls):
            return {"text": "", "calls": [to_builtins(one) for one in calls]}
        case _ if callable(answer):
            return answer_document(answer(request), request)
        case _:
            return {"fault": f"a script holds texts, objects, calls and functions, not a {type(answer).__name__}"}
