"""A provider that takes only what the official SDKs' own types allow, answers in both wires and counts what it did.

`python -m tests.partners.strict_provider` says its address on standard output and serves until it is ended. What it is
told decides what it does: `use TOOL` calls that tool if it was offered, `slowly` takes its time between two words.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from functools import cache
from typing import Any

from anthropic import transform_schema
from anthropic.types import Message
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming
from jsonschema_rs import Draft202012Validator
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from pydantic import TypeAdapter

from bench.gateway.servers import DONE, Behave, Request, serving
from hobus.gateway_service.providers.offline.structured import make_least_instance
from tests.gateway_service.servers import answering, streaming
from tests.partners.install import STRICT_KEY as KEY
from tests.partners.install import STRICT_MODEL as MODEL

ANSWER = "It is blue, because the air scatters short waves."
PAUSE_S = 0.2
SLOW_WORDS = 200

_TYPES = {
    ("openai", False): CompletionCreateParamsNonStreaming,
    ("openai", True): CompletionCreateParamsStreaming,
    ("anthropic", False): MessageCreateParamsNonStreaming,
    ("anthropic", True): MessageCreateParamsStreaming,
}
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Refused(Exception):
    """What a real one would not take, and the status that it would say."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@cache
def taken(wire: str, *, stream: bool) -> Draft202012Validator:
    """What may be sent, by the types of that wire's SDK; no other name anywhere."""
    return Draft202012Validator(_closed(TypeAdapter(_TYPES[wire, stream]).json_schema()))


def _closed(schema: Any) -> Any:
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            schema.setdefault("additionalProperties", False)
        for value in schema.values():
            _closed(value)
    elif isinstance(schema, list):
        for value in schema:
            _closed(value)
    return schema


class StrictProvider:
    """Judges a request, and answers it; counts what it answered and what it refused."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.refusals: list[str] = []

    async def behave(self, request: Request, writer: asyncio.StreamWriter) -> None:
        """One request."""
        about = {"/counters": dict(self.counters), "/refusals": self.refusals}
        if request.path in about:
            await answering(about[request.path])(request, writer)
            return
        wire = "anthropic" if "anthropic-version" in request.headers else "openai"
        try:
            _check_key(wire, request)
            if request.method == "GET" and request.path == "/v1/models":
                await answering({"object": "list", "data": [_model()], "has_more": False})(request, writer)
                return
            body = _checked(wire, request)
        except Refused as refusal:
            self.counters["refused"] += 1
            self.refusals.append(str(refusal))
            said = {"type": "error", "error": {"type": "invalid_request_error", "message": str(refusal)}}
            await answering(said, refusal.status)(request, writer)
            return
        await self._answered(wire, body, len(request.body))(request, writer)

    def _answered(self, wire: str, body: dict[str, Any], size: int) -> Behave:
        text, tool = _reply(wire, body)
        usage = {"input": -(-size // 4), "cached": size // 16, "output": max(1, (len(text) + len(tool)) // 4)}
        self.counters.update(
            calls=1, input_tokens=usage["input"], cached_tokens=usage["cached"], output_tokens=usage["output"]
        )
        words = re.findall(r"\S+\s*", text)
        if not body.get("stream"):
            whole = _completion(text, tool, usage) if wire == "openai" else _message(text, tool, usage)
            return answering(whole)
        pause_s = PAUSE_S if len(words) == SLOW_WORDS else 0.0
        if wire == "openai":
            with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
            return streaming(_chunks(words, tool, usage, with_usage=with_usage), end=DONE, pause_s=pause_s)
        return streaming(_events(words, tool, usage), pause_s=pause_s)


def _check_key(wire: str, request: Request) -> None:
    found = request.headers.get("authorization", "").removeprefix("Bearer ")
    if wire == "anthropic":
        found = request.headers.get("x-api-key", found)
    if found != KEY:
        raise Refused(401, "invalid key")


def _checked(wire: str, request: Request) -> dict[str, Any]:
    """The body of the request. Raises Refused."""
    path = "/v1/messages" if wire == "anthropic" else "/v1/chat/completions"
    if (request.method, request.path) != ("POST", path):
        raise Refused(404, f"there is no {request.method} {request.path}")
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise Refused(415, "not JSON")
    body = request.json
    stream = body.get("stream") is True
    for error in taken(wire, stream=stream).iter_errors(body):
        raise Refused(400, f"{'.'.join(map(str, error.instance_path))}: {error.message[:200]}")
    if body["model"] != MODEL:
        raise Refused(404, f"there is no model {body['model']}")
    (_check_openai if wire == "openai" else _check_anthropic)(body)
    return body


def _check_openai(body: dict[str, Any]) -> None:
    if "stream_options" in body and not body.get("stream"):
        raise Refused(400, "stream_options without stream")
    for tool in body.get("tools", []):
        if not _NAME.fullmatch(tool["function"]["name"]):
            raise Refused(400, "a tool's name has other letters than it may")
    unanswered: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in unanswered:
                raise Refused(400, "a result that answers no call")
            unanswered.remove(message["tool_call_id"])
            continue
        if unanswered:
            raise Refused(400, "a call without its result")
        unanswered = [call["id"] for call in message.get("tool_calls", [])]
        if len(set(unanswered)) < len(unanswered):
            raise Refused(400, "two calls under one id")


def _check_anthropic(body: dict[str, Any]) -> None:
    if body.get("temperature", 0) > 1:
        raise Refused(400, "temperature: at most 1")
    for tool in body.get("tools", []):
        if not _NAME.fullmatch(tool["name"]):
            raise Refused(400, "a tool's name has other letters than it may")
    wanted = body.get("output_config", {}).get("format")
    if wanted is not None and transform_schema(wanted["schema"]) != wanted["schema"]:
        raise Refused(400, "output_config.format.schema: holds what no answer can be held to")
    if body["messages"][0]["role"] != "user":
        raise Refused(400, "the first message must be the user's")
    unanswered: set[str] = set()
    for message in body["messages"]:
        blocks = (
            message["content"]
            if isinstance(message["content"], list)
            else [{"type": "text", "text": message["content"]}]
        )
        if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            raise Refused(400, "text content blocks must be non-empty")
        if unanswered != {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}:
            raise Refused(400, "tool_use without its tool_result, or a result without its use")
        unanswered = {block["id"] for block in blocks if block["type"] == "tool_use"}
    if unanswered:
        raise Refused(400, "tool_use without its tool_result")


def _reply(wire: str, body: dict[str, Any]) -> tuple[str, str]:
    """What to say, or which tool to call; pure."""
    schema = _schema_of(wire, body)
    if schema is not None:
        return json.dumps(make_least_instance(schema)), ""
    last = body["messages"][-1]
    said = json.dumps(last["content"])
    if last["role"] == "tool" or '"tool_result"' in said:
        return f"The tool said: {said[:200]}", ""
    offered = [tool["function"]["name"] if wire == "openai" else tool["name"] for tool in body.get("tools", [])]
    asked = next((name for name in re.findall(r"use ([\w.-]+)", said) if name in offered), "")
    if asked:
        return "", asked
    return ("word " * SLOW_WORDS if "slowly" in said else ANSWER), ""


def _schema_of(wire: str, body: dict[str, Any]) -> dict[str, Any] | None:
    wanted = body.get("response_format") if wire == "openai" else body.get("output_config", {}).get("format")
    if wanted is None or wanted["type"] != "json_schema":
        return None
    return wanted["json_schema"]["schema"] if wire == "openai" else wanted["schema"]


def _model() -> dict[str, Any]:
    return {"id": MODEL, "object": "model", "type": "model", "created": 1, "owned_by": "tests", "display_name": MODEL}


def _said(model: Any, value: dict[str, Any]) -> dict[str, Any]:
    """Checked against the SDK's own type."""
    return model.model_validate(value, strict=True).model_dump(mode="json", exclude_unset=True)


