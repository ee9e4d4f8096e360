"""`/v1/models`, `/v1/chat/completions` and `/v1/responses`, over sessions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import structlog
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.session import SessionConfig, TurnResult
from hobus.launch.http import caller_words, transcript, turns
from hobus.launch.http import openai_words as words
from hobus.launch.http.context import Door
from hobus.launch.http.delivered import Delivered
from hobus.launch.http.form_words import is_refusal as is_refused
from hobus.launch.http.problems import Problem, of_fault, of_result
from hobus.launch.http.response_events import ResponseEvents
from hobus.launch.http.sse import PING, frame, streamed
from hobus.launch.http.transcript import Kept, Said
from hobus.launch.http.turns import Asked, Pieces
from hobus.launch.sessions.which import full_session_id

T = TypeVar("T")
W = TypeVar("W", bound=BaseModel)
_log = structlog.get_logger("http")
SESSION_HEADER = "x-hobus-session"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The turn behind a request, and under which id what is delivered is remembered; empty: it needs not be."""

    asked: Asked
    said: list[Said]
    agent_id: str
    is_by_transcript: bool
    goes_on: bool = False  # in a session that its transcript found


def door_of(request: Request) -> Door:
    """What all requests share."""
    door: Door = request.app.state.door
    return door


def principal_of(request: Request) -> str:
    """Whose request it is."""
    principal: str = request.scope["principal"]
    return principal


async def read(request: Request, cls: type[W]) -> W:
    """The body as this. Raises Problem, which names the field; ClientGone where it does not come whole."""
    try:
        return cls.model_validate_json(await request.body())
    except ClientDisconnect:
        raise turns.ClientGone from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])[:200]
        raise Problem(
            400, "invalid_input", f"{where}: {first['msg']}" if where else first["msg"], param=where or None
        ) from None


def session_id_in(door: Door, principal: str, given: str) -> str:
    """The full id of a session of this principal. Raises Problem: one of somebody else is one that is not there."""
    session_id = full_session_id(given)
    if session_id is None or not door.ownership.owns(principal, session_id):
        raise Problem(404, "session_not_found", "no such session of this key", param="session_id")
    return session_id


async def models(request: Request) -> Response:
    """`GET /v1/models`."""
    known = words.models_of(door_of(request).snapshot)
    rows = [{"id": name, "object": "model", "created": 0, "owned_by": "hobus"} for name in known]
    return JSONResponse({"object": "list", "data": rows})


async def model(request: Request) -> Response:
    """`GET /v1/models/{model}`."""
    name = request.path_params["model"]
    if name not in words.models_of(door_of(request).snapshot):
        raise Problem(404, "model_not_found", "no such model; GET /v1/models lists them", param="model")
    return JSONResponse({"id": name, "object": "model", "created": 0, "owned_by": "hobus"})


async def chat(request: Request) -> Response:
    """`POST /v1/chat/completions`."""
    door = door_of(request)
    body = await read(request, words.ChatRequest)
    ignored = words.check(body)
    said = body.transcript(door.config.http.messages_max)
    given = request.headers.get(SESSION_HEADER) or (body.metadata.session_id if body.metadata else None)
    agent_id, overrides = words.chosen(door.snapshot, body)
    key = request.headers.get("idempotency-key")
    chosen = await _choose(request, "chat", said, given=given, agent_id=agent_id, overrides=overrides, key=key)
    created = round(door.bus.now())
    if body.stream:
        wants_usage = bool((body.stream_options or {}).get("include_usage"))
        chosen, pieces = await _asked(request, chosen, turns.begun)
        frames = _chat_frames(door, chosen, pieces, model=body.model, created=created, wants_usage=wants_usage)
        return streamed(frames, _headers(chosen.asked, ignored))
    chosen, result = await _asked(request, chosen, _answered)
    await _keep(door, chosen, result.response, result)
    headers = _headers(chosen.asked, ignored) | {"x-hobus-outcome": result.outcome}
    whole = words.completion(result, model=body.model, created=created, wants_form=chosen.asked.wants_form)
    return JSONResponse(whole, headers=headers)


