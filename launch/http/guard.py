"""What every request passes before anything looks at it: by which name it came, from which page, whose it is.

A page of another site reaches a loopback port,
too: by DNS rebinding under its own name (Host), or from its scripts (Origin).
"""

from __future__ import annotations

import asyncio
import re
import traceback
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

import structlog
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hobus.launch.http import limits
from hobus.launch.http.context import Door
from hobus.launch.http.keys import PERSON_HEADER, HttpKey, name_person
from hobus.launch.http.problems import DEFECT, Problem, as_bytes, convert_error, make_head_too_large, write_whole
from hobus.launch.http.server import SHED
from hobus.launch.http.sse import ClientGone

_log = structlog.get_logger("http")
OPEN = frozenset({"/", "/healthz", "/readyz", "/openapi.json", "/docs"})
"""Paths that need no key: they say nothing of anybody."""
_CLIENT_GONE = 499
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


def get_host(header: str) -> str:
    """Return the name in a Host header, without its port, in lower case."""
    name, colon, port = header.strip().lower().rpartition(":")
    return name if colon and port.isdigit() and (not name.count(":") or name.endswith("]")) else header.strip().lower()


def names_of(listen_host: str, further: list[str]) -> frozenset[str]:
    """Return by which names a door may be called that listens at this address."""
    own = listen_host.lower()
    local = _LOOPBACK if own in _LOOPBACK or own in ("*", "0.0.0.0", "[::]") else frozenset[str]()  # noqa: S104 - compared
    return local | {own} | {name.lower() for name in further}


_NAMES_PERSON = re.compile(rb'"(?:user|safety_identifier)"\s*:|\\u00')
"""A body that names a person below its key; or may, with letters written as escapes."""
USER_HEADERS = ("x-hobus-user", "x-openwebui-user-id")


