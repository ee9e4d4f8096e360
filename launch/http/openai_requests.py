"""OpenAI's requests as far as a session can answer them. Pure; what is not kept is refused or named.

Refused, because the answer would be another one than was asked for: several choices, log probabilities, files and
audio, tools that are no functions (a tool is one that the client runs, docs/sessions.md). Named in the header
`x-hobus-ignored`: every field that nothing here uses, sampling where the agent does not take it, and a cap above that
of its contract, which holds.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import ValidationError, convert
from pydantic import BaseModel, ConfigDict, Field

from hobus.bus.messages.base import SENDABLE_MAX, locate_fault
from hobus.bus.messages.session import CallResult, SessionConfig
from hobus.bus.messages.work_order import Sampling, ToolChoice, ToolSpec
from hobus.config.json_schema import find_schema_fault
from hobus.config.prompt_contracts import get_contract_id
from hobus.config.snapshot import Snapshot
from hobus.launch.http import limits
from hobus.launch.http.problems import Problem
from hobus.launch.http.transcript import Called, TranscriptMessage, is_image_left_out, list_new_images
from hobus.launch.sessions.images import GivenImage, make_image

_REFUSED = frozenset(
    {"functions", "function_call", "audio", "web_search_options", "background", "conversation", "prompt"}
)
_EFFORTS = {"minimal": "Low", "low": "Low", "medium": "Medium", "high": "High"}
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PLACE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_IMAGES = frozenset({"image_url", "input_image"})
_DATA_URL = re.compile(r"data:image/[a-z0-9+.-]{1,40}(?:;[a-z0-9=_.-]{1,80})*;base64,", re.IGNORECASE)
_TEXTS = frozenset({"text", "input_text"})
_TEXTS_OF_A_MODEL = frozenset({"output_text", "refusal"})
"""In a message of its own; in the user's they would be taken for the person's words."""


Positive = Annotated[int, Field(ge=1, le=SENDABLE_MAX)]


class Words(BaseModel):
    """Unknown keys are looked at one by one: `check`."""

    model_config = ConfigDict(extra="allow", frozen=True)


class ContentPart(Words):
    """A piece of a message's content."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | dict[str, Any] | None = None

    def image(self, place: str) -> GivenImage:
        """Return the image of the part's data URL. Raises Problem."""
        url = self.image_url.get("url") if isinstance(self.image_url, dict) else self.image_url
        if not isinstance(url, str) or (head := _DATA_URL.match(url)) is None:
            raise _make_unsupported(
                f"{place}.image_url",
                "an image by its address, or by file id: send its bytes, data:image/...;base64,...",
            )
        try:
            image = make_image(b64decode("".join(url[head.end() :].split()), validate=True))
        except ValueError as fault:
            said = str(fault) if "models" in str(fault) else "the bytes are no base64"
            raise _make_invalid(f"{place}.image_url", said) from None
        if len(image.data) > limits.IMAGE_MAX_BYTES:
            said = f"the image has {len(image.data)} bytes; at most {limits.IMAGE_MAX_BYTES} are taken: make it smaller"
            raise Problem(413, "too_large", said, param=f"{place}.image_url")
        return image


class Function(Words):
    """What a call asks for."""

    name: str
    arguments: str


class FunctionCall(Words):
    """A call in a transcript."""

    id: str
    type: str = "function"
    function: Function


class ChatMessage(Words):
    """One message of a transcript."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = None
    refusal: str | None = None
    tool_calls: list[FunctionCall] | None = None
    tool_call_id: str = ""

    def said(self, place: str) -> TranscriptMessage:
        """Return the message's words. Raises Problem for what are none."""
        if (self.role == "tool") != bool(self.tool_call_id):
            raise _make_invalid(f"{place}.tool_call_id", "a tool's message names its call")
        calls = tuple(Called(call.id, call.function.name, call.function.arguments) for call in self.tool_calls or ())
        role = "system" if self.role == "developer" else self.role
        refusal = self.refusal or "" if self.role == "assistant" else ""
        text, images = _read_content(self.content, role, place)
        return TranscriptMessage(role, text or refusal, calls, self.tool_call_id, images)


