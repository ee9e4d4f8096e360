"""The operations of a door: their routes, and the same as an OpenAPI document, from the very models that read them."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Awaitable, Callable
from functools import cache
from hashlib import sha256
from html import escape
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.json import schema_components
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from hobus.bus import limits
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.base import Record
from hobus.bus.messages.control import Queues, ReadQueues
from hobus.bus.messages.session import CommandVerdict, SessionClosed, SessionReady, SessionView, TurnResult
from hobus.bus.paging import read_peers
from hobus.launch.cluster.version import __version__
from hobus.launch.http import embeddings, memory_api, openai_api, sessions_api
from hobus.launch.http.context import Door
from hobus.launch.http.guard import Guard
from hobus.launch.http.memory_api import MemoryChangeBody, MemoryLine, MemoryLines
from hobus.launch.http.openai_api import get_door
from hobus.launch.http.openai_requests import ChatRequest, ResponsesRequest
from hobus.launch.http.sessions_api import CommandBody, SessionList, StartBody, TurnBody

if TYPE_CHECKING:
    from hobus.launch.http.cells import Cells

_SESSION = {
    "name": "session_id", "in": "path", "required": True, "schema": {"type": "string"},
    "description": "the whole id, or the beginning of one: SES-1a2b3c4d",
}  # fmt: skip
_KEY = {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "maxLength": 200}}
_AFTER = {"name": "after", "in": "query", "schema": {"type": "integer"}}
_FOLLOW = {"name": "follow", "in": "query", "schema": {"type": "boolean"}}
_LAST = {"name": "Last-Event-ID", "in": "header", "schema": {"type": "integer"}}
_ARTIFACT = {"name": "artifact_id", "in": "path", "required": True, "schema": {"type": "string"}}
_AGENT = {"name": "agent_id", "in": "query", "schema": {"type": "string"}}
_ALL = {"name": "all", "in": "query", "schema": {"type": "boolean"}}
_LIMIT = {"name": "limit", "in": "query", "schema": {"type": "integer"}}
_HOBUS_SESSION = {"name": "X-Hobus-Session", "in": "header", "schema": {"type": "string"}}


def make_app(door: Door, cells: Cells | None = None) -> ASGIApp:
    """Build the application, guarded; pages of `http.origins` may call it from a browser (CORS).

    `cells`: passes on what is for other clusters.
    """
    handlers = [
        openai_api.with_session_id(one.handler) if _SESSION in one.parameters else one.handler for one in OPERATIONS
    ]
    routes = [Route(one.path, of, methods=[one.method]) for one, of in zip(OPERATIONS, handlers, strict=True)]
    routes += [Route("/openapi.json", openapi), Route("/docs", docs), Route("/", first_page)]
    router = Router(routes, redirect_slashes=False)  # a path is what it is
    guarded = Guard(router if cells is None else cells.around(router), door)
    if not (origins := door.config.http.origins):
        return guarded
    return CORSMiddleware(
        guarded, allow_origins=origins, allow_methods=["*"], allow_headers=["*"], expose_headers=_TOLD,
        allow_private_network=True,
    )  # fmt: skip


async def healthz(_request: Request) -> Response:
    """Answer that this process turns."""
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> Response:
    """Answer whether a turn would be answered now: a session host is ready, and an executor. Else 503, and why."""
    reason = await explain_readiness(get_door(request))
    return PlainTextResponse(f"{reason or 'ready'}\n", status_code=503 if reason else 200)


async def explain_readiness(door: Door) -> str:
    """Return '' when turns can be answered, else why not."""
    if door.closing.is_set():
        return "closing"
    try:
        peers = await read_peers(door.bus, timeout_s=limits.RETRY_INTERVAL_MS / 1000)
    except RuntimeFault as fault:
        return f"broker: {fault.code}"
    if not any(row.role == "host" and row.state == "ready" for row in peers.peers):
        return "no session host is ready"
    # A degraded executor lacks tools of a source, and takes orders.
    takes_orders = any(row.role == "ho1" and row.state in ("ready", "degraded") for row in peers.peers)
    return "" if takes_orders else "no executor is ready"


async def metrics(request: Request) -> Response:
    """Show what this door measured, and the counters of everybody's heartbeats."""
    door = get_door(request)
    try:
        peers = (await read_peers(door.bus, timeout_s=door.timeout_s)).peers
        queues = (await door.bus.request("broker", ReadQueues(), expect=Queues, timeout_s=door.timeout_s)).queues
    except RuntimeFault:
        peers, queues = [], []  # what the door knows of itself is told all the same
    return Response(
        door.metrics.render_exposition(peers, queues), media_type="text/plain; version=0.0.4; charset=utf-8"
    )


