"""The events of a streamed response, numbered in order: its message, from its first words on, and its calls. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hobus.bus.messages.session import CallerCall, TurnResult
from hobus.launch.http import caller_words
from hobus.launch.http import openai_words as words
from hobus.launch.http.problems import Problem
from hobus.launch.http.sse import frame


class ResponseEvents:
    """Frames of one response."""

    def __init__(self, identity: str, *, body: words.ResponsesRequest, created: int) -> None:
        self._identity = identity
        self._body = body
        self._created = created
        self._item = words.output_item(identity, None)
        self._at = {"item_id": self._item["id"], "output_index": 0, "content_index": 0}
        self._number = 0
        self._is_said = False  # the message has begun
        self._is_refusal = False  # it says why there is no answer in the form that was asked for

    def begun(self) -> Iterator[str]:
        """Before anything is said."""
        yield self._event("response.created", response=self._response())
        yield self._event("response.in_progress", response=self._response())

    def said(self, new: str, *, is_refusal: bool) -> Iterator[str]:
        """Some more of the message."""
        self._is_refusal = is_refusal
        yield from self._message_begun()
        if is_refusal:
            yield self._event("response.refusal.delta", **self._at, delta=new)
        else:
            yield self._event("response.output_text.delta", **self._at, delta=new, logprobs=[])

    def failed(self, problem: Problem) -> str:
        """There is no answer."""
        error = {"code": "server_error", "message": f"{problem.code}: {problem.message}"}
        return self._event("response.failed", response={**self._response(), "status": "failed", "error": error})

    def done(self, text: str, result: TurnResult) -> Iterator[str]:
        """The rest; a response that is calls alone has no message."""
        if not result.caller_calls:
            yield from self._message_begun()
        if self._is_said:
            if self._is_refusal:
                yield self._event("response.refusal.done", **self._at, refusal=text)
            else:
                yield self._event("response.output_text.done", **self._at, text=text, logprobs=[])
            part = words.output_part(text, is_refusal=self._is_refusal)
            yield self._event("response.content_part.done", **self._at, part=part)
            item = words.output_item(self._identity, text, is_refusal=self._is_refusal)
            yield self._event("response.output_item.done", output_index=0, item=item)
        for number, call in enumerate(result.caller_calls, start=int(self._is_said)):
            yield from self._called(call, number)
        yield self._event("response.completed", response=self._response(text, result))

    def _message_begun(self) -> Iterator[str]:
        if self._is_said:
            return
        self._is_said = True
        yield self._event("response.output_item.added", output_index=0, item=self._item)
        yield self._event(
            "response.content_part.added", **self._at, part=words.output_part("", is_refusal=self._is_refusal)
        )

    def _called(self, call: CallerCall, number: int) -> Iterator[str]:
        """A call's arguments are there at once."""
        begun, item = caller_words.call_item(call, is_begun=True), caller_words.call_item(call)
        about = {"item_id": item["id"], "output_index": number}
        yield self._event("response.output_item.added", output_index=number, item=begun)
        yield self._event("response.function_call_arguments.delta", **about, delta=item["arguments"])
        yield self._event("response.function_call_arguments.done", **about, name=call.name, arguments=item["arguments"])
        yield self._event("response.output_item.done", output_index=number, item=item)

    def _response(self, text: str | None = None, result: TurnResult | None = None) -> dict[str, Any]:
        return words.response(self._identity, created=self._created, text=text, result=result, request=self._body)

    def _event(self, kind: str, **fields: Any) -> str:
        self._number += 1
        return frame({"type": kind, "sequence_number": self._number - 1, **fields}, event=kind)
