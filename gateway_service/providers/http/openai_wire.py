"""Chat completions: a prompt as a request, and an answer, whole or in pieces, as a response. Pure."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hobus.bus.messages.gateway import Prompt, PromptResponse, SeenImage
from hobus.bus.messages.work_order import REFUSAL
from hobus.config.sections.gateway import OpenAIProvider
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

PATH = "/chat/completions"
MODELS_PATH = "/models"


def request(prompt: Prompt, model_id: str, names: ToolNames, config: OpenAIProvider, *, stream: bool) -> dict[str, Any]:
    """The body of the request."""
    body: dict[str, Any] = {
        "model": model_id,
        "messages": list(_messages(prompt, names)),
        config.max_tokens_field: prompt.max_tokens,
    }
    if "temperature" not in config.omit:
        body["temperature"] = prompt.temperature
    if prompt.reasoning_effort is not None and "reasoning_effort" not in config.omit:
        body["reasoning_effort"] = prompt.reasoning_effort.lower()
    if prompt.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": names.name(tool.tool_id),
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in prompt.tools
        ]
        if prompt.tool_choice == "required":
            body["tool_choice"] = "required"
    if prompt.structured_output and prompt.output_schema is not None and config.structured != "none":
        body["response_format"] = _format(prompt.output_schema, config.structured)
    if stream:
        body["stream"] = True
        if "stream_options" not in config.omit:
            body["stream_options"] = {"include_usage": True}
    return body


@dataclass
class OpenAIAnswer(AnswerRead):
    """A chat completion."""

    usage: dict[str, int] | None = None
    has_content: bool = False
    """What is said is not a refusal alone."""
    calls: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])

    @property
    def used(self) -> dict[str, int] | None:
        """What its usage says."""
        return self.usage

    def take_whole(self, answer: dict[str, Any]) -> None:
        """Its first choice. Raises BadAnswer."""
        choices = a_list(answer.get("choices"), "choices")
        if not choices:
            raise BadAnswer("the answer holds no choices")
        self.usage = _usage(answer.get("usage"))
        self.take(an_object(choices[0], "choices.0"), "message")

    def add(self, event: Any) -> str:
        """A chunk of the stream. Raises BadAnswer."""
        piece = an_object(event, "a piece of the answer")
        if piece.get("usage") is not None:
            self.usage = _usage(piece["usage"])
        choices = a_list(piece.get("choices"), "choices")
        text = self.take(an_object(choices[0], "choices.0"), "delta") if choices else ""
        self.is_whole = bool(self.finish_reason) and piece.get("usage") is not None
        return text

    def take(self, choice: dict[str, Any], part: str) -> str:
        """What a choice says, in its part `message` or `delta`. Raises BadAnswer."""
        said = an_object(choice.get(part), f"choices.0.{part}")
        for number, call in enumerate(a_list(said.get("tool_calls"), "tool_calls")):
            self._add_call(an_object(call, "a tool call"), number if part == "message" else None)
        content, refusal = _content(said.get("content")), a_text(said.get("refusal"), "refusal")
        self.has_content = self.has_content or bool(content)
        self.finish_reason = a_text(choice.get("finish_reason"), "finish_reason") or self.finish_reason
        return self.say(content or refusal)

    def response(self) -> PromptResponse:
        """What has come; a refusal alone is said to be one. Raises BadAnswer."""
        is_refusal = bool(self.said) and not self.has_content
        found = super().response()
        return found.model_copy(update={"finish_reason": REFUSAL}) if is_refusal else found

    def asked(self) -> Iterator[CallSaid]:
        """Its calls by their index. Raises BadAnswer."""
        for _index, call in sorted(self.calls.items()):
            yield call_said(call["id"], call["name"], "".join(call["pieces"]))

    def _add_call(self, piece: dict[str, Any], index: int | None) -> None:
        function = an_object(piece.get("function"), "a tool call's function")
        call_id, name = a_text(piece.get("id"), "id"), a_text(function.get("name"), "a tool call's name")
        index = piece.get("index") if index is None else index
        if index is None:  # some servers send each call whole, without a number
            index = len(self.calls) if name or not self.calls else len(self.calls) - 1
        call = self.calls.setdefault(a_count(index, "a tool call's index"), {"id": "", "name": "", "pieces": []})
        call["id"] = call["id"] or call_id
        call["name"] = call["name"] or name
        arguments = function.get("arguments")
        call["pieces"].append(json.dumps(arguments) if isinstance(arguments, dict) else a_text(arguments, "arguments"))


def _messages(prompt: Prompt, names: ToolNames) -> Iterable[dict[str, Any]]:
    images: list[dict[str, Any]] = []  # of the results so far: a message of a tool holds text alone
    for message, ids in with_call_ids(prompt.messages):
        if images and message.role != "tool":
            yield {"role": "user", "content": images}
            images = []
        images += [part for image in message.images for part in _image(image)]
        match message.role:
            case "tool":
                yield {"role": "tool", "tool_call_id": ids[0], "content": message.text}
            case "assistant" if message.tool_calls:
                calls = [
                    {
                        "id": call_id,
                        "type": "function",
                        "function": {"name": names.name(call.tool_id), "arguments": json.dumps(call.arguments)},
                    }
                    for call, call_id in zip(message.tool_calls, ids, strict=True)
                ]
                yield {"role": "assistant", "content": message.text or None, "tool_calls": calls}
            case role:
                yield {"role": role, "content": message.text}
    if images:
        yield {"role": "user", "content": images}


def _image(image: SeenImage) -> list[dict[str, Any]]:
    url = f"data:{image.media_type};base64,{b64encode(image.data).decode()}"
    said = f"[the image {image.name} of the tool's result above]"
    return [{"type": "text", "text": said}, {"type": "image_url", "image_url": {"url": url}}]


def _format(schema: dict[str, Any], structured: str) -> dict[str, Any]:
    if structured == "json_object":
        return {"type": "json_object", "schema": schema}
    if schema == _ANY_OBJECT:
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": keeps_strictly(schema)},
    }


_ANY_OBJECT = {"type": "object"}


_STRICT = frozenset(
    {
        "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs",
        "definitions", "title", "description", "pattern", "format", "multipleOf", "minimum", "maximum",
        "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems",
    }
)  # fmt: skip
"""What OpenAI takes in a strict schema; any other word in one is refused."""


def keeps_strictly(schema: Any) -> bool:
    """Whether a provider can be held to every word of it: OpenAI takes as strict only objects whose keys are all there.

    Each object names all its properties as required and allows no other.
    """
    if not isinstance(schema, dict):
        return True
    if not schema.keys() <= _STRICT:
        return False
    properties = schema.get("properties", {})
    if schema.get("type") == "object" or "properties" in schema:
        required = schema.get("required", [])
        if schema.get("additionalProperties") is not False or sorted(required) != sorted(properties):
            return False
    named = [properties, schema.get("$defs", {}), schema.get("definitions", {})]
    inner = [one for group in named for one in group.values()]
    return all(keeps_strictly(one) for one in [*inner, *schema.get("anyOf", []), schema.get("items")])


def _content(value: Any) -> str:
    """The text of a message; some servers give it in parts."""
    if isinstance(value, list):
        parts = [an_object(part, "content") for part in value]
        return "".join(a_text(part.get("text"), "content.text") for part in parts if part.get("type") == "text")
    return a_text(value, "content")


def _usage(value: Any) -> dict[str, int] | None:
    if value is None:
        return None
    usage = an_object(value, "usage")
    asked = an_object(usage.get("prompt_tokens_details"), "usage.prompt_tokens_details")
    said = an_object(usage.get("completion_tokens_details"), "usage.completion_tokens_details")
    return {
        "input_tokens": a_count(usage.get("prompt_tokens"), "usage.prompt_tokens"),
        "output_tokens": a_count(usage.get("completion_tokens"), "usage.completion_tokens"),
        "cached_tokens": a_count(asked.get("cached_tokens"), "usage.cached_tokens"),
        "reasoning_tokens": a_count(said.get("reasoning_tokens"), "usage.reasoning_tokens"),
    }


ANSWER = OpenAIAnswer
