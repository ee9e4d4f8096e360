"""A turn's answer in OpenAI's words: a chat completion or a response, whole or piece by piece. Pure.

OpenAI's streams only grow: their clients cannot take anything back. A piece that turns out to be no answer stays where
it is; what comes instead begins a new paragraph, unless it begins with the very same words: then it goes on where that
stopped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from hobus.bus.messages.base import Message
from hobus.bus.messages.session import CallerCall, TurnResult
from hobus.bus.messages.streams import StreamDelta, StreamReset
from hobus.bus.messages.work_order import CUT, REFUSAL
from hobus.bus.streaming import Continuity
from hobus.launch.http.openai_requests import ChatRequest, ResponsesRequest
from hobus.launch.http.problems import Problem
from hobus.launch.http.sse import make_frame
from hobus.launch.http.transcript import Called

_RESPONSE_ID = re.compile(r"resp_([0-9a-f]{32})([0-9a-f]{16})")


def make_own_fields(result: TurnResult) -> dict[str, Any]:
    """Return what stands beside OpenAI's own fields."""
    return {
        "session_id": result.session_id,
        "run_id": None if result.run_id is None else str(result.run_id),
        "input_id": result.input_id,
        "outcome": result.outcome,
        **({"reason": result.reason} if result.reason else {}),
        **({"cut": result.cut, "note": f"this answer is not whole: {CUT[result.cut]}"} if result.cut else {}),
        **({"template_fault": result.template_fault} if result.template_fault else {}),
        **({"remembered": result.remembered.model_dump()} if result.remembered is not None else {}),
    }