class InputItem(Words):
    """One item of a response's input: a message, a call, or what a call brought."""

    type: str = "message"
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: str | list[ContentPart] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: str | list[ContentPart] = ""

    def add_to(self, said: list[TranscriptMessage], place: str) -> list[TranscriptMessage]:
        """Return the transcript with it: calls are part of the message that asks for them. Raises Problem."""
        match self.type:
            case "message" if self.role is not None:
                role = "system" if self.role == "developer" else self.role
                text, images = _read_content(self.content, role, place)
                return [*said, TranscriptMessage(role, text, images=images)]
            case "function_call" if self.call_id:
                call = Called(self.call_id, self.name, self.arguments)
                if said and said[-1].role == "assistant":
                    return [*said[:-1], said[-1]._replace(calls=(*said[-1].calls, call))]
                return [*said, TranscriptMessage("assistant", "", (call,))]
            case "function_call_output" if self.call_id:
                return [
                    *said,
                    TranscriptMessage("tool", _read_content(self.output, "tool", place)[0], call_id=self.call_id),
                ]
            case "reasoning":
                return said
            case _:
                raise _make_unsupported(place, f"an item of the type {self.type[:40]!r}")


class Metadata(Words):
    """What a client may say besides."""

    session_id: str | None = None


class _Request(Words):
    """What both APIs say."""

    model: str
    modalities: list[str] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    stream: bool | None = False
    metadata: Metadata | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    user: str | None = None
    safety_identifier: str | None = None


class ChatRequest(_Request):
    """`POST /v1/chat/completions`."""

    messages: list[ChatMessage]
    response_format: dict[str, Any] | None = None
    stream_options: dict[str, Any] | None = None
    max_tokens: Positive | None = None
    max_completion_tokens: Positive | None = None
    reasoning_effort: str | None = None
    n: int | None = 1

    @property
    def cap_and_effort(self) -> tuple[int | None, str | None]:
        """Return the tokens of the answer at most, and how hard the model shall think."""
        return self.max_completion_tokens or self.max_tokens, self.reasoning_effort

    def form(self) -> dict[str, Any] | None:
        """Return the schema of the answer; None: text. Raises Problem."""
        return read_schema(self.response_format, "response_format", is_nested=True)

    def transcript(self) -> list[TranscriptMessage]:
        """Return the messages, the user's or results of calls last. Raises Problem."""
        _check_count(self.messages, "messages")
        said = [message.said(f"messages.{number}") for number, message in enumerate(self.messages)]
        return _require_asking(said, "messages")


class Reasoning(Words):
    """How hard the model shall think."""

    effort: str | None = None


class ResponsesRequest(_Request):
    """`POST /v1/responses`."""

    input: str | list[InputItem]
    text: dict[str, Any] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    max_output_tokens: Positive | None = None
    reasoning: Reasoning | None = None

    @property
    def cap_and_effort(self) -> tuple[int | None, str | None]:
        """Return the tokens of the answer at most, and how hard the model shall think."""
        return self.max_output_tokens, self.reasoning.effort if self.reasoning else None

    def form(self) -> dict[str, Any] | None:
        """Return the schema of the answer; None: text. Raises Problem."""
        return read_schema((self.text or {}).get("format"), "text.format", is_nested=False)

    def transcript(self) -> list[TranscriptMessage]:
        """Return the messages, the user's or results of calls last. Raises Problem."""
        given = [InputItem(role="user", content=self.input)] if isinstance(self.input, str) else self.input
        _check_count(given, "input")
        said = [TranscriptMessage("system", self.instructions)] if self.instructions else []
        for number, item in enumerate(given):
            said = item.add_to(said, f"input.{number}")
        return _require_asking(said, "input")


def _check_count(messages: Sequence[object], param: str) -> None:
    if len(messages) > limits.MESSAGES_MAX:
        raise Problem(413, "too_large", f"at most {limits.MESSAGES_MAX} messages", param=param)


