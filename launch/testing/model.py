"""A model that says what a test tells it to, and remembers what it was shown. Pure."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from hobus.actors.ho1_executor.tools.entry_points import place_of
from hobus.bus.messages.gateway import PromptMessage


class ScriptedCall(Struct, frozen=True):
    """A tool that the model calls."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Reply(Struct, omit_defaults=True):
    """What a model says, with what it calls; or why there is no answer."""

    text: str = ""
    calls: list[ScriptedCall] = field(default_factory=list[ScriptedCall])
    fault: str = ""


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
        if isinstance(answers, str):
            raise TypeError("ScriptedModel takes a list of answers: ScriptedModel([...])")
        self.requests: list[Request] = []
        self._count = len(answers)
        self._left = deque(answers)
        self._lock = threading.Lock()

    def reply(self, request: Request) -> Reply:
        """Return the next answer."""
        with self._lock:
            self.requests.append(request)
            if self._left:
                return make_reply(self._left.popleft(), request)
            said = f"{self.origin} has {self._count} answers, and was asked once more: {request.text[:200]!r}"
            return Reply(fault=said)

    def fault(self) -> str:
        """Return what is wrong at the end of a test; empty: nothing."""
        return f"{len(self._left)} of {self._count} answers of {self.origin} were not asked for" if self._left else ""

    def tool_answers(self) -> dict[str, list[Any]]:
        """Map a tool's call (`bus.tool.call_key`) to what it brings each time; one that is not there runs."""
        return {}


def make_reply(answer: Any, request: Request) -> Reply:
    """Return what a script's item comes to for this request."""
    match answer:
        case Reply():
            return answer
        case str():
            return Reply(answer)
        case ScriptedCall():
            return Reply(calls=[answer])
        case Exception():
            return Reply(fault=str(answer))
        case Mapping():
            return Reply(json.dumps(answer))
        case [*calls] if calls and all(isinstance(one, ScriptedCall) for one in calls):
            return Reply(calls=calls)
        case _ if callable(answer):
            try:
                return make_reply(answer(request), request)
            except Exception as error:  # noqa: BLE001 - whatever a test does in there
                name = getattr(answer, "__name__", answer)
                return Reply(fault=f"{name} of the script raised {type(error).__name__}: {error}{place_of(error)}")
        case _:
            return Reply(fault=f"a script holds texts, objects, calls and functions, not a {type(answer).__name__}")