def _openai_usage(usage: dict[str, int]) -> dict[str, Any]:
    return {
        "prompt_tokens": usage["input"],
        "completion_tokens": usage["output"],
        "total_tokens": usage["input"] + usage["output"],
        "prompt_tokens_details": {"cached_tokens": usage["cached"]},
    }


def _completion(text: str, tool: str, usage: dict[str, int]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    if tool:
        message["tool_calls"] = [{"id": "call-1", "type": "function", "function": {"name": tool, "arguments": "{}"}}]
    choice = {"index": 0, "finish_reason": "tool_calls" if tool else "stop", "logprobs": None, "message": message}
    value = {"id": "c-1", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice]}
    return _said(ChatCompletion, value | {"usage": _openai_usage(usage)})


def _chunks(words: list[str], tool: str, usage: dict[str, int], *, with_usage: bool) -> list[dict[str, Any]]:
    """Its usage, in a piece of its own, only for who asks for it."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, *({"content": word} for word in words)]
    if tool:
        function = {"name": tool, "arguments": ""}
        deltas.append({"tool_calls": [{"index": 0, "id": "call-1", "type": "function", "function": function}]})
        deltas.append({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]})
    choices: list[list[dict[str, Any]]] = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": "tool_calls" if tool else "stop"}])
    about = {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    chunks: list[dict[str, Any]] = [{**about, "choices": choice} for choice in choices]
    if with_usage:
        chunks.append({**about, "choices": [], "usage": _openai_usage(usage)})
    return [_said(ChatCompletionChunk, chunk) for chunk in chunks]


def _message(text: str, tool: str, usage: dict[str, int]) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": text, "citations": None}
    if tool:
        block = {"type": "tool_use", "id": "toolu_1", "name": tool, "input": {}}
    about = {"id": "m-1", "type": "message", "role": "assistant", "model": MODEL, "content": [block]}
    return _said(
        Message,
        {**about, "stop_reason": "tool_use" if tool else "end_turn", "stop_sequence": None}
        | {"usage": {
            "input_tokens": usage["input"] - usage["cached"],
            "cache_read_input_tokens": usage["cached"],
            "cache_creation_input_tokens": 0,
            "output_tokens": usage["output"],
        }},
    )  # fmt: skip


def _events(words: list[str], tool: str, usage: dict[str, int]) -> list[tuple[str, dict[str, Any]]]:
    whole = _message("".join(words), tool, usage)
    (block,) = whole["content"]
    started = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    empty = {**block, "text": ""} if block["type"] == "text" else block
    deltas: list[dict[str, Any]] = [{"type": "text_delta", "text": word} for word in words]
    if tool:
        deltas = [{"type": "input_json_delta", "partial_json": "{}"}]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": started},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
            "usage": {"output_tokens": usage["output"]},
        },
        {"type": "message_stop"},
    ]
    return [(event["type"], event) for event in events]


async def main() -> None:
    """Until it is ended."""
    provider = StrictProvider()
    async with serving(provider.behave) as server:
        print(server.url, flush=True)  # noqa: T201 - whoever started it reads it
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
