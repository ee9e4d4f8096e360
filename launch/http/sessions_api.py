"""The native API: sessions, their turns, their commands and their events."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Annotated, Any, get_args

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hobus.bus.errors import RuntimeFault
from hobus.bus.messages import session as messages
from hobus.bus.messages.base import Chosen, Record, Sendable
from hobus.bus.messages.given_history import GivenMessage, tell_history
from hobus.bus.messages.ids import KEY_PREFIX, CommandId, InputId, RunId, format_iso
from hobus.bus.messages.session import (
    Approve,
    Command,
    Deny,
    EndSession,
    HostCommand,
    SessionClosed,
    SessionConfig,
    SessionReady,
    TurnResult,
)
from hobus.bus.messages.streams import StreamDelta, StreamReset, StreamWaiting
from hobus.config.json_schema import find_schema_fault
from hobus.launch.http import turns
from hobus.launch.http.context import Door
from hobus.launch.http.openai_api import get_door, get_principal, is_approver, read
from hobus.launch.http.problems import Problem, convert_fault
from hobus.launch.http.sse import PING, make_frame, make_stream, wait_disconnected
from hobus.launch.http.turns import AskedTurn, Pieces
from hobus.launch.limits import SESSIONS_LISTED_MAX
from hobus.launch.sessions.journal import FromLedger, list_rows
from hobus.launch.sessions.summary import SessionRow
from hobus.launch.sessions.turns import ask_view


class StartBody(Record):
    """`POST /v1/sessions`."""

    agent_id: Annotated[str | None, Meta(description="null: the configured one")] = None
    session_config: Annotated[SessionConfig | None, Meta(description="defaults of its runs")] = None


class TurnBody(messages.TurnInput):
    """`POST /v1/sessions/{session_id}/turns`."""

    messages: Annotated[
        list[GivenMessage] | None,
        Meta(description="in place of text: what was said elsewhere before, and the user's message last"),
    ] = None
    input_id: Annotated[InputId | None, Meta(description="null: from the Idempotency-Key, else drawn")] = None


class SessionList(Record):
    """Some sessions of the key that asks, the newest first."""

    sessions: list[SessionRow]
    more: Annotated[bool, Meta(description="there are more: ask with a larger limit")]


class CommandBody(Record):
    """`POST /v1/sessions/{session_id}/commands`."""

    command: Annotated[
        Command, Meta(description="Steer, FollowUp, Pause, Resume, Cancel, Approve, Deny, LeaseHeartbeat")
    ]
    command_id: Annotated[CommandId | None, Meta(description="null: from the Idempotency-Key, else drawn")] = None
    run_seq: Annotated[Chosen | None, Meta(description="only if this is the active run")] = None
    expected_session_epoch: Annotated[
        Annotated[Sendable, Meta(ge=0)] | None, Meta(description="only in this epoch")
    ] = None


_COMMANDS = ", ".join(f"{one.kind}({', '.join(one.__struct_fields__)})" for one in get_args(Command))


async def start_session(request: Request) -> Response:
    """Begin a session; under the same Idempotency-Key the same one."""
    door, principal = get_door(request), get_principal(request)
    body = await read(request, StartBody)
    _check_form(body.session_config, "session_config")
    seed, _ = turns.choose_input_id(request.headers.get("idempotency-key"), door.bus.new_id())
    session_id = door.ownership.session_id(principal, f"session/{seed}")
    wanted = turns.make_session_start(principal, session_id, agent_id=body.agent_id, config=body.session_config)
    timeout_s = door.config.host.turn_timeout_ms / 1000  # it waits its turn as the turn would
    ready = await door.bus.request(
        "host", wanted, expect=SessionReady, timeout_s=timeout_s, key=session_id, trace=session_id
    )
    return JSONResponse(ready.model_dump(mode="json"), status_code=201 if ready.is_new else 200)


async def list_sessions(request: Request) -> Response:
    """List this key's sessions, how each stands and what it waits for; `all=true`: also those that have ended.

    For a key that approves: whoever's, of which a call waits.
    """
    door, principal, asked = get_door(request), get_principal(request), request.query_params
    most = SESSIONS_LISTED_MAX
    limit = asked.get("limit", str(most))
    if not re.fullmatch(r"[0-9]{1,9}", limit) or not 0 < int(limit) <= most:
        raise Problem(400, "invalid_input", f"limit: expected 1 to {most}", param="limit")
    sees_all = is_approver(request)
    rows = await list_rows(
        FromLedger(door.bus, timeout_s=door.timeout_s), int(limit) + 1, is_all=asked.get("all") == "true",
        is_meant=lambda session_id: sees_all or door.ownership.owns(principal, session_id),
        is_shown=lambda row: bool(row.held_calls) or not sees_all,
    )  # fmt: skip
    page = SessionList(sessions=rows[: int(limit)], more=len(rows) > int(limit))
    return JSONResponse(page.model_dump(mode="json"))


async def read_session(request: Request) -> Response:
    """Where a session stands: its run, what that waits for, its epochs."""
    door = get_door(request)
    view = await ask_view(door.bus, request.path_params["session_id"], timeout_s=door.timeout_s)
    return JSONResponse(view.model_dump(mode="json"))


async def end_session(request: Request) -> Response:
    """End a session; a running run is cancelled first."""
    door, session_id = get_door(request), request.path_params["session_id"]
    question = EndSession(session_id=session_id, principal=f"{KEY_PREFIX}{get_principal(request)}")
    closed = await door.bus.request("host", question, expect=SessionClosed, timeout_s=door.timeout_s, key=session_id)
    return JSONResponse(closed.model_dump(mode="json"))


async def turn(request: Request) -> Response:
    """One message, one answer; again under the same input id the same answer."""
    door, session_id = get_door(request), request.path_params["session_id"]
    door.require_room(get_principal(request))
    body = await read(request, TurnBody)
    _check_form(body.run_overrides, "run_overrides")
    input_id, _ = turns.choose_input_id(request.headers.get("idempotency-key"), door.bus.new_id())
    asked = AskedTurn(
        api="native", principal=get_principal(request), session_id=session_id, input_id=body.input_id or input_id,
        text=_read_words(body), results=tuple(body.results), comes_back=not body.lease, overrides=body.run_overrides,
        arrived=door.bus.clock.monotonic(), timeout_s=turns.choose_timeout(request.headers, door.config.host),
    )  # fmt: skip
    headers = {"x-hobus-session": session_id, "x-hobus-input": asked.input_id}
    gone = partial(wait_disconnected, request.receive)
    if body.stream:
        with _name_turn(headers):
            pieces = await turns.begin_stream(door, asked, gone)
        return make_stream(_yield_turn_frames(asked, pieces), headers)
    with _name_turn(headers):
        result = await turns.ask_turn(door, asked, gone)
    return JSONResponse(result.model_dump(mode="json"), headers=headers)


@contextmanager
def _name_turn(headers: Mapping[str, str]) -> Generator[None]:
    """Make a problem of the turn name it as its answer would."""
    try:
        yield
    except Problem as problem:
        problem.headers.update(headers)
        raise


async def command(request: Request) -> Response:
    """Steer, pause, resume, cancel, approve, deny, follow up; 409 with the verdict when it was rejected."""
    door, session_id = get_door(request), request.path_params["session_id"]
    try:
        body = await read(request, CommandBody)
    except Problem as problem:
        if "command." in str(problem.param):
            problem.message += f"; commands are {_COMMANDS}"
        raise
    if is_approver(request) and not isinstance(body.command, Approve | Deny):
        raise Problem(403, "key_not_for_this", "this key approves and denies calls alone", param="command.kind")
    drawn, _ = turns.choose_input_id(request.headers.get("idempotency-key"), door.bus.new_id())
    wanted = HostCommand(
        command_id=body.command_id or f"http-{drawn}",
        target_run_id=None if body.run_seq is None else RunId(session_id=session_id, run_seq=body.run_seq),
        expected_session_epoch=body.expected_session_epoch,
        issued_at=format_iso(door.bus.now()),
        command=body.command,
    )
    verdict = await turns.send_command(door, get_principal(request), session_id, wanted)
    return JSONResponse(verdict.model_dump(mode="json"), status_code=200 if verdict.outcome == "applied" else 409)


async def session_events(request: Request) -> Response:
    """Every event of a session behind `after` (or Last-Event-ID), then each as it happens; `follow=false`: one page."""
    door, session_id = get_door(request), request.path_params["session_id"]
    after = _read_number(request.headers.get("last-event-id") or request.query_params.get("after"))
    if request.query_params.get("follow") == "false":
        found, page = await door.journals.page(session_id, after)
        text = ",".join(event.data for event in found)
        more = "true" if page.more else "false"
        return Response(f'{{"events":[{text}],"more":{more}}}', media_type="application/json")
    if request.method == "HEAD":
        return Response(media_type="text/event-stream")  # there is nothing to wait for
    return make_stream(_yield_event_frames(door, session_id, after))


def _check_form(wanted: SessionConfig | None, param: str) -> None:
    """Raise Problem, which names the field, for settings whose schema cannot be that of an answer."""
    schema = None if wanted is None else wanted.output_schema
    if schema is not None and (fault := find_schema_fault(schema)):
        raise Problem(400, "invalid_input", f"the schema {fault}", param=f"{param}.output_schema")


def _read_words(body: TurnBody) -> str:
    """Return the turn's words. Raises Problem for two messages at once, and for a conversation that asks nothing."""
    if body.messages is None:
        return body.text
    if body.text or body.results:
        raise Problem(400, "invalid_input", "messages: in place of text and results", param="messages")
    try:
        return tell_history(body.messages)
    except ValueError as error:
        raise Problem(400, "invalid_input", str(error), param="messages") from None