async def responses(request: Request) -> Response:
    """`POST /v1/responses`."""
    door = door_of(request)
    body = await read(request, words.ResponsesRequest)
    ignored = words.check(body)
    said = body.transcript(door.config.http.messages_max)
    given = request.headers.get(SESSION_HEADER) or (body.metadata.session_id if body.metadata else None)
    agent_id, overrides = words.chosen(door.snapshot, body)
    key = request.headers.get("idempotency-key")
    if body.previous_response_id is not None:
        given = session_id_in(door, principal_of(request), words.session_in(body.previous_response_id))
        said = _new(said)
    chosen = await _choose(request, "responses", said, given=given, agent_id=agent_id, overrides=overrides, key=key)
    if body.previous_response_id is not None:
        await _must_be_newest(door, chosen.asked, body.previous_response_id)
        chosen = _with_instructions(chosen)
    created = round(door.bus.now())
    if body.stream:
        chosen, pieces = await _asked(request, chosen, turns.begun)
        frames = _response_frames(door, chosen, pieces, body, created=created)
        return streamed(frames, _headers(chosen.asked, ignored))
    chosen, result = await _asked(request, chosen, _answered)
    await _keep(door, chosen, result.response, result)
    identity = words.response_id(result.session_id, result.input_id)
    return JSONResponse(
        words.response(identity, created=created, text=result.response, result=result, request=body),
        headers=_headers(chosen.asked, ignored) | {"x-hobus-outcome": result.outcome},
    )


async def _answered(door: Door, asked: Asked, gone: turns.Gone) -> TurnResult:
    """The turn's answer. Raises Problem also for the error that a turn ended in."""
    result = await turns.whole(door, asked, gone)
    if (problem := of_result(result)) is not None:
        raise problem
    return result


async def _asked(
    request: Request, chosen: Chosen, ask: Callable[[Door, Asked, turns.Gone], Awaitable[T]]
) -> tuple[Chosen, T]:
    """What the turn brings, and in which session.

    OpenAI's requests know no session: two that quote one transcript at once are both answered. The session of that
    transcript goes on with one of them; the other one is refused there, and begins a session of its own.
    """
    door, gone = door_of(request), gone_of(request)
    try:
        return chosen, await ask(door, chosen.asked, gone)
    except Problem as problem:
        if problem.code != "run_active" or not chosen.goes_on:
            raise
    anew = await _anew(door, chosen)
    return anew, await ask(door, anew.asked, gone)


