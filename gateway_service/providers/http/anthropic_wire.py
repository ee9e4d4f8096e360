"""Anthropic's messages: a prompt as a request, and an answer, whole or in pieces, as a response. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from hobus.bus.messages.gateway import Prompt, PromptMessage, SeenImage, list_texts
from hobus.bus.messages.transcript import NAME as HISTORY
from hobus.config.sections.gateway import AnthropicProvider
from hobus.gateway_service.providers.http.reader import AnswerReader, ErrorSaid, is_count
from hobus.gateway_service.providers.http.wire import (
    ERROR_KEYS,
    BadAnswer,
    CallIds,
    ToolNames,
    find_given_back,
    read_blocks,
    read_facts,
    read_object,
    read_text,
    split_images,
    with_images,
)

_KEPT = {"type": "ephemeral"}
"""Behind what the next prompt begins with, too: the system's words with the tools before them, and earlier turns."""
PATH = "/v1/messages"
MODELS_PATH = "/v1/models"


def make_request(
    prompt: Prompt, model_id: str, names: ToolNames, config: AnthropicProvider, *, stream: bool
) -> dict[str, Any]:
    system, rest = _part_system(prompt.messages)
    body: dict[str, Any] = {
        "model": model_id,
        "max_tokens": prompt.max_tokens,
        "messages": _make_messages(rest, model_id, names),
    }
    if system:
        body["system"] = [{"type": "text", "text": system, "cache_control": _KEPT}]
    if "temperature" not in config.omit:
        body["temperature"] = min(prompt.temperature, 1.0)  # its scale ends there
    if (drawn := prompt.sampling) is not None:  # it draws by no seed
        body |= {"top_p": drawn.top_p} if drawn.top_p is not None else {}
        body |= {"stop_sequences": drawn.stop} if drawn.stop else {}
    output: dict[str, Any] = {}
    if prompt.reasoning_effort is not None and "reasoning_effort" not in config.omit:
        output["effort"] = prompt.reasoning_effort.lower()
    if prompt.structured_output and prompt.output_schema is not None and config.structured != "none":
        schema = make_taken_schema(prompt.output_schema)
        output |= {} if schema is None else {"format": {"type": "json_schema", "schema": schema}}
    if output:
        body["output_config"] = output
    if prompt.tools:
        body["tools"] = [
            {"name": names.names[tool.tool_id], "description": tool.description, "input_schema": tool.parameters}
            for tool in prompt.tools
        ]
        if prompt.tool_choice == "required":
            body["tool_choice"] = {"type": "any"}
    if stream:
        body["stream"] = True
    return body


def make_taken_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema in the form that its API takes, as the SDK makes it: closed objects, other bounds as words.

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


def read(reader: AnswerReader, event: dict[str, Any]) -> None:
    """Read a message of the model, or an event of its stream. Raises BadAnswer, ErrorSaid."""
    match event.get("type"):
        case "error":
            raise ErrorSaid(event.get("error") or event)
        case "message_start":
            _count(reader, read_object(event.get("message"), "message").get("usage"))
        case "message_delta":
            _count(reader, event.get("usage"))
            reader.end(read_object(event.get("delta"), "delta").get("stop_reason"))
        case "content_block_start":
            _read_block(reader, event.get("index"), read_object(event.get("content_block"), "content_block"))
        case "content_block_delta":
            _read_delta(reader, event.get("index"), read_object(event.get("delta"), "delta"))
        case "message_stop":
            reader.is_whole = True
        case "message" | None:
            _read_message(reader, event)
        case _:  # ping, and what may come to be
            pass


def _read_message(reader: AnswerReader, answer: dict[str, Any]) -> None:
    if answer.get("error"):
        _count(reader, answer.get("usage"))
        raise ErrorSaid(answer["error"])
    if "content" not in answer:
        if answer.keys() & ERROR_KEYS:
            raise ErrorSaid(answer)
        raise BadAnswer("the answer holds no content")
    _count(reader, answer.get("usage"))
    for number, block in enumerate(read_blocks(answer["content"], "content")):
        _read_block(reader, number, block)
    reader.end(answer.get("stop_reason"))