def make_usage(result: TurnResult) -> dict[str, Any]:
    """Return the usage of all model calls of the turn together."""
    cost = result.cost
    return {
        "prompt_tokens": cost.input_tokens, "completion_tokens": cost.output_tokens, "total_tokens": cost.total_tokens,
        "prompt_tokens_details": {"cached_tokens": cost.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": cost.reasoning_tokens},
    }  # fmt: skip


def is_refusal(result: TurnResult, *, wants_form: bool) -> bool:
    """Return whether the model refused, or only the last resort answered where a form was asked for.

    OpenAI's clients read such words from a field of their own, and parse nothing.
    """
    return result.cut == REFUSAL or (wants_form and (result.refused or result.outcome == "degraded"))


def list_called(calls: Iterable[CallerCall]) -> tuple[Called, ...]:
    return tuple(Called(call.tool_call_id, call.name, write_arguments(call)) for call in calls)


def write_arguments(call: CallerCall) -> str:
    """Return the call's arguments as JSON text, which is what OpenAI's clients read."""
    return json.dumps(call.arguments, ensure_ascii=False)


def make_tool_calls(calls: Iterable[CallerCall]) -> list[dict[str, Any]]:
    return [
        {
            "id": call.tool_call_id, "type": "function",
            "function": {"name": call.name, "arguments": write_arguments(call)},
        }
        for call in calls
    ]  # fmt: skip


def call_item(call: CallerCall, *, is_begun: bool = False) -> dict[str, Any]:
    """Return a call of a response's output; begun, its arguments are still to come."""
    return {
        "id": f"fc_{call.tool_call_id.removeprefix('call_')}", "type": "function_call", "call_id": call.tool_call_id,
        "name": call.name, "arguments": "" if is_begun else write_arguments(call),
        "status": "in_progress" if is_begun else "completed",
    }  # fmt: skip


# --- chat completions -------------------------------------------------------------------------------------------------


def finish_reason(result: TurnResult) -> str:
    """Return why an answer ends; whoever parses a form reads a refusal from its own field, and the answer is whole."""
    if result.caller_calls:
        return "tool_calls"
    return "stop" if result.refused else _FINISH.get(result.cut, "stop")


_FINISH = {
    **dict.fromkeys(("length", "pause", "too_large", "window"), "length"),
    **dict.fromkeys(("content_filter", "refusal"), "content_filter"),
}
_INCOMPLETE = {"length": "max_output_tokens", "stop": None, "tool_calls": None, "content_filter": "content_filter"}
"""Finish reason of a chat completion -> why a response is incomplete; None: it is complete."""


class ChatEvents:
    """One chat completion: whole, or as chunks."""

    def __init__(self, body: ChatRequest, session_id: str, input_id: str, created: int) -> None:
        self._body = body
        self._session_id = session_id
        turn = sha256(f"{session_id}/{input_id}".encode()).hexdigest()[:29]  # one id, however often it is asked for
        self._about = {"id": f"chatcmpl-{turn}", "created": created, "model": body.model}
        self._usage: dict[str, Any] = {"usage": None} if (body.stream_options or {}).get("include_usage") else {}

    def whole(self, result: TurnResult) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": result.response, "refusal": None}
        if is_refusal(result, wants_form=(self._body.response_format or {}).get("type", "text") != "text"):
            message |= {"content": None, "refusal": result.response}
        elif result.caller_calls:
            message |= {"content": result.response or None, "tool_calls": make_tool_calls(result.caller_calls)}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(result)}
        about = {**self._about, "object": "chat.completion", "usage": make_usage(result)}
        return {**about, "choices": [choice], **make_own_fields(result)}

    def begun(self) -> Iterator[str]:
        yield self._make_chunk({"role": "assistant", "content": ""}, session_id=self._session_id)

    def said(self, new: str, *, is_refusal: bool) -> Iterator[str]:
        yield self._make_chunk({"refusal" if is_refusal else "content": new})

    def failed(self, problem: Problem) -> str:
        return make_frame(problem.body())

    def done(self, _text: str, result: TurnResult) -> Iterator[str]:
        for number, call in enumerate(make_tool_calls(result.caller_calls)):
            yield self._make_chunk({"tool_calls": [{"index": number, **call}]})
        yield self._make_chunk({}, finish_reason(result), **make_own_fields(result))
        if self._usage:
            yield self._make_chunk(None, usage=make_usage(result))
        yield make_frame("[DONE]")

    def _make_chunk(self, delta: dict[str, Any] | None, finish: str | None = None, **more: Any) -> str:
        """Return a chunk; without a delta it has no choice."""
        choices = [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
        about = {**self._about, "object": "chat.completion.chunk", "choices": choices}
        return make_frame({**about, **self._usage, **more})


# --- responses --------------------------------------------------------------------------------------------------------


def derive_response_id(session_id: str, input_id: str) -> str:
    """Return an id that names session and input: `previous_response_id` needs no memory of a door."""
    return f"resp_{session_id.replace('-', '')}{sha256(input_id.encode()).hexdigest()[:16]}"


def find_session(previous: str) -> str:
    """Return the session that a response id names. Raises Problem."""
    match = _RESPONSE_ID.fullmatch(previous)
    if match is None:
        raise Problem(404, "not_found", "no such response", param="previous_response_id")
    half = match[1]
    return "-".join((half[:8], half[8:12], half[12:16], half[16:20], half[20:]))


def make_output_item(
    identity: str, text: str | None, *, is_refusal: bool = False, is_cut: bool = False
) -> dict[str, Any]:
    content = [] if text is None else [make_output_part(text, is_refusal=is_refusal)]
    return {
        "id": f"msg_{identity[5:]}", "type": "message", "role": "assistant", "content": content,
        "status": "in_progress" if text is None else "incomplete" if is_cut else "completed",
    }  # fmt: skip


def make_output_part(text: str, *, is_refusal: bool = False) -> dict[str, Any]:
    if is_refusal:
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


class ResponseEvents:
    """One response: whole, or as numbered events: its message, from its first words on, and its calls."""

    def __init__(self, body: ResponsesRequest, session_id: str, input_id: str, created: int) -> None:
        self._identity = identity = derive_response_id(session_id, input_id)
        self._body = body
        self._created = created
        self._item = make_output_item(identity, None)
        self._at = {"item_id": self._item["id"], "output_index": 0, "content_index": 0}
        self._number = 0
        self._is_said = False  # the message has begun
        self._is_refusal = False  # it says why there is no answer

    def whole(self, result: TurnResult) -> dict[str, Any]:
        return self._make_response(result.response, result)

    def begun(self) -> Iterator[str]:
        yield self._make_event("response.created", response=self._make_response())
        yield self._make_event("response.in_progress", response=self._make_response())

    def said(self, new: str, *, is_refusal: bool) -> Iterator[str]:
        self._is_refusal = is_refusal
        yield from self._begin_message()
        if is_refusal:
            yield self._make_event("response.refusal.delta", **self._at, delta=new)
        else:
            yield self._make_event("response.output_text.delta", **self._at, delta=new, logprobs=[])

    def failed(self, problem: Problem) -> str:
        error = {"code": "server_error", "message": f"{problem.code}: {problem.message}"}
        return self._make_event(
            "response.failed", response={**self._make_response(), "status": "failed", "error": error}
        )

    def done(self, text: str, result: TurnResult) -> Iterator[str]:
        """Yield the rest; a response that is calls alone has no message."""
        if not result.caller_calls:
            yield from self._begin_message()
        if self._is_said:
            if self._is_refusal:
                yield self._make_event("response.refusal.done", **self._at, refusal=text)
            else:
                yield self._make_event("response.output_text.done", **self._at, text=text, logprobs=[])
            part = make_output_part(text, is_refusal=self._is_refusal)
            yield self._make_event("response.content_part.done", **self._at, part=part)
            is_cut = _INCOMPLETE[finish_reason(result)] is not None
            item = make_output_item(self._identity, text, is_refusal=self._is_refusal, is_cut=is_cut)
            yield self._make_event("response.output_item.done", output_index=0, item=item)
        for number, call in enumerate(result.caller_calls, start=int(self._is_said)):
            yield from self._write_call(call, number)
        whole = self._make_response(text, result)
        yield self._make_event(f"response.{whole['status']}", response=whole)

    def _begin_message(self) -> Iterator[str]:
        if self._is_said:
            return
        self._is_said = True
        yield self._make_event("response.output_item.added", output_index=0, item=self._item)
        yield self._make_event(
            "response.content_part.added", **self._at, part=make_output_part("", is_refusal=self._is_refusal)
        )

    def _write_call(self, call: CallerCall, number: int) -> Iterator[str]:
        """Yield a call, whose arguments are there at once."""
        begun, item = call_item(call, is_begun=True), call_item(call)
        about = {"item_id": item["id"], "output_index": number}
        yield self._make_event("response.output_item.added", output_index=number, item=begun)
        yield self._make_event("response.function_call_arguments.delta", **about, delta=item["arguments"])
        yield self._make_event(
            "response.function_call_arguments.done", **about, name=call.name, arguments=item["arguments"]
        )
        yield self._make_event("response.output_item.done", output_index=number, item=item)

    def _make_response(self, text: str | None = None, result: TurnResult | None = None) -> dict[str, Any]:
        """Return the response, begun (no text yet) or whole."""
        form, output, usage = (self._body.text or {}).get("format") or {"type": "text"}, list[dict[str, Any]](), None
        why = None
        if result is not None and text is not None:
            why = _INCOMPLETE[finish_reason(result)]
            is_refused = self._is_refusal if self._is_said else is_refusal(result, wants_form=form["type"] != "text")
            calls = [call_item(call) for call in result.caller_calls]
            item = make_output_item(self._identity, text, is_refusal=is_refused, is_cut=why is not None)
            output = [item, *calls] if text or not calls else calls
            counted = make_usage(result)
            usage = {
                "input_tokens": counted["prompt_tokens"], "output_tokens": counted["completion_tokens"],
                "total_tokens": counted["total_tokens"], "input_tokens_details": counted["prompt_tokens_details"],
                "output_tokens_details": counted["completion_tokens_details"],
            }  # fmt: skip
        return {
            "id": self._identity, "object": "response", "created_at": self._created, "model": self._body.model,
            "status": "in_progress" if text is None else "incomplete" if why else "completed", "error": None,
            "incomplete_details": {"reason": why} if why else None,
            "instructions": self._body.instructions, "metadata": {}, "parallel_tool_calls": False, "temperature": None,
            "tool_choice": "none", "tools": [], "top_p": None,
            "previous_response_id": self._body.previous_response_id,
            "output": output, "usage": usage, "text": {"format": form},
            **({} if result is None else make_own_fields(result)),
        }  # fmt: skip

    def _make_event(self, kind: str, **fields: Any) -> str:
        self._number += 1
        return make_frame({"type": kind, "sequence_number": self._number - 1, **fields}, event=kind)


_ANEW = "\n\n"


@dataclass(slots=True)
class Delivered:
    """The words so far, and how the answer that is being written goes on from them."""

    text: str = ""  # all that was sent
    _paragraph: str = ""  # what was sent of the present try
    _draft: str = ""  # what the present try has said
    _is_whole: bool = True  # false: a piece of the present try is missing
    _source: Continuity = field(default_factory=Continuity)

    def take(self, message: Message) -> str:
        """Return what is to be sent on for this frame of a stream; empty for nothing."""
        if isinstance(message, StreamReset):
            self._source.forget()
            self._draft, self._is_whole = "", True
            return ""
        if not isinstance(message, StreamDelta):
            return ""
        place = self._source.place(message)
        if place == "lost":
            self._is_whole = False
        elif place == "anew":
            self._draft, self._is_whole = message.text, True
        else:
            self._draft += message.text
        return self._grow(self._draft) if self._is_whole else ""

    def finish(self, answer: str) -> str:
        """Return the rest, once the whole answer is there."""
        return self._grow(answer, is_last=True)

    def _grow(self, said: str, *, is_last: bool = False) -> str:
        if said.startswith(self._paragraph):
            new = said[len(self._paragraph) :]
        elif self._paragraph.startswith(said) and not is_last:
            return ""  # it is saying again what was sent before
        else:
            new = _ANEW + said
        self._paragraph = said
        self.text += new
        return new