def _read_number(text: str | None) -> int:
    if not text:
        return -1
    if re.fullmatch(r"-1|[0-9]{1,16}", text) is None:
        raise Problem(400, "invalid_input", "after and Last-Event-ID are sequences of the record", param="after")
    return int(text)


async def _yield_event_frames(door: Door, session_id: str, after: int) -> AsyncGenerator[str]:
    """Yield frames until the door ends, or the record cannot be read: the client comes again with the id it has."""
    door.metrics.readers.inc()
    try:
        yield ": events of the session\n\n"
        async with aclosing(door.journals.follow(session_id, after)) as following:
            async for event in following:
                if event is None:
                    yield PING
                else:
                    yield make_frame(event.data, event=event.kind, identity=str(event.sequence))
                if door.closing.is_set():
                    return
    except RuntimeFault as fault:
        yield make_frame(convert_fault(fault).body(), event="error")
    finally:
        door.metrics.readers.dec()


async def _yield_turn_frames(asked: AskedTurn, source: Pieces) -> AsyncGenerator[str]:
    """Yield `turn` first: with its ids the same can be asked again, and what stands is told from its beginning."""
    yield make_frame({"session_id": asked.session_id, "input_id": asked.input_id}, event="turn")
    async with aclosing(source) as pieces:
        async for piece in pieces:
            yield _make_turn_frame(piece)


def _make_turn_frame(piece: Any) -> str:
    match piece:
        case Problem():
            return make_frame(piece.body(), event="error")
        case TurnResult():
            return make_frame(piece.model_dump(mode="json"), event="result")
        case StreamDelta():
            said = {"text": piece.text, "step": piece.step, "attempt": piece.attempt, "index": piece.index}
            return make_frame(said, event="delta")
        case StreamReset():
            return make_frame({"reason": piece.reason}, event="reset")
        case StreamWaiting():
            return make_frame(
                {
                    "waiting": piece.waiting,
                    "held_calls": [c.model_dump() for c in piece.held_calls],
                    "place": piece.place,
                },
                event="waiting",
            )
        case _:
            return PING