def _read_block(reader: AnswerReader, index: Any, block: dict[str, Any]) -> None:
    match block.get("type"):
        case "text":
            reader.say(read_text(block.get("text"), "content.text"))
        case "tool_use":
            reader.call(index, block.get("id"), block.get("name"), block.get("input") or None, {}, is_new=True)
        case "thinking" | "redacted_thinking":
            reader.given_back.setdefault("blocks", []).append({**block})
            reader.has_begun = reader.is_hidden = True
            reader.think(read_text(block.get("thinking"), "thinking"))
        case _:
            pass


def _read_delta(reader: AnswerReader, index: Any, delta: dict[str, Any]) -> None:
    match delta.get("type"):
        case "text_delta":
            reader.say(read_text(delta.get("text"), "text"))
        case "input_json_delta" if any(call.index == index for call in reader.calls):  # else of a tool of the server's
            reader.call(index, None, None, read_text(delta.get("partial_json"), "partial_json"), {}, is_new=False)
        case "thinking_delta" | "signature_delta":
            name = "thinking" if "thinking" in delta else "signature"
            blocks, text = reader.given_back.get("blocks") or [{}], read_text(delta.get(name), name)
            blocks[-1][name] = read_text(blocks[-1].get(name), name) + text
            reader.think(text if name == "thinking" else "")
        case _:
            pass


def _part_system(messages: Sequence[PromptMessage]) -> tuple[str, list[PromptMessage]]:
    """Split what the system says before all others from the rest; if nobody else speaks, its words are the user's."""
    first = next((number for number, message in enumerate(messages) if message.role != "system"), None)
    if first is None:
        return "", [message.model_copy(update={"role": "user"}) for message in messages]
    return "\n\n".join(message.text for message in messages[:first] if message.text.strip()), list(messages[first:])


def _make_messages(messages: Sequence[PromptMessage], model_id: str, names: ToolNames) -> list[dict[str, Any]]:
    """Return messages in turns: what one side says in a row is one, and all results of a round stand in one."""
    told: list[dict[str, Any]] = []
    kept: dict[str, Any] = {}
    ids, pictured = CallIds(), with_images(messages)
    for message, text in zip(messages, list_texts(messages), strict=True):
        ids.add(message.tool_calls)
        blocks: list[dict[str, Any]] = []
        if message.role == "tool":
            call_id = ids[message.tool_call_id]
            blocks.append({"type": "tool_result", "tool_use_id": call_id, "content": _make_result(message)})
        elif message.tool_calls:
            blocks += find_given_back(message.tool_calls[0], model_id, "message").get("blocks", [])
        if message.role != "tool" and text.strip():  # a blank block is refused
            for part in split_images(message, text) if message in pictured else [text]:
                blocks.append({"type": "text", "text": part} if isinstance(part, str) else _make_image(part))
        blocks += [
            {"type": "tool_use", "id": ids[call.call_id], "name": names.names[call.tool_id], "input": call.arguments}
            for call in message.tool_calls
        ]
        role = "assistant" if message.role == "assistant" else "user"
        if told and told[-1]["role"] == role:
            told[-1]["content"] += blocks
        elif blocks:
            told.append({"role": role, "content": blocks})
        if blocks and message.segments and message.segments[0].name == HISTORY:
            kept = blocks[-1]
    if messages and messages[-1].role == "tool":  # the next round begins with all of this
        told[-1]["content"][-1]["cache_control"] = _KEPT
    kept |= {"cache_control": _KEPT}
    return told


def _make_result(message: PromptMessage) -> str | list[dict[str, Any]]:
    """Return what a tool brought; its images stand behind its text, which names them."""
    if not message.images:
        return message.text
    return [{"type": "text", "text": message.text}, *map(_make_image, message.images)]


def _make_image(image: SeenImage) -> dict[str, Any]:
    data = b64encode(image.data).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": data}}


def _count(reader: AnswerReader, value: Any) -> None:
    """Count usage; cache reads and writes are no part of what Anthropic calls input, and here they are."""
    usage = read_facts(value)
    cached = usage.get("cache_read_input_tokens")
    parts = [usage.get("input_tokens"), cached, usage.get("cache_creation_input_tokens")]
    reader.count(
        input_tokens=sum(part for part in parts if is_count(part)),
        output_tokens=usage.get("output_tokens"),
        cached_tokens=cached,
        reasoning_tokens=read_facts(usage.get("output_tokens_details")).get("thinking_tokens"),
    )
