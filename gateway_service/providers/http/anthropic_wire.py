"""Anthropic's messages: a prompt as a request, and an answer, whole or in pieces, as a response. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hobus.bus.messages.gateway import Prompt, PromptMessage
from hobus.config.sections.gateway import AnthropicProvider
from hobus.gateway_service.providers.http.wire import (
    AnswerRead,
    BadAnswer,
    CallSaid,
    ToolNames,
    a_count,
    a_list,
    a_text,
    an_object,
    call_said,
    with_call_ids,
)

PATH = "/v1/messages"
MODELS_PATH = "/v1/models"


def request(
    prompt: Prompt, model_id: str, names: ToolNames, config: AnthropicProvider, *, stream: bool
) -> dict[str, Any]:
    """The body of the request."""
    system, rest = _parted(prompt.messages)
    body: dict[str, Any] = {
        "model": model_id,
        "max_tokens": prompt.max_tokens,
        "messages": _messages(rest, names),
    }
    if system:
        body["system"] = system
    if "temperature" not in config.omit:
        body["temperature"] = min(prompt.temperature, 1.0)  # its scale ends there
    output: dict[str, Any] = {}
    if prompt.reasoning_effort is not None and "reasoning_effort" not in config.omit:
        output["effort"] = prompt.reasoning_effort.lower()
    if prompt.structured_output and prompt.output_schema is not None and config.structured != "none":
        schema = taken_schema(prompt.output_schema)
        output |= {} if schema is None else {"format": {"type": "json_schema", "schema": schema}}
    if output:
        body["output_config"] = output
    if prompt.tools:
        body["tools"] = [
            {"name": names.name(tool.tool_id), "description": tool.description, "input_schema": tool.parameters}
            for tool in prompt.tools
        ]
        if prompt.tool_choice == "required":
            body["tool_choice"] = {"type": "any"}
    if stream:
        body["stream"] = True
    return body


def taken_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema in the form that its API takes, as the SDK makes it: closed objects, other bounds as words.

    None for one that has no such form: it is not asked for, and the answer is judged by it all the same. An object of
    any keys has none: closed, it would have none at all.
    """
    if _has_open_object(schema):
        return None
    from anthropic import transform_schema  # noqa: PLC0415 - where a request is made, its client has loaded it

    try:
        return transform_schema(schema)
    except (ValueError, AssertionError, TypeError, AttributeError, RecursionError):  # its words for what it cannot say
        return None


def _has_open_object(value: Any) -> bool:
    if isinstance(value, list):
        return any(_has_open_object(item) for item in value)
    if not isinstance(value, dict):
        return False
    is_object = value.get("type") == "object" and not value.get("properties")
    return (is_object and value.get("additionalProperties") is not False) or any(
        _has_open_object(item) for item in value.values()
    )


@dataclass
class AnthropicAnswer(AnswerRead):
    """A message of the model."""

    usage: dict[str, int] = field(default_factory=dict[str, int])
    blocks: dict[int, tuple[dict[str, Any], list[str]]] = field(
        default_factory=dict[int, tuple[dict[str, Any], list[str]]]
    )

    @property
    def used(self) -> dict[str, int] | None:
        """Its usage in the words of this system; None before it says anything."""
        return counted(self.usage) if self.usage else None

    @property
    def is_estimated(self) -> bool:
        """Whether it lacks one of the two figures that count."""
        return "input_tokens" not in self.usage or "output_tokens" not in self.usage

    def take_whole(self, answer: dict[str, Any]) -> None:
        """Its blocks of content. Raises BadAnswer."""
        if "content" not in answer:
            raise BadAnswer("the answer holds no content")
        self.usage = _usage({}, answer.get("usage"))
        for number, item in enumerate(a_list(answer["content"], "content")):
            self.begin(number, an_object(item, "a content block"), "content.text")
        self.finish_reason = a_text(answer.get("stop_reason"), "stop_reason")

    def add(self, event: Any) -> str:
        """An event of the stream. Raises BadAnswer."""
        piece = an_object(event, "a piece of the answer")
        match piece.get("type"):
            case "message_start":
                self.usage = _usage(self.usage, an_object(piece.get("message"), "message").get("usage"))
            case "message_delta":
                self.usage = _usage(self.usage, piece.get("usage"))
                delta = an_object(piece.get("delta"), "delta")
                self.finish_reason = a_text(delta.get("stop_reason"), "stop_reason") or self.finish_reason
            case "content_block_start":
                block = an_object(piece.get("content_block"), "content_block")
                return self.begin(a_count(piece.get("index"), "index"), block, "text")
            case "content_block_delta":
                return self._add_delta(a_count(piece.get("index"), "index"), an_object(piece.get("delta"), "delta"))
            case "message_stop":
                self.is_whole = bool(self.finish_reason)
            case _:  # ping, and what may come to be
                pass
        return ""

    def begin(self, index: int, block: dict[str, Any], where: str) -> str:
        """A block of content; `where`: what a fault calls its text. Raises BadAnswer."""
        self.blocks[index] = (block, [])
        return self.say(a_text(block.get("text"), where) if block.get("type") == "text" else "")

    def asked(self) -> Iterator[CallSaid]:
        """Its blocks of use, in order. Raises BadAnswer."""
        for _index, (block, pieces) in sorted(self.blocks.items(), key=lambda item: item[0]):
            if block.get("type") == "tool_use":
                given, text = an_object(block.get("input"), "a tool call's input"), "".join(pieces)
                yield call_said(block.get("id"), block.get("name"), text if text.strip() else given)

    def _add_delta(self, index: int, delta: dict[str, Any]) -> str:
        if delta.get("type") == "text_delta":
            return self.say(a_text(delta.get("text"), "text"))
        if delta.get("type") == "input_json_delta":
            if index not in self.blocks:
                raise BadAnswer("a piece of a block that was not begun")
            self.blocks[index][1].append(a_text(delta.get("partial_json"), "partial_json"))
        return ""