def _require_asking(said: list[TranscriptMessage], param: str) -> list[TranscriptMessage]:
    if not said or said[-1].role not in ("user", "tool"):
        raise _make_invalid(param, "the last message is the user's, or results of calls: it is what is answered")
    if (size := sum(len(image.data) for image in list_new_images(said))) > limits.IMAGES_MAX_BYTES:
        most = f"at most {limits.IMAGES_MAX_BYTES} are taken with one message: send fewer or smaller ones"
        raise Problem(413, "too_large", f"the images have {size} bytes; {most}", param=param)
    return said


def _read_content(content: str | list[ContentPart] | None, role: str, place: str) -> tuple[str, tuple[GivenImage, ...]]:
    """Return the text, in which each image has its sentence, and the images. Raises Problem for what is neither."""
    if isinstance(content, str):
        return content, ()
    images: list[GivenImage] = []
    kinds = _TEXTS | _TEXTS_OF_A_MODEL if role in ("assistant", "tool") else _TEXTS
    texts: list[str] = []
    for number, part in enumerate(content or []):
        if part.type in _IMAGES and role == "user":
            images.append(part.image(f"{place}.content.{number}"))
            texts.append(images[-1].told)
            continue
        text = part.refusal if part.type == "refusal" else part.text
        if part.type not in kinds or text is None:
            raise _make_unsupported(f"{place}.content", f"content of the type {part.type[:40]!r} of role {role}")
        texts.append(text)
    # Each is a text of its own: no word of one runs into one of the next.
    return "\n".join(filter(None, texts)), tuple(images)


def _make_invalid(param: str, said: str) -> Problem:
    return Problem(400, "invalid_input", said, param=param)


def _make_unsupported(param: str, what: str) -> Problem:
    return Problem(400, "unsupported_parameter", f"not supported here: {what}", param=param)


def check(request: ChatRequest | ResponsesRequest) -> list[str]:
    """Return the names of `unused` fields. Raises Problem for what would change what the answer is."""
    extra: Mapping[str, Any] = request.model_extra or {}
    for name in sorted(_REFUSED & extra.keys()):
        if extra[name]:
            raise _make_unsupported(name, name)
    if isinstance(request, ChatRequest) and request.n not in (None, 1):
        raise _make_unsupported("n", "several choices: a turn has one answer")
    if extra.get("logprobs") or extra.get("top_logprobs"):
        raise _make_unsupported("logprobs", "log probabilities")
    other = "text" if isinstance(request, ChatRequest) else "response_format"
    if extra.get(other):
        raise _make_unsupported(other, f"{other} in this API: the form of an answer has another field")
    if any(kind != "text" for kind in request.modalities or ()):
        raise _make_unsupported("modalities", "anything but text")
    return list_unused(request)


def list_unused(request: Words) -> list[str]:
    """Return the names of what a request says, at any depth, and nothing here reads (`messages.name`)."""
    return sorted(set(_list_unused(request, "")))[: limits.UNUSED_NAMED_MAX]


_READ = {"stream_options": {"include_usage"}, "text": {"format"}, "image_url": {"url"}}
"""Of objects that are taken as they are, the keys that are read."""


def _list_unused(said: Words, place: str) -> Iterator[str]:
    left = dict(said.model_extra or {})
    for name in type(said).model_fields:
        inner = getattr(said, name)
        for one in inner if isinstance(inner, list) else [inner]:
            if isinstance(one, Words):
                yield from _list_unused(one, f"{place}{name}.")
            elif isinstance(one, dict) and name in _READ:
                left |= {f"{name}.{key}": value for key, value in one.items() if key not in _READ[name]}
    yield from (f"{place}{name}" for name, value in left.items() if value is not None and _PLACE.fullmatch(name))


# --- the form of an answer ------------------------------------------------------------------------------------------


def read_schema(wanted: Any, param: str, *, is_nested: bool) -> dict[str, Any] | None:
    """Return the schema that the answer is to take; None: text. Raises Problem, which names the field.

    `is_nested`: what describes a schema stands in a field of its own, as in chat completions.
    """
    match wanted:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return {"type": "object"}
        case {"type": "json_schema", "json_schema": dict(described)} if is_nested:
            return _read_described(described, f"{param}.json_schema")
        case {"type": "json_schema"} if not is_nested:
            return _read_described(wanted, param)
        case {"type": "json_schema"}:
            raise _make_invalid(f"{param}.json_schema", "an object with a name and a schema")
        case {"type": kind}:
            raise _make_unsupported(f"{param}.type", f"the form {str(kind)[:40]!r}: text, json_object or json_schema")
        case _:
            raise _make_invalid(param, "an object with a type")