async def openapi(_request: Request) -> Response:
    """Describe this API for machines."""
    return JSONResponse(make_document())


_TO_CONSOLE = """<!doctype html><html lang=en><meta charset=utf-8><title>hobus</title>
<p>The console of this cluster, for browsers of its machine: <a href="{0}">{0}</a></p><p><a href="/docs">The API</a></p>
<script>{1}</script></html>"""
_GO_ON = (
    """if (["localhost", "127.0.0.1", "[::1]"].includes(location.hostname)) location.replace(document.links[0].href)"""
)
_GO_ON_SHA256 = b64encode(sha256(_GO_ON.encode()).digest()).decode()


async def first_page(request: Request) -> Response:
    """Send a browser of this machine to the console; nothing of it is in this process, and no key opens it.

    Behind a proxy of this machine every client has a loopback address: the browser itself knows by which name it came.
    """
    client = request.client
    is_passed_on = any(name in request.headers for name in ("forwarded", "x-forwarded-for", "x-real-ip", "via"))
    if client is None or not ip_address(client.host).is_loopback or is_passed_on:
        raise HTTPException(404)
    if address := get_door(request).console():
        policy = {"content-security-policy": f"default-src 'none'; script-src 'sha256-{_GO_ON_SHA256}'"}
        return HTMLResponse(_TO_CONSOLE.format(f"http://{escape(address)}/", _GO_ON), headers=policy)
    return PlainTextResponse("no console runs here: `hobus console` begins one; the API: /docs\n", status_code=404)


async def docs(_request: Request) -> Response:
    """Describe this API for people: one page, nothing loaded from elsewhere."""
    rows = [
        f"<tr><td><code>{escape(method.upper())}</code></td><td><code>{escape(path)}</code></td>"
        f"<td>{escape(operation['summary'])}</td></tr>"
        for path, operations in make_document()["paths"].items()
        for method, operation in operations.items()
    ]
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8><title>hobus HTTP API</title><h1>hobus HTTP API</h1>"
        '<p>Schemas: <a href="/openapi.json">/openapi.json</a>. A key: <code>hobus token create --role http</code>.</p>'
        f"<table>{''.join(rows)}</table></html>"
    )
    policy = {"content-security-policy": "default-src 'none'", "x-content-type-options": "nosniff"}
    return HTMLResponse(page, headers=policy)


# --- the operations ---------------------------------------------------------------------------------------------------


class Operation(NamedTuple):
    """One method of one path; `about` where the handler's docstring is no summary for clients."""

    method: str
    path: str
    handler: Callable[[Request], Awaitable[Response]]
    about: str = ""
    body: type[BaseModel | Record] | None = None
    answer: type[BaseModel | Record] | None = None
    parameters: tuple[dict[str, Any], ...] = ()

    @property
    def summary(self) -> str:
        return self.about or (self.handler.__doc__ or "").partition("\n")[0]