def _parted(messages: Sequence[PromptMessage]) -> tuple[str, list[PromptMessage]]:
    """What the system says before all others, and the rest; if nobody else speaks, its words are the user's."""
    first = next((number for number, message in enumerate(messages) if message.role != "system"), None)
    if first is None:
        return "", [message.model_copy(update={"role": "user"}) for message in messages]
    return "\n\n".join(message.text for message in messages[:first] if message.text.strip()), list(messages[first:])


def _messages(messages: Sequence[PromptMessage], names: ToolNames) -> list[dict[str, Any]]:
    """In turns: what one side says in a row is one message, and all results of a round stand in one."""
    told: list[dict[str, Any]] = []
    for message, ids in with_call_ids(messages):
        blocks: list[dict[str, Any]] = []
        if message.role == "tool":
            blocks.append({"type": "tool_result", "tool_use_id": ids[0], "content": _result(message)})
        elif message.text.strip():  # a blank block is refused
            blocks.append({"type": "text", "text": message.text})
        blocks += [
            {"type": "tool_use", "id": call_id, "name": names.name(call.tool_id), "input": call.arguments}
            for call, call_id in zip(message.tool_calls, ids if message.tool_calls else [], strict=True)
        ]
        role = "assistant" if message.role == "assistant" else "user"
        if told and told[-1]["role"] == role:
            told[-1]["content"] += blocks
        elif blocks:
            told.append({"role": role, "content": blocks})
    return told


def _result(message: PromptMessage) -> str | list[dict[str, Any]]:
    """What a tool brought; its images stand behind its text, which names them."""
    sources = [
        {"type": "base64", "media_type": image.media_type, "data": b64encode(image.data).decode()}
        for image in message.images
    ]
    text = {"type": "text", "text": message.text}
    return [text, *({"type": "image", "source": source} for source in sources)] if sources else message.text


def _usage(known: dict[str, int], value: Any) -> dict[str, int]:
    """What is known of the usage so far: what an answer says last holds, and what it does not say again stays.

    What is read from a cache, and what is written into one, are no part of what it calls its input; here they are.
    """
    usage = an_object(value, "usage")
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    found = {name: a_count(usage[name], f"usage.{name}") for name in names if usage.get(name) is not None}
    details = an_object(usage.get("output_tokens_details"), "usage.output_tokens_details")
    if details.get("thinking_tokens") is not None:
        found["thinking_tokens"] = a_count(details["thinking_tokens"], "usage.thinking_tokens")
    return known | found


def counted(usage: dict[str, int]) -> dict[str, int]:
    """The usage in the words of this system."""
    cached = usage.get("cache_read_input_tokens", 0)
    return {
        "input_tokens": usage.get("input_tokens", 0) + cached + usage.get("cache_creation_input_tokens", 0),
        "output_tokens": usage.get("output_tokens", 0),
        "cached_tokens": cached,
        "reasoning_tokens": usage.get("thinking_tokens", 0),
    }


ANSWER = AnthropicAnswer