def gone_of(request: Request) -> turns.Gone:
    """Returns when the client has gone; its body was read."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return gone


# --- which session ----------------------------------------------------------------------------------------------------


async def _choose(  # noqa: PLR0913 - what a choice rests on, each by its name
    request: Request,
    api: str,
    said: list[Said],
    *,
    given: str | None,
    agent_id: str | None,
    overrides: SessionConfig | None,
    key: str | None,
) -> Chosen:
    """By name, else by what was said; else a new one. Raises Problem, RuntimeFault."""
    door, principal = door_of(request), principal_of(request)
    agent = agent_id or door.config.host.agent_id
    input_id, comes_back = turns.input_of(key, door.bus.new_id())
    results = caller_words.results_in(said)
    asked = Asked(
        api=api, principal=principal, session_id="", input_id=input_id, text="" if results else said[-1].text,
        results=tuple(results), comes_back=comes_back, overrides=overrides, arrived=door.bus.clock.monotonic(),
        agent_id=agent_id,
    )  # fmt: skip
    if given is not None:
        session_id = session_id_in(door, principal, given)
        return Chosen(replace(asked, session_id=session_id), said, agent, is_by_transcript=False)
    session_id = await _by_transcript(door, agent, said[: -len(results) or -1], asked)
    if session_id is not None:
        return Chosen(replace(asked, session_id=session_id), said, agent, is_by_transcript=True, goes_on=True)
    return await _anew(door, Chosen(asked, said, agent, is_by_transcript=True))


async def _anew(door: Door, chosen: Chosen) -> Chosen:
    """The same in a session of its own, which its input names, with what was said before. Raises RuntimeFault."""
    asked = chosen.asked
    session_id = door.ownership.session_id(asked.principal, f"{asked.api}/{asked.input_id}")
    await turns.start(door, session_id, agent_id=asked.agent_id)
    first = replace(asked, session_id=session_id, text=transcript.with_history(chosen.said), results=())
    return replace(chosen, asked=first, goes_on=False)


async def _by_transcript(door: Door, agent: str, earlier: list[Said], asked: Asked) -> str | None:
    """This agent's session whose last answer ends what was said earlier; also if this very input was asked since."""
    if not any(one.role == "assistant" for one in earlier):
        return None
    record_id = _record_id(door, asked.principal, agent, earlier)
    kept = await transcript.find(door.bus, record_id, timeout_s=door.timeout_s)
    if kept is None or not door.ownership.owns(asked.principal, kept.session_id):
        return None
    there = replace(asked, session_id=kept.session_id)
    last = await transcript.last_input(door.bus, kept.session_id, timeout_s=door.timeout_s)
    return kept.session_id if last == kept.input_id or await _is_repeated(door, there) else None


def _record_id(door: Door, principal: str, agent: str, messages: list[Said]) -> str:
    """Under which this transcript with this agent is known; the default one is not named."""
    named = [] if agent == door.config.host.agent_id else [Said("agent", agent)]
    return transcript.transcript_id(principal, [*named, *messages])


async def _is_repeated(door: Door, asked: Asked) -> bool:
    """Whether the session has this input already: then it is asked for its answer, whatever came after it."""
    if not asked.comes_back:
        return False  # its id was drawn a moment ago
    return await transcript.was_asked(door.bus, asked.session_id, asked.input_id, timeout_s=door.timeout_s)


async def _must_be_newest(door: Door, asked: Asked, previous: str) -> None:
    last = await transcript.last_input(door.bus, asked.session_id, timeout_s=door.timeout_s)
    if words.response_id(asked.session_id, last) != previous and not await _is_repeated(door, asked):
        raise Problem(
            409, "not_the_newest", "that response is not the newest of its session: a session has no branches",
            param="previous_response_id",
        )  # fmt: skip


def _with_instructions(chosen: Chosen) -> Chosen:
    """Instructions hold for one response in OpenAI's API: they stand before its message.

    Results go on under those of the response that asked for them.
    """
    if chosen.asked.results:
        return chosen
    return replace(chosen, asked=replace(chosen.asked, text=transcript.with_history(chosen.said)))


def _new(said: list[Said]) -> list[Said]:
    """What a session is told whose beginning it knows: all of it, or results and the instructions. Raises Problem."""
    results = caller_words.results_in(said)
    if not results:
        return said
    earlier = said[: -len(results)]
    if any(one.role == "user" for one in earlier):
        raise Problem(
            400, "unsupported_parameter", "not supported here: a message before results of calls", param="input"
        )
    return [*(one for one in earlier if one.role == "system"), *said[-len(results) :]]


async def _keep(door: Door, chosen: Chosen, delivered: str, result: TurnResult) -> None:
    """What the client has now is remembered; without that its next message begins a new session, with its history."""
    if not chosen.is_by_transcript:
        return
    messages = [*chosen.said, Said("assistant", delivered, caller_words.called(result.caller_calls))]
    kept = Kept(session_id=chosen.asked.session_id, input_id=chosen.asked.input_id)
    try:
        record_id = _record_id(door, chosen.asked.principal, chosen.agent_id, messages)
        await transcript.keep(door.bus, record_id, kept, timeout_s=door.timeout_s)
    except RuntimeFault as fault:
        _log.warning("transcript_not_kept", session_id=kept.session_id, code=fault.code)


