"""A client of the HTTP door, for Python programs: `Client`, and `AsyncClient` for those with an event loop.

    with Client("http://127.0.0.1:8420", key) as client:
        answer = client.ask("is the ledger intact?")

A message has one input id, whatever happens on the way: what was not heard is asked for again under it, until the time
is over, and answered once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2
from msgspec import ValidationError

from hobus.bus.clock import SystemClock
from hobus.bus.messages.base import Record, describe_fault
from hobus.bus.messages.session import CommandVerdict, SessionReady, SessionView, TurnResult
from hobus.bus.port import Clock
from hobus.launch.sessions.client_errors import (
    HttpError,
    RequestError,
    check_limit,
    check_seconds,
    translate_errors,
)
from hobus.launch.sessions.session_client import AsyncSessions, Event, Piece, Question, Sessions, yield_one_by_one
from hobus.launch.sessions.summary import SessionRow
from hobus.launch.sessions.which import check_prefix

M = TypeVar("M", bound=Record)
_JSON = {"content-type": "application/json"}
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0
_FIRST_ANSWER_S = 10.0
"""So long a client tries an address where nothing has ever answered; a door that restarts is back sooner."""


@translate_errors
class AsyncClient(AsyncSessions):
    """Ask one door on behalf of one key."""

    def __init__(  # noqa: PLR0913 - what a client is made of, each by its name
        self,
        base_url: str,
        key: str,
        *,
        timeout_s: float = 600.0,
        user: str | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Prepare a client.

        `timeout_s` bounds each call with all its tries; `transport` and `clock` for tests. `user`: whom the key's
        program asks for; sessions, memory and shares are that person's own. Raises RequestError.
        """
        if not (f"{key}".isascii() and f"{key}".isprintable()):
            raise RequestError("invalid_input", "key: expected the bearer key of a client, as it was printed")
        if user is not None and not (f"{user}".isascii() and f"{user}".isprintable()):
            raise RequestError("invalid_input", "user: expected an id in printable ASCII")
        try:
            is_address = httpx2.URL(base_url).scheme in ("http", "https")
        except httpx2.InvalidURL:
            is_address = False
        if not is_address:
            said = "base_url: expected the address of a door, such as http://127.0.0.1:8420"
            raise RequestError("invalid_input", said)
        self._timeout_s = check_seconds(timeout_s)
        self._clock = clock or SystemClock()
        self._is_known = False  # something has answered there
        self._first_lost_at: float | None = None
        self._http = httpx2.AsyncClient(
            base_url=base_url,
            headers={"authorization": f"Bearer {key}", "x-hobus-timeout": f"{self._timeout_s:g}"}
            | ({"x-hobus-user": f"{user}"} if user else {}),
            timeout=self._timeout_s,
            transport=transport,
        )

    async def _session_named(self, given: str) -> str:
        """Return the session; the door completes a beginning among the sessions of its key."""
        return check_prefix(given, called="session_id")

    async def _disconnect(self) -> None:
        await self._http.aclose()

    async def start(self, *, agent_id: str | None = None, model: str | None = None) -> str:
        """Start a session and return its id; `model`: `PROVIDER/MODEL` of its turns."""
        return await self._start_session(self._clock.new_id(), agent_id, model)

    async def _answer(self, question: Question) -> TurnResult:
        path, body = await self._make_turn(question)
        return _read(TurnResult, await self._ask("POST", path, body))

    async def _pieces(self, question: Question) -> AsyncGenerator[Piece]:
        path, body = await self._make_turn(question)
        deadline = self._clock.monotonic() + self._timeout_s
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                async with contextlib.aclosing(self._read_events("POST", path, body | {"stream": True})) as events:
                    async for _, kind, data in events:
                        if kind == "result":
                            yield Piece(kind=kind, result=_read(TurnResult, data))
                            return
                        if kind not in ("open", "turn"):
                            yield Piece(kind=kind, text=str(data.get("text", "")), data=data)
                fault: Exception = HttpError(502, "closed", "the stream ended before its result")
            except (httpx2.TransportError, HttpError) as error:
                fault = error
            pause_s = await self._pause(fault, pause_s, deadline)
            yield Piece(kind="reset", data={"reason": "retry"})

    async def events(self, session_id: str, *, after: int = -1) -> AsyncGenerator[Event]:
        """Yield every event of a session behind this sequence, for ever, whatever becomes of connections and doors.

        Raises HttpError for what asking again does not fix, or when nobody answered for `timeout_s`.
        """
        pause_s = _FIRST_PAUSE_S
        path = f"/v1/sessions/{session_id}/events"
        lost_at: float | None = self._clock.monotonic()
        while True:
            try:
                async with contextlib.aclosing(self._read_events("GET", path, None, after=after)) as events:
                    async for identity, kind, data in events:
                        pause_s, lost_at = _FIRST_PAUSE_S, None
                        if kind == "open":
                            continue
                        after = int(identity)
                        yield Event(sequence=after, kind=kind, data=data)
                fault: Exception = HttpError(502, "closed", "the stream of events ended")
            except (httpx2.TransportError, HttpError) as error:
                fault = error
            lost_at = self._clock.monotonic() if lost_at is None else lost_at
            pause_s = await self._pause(fault, pause_s, lost_at + self._timeout_s)

    async def sessions(self, *, is_all: bool = False, limit: int | None = None) -> list[SessionRow]:
        """Return the newest sessions of the key, and what waits for an approval."""
        check_limit(limit)
        wanted = (["all=true"] if is_all else []) + ([] if limit is None else [f"limit={limit}"])
        path = f"/v1/sessions?{'&'.join(wanted)}"
        return _read(_SessionList, await self._ask("GET", path, None)).sessions

    async def session(self, session_id: str) -> SessionView:
        """Return how a session stands."""
        return _read(SessionView, await self._ask("GET", f"/v1/sessions/{session_id}", None))

    async def end(self, session_id: str) -> None:
        """End the session."""
        await self._ask("DELETE", f"/v1/sessions/{session_id}", None)

    async def command(self, session_id: str, kind: str, **fields: Any) -> CommandVerdict:
        """Send a command under one id; return what became of it: rejected is a verdict, too."""
        body = {"command": {"kind": kind, **fields}, "command_id": f"http-{self._clock.new_id()}"}
        found = await self._ask("POST", f"/v1/sessions/{session_id}/commands", body, verdict=True)
        return _read(CommandVerdict, found)

    # --- the wire -----------------------------------------------------------------------------------------------------

    async def _make_turn(self, question: Question) -> tuple[str, dict[str, Any]]:
        """Return where a turn is asked, and how; a new session follows from the input, so that a repeat asks there."""
        input_id = question.input_id or self._clock.new_id()
        question.turn(input_id)  # what is wrong with it is told as over the bus
        session_id = question.session_id or await self._start_session(f"first:{quote(input_id)}", None, question.model)
        body: dict[str, Any] = {"input_id": input_id}
        if question.messages is None:
            body["text"] = question.text
        else:
            body["messages"] = [one.model_dump() for one in question.said]
        if question.overrides:
            body["run_overrides"] = question.overrides
        return f"/v1/sessions/{session_id}/turns", body

    async def _start_session(self, key: str, agent_id: str | None, model: str | None) -> str:
        wanted = {"agent_id": agent_id} | ({"session_config": {"model": model}} if model else {})
        found = await self._ask("POST", "/v1/sessions", wanted, key=key)
        return _read(SessionReady, found).session_id

    async def _ask(
        self, method: str, path: str, body: dict[str, Any] | None, *, key: str = "", verdict: bool = False
    ) -> Any:
        deadline = self._clock.monotonic() + self._timeout_s
        pause_s = _FIRST_PAUSE_S
        headers = _JSON | ({"idempotency-key": key} if key else {})
        content = _write_content(body)
        while True:
            try:
                async with asyncio.timeout(max(0.0, deadline - self._clock.monotonic())):
                    answer = await self._http.request(method, path, content=content, headers=headers)
                self._is_known = True
                found: Any = json.loads(answer.content)
                if answer.is_success or (verdict and isinstance(found, dict) and "command_id" in found):
                    return found
                fault: Exception = _make_error(answer.status_code, answer.content, answer.headers.get("retry-after"))
            except TimeoutError:
                fault = HttpError(504, "expired", f"not answered within {self._timeout_s:g} s")
            except httpx2.TransportError as error:
                fault = error
            except ValueError:
                fault = HttpError(502, "malformed", "the answer is not JSON: is that an HTTP door?")
            pause_s = await self._pause(fault, pause_s, deadline)

    async def _read_events(
        self, method: str, path: str, body: dict[str, Any] | None, *, after: int | None = None
    ) -> AsyncGenerator[tuple[str, str, dict[str, Any]]]:
        """Yield (id, event, data) of a stream of server-sent events. Raises HttpError, TransportError."""
        headers = _JSON | ({} if after is None else {"last-event-id": str(after)})
        async with self._http.stream(method, path, content=_write_content(body), headers=headers) as answer:
            self._is_known = True
            if not answer.is_success:
                raise _make_error(answer.status_code, await answer.aread(), answer.headers.get("retry-after"))
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                raise _make_malformed("no stream of events")
            yield "", "open", {}
            fields: dict[str, str] = {}
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                if line:
                    fields[name] = value
                    continue
                if "data" in fields:
                    yield _parse_event(fields)
                fields = {}

    async def _pause(self, fault: Exception, pause_s: float, deadline: float) -> float:
        """Wait before the next try; return the pause after it. Raises the fault where trying again cannot help."""
        if isinstance(fault, HttpError) and not fault.is_retryable:
            raise fault
        if not self._is_known and not isinstance(fault, HttpError):
            self._first_lost_at = self._first_lost_at or self._clock.monotonic()
            deadline = min(deadline, self._first_lost_at + _FIRST_ANSWER_S)
        said_s = fault.retry_after_s if isinstance(fault, HttpError) else None
        wait_s = (pause_s if said_s is None else said_s) * (1 + self._clock.random() / 2)
        if self._clock.monotonic() + wait_s >= deadline:
            if isinstance(fault, HttpError):
                raise fault
            self._first_lost_at = None  # the next call tries as long
            where = "the door" if self._is_known else f"no door at {self._http.base_url} (`hobus up --http` opens one):"
            raise HttpError(503, "unreachable", f"{where} does not answer: {fault}") from fault
        await asyncio.sleep(wait_s)
        return min(2 * pause_s, _LONGEST_PAUSE_S)


