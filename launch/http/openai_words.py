"""OpenAI's requests as far as a session can answer them, and its answers. Pure; what is not kept is refused or named.

Refused, because the answer would be another one than was asked for: several choices, log probabilities, images and
audio, tools that are no functions. Not kept, and named in the header `x-hobus-ignored`: sampling settings, which the
cluster's configuration decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from hobus.bus.messages.base import Chosen
from hobus.bus.messages.session import SessionConfig, TurnResult
from hobus.config.schema import SessionsConfig
from hobus.config.snapshot import Snapshot
from hobus.launch.http import caller_words, form_words
from hobus.launch.http.problems import Problem
from hobus.launch.http.transcript import Called, Said

_IGNORED = frozenset(
    {
        "temperature", "top_p", "presence_penalty", "frequency_penalty", "seed", "stop", "logit_bias", "store",
        "service_tier", "top_k", "truncation", "parallel_tool_calls", "verbosity", "prediction",
    }
)  # fmt: skip
_REFUSED = frozenset(
    {"functions", "function_call", "audio", "web_search_options", "background", "conversation", "prompt"}
)
_EFFORTS = {"minimal": "Low", "low": "Low", "medium": "Medium", "high": "High"}
_RESPONSE_ID = re.compile(r"resp_([0-9a-f]{32})([0-9a-f]{16})")


class _Words(BaseModel):
    """Unknown keys are looked at one by one: `check`."""

    model_config = ConfigDict(extra="allow", frozen=True)


class Part(_Words):
    """A piece of a message's content."""

    type: str
    text: str | None = None
    refusal: str | None = None


class Function(_Words):
    """What a call asks for."""

    name: str
    arguments: str


class FunctionCall(_Words):
    """A call in a transcript."""

    id: str
    function: Function


class ChatMessage(_Words):
    """One message of a transcript."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None
    refusal: str | None = None
    tool_calls: list[FunctionCall] | None = None
    tool_call_id: str = ""

    def said(self, place: str) -> Said:
        """Its words. Raises Problem for what are none."""
        if (self.role == "tool") != bool(self.tool_call_id):
            raise Problem(400, "invalid_input", "a tool's message names its call", param=f"{place}.tool_call_id")
        calls = tuple(Called(call.id, call.function.name, call.function.arguments) for call in self.tool_calls or ())
        role = "system" if self.role == "developer" else self.role
        return Said(role, _text_of(self.content, place) or self.refusal or "", calls, self.tool_call_id)


class InputItem(_Words):
    """One item of a response's input: a message, a call, or what a call brought."""

    type: str = "message"
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: str | list[Part] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: str | list[Part] = ""

    def added_to(self, said: list[Said], place: str) -> list[Said]:
        """The transcript with it: calls are part of the message that asks for them. Raises Problem."""
        match self.type:
            case "message" if self.role is not None:
                role = "system" if self.role == "developer" else self.role
                return [*said, Said(role, _text_of(self.content, place))]
            case "function_call" if self.call_id:
                call = Called(self.call_id, self.name, self.arguments)
                if said and said[-1].role == "assistant":
                    return [*said[:-1], said[-1]._replace(calls=(*said[-1].calls, call))]
                return [*said, Said("assistant", "", (call,))]
            case "function_call_output" if self.call_id:
                return [*said, Said("tool", _text_of(self.output, place), call_id=self.call_id)]
            case "reasoning":
                return said
            case _:
                raise _unsupported(place, f"an item of the type {self.type[:40]!r}")


class Metadata(_Words):
    """What a client may say besides."""

    session_id: str | None = None


class _Request(_Words):
    """What both APIs say."""

    model: str
    modalities: list[str] | None = None


class ChatRequest(_Request):
    """`POST /v1/chat/completions`."""

    messages: list[ChatMessage]
    response_format: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    stream: bool | None = False
    stream_options: dict[str, Any] | None = None
    max_tokens: Chosen | None = None
    max_completion_tokens: Chosen | None = None
    reasoning_effort: str | None = None
    n: int | None = 1
    metadata: Metadata | None = None
    user: str | None = None

    def form(self, limits: SessionsConfig) -> dict[str, Any] | None:
        """The schema of the answer; None: text. Raises Problem."""
        return form_words.schema_of(self.response_format, "response_format", limits, is_nested=True)

    def transcript(self, messages_max: int) -> list[Said]:
        """Its messages, the user's or results of calls last. Raises Problem."""
        if len(self.messages) > messages_max:
            raise Problem(413, "too_large", f"at most {messages_max} messages (http.messages_max)", param="messages")
        said = [message.said(f"messages.{number}") for number, message in enumerate(self.messages)]
        return _asking(said, "messages")


class Reasoning(_Words):
    """How hard the model shall think."""

    effort: str | None = None


