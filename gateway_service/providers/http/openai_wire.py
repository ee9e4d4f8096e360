"""Chat completions: a prompt as a request, and an answer, whole or in pieces, as a response. Pure."""

from __future__ import annotations

import math
from array import array
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

from hobus.bus.errors import GatewayError
from hobus.bus.json_text import write_json
from hobus.bus.messages.gateway import Prompt, PromptResponse, SeenImage, list_texts
from hobus.config.sections.gateway import OpenAIProvider
from hobus.gateway_service.providers.http.reader import AnswerReader, ErrorSaid, is_count
from hobus.gateway_service.providers.http.wire import (
    ERROR_KEYS,
    BadAnswer,
    CallIds,
    ToolNames,
    find_given_back,
    read_blocks,
    read_facts,
    read_list,
    read_object,
    read_text,
    split_images,
    with_images,
)
from hobus.gateway_service.vectors import VectorPrompt

PATH = "/chat/completions"
MODELS_PATH = "/models"
EMBEDDINGS_PATH = "/embeddings"


def make_request(
    prompt: Prompt, model_id: str, names: ToolNames, config: OpenAIProvider, *, stream: bool
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": model_id,
        "messages": _make_messages(prompt, model_id, names, config.omit),
        config.max_tokens_field: prompt.max_tokens,
    }
    if "temperature" not in config.omit:
        body["temperature"] = prompt.temperature
    if prompt.reasoning_effort is not None and "reasoning_effort" not in config.omit:
        body["reasoning_effort"] = prompt.reasoning_effort.lower()
    if (drawn := prompt.sampling) is not None:
        body |= {name: said for name in ("top_p", "seed", "stop") if (said := getattr(drawn, name)) not in (None, [])}
    if prompt.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": names.names[tool.tool_id],
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


def read(reader: AnswerReader, event: dict[str, Any]) -> None:
    """Read the first choice of a chat completion, or of a chunk of one. Raises BadAnswer, ErrorSaid."""
    choices = read_list(event.get("choices"), "choices")
    first = read_object(choices[0], "choices.0") if choices else {}
    usage = event.get("usage") or read_facts(event.get("x_groq")).get("usage")
    if usage:
        _count(reader, read_facts(usage))
    if (error := event.get("error") or first.get("error")) is not None:
        raise ErrorSaid(error)
    is_chunk = "delta" in first or event.get("object") == "chat.completion.chunk"
    if not choices:
        if not (is_chunk or usage):
            if event.keys() & ERROR_KEYS:
                raise ErrorSaid(event)
            if not reader.is_streamed:  # Azure's first event tells of its filter alone
                raise BadAnswer("the answer holds no choices")
        reader.is_whole = bool(reader.finish_reason)
        return
    part = "delta" if is_chunk else "message"
    said = read_object(first.get(part), f"choices.0.{part}")
    _read_message(reader, said or {"content": first.get("text")}, is_whole=not is_chunk)
    reader.end(first.get("finish_reason"))
    reader.is_whole = bool(reader.finish_reason) and usage is not None


_THOUGHT = ("reasoning_content", "reasoning")
_GIVEN_BACK = (*_THOUGHT, "reasoning_details")
"""Of a message: some providers refuse its calls without it."""


def _read_message(reader: AnswerReader, said: dict[str, Any], *, is_whole: bool) -> None:
    for name in _GIVEN_BACK:
        if name in said:
            _keep(reader.given_back, name, said[name])
    for thought in [said[name] for name in _THOUGHT if name in said and isinstance(said[name], str)][:1]:
        reader.think(thought)
    legacy = said.get("function_call")
    for call in [*read_list(said.get("tool_calls"), "tool_calls"), *([{"function": legacy}] if legacy else [])]:
        piece = read_object(call, "a tool call")
        function = read_object(piece.get("function") or piece, "a tool call's function")
        extra = {"extra_content": piece["extra_content"]} if piece.get("extra_content") else {}
        about = piece.get("id"), function.get("name"), function.get("arguments")
        reader.call(piece.get("index"), *about, extra, is_new=is_whole)
    if type(content := said.get("content")) is str:
        reader.say(content)
        content = []
    for block in read_blocks(content, "content"):
        reader.say(read_text(block.get("text"), "content.text"))
        reader.refuse(read_text(block.get("refusal"), "refusal"))
        for thought in read_blocks(block.get("thinking"), "thinking"):
            reader.think(read_text(thought.get("text"), "thinking"))
    if refusal := said.get("refusal"):
        reader.refuse(read_text(refusal, "refusal"))


def _keep(kept: dict[str, Any], name: str, value: Any) -> None:
    """Add a piece of a text or a list."""
    if value and isinstance(value, str | list):
        kept[name] = kept[name] + value if name in kept and type(kept[name]) is type(value) else value


