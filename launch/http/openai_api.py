"""`/v1/models`, `/v1/chat/completions` and `/v1/responses`, over sessions."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import msgspec
import pydantic
import structlog
from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from hobus.actors.session_host.turns import find_refusal
from hobus.bus.errors import RuntimeFault
from hobus.bus.fair import name_key_principal
from hobus.bus.json_text import mend_json
from hobus.bus.messages.base import Record, locate_fault
from hobus.bus.messages.session import SessionConfig, TurnResult, keep_lasting
from hobus.launch.console.errors import UsageFault
from hobus.launch.http import openai_requests, transcript, turns
from hobus.launch.http.context import Door
from hobus.launch.http.keys import HttpKey, name_person
from hobus.launch.http.openai_answers import (
    ChatEvents,
    Delivered,
    ResponseEvents,
    derive_response_id,
    find_session,
    is_refusal,
    list_called,
)
from hobus.launch.http.openai_requests import ChatRequest, ResponsesRequest, list_results
from hobus.launch.http.problems import STATUS, Problem
from hobus.launch.http.sse import PING, ClientGone, make_stream, wait_disconnected
from hobus.launch.http.transcript import TranscriptMessage, TranscriptPlace
from hobus.launch.http.turns import AskedTurn, Pieces
from hobus.launch.sessions.named import list_begun_sessions
from hobus.launch.sessions.which import check_prefix, complete_session_id

T = TypeVar("T")
W = TypeVar("W", bound=BaseModel | Record)
B = TypeVar("B", ChatRequest, ResponsesRequest)
_log = structlog.get_logger("http")
SESSION_HEADER = "x-hobus-session"
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
"""An escape of half a character; nearly always its other half follows."""


@dataclass(frozen=True, slots=True)
class ChosenTurn:
    """The turn behind a request, and the id under which what is delivered is remembered; empty: it need not be."""

    asked: AskedTurn
    said: list[TranscriptMessage]
    agent_id: str
    is_by_transcript: bool
    goes_on: bool = False  # in a session that its transcript found


def get_door(request: Request) -> Door:
    """Return what all requests share."""
    door: Door = request.scope["door"]
    return door


def get_principal(request: Request) -> str:
    """Return whose request it is."""
    principal: str = request.scope["principal"]
    return principal


def is_approver(request: Request) -> bool:
    """Return whether the key decides on calls of anybody's sessions, and does nothing else."""
    key: HttpKey = request.scope["key"]
    return key.may == "approve"


async def read(request: Request, cls: type[W]) -> W:
    """Return the body as this model. Raises Problem, which names the field; ClientGone where it does not come whole."""
    try:
        body = await request.body()  # a client that cut its history in the middle of an emoji said no less for it
        return cls.model_validate_json(mend_json(body) if _HALF.search(body) else body)
    except ClientDisconnect:
        raise ClientGone from None
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where, said = ".".join(str(part) for part in first["loc"])[:200], first["msg"]
    except msgspec.ValidationError as error:
        where, said = locate_fault(error)
    except ValueError as error:
        where, said = "", str(error)
    raise Problem(400, "invalid_input", f"{where}: {said}" if where else said, param=where or None)


async def find_session_id(door: Door, principal: str | None, given: str) -> str:
    """Return the full id of a session of this principal (None: anybody's), named whole or by its beginning.

    Raises Problem: one of somebody else is one that is not there.
    """
    session_id = complete_session_id(given)
    if session_id is None:
        try:
            begins = check_prefix(given, called="session_id")
        except UsageFault as fault:
            raise Problem(404, "session_not_found", fault.message, param="session_id") from None
        known = {one for one in await list_begun_sessions(door.bus, timeout_s=door.timeout_s) if one.startswith(begins)}
        own = [one for one in known if principal is None or door.ownership.owns(principal, one)]
        if len(own) > 1:
            raise Problem(400, "invalid_input", f"{len(own)} sessions of this key begin so", param="session_id")
        session_id = own[0] if own else ""
    if principal is None and session_id:
        return session_id
    if principal is None or not door.ownership.owns(principal, session_id):
        raise Problem(404, "session_not_found", "no such session of this key", param="session_id")
    return session_id