class ResponsesRequest(_Request):
    """`POST /v1/responses`."""

    input: str | list[InputItem]
    text: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    stream: bool | None = False
    max_output_tokens: Chosen | None = None
    reasoning: Reasoning | None = None
    metadata: Metadata | None = None
    user: str | None = None

    def form(self, limits: SessionsConfig) -> dict[str, Any] | None:
        """The schema of the answer; None: text. Raises Problem."""
        return form_words.schema_of((self.text or {}).get("format"), "text.format", limits, is_nested=False)

    def transcript(self, messages_max: int) -> list[Said]:
        """Its messages, the user's or results of calls last. Raises Problem."""
        given = [InputItem(role="user", content=self.input)] if isinstance(self.input, str) else self.input
        if len(given) > messages_max:
            raise Problem(413, "too_large", f"at most {messages_max} messages (http.messages_max)", param="input")
        said = [Said("system", self.instructions)] if self.instructions else []
        for number, item in enumerate(given):
            said = item.added_to(said, f"input.{number}")
        return _asking(said, "input")


def _asking(said: list[Said], param: str) -> list[Said]:
    if not said or said[-1].role not in ("user", "tool"):
        raise Problem(
            400,
            "invalid_input",
            "the last message is the user's, or results of calls: it is what is answered",
            param=param,
        )
    return said


def _text_of(content: str | list[Part] | None, place: str) -> str:
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for part in content or []:
        text = part.refusal if part.type == "refusal" else part.text
        if part.type not in ("text", "input_text", "output_text", "refusal") or text is None:
            raise _unsupported(f"{place}.content", f"content of the type {part.type[:40]!r}: text alone")
        texts.append(text)
    return "".join(texts)


def _unsupported(param: str, what: str) -> Problem:
    return Problem(400, "unsupported_parameter", f"not supported here: {what}", param=param)


def check(request: ChatRequest | ResponsesRequest) -> list[str]:
    """The names of what is not kept. Raises Problem for what would change what the answer is."""
    extra: Mapping[str, Any] = request.model_extra or {}
    for name in sorted(_REFUSED & extra.keys()):
        if extra[name]:
            raise _unsupported(name, name)
    if isinstance(request, ChatRequest) and request.n not in (None, 1):
        raise _unsupported("n", "several choices: a turn has one answer")
    if extra.get("logprobs") or extra.get("top_logprobs"):
        raise _unsupported("logprobs", "log probabilities")
    other = "text" if isinstance(request, ChatRequest) else "response_format"
    if extra.get(other):
        raise _unsupported(other, f"{other} in this API: the form of an answer has another field")
    if any(kind != "text" for kind in request.modalities or ()):
        raise _unsupported("modalities", "anything but text")
    return sorted(_IGNORED & extra.keys())


# --- models ---------------------------------------------------------------------------------------------------------


def models_of(snapshot: Snapshot) -> dict[str, tuple[str | None, SessionConfig | None]]:
    """Id -> agent and overrides: each agent by its id, and each model, asked by the default one."""
    found: dict[str, tuple[str | None, SessionConfig | None]] = {
        agent_id: (agent_id, None) for agent_id in sorted(snapshot.agents)
    }
    for provider_id, provider in sorted(snapshot.config.gateway.providers.items()):
        for model in provider.models:
            config = SessionConfig(provider=provider_id, model=model.model_id)
            found[f"{provider_id}/{model.model_id}"] = (None, config)
    return found


def chosen(snapshot: Snapshot, request: ChatRequest | ResponsesRequest) -> tuple[str | None, SessionConfig | None]:
    """Agent and overrides of a request. Raises Problem for a model that is none."""
    known = models_of(snapshot)
    if request.model not in known:
        # Not said again: clients log errors, and what is no model may be anything, a key too.
        raise Problem(404, "model_not_found", "no such model; GET /v1/models lists them", param="model")
    agent_id, config = known[request.model]
    changes: dict[str, Any] = {}
    tools, choice = caller_words.tools_of(request.tools, request.tool_choice)
    if tools:
        changes |= {"caller_tools": tools, "tool_choice": choice}
    if (schema := request.form(snapshot.config.sessions)) is not None:
        changes["output_schema"] = schema
    if isinstance(request, ChatRequest):
        limit, effort = request.max_completion_tokens or request.max_tokens, request.reasoning_effort
    else:
        limit, effort = request.max_output_tokens, request.reasoning.effort if request.reasoning else None
    if limit is not None:
        changes["max_tokens"] = limit
    if effort is not None:
        if effort not in _EFFORTS:
            raise _unsupported("reasoning_effort", f"reasoning effort {effort[:20]!r}")
        changes["reasoning_effort"] = _EFFORTS[effort]
    if not changes:
        return agent_id, config
    return agent_id, (config or SessionConfig()).model_copy(update=changes)


# --- answers --------------------------------------------------------------------------------------------------------