def _headers(asked: Asked, ignored: list[str]) -> dict[str, str]:
    headers = {SESSION_HEADER: asked.session_id, "x-hobus-input": asked.input_id}
    if ignored:
        headers["x-hobus-ignored"] = ",".join(ignored)
    return headers


# --- streams ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _End:
    """How a stream of words ended."""

    result: TurnResult | None = None
    problem: Problem | None = None


async def _said(
    door: Door, chosen: Chosen, pieces: Pieces, delivered: Delivered, end: _End
) -> AsyncGenerator[str | None]:
    """Words as they are delivered, None for a silence; how it ended stands in `end`, and is kept."""
    try:
        async with aclosing(pieces):
            async for piece in pieces:
                if isinstance(piece, TurnResult):
                    end.result, end.problem = piece, of_result(piece)
                elif piece is None or chosen.asked.wants_form:
                    yield None  # of a form only what was judged is sent: nothing of it could be taken back
                elif new := delivered.take(piece):
                    yield new
    except RuntimeFault as fault:
        end.problem = of_fault(fault)
    except Problem as problem:
        end.problem = problem
    if end.result is not None and end.problem is None:
        if rest := delivered.finish(end.result.response):
            yield rest
        await _keep(door, chosen, delivered.text, end.result)


def _field_of(end: _End, chosen: Chosen) -> str:
    """Where a client of OpenAI's reads the words."""
    is_refusal = end.result is not None and is_refused(end.result, wants_form=chosen.asked.wants_form)
    return "refusal" if is_refusal else "content"


async def _chat_frames(  # noqa: PLR0913 - what a stream is made of
    door: Door, chosen: Chosen, pieces: Pieces, *, model: str, created: int, wants_usage: bool
) -> AsyncGenerator[str]:
    identity = words.completion_id(chosen.asked.session_id, chosen.asked.input_id)
    usage: dict[str, Any] = {"usage": None} if wants_usage else {}

    def chunk(delta: dict[str, Any] | None, finish: str | None = None, **more: Any) -> str:
        whole = words.chunk(identity, model=model, created=created, delta=delta, finish=finish, **{**usage, **more})
        return frame(whole)

    yield chunk({"role": "assistant", "content": ""}, session_id=chosen.asked.session_id)
    end = _End()
    async with aclosing(_said(door, chosen, pieces, Delivered(), end)) as said:
        async for new in said:
            yield PING if new is None else chunk({_field_of(end, chosen): new})
    if end.problem is not None or end.result is None:
        yield frame((end.problem or Problem(500, "internal", "the turn has no result")).body())
        return
    for number, call in enumerate(caller_words.tool_calls(end.result.caller_calls)):
        yield chunk({"tool_calls": [{"index": number, **call}]})
    yield chunk({}, words.finish_reason(end.result), **words.ours(end.result))
    if wants_usage:
        yield chunk(None, usage=words.usage_of(end.result))
    yield frame("[DONE]")


async def _response_frames(
    door: Door, chosen: Chosen, pieces: Pieces, body: words.ResponsesRequest, *, created: int
) -> AsyncGenerator[str]:
    identity = words.response_id(chosen.asked.session_id, chosen.asked.input_id)
    events = ResponseEvents(identity, body=body, created=created)
    for line in events.begun():
        yield line
    end, delivered = _End(), Delivered()
    async with aclosing(_said(door, chosen, pieces, delivered, end)) as said:
        async for new in said:
            is_refusal = _field_of(end, chosen) == "refusal"
            for line in [PING] if new is None else events.said(new, is_refusal=is_refusal):
                yield line
    if end.problem is not None or end.result is None:
        yield events.failed(end.problem or Problem(500, "internal", "the turn has no result"))
        return
    for line in events.done(delivered.text, end.result):
        yield line