def _make_messages(prompt: Prompt, model_id: str, names: ToolNames, omit: Sequence[str]) -> list[dict[str, Any]]:
    """Return messages; what the user's side says in a row is one, each a part of it: many templates refuse two."""
    told: list[dict[str, Any]] = []
    pictured = with_images(prompt.messages)
    images: list[dict[str, Any]] = []  # of the results so far: a message of a tool holds text alone
    ids = CallIds()
    for message, text in zip(prompt.messages, list_texts(prompt.messages), strict=True):
        if images and message.role != "tool":
            told += ({"role": "user", "content": images},)
            images = []
        one: dict[str, Any] = {"role": message.role, "content": text}
        if message.role == "tool":
            one["tool_call_id"] = ids[message.tool_call_id]
            for segment in message.segments:
                for image in segment.files:
                    images += _make_image(image) if isinstance(image, SeenImage) else ()
        elif message.role == "assistant" and (calls := message.tool_calls):
            ids.add(calls)
            one["content"] = text or None
            one["tool_calls"] = [
                {
                    "id": ids[call.call_id],
                    "type": "function",
                    "function": {"name": names.names[call.tool_id], "arguments": write_json(call.arguments)},
                    **(find_given_back(call, model_id, "call") if call.given_back else {}),
                }
                for call in calls
            ]
            one |= find_given_back(calls[0], model_id, "message") if calls[0].given_back else {}
        elif message in pictured:
            shown = split_images(message, text)
            parts = [_make_text(part) if isinstance(part, str) else _make_image_url(part) for part in shown]
            one["content"] = parts if message.images else "\n".join(part for part in shown if isinstance(part, str))
        if message.role == "user" and told and told[-1]["role"] == "user":
            told[-1]["content"] = _join(told[-1]["content"], one["content"], omit)
            continue
        told += (one,)
    return [*told, {"role": "user", "content": images}] if images else told


def _join(before: str | list[Any], content: str | list[Any], omit: Sequence[str]) -> str | list[Any]:
    said = [_make_text(content)] if isinstance(content, str) else content
    if not isinstance(before, str):
        before += said
        return before
    return f"{before}\n\n{content}" if "text_parts" in omit and content is not said else [_make_text(before), *said]


def _make_text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _make_image(image: SeenImage) -> list[dict[str, Any]]:
    said = f"[the image {image.name} of the tool's result above]"
    return [_make_text(said), _make_image_url(image)]


def _make_image_url(image: SeenImage) -> dict[str, Any]:
    url = f"data:{image.media_type};base64,{b64encode(image.data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


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
    """Return whether a provider can be held to every word of the schema.

    OpenAI takes as strict only objects that name all their properties as required and allow no other.
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


def _count(reader: AnswerReader, usage: dict[str, Any]) -> None:
    asked, said = read_facts(usage.get("prompt_tokens_details")), read_facts(usage.get("completion_tokens_details"))
    reader.count(
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        cached_tokens=asked.get("cached_tokens") or usage.get("prompt_cache_hit_tokens"),
        reasoning_tokens=said.get("reasoning_tokens"),
    )


# --- vectors ----------------------------------------------------------------------------------------------------------


def make_embedding_request(prompt: VectorPrompt, model_id: str) -> dict[str, Any]:
    """Return the request for the vectors of the messages: in base64, which is shorter, where the server knows it."""
    body = {"model": model_id, "input": [message.text for message in prompt.messages], "encoding_format": "base64"}
    return body | ({"dimensions": prompt.vector_numbers} if prompt.vector_numbers else {})


def read_vectors(answer: Any, prompt: VectorPrompt) -> PromptResponse:
    """Return the vectors of an answer, in the order of the texts. Raises BadAnswer, ErrorSaid.

    GatewayError(MODEL_UNFIT) for those of another length than was asked for.
    """
    told = read_object(answer, "the answer")
    if "error" in told or (told.keys() & ERROR_KEYS and "data" not in told):
        raise ErrorSaid(told.get("error", told))
    rows = [read_object(row, f"data.{number}") for number, row in enumerate(read_list(told.get("data"), "data"))]
    if all(type(row.get("index")) is int for row in rows):
        rows.sort(key=lambda row: row["index"])
    found = [_read_numbers(row.get("embedding")) for row in rows]
    lengths = {len(vector) for vector in found}
    if len(found) != len(prompt.messages) or len(lengths) != 1 or 0 in lengths:
        raise BadAnswer(f"the answer holds {len(found)} vectors of {sorted(lengths)[:4]} numbers")
    usage = read_facts(told.get("usage"))
    counts = (usage.get("prompt_tokens"), usage.get("total_tokens"))
    used = next((count for count in counts if is_count(count)), 0)
    if prompt.vector_numbers and lengths != {prompt.vector_numbers}:
        raise GatewayError(
            "MODEL_UNFIT",
            f"its vectors have {lengths.pop()} numbers, and {prompt.vector_numbers} were asked for: leave out "
            "`dimensions`, or name a model that takes them",
            facts={"input_tokens": used},
        )
    content = b64encode(b"".join(vector.tobytes() for vector in found)).decode()
    return PromptResponse(outcome="SUCCESS", content=content, finish_reason="stop", input_tokens=used)


def _read_numbers(value: Any) -> array[float]:
    """Return Float32 numbers, as every wire has them. Raises BadAnswer."""
    try:
        found = array("f", b64decode(value, validate=True) if isinstance(value, str) else read_list(value, "embedding"))
    except (ValueError, TypeError, OverflowError):
        raise BadAnswer("an embedding is neither a list of numbers nor float32 in base64") from None
    if not all(map(math.isfinite, found)):
        raise BadAnswer("an embedding holds what is no number")
    return found