def ours(result: TurnResult) -> dict[str, Any]:
    """What stands beside OpenAI's own fields."""
    return {
        "session_id": result.session_id,
        "run_id": None if result.run_id is None else str(result.run_id),
        "input_id": result.input_id,
        "outcome": result.outcome,
        **({"reason": result.reason} if result.reason else {}),
    }


def usage_of(result: TurnResult) -> dict[str, Any]:
    """All model calls of the turn together."""
    cost = result.cost
    return {
        "prompt_tokens": cost.input_tokens, "completion_tokens": cost.output_tokens, "total_tokens": cost.total_tokens,
        "prompt_tokens_details": {"cached_tokens": cost.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": cost.reasoning_tokens},
    }  # fmt: skip


def completion_id(session_id: str, input_id: str) -> str:
    """The same for the same turn, however often it is asked for."""
    return f"chatcmpl-{sha256(f'{session_id}/{input_id}'.encode()).hexdigest()[:29]}"


def completion(result: TurnResult, *, model: str, created: int, wants_form: bool) -> dict[str, Any]:
    """A whole chat completion."""
    calls = result.caller_calls
    message: dict[str, Any] = {"role": "assistant", "content": result.response, "refusal": None}
    if form_words.is_refusal(result, wants_form=wants_form):
        message |= {"content": None, "refusal": result.response}
    elif calls:
        message |= {"content": result.response or None, "tool_calls": caller_words.tool_calls(calls)}
    return {
        "id": completion_id(result.session_id, result.input_id), "object": "chat.completion", "created": created,
        "model": model, "usage": usage_of(result),
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(result)}],
        **ours(result),
    }  # fmt: skip


def finish_reason(result: TurnResult) -> str:
    """Why an answer ends."""
    return "tool_calls" if result.caller_calls else "stop"


def chunk(
    completion: str, *, model: str, created: int, delta: dict[str, Any] | None, finish: str | None = None, **more: Any
) -> dict[str, Any]:
    """One chunk of a streamed chat completion; without a delta it has no choice."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
    return {
        "id": completion, "object": "chat.completion.chunk", "created": created, "model": model, "choices": choices,
        **more,
    }  # fmt: skip


def response_id(session_id: str, input_id: str) -> str:
    """Names the session and the input: `previous_response_id` needs no memory of a door."""
    return f"resp_{session_id.replace('-', '')}{sha256(input_id.encode()).hexdigest()[:16]}"


def session_in(previous: str) -> str:
    """The session that a response id names. Raises Problem."""
    match = _RESPONSE_ID.fullmatch(previous)
    if match is None:
        raise Problem(404, "not_found", "no such response", param="previous_response_id")
    half = match[1]
    return "-".join((half[:8], half[8:12], half[12:16], half[16:20], half[20:]))


def response(
    identity: str, *, created: int, text: str | None, result: TurnResult | None, request: ResponsesRequest
) -> dict[str, Any]:
    """A response: begun (no text yet) or whole."""
    form = (request.text or {}).get("format") or {"type": "text"}
    is_refusal = result is not None and form_words.is_refusal(result, wants_form=form["type"] != "text")
    usage = None
    if result is not None:
        counted = usage_of(result)
        usage = {
            "input_tokens": counted["prompt_tokens"], "output_tokens": counted["completion_tokens"],
            "total_tokens": counted["total_tokens"], "input_tokens_details": counted["prompt_tokens_details"],
            "output_tokens_details": counted["completion_tokens_details"],
        }  # fmt: skip
    return {
        "id": identity, "object": "response", "created_at": created, "model": request.model,
        "status": "in_progress" if text is None else "completed", "error": None, "incomplete_details": None,
        "instructions": request.instructions, "metadata": {}, "parallel_tool_calls": False, "temperature": None,
        "tool_choice": "none", "tools": [], "top_p": None, "previous_response_id": request.previous_response_id,
        "output": [] if text is None else output_of(identity, text, result, is_refusal=is_refusal), "usage": usage,
        "text": {"format": form},
        **({} if result is None else ours(result)),
    }  # fmt: skip


def output_of(identity: str, text: str, result: TurnResult | None, *, is_refusal: bool) -> list[dict[str, Any]]:
    """The items of a whole response: its message, unless there are calls and nothing was said, and the calls."""
    calls = [] if result is None else [caller_words.call_item(call) for call in result.caller_calls]
    return [output_item(identity, text, is_refusal=is_refusal), *calls] if text or not calls else calls


def output_item(identity: str, text: str | None, *, is_refusal: bool = False) -> dict[str, Any]:
    """The one message of a response."""
    content: Iterable[dict[str, Any]] = [] if text is None else [output_part(text, is_refusal=is_refusal)]
    return {
        "id": f"msg_{identity[5:]}", "type": "message", "role": "assistant", "content": list(content),
        "status": "in_progress" if text is None else "completed",
    }  # fmt: skip


def output_part(text: str, *, is_refusal: bool = False) -> dict[str, Any]:
    """The one part of that message."""
    if is_refusal:
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
