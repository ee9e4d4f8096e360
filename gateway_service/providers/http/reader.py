"""The one reader of what providers answer, whole or in pieces: what may be anything becomes a response. Pure.

A wire says in its own words what each event holds (`say`, `think`, `call`, `count`, `end`); everything that servers do
otherwise than their documentation is put right here, once. What a model got wrong is no fault of its provider: such a
call says what is wrong with it (`ToolCall.fault`), and the model is told. `BadAnswer` is left for what is no answer at
all; no text of an answer is repeated in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from hobus.bus.json_text import is_within, mend, mend_json, read_json
from hobus.bus.messages.control import PARAMETERS_DEPTH_MAX
from hobus.bus.messages.gateway import PromptResponse
from hobus.bus.messages.work_order import REFUSAL, TOO_LARGE, WINDOW, ToolCall
from hobus.gateway_service.limits import ARGUMENTS_MAX_CHARS, WRITTEN_MAX_CHARS
from hobus.gateway_service.providers.http.thinking import SpokenText
from hobus.gateway_service.providers.http.wire import BadAnswer, ToolNames, name_kind, read_object, read_text

FINISH_WORDS = {
    **dict.fromkeys(("end_turn", "stop_sequence", "eos", "eos_token", "STOP"), "stop"),
    **dict.fromkeys(("tool_use", "function_call"), "tool_calls"),
    **dict.fromkeys(("max_tokens", "MAX_TOKENS", "max_output_tokens", "model_length", "limit"), "length"),
    "model_context_window_exceeded": WINDOW,
    **dict.fromkeys(("SAFETY", "RECITATION", "PROHIBITED_CONTENT", "safety", "content_filtered"), "content_filter"),
    "pause_turn": "pause",
}
"""The words of providers -> those of this system; any other one stays as it is."""

_STRINGS_MAX = 3
"""A JSON text in a JSON text: so often."""


class ErrorSaid(Exception):
    """An error in the place of an answer, or in the middle of one; `body` is what the provider says of it."""

    def __init__(self, body: Any) -> None:
        super().__init__("an error in place of an answer")
        self.body = body


@dataclass
class CallRead:
    """A tool call as far as it has come."""

    index: object  # where the answer has it, as it says; None: it does not say
    call_id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])
    extra: dict[str, Any] = field(default_factory=dict[str, Any])  # its provider demands it back

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def is_followed_by(self, call_id: str, name: str, arguments: str) -> bool:
        """Return whether a piece with these is another call, though it has the same index, or none."""
        if not (name and self.name):
            return False
        if name != self.name or (call_id and self.call_id and call_id != self.call_id):
            return True
        return bool(arguments) and self.text.rstrip().endswith("}") and not parse_arguments(self.text)[1]


@dataclass
class AnswerReader:
    """An answer as far as it has come."""

    read: Callable[[AnswerReader, dict[str, Any]], None]
    """Of its kind's wire: reads all that a whole answer, or an event, says. Raises BadAnswer, ErrorSaid."""
    names: ToolNames
    model_id: str = ""
    content: SpokenText = field(default_factory=SpokenText)
    thought: list[str] = field(default_factory=list[str])
    refusal: list[str] = field(default_factory=list[str])
    calls: list[CallRead] = field(default_factory=list[CallRead])
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    given_back: dict[str, Any] = field(default_factory=dict[str, Any])
    """Of its message, as it came: what a provider demands back beside the calls."""
    finish_reason: str = ""
    """Why the model stopped; empty: it has not."""
    is_streamed: bool = True
    """It comes in events; what an event lacks may be in another."""
    is_whole: bool = False
    """Nothing more is to come but its end."""
    is_hidden: bool = False
    """It holds thinking that is not shown."""
    has_begun: bool = False
    """Some of it has come, if only a thought."""
    _news: list[str] = field(default_factory=list[str])

    def add(self, event: Any) -> str:
        """Read an event; return what the model says by it that was not told before. Raises BadAnswer, ErrorSaid.

        A text in the place of an event is the server's, of its trouble; behind the model's last word it is nobody's.
        """
        if isinstance(event, str) and self.finish_reason:
            return ""
        if isinstance(event, str) or (
            isinstance(event, list) and event and "error" in read_object(event[0], "the answer")
        ):
            raise ErrorSaid(event)
        try:
            self.read(self, read_object(event, "the answer"))
        except BadAnswer as fault:
            raise BadAnswer(fault.what, self.usage) from None
        news, self._news = "".join(self._news), []
        return news

    def whole(self, answer: Any) -> PromptResponse:
        """Return the response of an answer that came at once. Raises BadAnswer, ErrorSaid."""
        self.is_streamed = False
        self.add(answer)
        return self.response()

    def ended(self, *, is_done: bool = False) -> PromptResponse:
        """Return the whole answer, once no event follows. Raises BadAnswer for one that broke off.

        `is_done`: the stream said that it is at its end; some servers say that, and never why the model stopped.
        """
        self.content.close()
        if not self.finish_reason and (is_done or self.is_whole) and (self.content.said or self.calls):
            self.end("stop")
        if not self.finish_reason:
            raise BadAnswer("the answer ended before it was finished")
        return self.response()

    def cut_off(self, output_tokens: int) -> PromptResponse:
        """Return what came of an answer larger than anybody reads, counted as its whole cap of tokens; no calls."""
        self.finish_reason = TOO_LARGE
        self.calls.clear()
        self.usage = {"output_tokens": output_tokens} | self.usage
        return self.response()

    def response(self) -> PromptResponse:
        self.content.close()
        self.calls = [call for call in self.calls if call.name or call.text.strip()]  # some begin one, and say nothing
        finish = FINISH_WORDS.get(self.finish_reason, self.finish_reason)
        if finish in ("length", TOO_LARGE):
            self.content.cut()
        said, refusal = "".join(self.content.said), mend("".join(self.refusal))
        if finish == "stop" and self.calls:
            finish = "tool_calls"
        used = self.usage
        if self.is_hidden and not (said or refusal or self.calls):
            used = {"reasoning_tokens": used.get("output_tokens", 0), **used}
        return PromptResponse(
            outcome="SUCCESS",
            content=said or refusal,
            tool_calls=[self._call(number, call) for number, call in enumerate(self.calls, 1)],
            finish_reason=REFUSAL if refusal and not said else finish,
            **used,
        )

    @property
    def cost(self) -> dict[str, Any]:
        """Return what the answer cost so far, as facts of a fault; empty: nothing."""
        return {"unknown": True} if self.has_begun else {**self.usage}

    # --- what a wire says -------------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        self.has_begun = self.has_begun or bool(text)
        self._news.append(self.content.add(text))

    def think(self, text: str) -> None:
        self.has_begun = self.has_begun or bool(text)
        self.thought.append(text)

    def refuse(self, text: str) -> None:
        """Add words by which the model says that it does not answer; they are told whole, as a refusal."""
        if text:
            self.has_begun = True
            self.refusal.append(text)

    def call(  # noqa: PLR0913 - what a piece of a call may hold
        self, index: object, call_id: Any, name: Any, arguments: Any, extra: dict[str, Any], *, is_new: bool
    ) -> None:
        """Add a call, or a piece of one. `index`: None: it says none; `is_new`: it is certainly no piece of another."""
        identity, tool, text = read_text(call_id, "id"), read_text(name, "a tool call's name"), _write_text(arguments)
        found = None if is_new else self._find_begun(index, identity, tool)
        self.has_begun = True
        if found is not None and index is not None and not identity and self.names.go_on(found.name, tool, found.text):
            tool, found.name = found.name + tool, ""
        if found is None or found.is_followed_by(identity, tool, text):
            found = CallRead(index)
            self.calls.append(found)
        found.call_id, found.name = found.call_id or identity, found.name or tool
        found.pieces.append(text)
        found.extra |= extra

    def count(self, **tokens: Any) -> None:
        """Take in what the provider says that was used so far; what is no count, or none, says nothing."""
        self.usage |= {name: max(value, self.usage.get(name, 0)) for name, value in tokens.items() if is_count(value)}

    def end(self, reason: Any) -> None:
        """Note why the model stopped, if it did."""
        self.finish_reason = read_text(reason, "finish_reason") or self.finish_reason

    @property
    def thought_chars(self) -> int:
        return sum(map(len, (*self.thought, *self.content.thought)))

    def _find_begun(self, index: object, call_id: str, name: str) -> CallRead | None:
        """Return the call that such a piece belongs to, or None; a piece that names nothing continues the last."""
        if index is None:
            same = [one for one in self.calls if call_id and one.call_id == call_id]
        else:
            same = [one for one in self.calls if one.index == index]
        if same:
            return same[-1]
        return None if name or not self.calls else self.calls[-1]

    def _call(self, number: int, read: CallRead) -> ToolCall:
        arguments, fault = parse_arguments(read.text)
        if fault:  # its calls stand in the next prompt without what nobody can read
            fault = f"{fault}. It wrote: {mend(read.text[:WRITTEN_MAX_CHARS])}"
            fault += "" if len(read.text) <= WRITTEN_MAX_CHARS else " …"
        name = mend(read.name)
        parts = {"call": read.extra, "message": self.given_back if number == 1 else {}}
        kept = {part: json.loads(mend_json(json.dumps(value))) for part, value in parts.items() if value}
        return ToolCall(
            call_id=str(number),  # until the gateway numbers them
            provider_call_id=mend(read.call_id),
            tool_id=self.names.tool_id(name),
            arguments=arguments,
            fault=fault if name else "it names no tool",
            given_back={"model": self.model_id, **kept} if kept else {},
        )