class Client(Sessions[AsyncClient]):
    """`AsyncClient` for programs without an event loop; raises HttpError where that does."""

    def __init__(self, base_url: str, key: str, *, timeout_s: float = 600.0, user: str | None = None) -> None:
        async def make_client() -> AsyncClient:
            return AsyncClient(base_url, key, timeout_s=timeout_s, user=user)

        super().__init__(make_client)

    events = yield_one_by_one(AsyncClient.events)


def _make_error(status: int | None, body: str | bytes, retry_after: str | None = None) -> HttpError:
    """Return the door's error; `status` None: of a stream, whose own is spent: its type says whether to ask again."""
    try:
        said = json.loads(body)["error"]
        code, message, is_verdict = str(said["code"]), str(said["message"]), "outcome" in said
        status = status or (503 if said.get("type") in ("server_error", "rate_limit_error") else 400)
    except (ValueError, KeyError, TypeError):
        code, message, is_verdict = "malformed", "not an answer of an HTTP door", False
    waits = float(retry_after) if retry_after is not None and retry_after.isdecimal() else None
    return HttpError(status or 502, code, message, retry_after_s=waits, is_verdict=is_verdict)


def _write_content(body: dict[str, Any] | None) -> bytes | None:
    """Return the body's bytes. Raises ValueError, TypeError for what JSON has not."""
    return None if body is None else json.dumps(body, allow_nan=False).encode()


class _SessionList(Record):
    sessions: list[SessionRow]
    more: bool


def _read(model: type[M], found: Any) -> M:
    """Return the answer as this model. Raises HttpError for any other."""
    try:
        return model.model_validate(found)
    except ValidationError as error:
        raise _make_malformed(describe_fault(error)) from None


def _make_malformed(what: str) -> HttpError:
    return HttpError(502, "malformed", f"not an answer of an HTTP door of this version: {what}")


def _parse_event(fields: dict[str, str]) -> tuple[str, str, dict[str, Any]]:
    """Return (id, event, data). Raises HttpError: the door's own, in the middle of a stream, or malformed."""
    kind, identity = fields.get("event", ""), fields.get("id", "")
    if kind == "error":
        raise _make_error(None, fields["data"])
    try:
        return str(int(identity)) if identity else "", kind, dict(json.loads(fields["data"]))
    except (ValueError, TypeError):
        raise _make_malformed(f"event {kind[:64]!r}") from None