_ONE = "/v1/sessions/{session_id}"
_LINE = "/v1/memory/{artifact_id}"
_BOTH = (_KEY, _HOBUS_SESSION)
_OURS = ("Session", "Input", "Outcome", "Ignored", "Remembered", "Over-Budget")
_TOLD = [*(f"X-Hobus-{name}" for name in _OURS), "Retry-After"]
"""Headers of an answer that a page's scripts may read."""
OPERATIONS = (
    Operation("GET", "/v1/models", openai_api.models, "Agents, and models of providers"),
    Operation("GET", "/v1/models/{model:path}", openai_api.model, "One of them"),
    Operation(
        "POST", "/v1/chat/completions", openai_api.chat, "OpenAI chat completions over a session", ChatRequest,
        parameters=_BOTH,
    ),
    Operation(
        "POST", "/v1/responses", openai_api.responses, "OpenAI responses over a session", ResponsesRequest,
        parameters=_BOTH,
    ),
    Operation(
        "POST", "/v1/embeddings", embeddings.embeddings, "OpenAI embeddings, by a model that makes them",
        embeddings.EmbeddingsRequest, parameters=(_KEY,),
    ),
    Operation("POST", "/v1/sessions", sessions_api.start_session, "", StartBody, SessionReady, (_KEY,)),
    Operation("GET", "/v1/sessions", sessions_api.list_sessions, "", None, SessionList, (_ALL, _LIMIT)),
    Operation("GET", _ONE, sessions_api.read_session, "", None, SessionView, (_SESSION,)),
    Operation("DELETE", _ONE, sessions_api.end_session, "", None, SessionClosed, (_SESSION,)),
    Operation("POST", f"{_ONE}/turns", sessions_api.turn, "", TurnBody, TurnResult, (_SESSION, _KEY)),
    Operation("POST", f"{_ONE}/commands", sessions_api.command, "", CommandBody, CommandVerdict, (_SESSION, _KEY)),
    Operation("GET", f"{_ONE}/events", sessions_api.session_events, parameters=(_SESSION, _AFTER, _FOLLOW, _LAST)),
    Operation("GET", "/v1/memory", memory_api.read_lines, "", None, MemoryLines, (_AGENT, _ALL, _AFTER)),
    Operation("POST", _LINE, memory_api.change_line, "", MemoryChangeBody, MemoryLine, (_ARTIFACT, _AGENT)),
    Operation("DELETE", _LINE, memory_api.forget_line, "", None, MemoryLine, (_ARTIFACT, _AGENT)),
    Operation("GET", "/healthz", healthz, "This process turns"),
    Operation("GET", "/readyz", readyz, "A turn would be answered now"),
    Operation("GET", "/metrics", metrics, "Prometheus exposition"),
)  # fmt: skip


@cache
def make_document() -> dict[str, Any]:
    models = sorted({cls for one in OPERATIONS for cls in (one.body, one.answer) if cls}, key=lambda cls: cls.__name__)
    _, schema = models_json_schema(
        [(cls, "validation") for cls in models if issubclass(cls, BaseModel)],
        ref_template="#/components/schemas/{model}",
    )
    _, records = schema_components(
        [cls for cls in models if issubclass(cls, Record)], ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for one in OPERATIONS:
        operation: dict[str, Any] = {"summary": one.summary, "parameters": list(one.parameters), "responses": {
            "200": {"description": "OK"} if one.answer is None else _describe_json("OK", one.answer),
            "default": {"description": "An error, in OpenAI's shape: {error: {message, type, param, code}}"},
        }}  # fmt: skip
        if one.body is not None:
            operation["requestBody"] = {"required": True, **_describe_json("", one.body)}
        paths.setdefault(one.path.replace(":path", ""), {})[one.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "hobus", "version": __version__},
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": schema.get("$defs", {})
            | json.loads(json.dumps(records).replace(r"\\Z", "$")),  # as JSON Schema writes it
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe_json(description: str, cls: type[BaseModel | Record]) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{cls.__name__}"}}}
    return {"description": description, "content": content}