def parse_arguments(text: str) -> tuple[dict[str, Any], str]:
    """Return the arguments that a model wrote, and what is wrong with them; empty: nothing."""
    if len(text) > ARGUMENTS_MAX_CHARS:
        return {}, f"its arguments are {len(text)} characters, at most {ARGUMENTS_MAX_CHARS} are taken"
    value: Any = text
    try:
        for _ in range(_STRINGS_MAX):
            if not isinstance(value, str):
                break
            value = _parse_value(value) if value.strip() else {}
    except json.JSONDecodeError as fault:
        size = len(fault.doc)
        place = (
            f"at character {fault.pos + 1} of {size}" if fault.pos < size else f"at its end, behind {size} characters"
        )
        return {}, f"its arguments are no JSON: {fault.msg}, {place}"
    except (ValueError, RecursionError):
        return {}, "its arguments are no JSON that can be read"
    if value is None:
        return {}, ""
    if not isinstance(value, dict):
        return {}, f"its arguments are {name_kind(value)}, not an object"
    return (value, "") if is_within(value, PARAMETERS_DEPTH_MAX) else ({}, "its arguments are nested too deeply")


def is_count(value: Any) -> TypeGuard[int]:
    """Return whether this is a count of something: no prompt and no answer counts as nothing."""
    return type(value) is int and 0 < value <= _COUNT_MAX


_COUNT_MAX = 2**53
"""Up to here a number is the same one for every reader of JSON."""


def _parse_value(text: str) -> Any:
    try:
        return read_json(text)
    except ValueError:  # nothing that a message carries, before it is mended
        return read_json(mend_json(text))


def _write_text(arguments: Any) -> str:
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
