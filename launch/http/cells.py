"""Requests of people who are in another cell go on to the door of that cell, as they came, and its answers come back.

The key and the person are judged here; the other door takes this one's word for them (`--may cell`). Without
`cell.json` in the home nothing of this is in a door.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import httpx2
import structlog
from msgspec import DecodeError, Struct, ValidationError
from msgspec.json import Decoder
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hobus.launch.cells.carrying import CellSide
from hobus.launch.cells.map import Cell, CellMap
from hobus.launch.http.context import Door
from hobus.launch.http.keys import PERSON_HEADER, name_person
from hobus.launch.http.limits import CELL_CONNECT_S
from hobus.launch.http.problems import Problem
from hobus.launch.http.sse import ClientGone, run_until_gone, wait_disconnected

_NAMES_USER = frozenset({"/v1/chat/completions", "/v1/responses", "/v1/embeddings"})
"""Paths whose body may say for which user it is."""
_OWN = "/v1/models"
_OF_ONE = "host authorization connection keep-alive transfer-encoding content-length te upgrade origin date server"
_BETWEEN_TWO = frozenset(f"{_OF_ONE} {PERSON_HEADER}".encode().split())
"""Headers that are about one connection, or about whose request it is there."""
_log = structlog.get_logger("http")
R = TypeVar("R")


class _Named(Struct):
    user: str | None = None
    safety_identifier: str | None = None


_NAMED = Decoder(_Named)


class Cells:
    """The application of a door that routes: to itself, or to another cell's door."""

    _app: ASGIApp

    def __init__(self, door: Door, own: str, cells: CellMap, client: httpx2.AsyncClient | None = None) -> None:
        """`own`: the cell that this door is of. `client`: for tests, to doors in this process."""
        self._door = door
        self._own = own
        self._cells = cells
        self._client = client or httpx2.AsyncClient(timeout=httpx2.Timeout(None, connect=CELL_CONNECT_S))
        self._asking = asyncio.Lock()
        self._is_listed = False

    def around(self, app: ASGIApp) -> Cells:
        """Stand before this application, which answers those who are in the cluster of its own door."""
        self._app = app
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Route one request. Raises Problem, RuntimeFault, ClientGone as every application behind the guard."""
        key = scope.get("key")
        if key is None or key.may != "use" or scope["path"].startswith(_OWN):
            await self._app(scope, receive, send)
            return
        try:
            body = await Request(scope, receive).body()
        except ClientDisconnect:
            raise ClientGone from None
        person = _find_person(scope, body)
        cell, is_moving = await self._place(person)
        if is_moving:
            said = "the sessions of this person are moving to another cell; ask again"
            raise Problem(503, "moving", said, headers={"retry-after": "1"})
        if cell.name == self._own:
            await self._app(scope, _make_receive(body, receive), send)
            return
        with self._door.turn_under_way():
            await self._pass_on(cell, person, scope, body, receive, send)

    async def _place(self, person: str) -> tuple[Cell, bool]:
        """Where this person is, and whether they move. Who was here before this was a cell stays."""
        async with self._asking:
            if not self._is_listed and not await self._ask_map(self._cells.is_listed, self._own):
                people = await CellSide(self._door.bus, timeout_s=self._door.timeout_s).people()
                await self._ask_map(self._cells.list_people, self._own, list(people))
            self._is_listed = True
            return await self._ask_map(self._cells.place, person)

    async def _ask_map(self, question: Callable[..., R], *given: Any) -> R:
        """Of the map; while a server thinks about it, this door serves others."""
        return await asyncio.to_thread(question, *given) if self._cells.is_server else question(*given)

    async def _pass_on(  # noqa: PLR0913, PLR0917 - a request, and where it goes
        self, cell: Cell, person: str, scope: Scope, body: bytes, receive: Receive, send: Send
    ) -> None:
        headers = [(name, value) for name, value in scope["headers"] if name.lower() not in _BETWEEN_TWO]
        headers += [
            (b"authorization", f"Bearer {cell.key}".encode()),
            (PERSON_HEADER.encode(), person.encode()),
        ]
        query = scope["query_string"].decode("latin-1")
        url = f"{cell.url}{scope['raw_path'].decode('latin-1')}{'?' if query else ''}{query}"
        request = self._client.build_request(scope["method"], url, headers=headers, content=body)
        follows = scope["method"] == "GET" and scope["path"].endswith("/events")
        is_begun = False

        async def pass_through() -> None:
            nonlocal is_begun
            try:
                answer = await self._client.send(request, stream=True)
            except httpx2.TransportError as error:
                _log.warning("cell_away", cell=cell.name, error=type(error).__name__)
                raise _make_away(cell) from None
            try:
                if answer.status_code == 401:  # noqa: PLR2004 - this door's key for that one
                    _log.error("cell_refuses_the_key", cell=cell.name)
                    raise _make_away(cell)
                is_begun = True
                heads = [(name, value) for name, value in answer.headers.raw if name.lower() not in _BETWEEN_TWO]
                await send({"type": "http.response.start", "status": answer.status_code, "headers": heads})
                async for chunk in answer.aiter_raw():
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            finally:
                await answer.aclose()

        work: Awaitable[None] = run_until_gone(pass_through(), partial(wait_disconnected, receive))
        if follows:  # who follows events goes on at another door
            work = run_until_gone(work, self._door.closing.wait)
        try:
            await work
        except ClientGone:
            if not is_begun:
                raise
        await send({"type": "http.response.body", "body": b""})

    async def close(self) -> None:
        await self._client.aclose()
        self._cells.close()


def _make_away(cell: Cell) -> Problem:
    said = f"cell {cell.name}, where this person is, does not answer; ask again"
    return Problem(503, "cell_away", said, headers={"retry-after": "1"})


def _find_person(scope: Scope, body: bytes) -> str:
    """Return whose request it is, as the door of their cell will see it, too."""
    principal: str = scope["principal"]
    if scope["path"] not in _NAMES_USER or principal != scope["key"].principal:
        return principal
    with suppress(DecodeError, ValidationError):  # what it is, the operation itself will say
        named = _NAMED.decode(body)
        if user := named.user or named.safety_identifier:
            return name_person(principal, user)
    return principal


def _make_receive(body: bytes, receive: Receive) -> Receive:
    """Receive the body that was read, then whatever else comes."""
    read: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return read.pop() if read else await receive()

    return receive_again