@dataclass(slots=True)
class Guard:
    """The outermost application."""

    app: ASGIApp
    door: Door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on with `scope["principal"]` set; count either way."""
        if scope["type"] != "http":
            return
        status = 0
        body = _RequestBody(self.door, scope, receive)

        async def count_sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if not body.is_whole:
                    message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            elif not message.get("more_body") and not body.is_whole:
                # With something unread the connection would be reset, and the answer lost on its way.
                await send({**message, "more_body": True})
                await body.discard()
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        principal = ""
        try:
            key = self._let_in(scope)
            key, principal = _find_who(scope, key) if key else (None, "")
            scope.update(key=key, principal=principal, door=self.door, app=self)
            body.check_length()
            async with self.door.beginning(key, principal):
                await self.app(scope, body.receive, count_sent)
        except ClientGone:
            await Response(status_code=_CLIENT_GONE)(scope, body.receive, count_sent)
        except Exception as error:  # noqa: BLE001 - the one place where what a handler raised becomes an answer
            problem = convert_error(error)
            self._note_refusal(scope, principal, problem, body.length)
            if problem is DEFECT:  # named, never with the values that it met
                where = traceback.extract_tb(error.__traceback__)[-1]
                _log.error("request_failed", error=type(error).__name__, at=f"{where.filename}:{where.lineno}")
            if not status:
                await answer(problem, count_sent)
        finally:
            endpoint = scope.get("endpoint")
            self.door.metrics.count(getattr(endpoint, "__name__", "none"), scope["method"], status)

    def _note_refusal(self, scope: Scope, of_head: str, problem: Problem, length: int) -> None:
        """Have the door refuse this person for a moment; unread, what an equal head brings for it."""
        principal = scope.get("principal", of_head)
        until = self.door.note_refusal(principal, problem)
        if not until or principal != of_head or not length or problem.facts:
            return
        handler, method, told = getattr(scope.get("endpoint"), "__name__", "none"), scope["method"], as_bytes(problem)

        def shed(body: bytes) -> bytes:
            if len(body) != length or _NAMES_PERSON.search(body) or self.door.bus.clock.monotonic() >= until:
                return b""
            self.door.metrics.count(handler, method, problem.status)
            return told

        scope[SHED] = shed

    def _let_in(self, scope: Scope) -> HttpKey | None:
        """Return the key of the request; None where none is needed. Raises Problem."""
        if sum(len(name) + len(value) for name, value in scope["headers"]) > limits.HEAD_MAX_BYTES:
            raise make_head_too_large()  # it came in one piece
        headers = Headers(scope=scope)
        if "transfer-encoding" in headers and "content-length" in headers:
            # RFC 9112, 6.1: a proxy may have read it to another end than this server does; nothing may follow it.
            raise Problem(400, "malformed_request", "a body has Content-Length or Transfer-Encoding, never both")
        hosts = headers.getlist("host")
        if len(hosts) != 1 or (self.door.hosts and get_host(hosts[0]) not in self.door.hosts):
            raise Problem(421, "host_not_allowed", "this door is not called by that name (Host; http.hosts)")
        if any(origin not in self.door.config.http.origins for origin in headers.getlist("origin")):
            raise Problem(403, "origin_not_allowed", "pages of this origin may not call this door (http.origins)")
        if scope["path"] in OPEN:
            return None
        if scope["method"] == "POST":
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise Problem(415, "content_type", "a body has the content type application/json")
        return self._find_key(headers.getlist("authorization"), scope["method"], scope["path"])

    def _find_key(self, shown: list[str], method: str, path: str) -> HttpKey:
        key = self.door.key_of(shown[0]) if len(shown) == 1 else None
        if key is None:
            raise Problem(
                401, "invalid_api_key", "no valid key (Authorization: Bearer KEY; hobus token create --role http)",
                headers={"www-authenticate": "Bearer"},
            )  # fmt: skip
        if not key.opens(method, path):
            raise Problem(403, "key_not_for_this", f"this key was made for `{key.may}` alone (hobus token create)")
        return key


def _find_who(scope: Scope, key: HttpKey) -> tuple[HttpKey, str]:
    """Return key and person of a request: the key's name, or the user of it that a header names.

    Those that another door names if it passes one on. Raises Problem.
    """
    headers = Headers(scope=scope)
    if key.may != "cell":
        user = next(filter(None, map(headers.get, USER_HEADERS)), None)
        return key, name_person(key.principal, user) if user else key.principal
    person = headers.get(PERSON_HEADER, "")
    shown = key.on_behalf_of(person)
    if shown is None:
        raise Problem(400, "invalid_input", f"a key of another door says whose request it is ({PERSON_HEADER})")
    return shown, person


class _RequestBody:
    """A request's body as it comes: no larger and no slower than allowed."""

    def __init__(self, door: Door, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        self._door = door
        self._left = door.config.http.body_max_bytes
        self._until = asyncio.get_running_loop().time() + door.body_timeout_ms / 1000
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"")
        self.length = int(length) if length.isdigit() else 0  # the parser bounds its digits
        self.is_whole = not self.length and b"transfer-encoding" not in headers

    def check_length(self) -> None:
        """Raise Problem for a body that says itself that it is too large."""
        if self.length > self._left:
            raise self._make_too_large()

    async def receive(self) -> Message:
        """Return the next message of the server. Raises Problem."""
        if self.is_whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise Problem(408, "too_slow", "the body did not come in time") from None
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise self._make_too_large()
            self.is_whole = not message.get("more_body", False)
        return message

    async def discard(self) -> None:
        """Read the rest, until its time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._until):
                is_more = True
                while is_more:
                    message = await self._receive()
                    is_more = message["type"] == "http.request" and message.get("more_body", False)

    def _make_too_large(self) -> Problem:
        limit = self._door.config.http.body_max_bytes
        return Problem(413, "too_large", f"a body has at most {limit} bytes (http.body_max_bytes)")


async def answer(problem: Problem, send: Send) -> None:
    headers, body = write_whole(problem)
    if problem.status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
        headers["connection"] = "close"  # as where it came in pieces
    raw = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