def _read_described(described: dict[str, Any], place: str) -> dict[str, Any]:
    """Return the schema, to which every answer is held, `strict` or not; a description is for the model."""
    name, schema, strict = described.get("name"), described.get("schema"), described.get("strict")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise _make_invalid(f"{place}.name", "1 to 64 letters, digits, `-` and `_`")
    if strict is not None and not isinstance(strict, bool):
        raise _make_invalid(f"{place}.strict", "true or false")
    if not isinstance(schema, dict):
        raise _make_invalid(f"{place}.schema", "a JSON Schema is missing")
    if (description := described.get("description")) is not None:
        if not isinstance(description, str):
            raise _make_invalid(f"{place}.description", "a text")
        schema = {"description": description, **schema}
    if fault := find_schema_fault(schema):
        raise _make_invalid(f"{place}.schema", f"the schema {fault}")
    return schema


# --- tools of the caller --------------------------------------------------------------------------------------------


def read_tools(tools: Any, choice: Any) -> tuple[list[ToolSpec], ToolChoice]:
    """Return the tools that a turn is offered, and whether it has to call one. Raises Problem."""
    if not tools and choice not in (None, "auto", "none"):
        raise _make_invalid("tool_choice", "it demands a call, and there are no tools")
    if choice == "none" or not tools:
        return [], "auto"
    if not isinstance(tools, list):
        raise _make_invalid("tools", "tools is a list")
    offered = [_read_tool(tool, f"tools.{number}") for number, tool in enumerate(tools)]
    match choice:
        case None | "auto":
            return offered, "auto"
        case "required":
            return offered, "required"
        case {"type": "function", "function": {"name": name}} | {"type": "function", "name": name}:
            named = [tool for tool in offered if tool.tool_id == name]
            if not named:
                raise _make_invalid("tool_choice", "it names none of the tools")
            return named, "required"
        case _:
            raise _make_unsupported("tool_choice", "a choice other than none, auto, required, or one function")


def _read_tool(tool: Any, place: str) -> ToolSpec:
    """Return a tool; chat completions put the function into a field of its own, responses do not."""
    kind = tool.get("type") if isinstance(tool, dict) else None
    if kind != "function":
        raise _make_unsupported(place, f"a tool of the type {str(kind)[:40]!r}: functions alone")
    function = tool.get("function", tool)
    if not isinstance(function, dict):
        raise _make_invalid(place, "a function is an object")
    fields = [function.get(name, default) for name, default in (("name", ""), ("description", ""), ("parameters", {}))]
    name, description, parameters = fields
    if not isinstance(name, str) or not isinstance(description or "", str) or not isinstance(parameters or {}, dict):
        raise _make_invalid(place, "a function has a name, a description and parameters")
    return ToolSpec(tool_id=name, description=description or "", parameters=parameters or {})


def list_results(said: Sequence[TranscriptMessage]) -> list[CallResult]:
    """Return the results that a transcript ends with; none where it ends with a message."""
    results: list[CallResult] = []
    for one in reversed(said):
        if one.role != "tool":
            break
        results.insert(0, CallResult(tool_call_id=one.call_id, content=one.text))
    return results


# --- models ---------------------------------------------------------------------------------------------------------


def map_models(snapshot: Snapshot) -> dict[str, tuple[str | None, SessionConfig | None]]:
    """Map id to agent and overrides: each agent by its id, and each model, asked by the default one."""
    found: dict[str, tuple[str | None, SessionConfig | None]] = {
        agent_id: (agent_id, None) for agent_id in sorted(snapshot.agents)
    }
    for provider_id, provider in sorted(snapshot.config.gateway.providers.items()):
        for model in provider.models:
            config = SessionConfig(provider=provider_id, model=model.model_id)
            found[f"{provider_id}/{model.model_id}"] = (None, config)
    return found


