"""`/v1/embeddings`: texts as vectors, by a model that makes them. No session and no memory: calls of the gateway."""

from __future__ import annotations

import asyncio
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hobus.bus.messages.gateway import Embed, PromptResponse
from hobus.bus.messages.session import ModelChoice
from hobus.bus.text import is_blank
from hobus.config.model_choice import choose_model
from hobus.config.snapshot import Snapshot
from hobus.launch.http import limits, turns
from hobus.launch.http.context import Door
from hobus.launch.http.openai_api import get_door, get_principal, make_ignored_header, on_behalf_of, read
from hobus.launch.http.openai_requests import Positive, Words, find_model, list_unused
from hobus.launch.http.problems import Problem, convert_code
from hobus.launch.http.sse import run_until_gone, wait_disconnected


class EmbeddingsRequest(Words):
    """`POST /v1/embeddings`."""

    model: str
    input: str | list[str | int | list[int]]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Positive | None = None
    user: str | None = None

    def texts(self, text_max_bytes: int) -> list[str]:
        """Return each text that is wanted as a vector. Raises Problem."""
        given = [self.input] if isinstance(self.input, str) else self.input
        if not given:
            raise Problem(400, "invalid_input", "the list is empty: at least one text", param="input")
        if len(given) > limits.EMBEDDED_MAX:
            said = f"{len(given)} texts; at most {limits.EMBEDDED_MAX} are taken at once: send several requests"
            raise Problem(413, "too_large", said, param="input")
        found: list[str] = []
        for number, text in enumerate(given):
            if not isinstance(text, str):
                said = "not supported here: tokens; send texts (LangChain: check_embedding_ctx_length=False)"
                raise Problem(400, "unsupported_parameter", said, param="input")
            if is_blank(text):
                raise Problem(400, "invalid_input", "the text is blank", param=f"input.{number}")
            if (size := len(text.encode())) > text_max_bytes:
                said = f"the text has {size} bytes; at most {text_max_bytes} are taken (host.prompt_max_bytes): part it"
                raise Problem(413, "too_large", said, param=f"input.{number}")
            found.append(text)
        return found


async def embeddings(request: Request) -> Response:
    """`POST /v1/embeddings`."""
    body = await read(request, EmbeddingsRequest)
    with on_behalf_of(request, body.user):
        door = get_door(request)
        door.require_room(get_principal(request))
        texts = body.texts(door.config.host.prompt_max_bytes)
        agent_id, model = _choose_model(door.snapshot, body.model, door.config.host.agent_id)
        input_id, _ = turns.choose_input_id(request.headers.get("idempotency-key"), door.bus.new_id())
        session_id = door.ownership.session_id(get_principal(request), f"embeddings/{input_id}")
        asked = [
            Embed(
                texts=some, vector_numbers=body.dimensions or 0, agent_id=agent_id, session_id=session_id,
                provider_id=model.provider, model_id=model.model,
                idempotency_key=f"EMB-{session_id}#{number}", config_digest=door.snapshot.digest,
            )
            for number, some in enumerate(_part_texts(texts), 1)
        ]  # fmt: skip
        timeout_s = turns.choose_timeout(request.headers, door.config.host)
        parts = await run_until_gone(_ask_all(door, asked, timeout_s), partial(wait_disconnected, request.receive))
        vectors = chain.from_iterable(
            _split_vectors(part.content, len(one.texts)) for one, part in zip(asked, parts, strict=True)
        )
        told = [
            {"object": "embedding", "index": number, "embedding": _format_vector(vector, body.encoding_format)}
            for number, vector in enumerate(vectors)
        ]
        used = sum(part.input_tokens for part in parts)
        usage = {"prompt_tokens": used, "total_tokens": used}
        answer = {"object": "list", "data": told, "model": body.model, "usage": usage}
        return JSONResponse(answer, headers=make_ignored_header(list_unused(body)))


def _choose_model(snapshot: Snapshot, name: str, default_agent: str) -> tuple[str, ModelChoice]:
    """Return agent and model, which is known by its name alone, too, if no other has that. Raises Problem."""
    gateway = snapshot.config.gateway
    known = [provider_id for provider_id, one in gateway.providers.items() if name in [m.model_id for m in one.models]]
    agent_id, named = find_model(snapshot, f"{known[0]}/{name}" if len(known) == 1 else name)
    agent = agent_id or default_agent
    return agent, choose_model(gateway, snapshot.agents[agent], None, request=named)


def _part_texts(texts: list[str]) -> Iterator[list[str]]:
    """Yield the texts in order, as many to a call as its answer has room for."""
    some: list[str] = []
    size = 0
    for text in texts:
        size += len(text.encode())
        if some and (len(some) == limits.EMBEDDED_AT_ONCE or size > limits.EMBEDDED_BYTES_AT_ONCE):
            yield some
            some, size = [], len(text.encode())
        some.append(text)
    yield some


async def _ask_all(door: Door, asked: list[Embed], timeout_s: float) -> list[PromptResponse]:
    """Return each call's vectors, in order; where one fails the others are cancelled. Raises Problem, RuntimeFault."""
    try:
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(_ask_one(door, one, timeout_s)) for one in asked]
    except ExceptionGroup as faults:
        raise faults.exceptions[0] from None
    return [call.result() for call in calls]


async def _ask_one(door: Door, wanted: Embed, timeout_s: float) -> PromptResponse:
    """Return one call's vectors. Raises Problem, RuntimeFault."""
    told = await door.bus.request("host", wanted, expect=PromptResponse, timeout_s=timeout_s, trace=wanted.session_id)
    if told.outcome != "SUCCESS":
        raise convert_code(told.error_code, told.error_message, retry_after_ms=told.retry_after_ms)
    return told


def _split_vectors(content: str, count: int) -> Iterator[bytes]:
    data = b64decode(content)
    size = len(data) // count
    return (data[start : start + size] for start in range(0, len(data), size))


def _format_vector(vector: bytes, form: str | None) -> Any:
    return b64encode(vector).decode() if form == "base64" else array("f", vector).tolist()