def with_session_id(handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Give the handler of a path with a session its full id."""

    async def handle(request: Request) -> Response:
        given = request.path_params["session_id"]
        owner = None if is_approver(request) else get_principal(request)
        request.path_params["session_id"] = await find_session_id(get_door(request), owner, given)
        return await handler(request)

    return handle


async def models(request: Request) -> Response:
    """`GET /v1/models`."""
    known = openai_requests.map_models(get_door(request).snapshot)
    rows = [{"id": name, "object": "model", "created": 0, "owned_by": "hobus"} for name in known]
    return JSONResponse({"object": "list", "data": rows})


async def model(request: Request) -> Response:
    """`GET /v1/models/{model}`."""
    name = request.path_params["model"]
    if name not in openai_requests.map_models(get_door(request).snapshot):
        raise Problem(404, "model_not_found", "no such model; GET /v1/models lists them", param="model")
    return JSONResponse({"id": name, "object": "model", "created": 0, "owned_by": "hobus"})


async def chat(request: Request) -> Response:
    """`POST /v1/chat/completions`."""
    return await _answer_turn(request, "chat", ChatRequest, ChatEvents)


async def responses(request: Request) -> Response:
    """`POST /v1/responses`."""
    return await _answer_turn(request, "responses", ResponsesRequest, ResponseEvents)


async def _answer_turn(
    request: Request, api: str, cls: type[B], answer_of: Callable[[B, str, str, int], ChatEvents | ResponseEvents]
) -> Response:
    """Answer one turn behind a request of either API, whole or as a stream."""
    body = await read(request, cls)
    with on_behalf_of(request, body.user or body.safety_identifier):
        door = get_door(request)
        door.require_room(get_principal(request))
        ignored = openai_requests.check(body)
        said = body.transcript()
        given = request.headers.get(SESSION_HEADER) or (body.metadata.session_id if body.metadata else None)
        agent_id, overrides = openai_requests.choose_agent(door.snapshot, body)
        asked_agent = agent_id or door.config.host.agent_id
        ignored += openai_requests.list_not_taken(door.snapshot, asked_agent, overrides, body, said)
        previous = body.previous_response_id if isinstance(body, ResponsesRequest) else None
        if previous is not None:
            given, said = await find_session_id(door, get_principal(request), find_session(previous)), _select_new(said)
        chosen = await _choose(request, api, said, given=given, agent_id=agent_id, overrides=overrides)
        if previous is not None:
            await _must_be_newest(door, chosen.asked, previous)
            chosen = _with_instructions(chosen)
        created = round(door.bus.now())
        if body.stream:
            chosen, pieces = await _ask(request, chosen, turns.begin_stream)
            answer = answer_of(body, chosen.asked.session_id, chosen.asked.input_id, created)
            return make_stream(_yield_frames(door, chosen, pieces, answer), _make_headers(chosen.asked, ignored))
        chosen, result = await _ask(request, chosen, turns.ask_turn)
        await _keep(door, chosen, result.response, result)
        headers = _make_headers(chosen.asked, ignored) | {"x-hobus-outcome": result.outcome}
        if result.over_budget:
            headers["x-hobus-over-budget"] = str(result.over_budget)
        if (said := result.remembered) is not None:
            headers["x-hobus-remembered"] = f"{said.state} {said.artifact_id}"
        return JSONResponse(answer_of(body, result.session_id, result.input_id, created).whole(result), headers=headers)


@contextmanager
def on_behalf_of(request: Request, user: str | None) -> Generator[None]:
    """Make the request one of this user below its key, unless a header named one."""
    door, key = get_door(request), request.scope["key"]
    if user and get_principal(request) == key.principal:
        request.scope["principal"] = name_person(key.principal, user)
    with door.bus.on_behalf_of(name_key_principal(get_principal(request))):
        yield


async def _ask(
    request: Request, chosen: ChosenTurn, ask: Callable[[Door, AskedTurn, turns.Gone], Awaitable[T]]
) -> tuple[ChosenTurn, T]:
    """Return what the turn brings, and in which session.

    OpenAI's requests know no session: two that quote one transcript at once are both answered. The session of that
    transcript goes on with one of them; the other one is refused there, and begins a session of its own.
    """
    door, gone = get_door(request), partial(wait_disconnected, request.receive)
    try:
        return chosen, await ask(door, chosen.asked, gone)
    except Problem as problem:
        if problem.code != "run_active" or not chosen.goes_on:
            raise
    anew = _begin_anew(door, chosen)
    return anew, await ask(door, anew.asked, gone)


# --- which session ----------------------------------------------------------------------------------------------------


async def _choose(  # noqa: PLR0913 - what a choice rests on, each by its name
    request: Request,
    api: str,
    said: list[TranscriptMessage],
    *,
    given: str | None,
    agent_id: str | None,
    overrides: SessionConfig | None,
) -> ChosenTurn:
    """Choose the session by name, else by what was said; else a new one. Raises Problem, RuntimeFault."""
    door, principal = get_door(request), get_principal(request)
    agent = agent_id or door.config.host.agent_id
    input_id, comes_back = turns.choose_input_id(request.headers.get("idempotency-key"), door.bus.new_id())
    results = list_results(said)
    asked = AskedTurn(
        api=api, principal=principal, session_id="", input_id=input_id, text="" if results else said[-1].text,
        results=tuple(results), comes_back=comes_back, overrides=overrides, arrived=door.bus.clock.monotonic(),
        timeout_s=turns.choose_timeout(request.headers, door.config.host),
        agent_id=agent_id, images=transcript.list_new_images(said),
    )  # fmt: skip
    if given is not None:
        session_id = await find_session_id(door, principal, given)
        return ChosenTurn(replace(asked, session_id=session_id), said, agent, is_by_transcript=False)
    session_id = await _find_by_transcript(door, agent, said[: -len(results) or -1], asked)
    if session_id is not None:
        return ChosenTurn(replace(asked, session_id=session_id), said, agent, is_by_transcript=True, goes_on=True)
    is_errand = door.snapshot.agents[agent].is_errand(said[-1].text)  # no conversation goes on with its answer
    return _begin_anew(door, ChosenTurn(asked, said, agent, is_by_transcript=not is_errand))


def _begin_anew(door: Door, chosen: ChosenTurn) -> ChosenTurn:
    """Return this turn in a session of its own, which its input names, told what was said before.

    Raises Problem for what can be no turn, and then leaves no session.
    """
    asked, text = chosen.asked, transcript.with_history(chosen.said)
    for words in (text,) if asked.results else (chosen.said[-1].text, text):
        if refusal := find_refusal(words, door.config.host.prompt_max_bytes):
            code, why = refusal
            raise Problem(STATUS[code], code, why, param="messages" if asked.api == "chat" else "input")
    session_id = door.ownership.session_id(asked.principal, f"{asked.api}/{asked.input_id}")
    start = turns.make_session_start(
        asked.principal, session_id, agent_id=asked.agent_id, config=keep_lasting(asked.overrides)
    )
    shown = transcript.list_shown_images(chosen.said)
    first = replace(asked, session_id=session_id, text=text, results=(), images=shown, start=start)
    return replace(chosen, asked=first, goes_on=False)


async def _find_by_transcript(door: Door, agent: str, earlier: list[TranscriptMessage], asked: AskedTurn) -> str | None:
    """Return this agent's session whose last answer ends the earlier talk; also if this input was asked since."""
    if not any(one.role == "assistant" for one in earlier):
        return None
    record_id = _record_id(door, asked.principal, agent, earlier)
    kept = await transcript.find(door.bus, record_id, timeout_s=door.timeout_s)
    if kept is None or not door.ownership.owns(asked.principal, kept.session_id):
        return None
    there = replace(asked, session_id=kept.session_id)
    last = await transcript.find_last_input(door.bus, kept.session_id, timeout_s=door.timeout_s)
    return kept.session_id if last == kept.input_id or await _is_repeated(door, there) else None


def _record_id(door: Door, principal: str, agent: str, messages: list[TranscriptMessage]) -> str:
    """Return the id of this transcript with this agent; the default one is not named."""
    named = [] if agent == door.config.host.agent_id else [TranscriptMessage("agent", agent)]
    return transcript.derive_transcript_id(principal, [*named, *messages])


async def _is_repeated(door: Door, asked: AskedTurn) -> bool:
    """Return whether the session has this input already: then it is asked for its answer, whatever came after it."""
    if not asked.comes_back:
        return False  # its id was drawn a moment ago
    return await transcript.was_asked(door.bus, asked.session_id, asked.input_id, timeout_s=door.timeout_s)


async def _must_be_newest(door: Door, asked: AskedTurn, previous: str) -> None:
    last = await transcript.find_last_input(door.bus, asked.session_id, timeout_s=door.timeout_s)
    if derive_response_id(asked.session_id, last) != previous and not await _is_repeated(door, asked):
        raise Problem(
            409, "not_the_newest", "that response is not the newest of its session: a session has no branches",
            param="previous_response_id",
        )  # fmt: skip


def _with_instructions(chosen: ChosenTurn) -> ChosenTurn:
    """Put instructions, which hold for one response in OpenAI's API, before its message.

    Results go on under those of the response that asked for them.
    """
    if chosen.asked.results:
        return chosen
    return replace(chosen, asked=replace(chosen.asked, text=transcript.with_history(chosen.said)))


def _select_new(said: list[TranscriptMessage]) -> list[TranscriptMessage]:
    """Return what a session with a known beginning is told: all, or results and instructions. Raises Problem."""
    results = list_results(said)
    if not results:
        return said
    earlier = said[: -len(results)]
    if any(one.role == "user" for one in earlier):
        raise Problem(
            400, "unsupported_parameter", "not supported here: a message before results of calls", param="input"
        )
    return [*(one for one in earlier if one.role == "system"), *said[-len(results) :]]


async def _keep(door: Door, chosen: ChosenTurn, delivered: str, result: TurnResult) -> None:
    """Remember what the client has now; without that its next message begins a new session, with its history."""
    if not chosen.is_by_transcript:
        return
    messages = [*chosen.said, TranscriptMessage("assistant", delivered, list_called(result.caller_calls))]
    kept = TranscriptPlace(session_id=chosen.asked.session_id, input_id=chosen.asked.input_id)
    try:
        record_id = _record_id(door, chosen.asked.principal, chosen.agent_id, messages)
        await transcript.keep(door.bus, record_id, kept, timeout_s=door.timeout_s)
    except RuntimeFault as fault:
        _log.warning("transcript_not_kept", session_id=kept.session_id, code=fault.code)


def _make_headers(asked: AskedTurn, ignored: list[str]) -> dict[str, str]:
    return {SESSION_HEADER: asked.session_id, "x-hobus-input": asked.input_id} | make_ignored_header(ignored)


def make_ignored_header(names: list[str]) -> dict[str, str]:
    """Return the header that names what of a request counts for nothing; none where all of it does."""
    return {"x-hobus-ignored": ",".join(names)} if names else {}


# --- streams ----------------------------------------------------------------------------------------------------------


async def _yield_frames(
    door: Door, chosen: ChosenTurn, pieces: Pieces, answer: ChatEvents | ResponseEvents
) -> AsyncGenerator[str]:
    """Yield the answer as it is delivered, a ping in a silence; keep what the client has then."""
    delivered, wants_form = Delivered(), chosen.asked.wants_form
    yield "".join(answer.begun())
    async with aclosing(pieces) as said:
        async for piece in said:
            if isinstance(piece, Problem):
                yield answer.failed(piece)
            elif isinstance(piece, TurnResult):
                refuses = not delivered.text and is_refusal(piece, wants_form=wants_form)
                if rest := delivered.finish(piece.response):
                    yield "".join(answer.said(rest, is_refusal=refuses))
                await _keep(door, chosen, delivered.text, piece)
                yield "".join(answer.done(delivered.text, piece))
            elif piece is None or wants_form:
                yield PING  # of a form only what was judged is sent: nothing of it could be taken back
            elif new := delivered.take(piece):
                yield "".join(answer.said(new, is_refusal=False))