def find_model(snapshot: Snapshot, name: str) -> tuple[str | None, SessionConfig | None]:
    """Return agent and model of `AGENT`, `PROVIDER/MODEL`, `AGENT/MODEL` or `AGENT/PROVIDER/MODEL`.

    Any of a provider that takes others than are configured. Raises Problem for an unknown model.
    """
    known = map_models(snapshot)
    prefix, _, model = name.partition("/")
    if name not in known and prefix in snapshot.agents and model:
        known = {name: (prefix, SessionConfig(model=model))}
    instance = snapshot.config.gateway.providers.get(prefix)
    if name not in known and instance is not None and instance.any_model and model.strip():
        known = {name: (None, SessionConfig(provider=prefix, model=model))}
    if name not in known:
        # Not said again: clients log errors, and what is no model may be anything, a key too.
        raise Problem(404, "model_not_found", "no such model; GET /v1/models lists them", param="model")
    return known[name]


def choose_agent(
    snapshot: Snapshot, request: ChatRequest | ResponsesRequest
) -> tuple[str | None, SessionConfig | None]:
    """Return agent and overrides of a request. Raises Problem, also for an unknown model."""
    agent_id, config = find_model(snapshot, request.model)
    changes: dict[str, Any] = {}
    tools, choice = read_tools(request.tools, request.tool_choice)
    if tools:
        changes |= {"caller_tools": tools, "tool_choice": choice}
    if (schema := request.form()) is not None:
        changes["output_schema"] = schema
    limit, effort = request.cap_and_effort
    if limit is not None:
        changes["max_tokens"] = limit
    if effort is not None:
        if effort not in _EFFORTS:
            raise _make_unsupported("reasoning_effort", f"reasoning effort {effort[:20]!r}")
        changes["reasoning_effort"] = _EFFORTS[effort]
    if (drawn := _read_sampling(request)) is not None:
        changes["sampling"] = drawn
    if not changes:
        return agent_id, config
    return agent_id, (config or SessionConfig()).model_copy(update=changes)


_DRAWN = ("temperature", "top_p", "seed", "stop")


def _read_sampling(request: ChatRequest | ResponsesRequest) -> Sampling | None:
    """Return how the answer is to be drawn; None: nothing is said. Raises Problem for what cannot be."""
    given = {name: value for name in _DRAWN if (value := getattr(request, name)) is not None}
    if isinstance(given.get("stop"), str):
        given["stop"] = [given["stop"]]
    try:
        return convert(given, Sampling) if given else None
    except ValidationError as error:
        raise _make_invalid(*locate_fault(error)) from None


_UNSENT = {"offline": _DRAWN, "anthropic": ("seed",)}
"""By kind of provider, besides what an instance omits."""
_CAPS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def list_not_taken(
    snapshot: Snapshot, agent_id: str, config: SessionConfig | None, request: ChatRequest | ResponsesRequest,
    said: Sequence[TranscriptMessage],
) -> list[str]:  # fmt: skip
    """Return what the request says and its agent, provider or model does not take.

    Of a cap, not all; on an errand, tools; of earlier messages, images that the model is not shown.
    """
    agent, gateway = snapshot.agents[agent_id], snapshot.config.gateway
    chosen = snapshot.choose_model_for(agent, "synthesize", request=config)
    instance, row = gateway.providers[chosen.provider], gateway.row(chosen.provider, chosen.model)
    images = f"{'messages' if isinstance(request, ChatRequest) else 'input'}.images"
    unsent = {*_UNSENT.get(instance.kind, ()), *getattr(instance, "omit", ())} if agent.takes_sampling else _DRAWN
    cap = snapshot.contracts[get_contract_id(agent, "synthesize")].boundary.max_tokens
    return [
        *(name for name in _DRAWN if name in unsent and getattr(request, name) is not None),
        *(name for name in _CAPS if (getattr(request, name, None) or 0) > cap),
        *(["tools"] if request.tools and agent.is_errand(said[-1].text) else []),
        *([images] if is_image_left_out(said, sees=row is not None and row.sees) else []),
    ]
