"""The routes of a door, and how a fault becomes an answer."""

from __future__ import annotations

from html import escape
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from hobus.bus.errors import RuntimeFault
from hobus.bus.paging import read_peers
from hobus.launch.http import openai_api, sessions_api
from hobus.launch.http.context import Door
from hobus.launch.http.guard import Guard
from hobus.launch.http.openai_api import door_of
from hobus.launch.http.openapi import document
from hobus.launch.http.problems import DEFECT, Problem, of_fault
from hobus.launch.http.turns import ClientGone

_CLIENT_GONE = 499


def make_app(door: Door) -> ASGIApp:
    """The application, guarded."""
    routes = [
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/metrics", metrics),
        Route("/openapi.json", openapi),
        Route("/docs", docs),
        Route("/v1/models", openai_api.models),
        Route("/v1/models/{model:path}", openai_api.model),
        Route("/v1/chat/completions", openai_api.chat, methods=["POST"]),
        Route("/v1/responses", openai_api.responses, methods=["POST"]),
        Route("/v1/sessions", sessions_api.start_session, methods=["POST"]),
        Route("/v1/sessions/{session_id}", sessions_api.read_session),
        Route("/v1/sessions/{session_id}", sessions_api.end_session, methods=["DELETE"]),
        Route("/v1/sessions/{session_id}/turns", sessions_api.turn, methods=["POST"]),
        Route("/v1/sessions/{session_id}/commands", sessions_api.command, methods=["POST"]),
        Route("/v1/sessions/{session_id}/events", sessions_api.session_events),
    ]
    handlers: dict[Any, Any] = {
        Problem: _problem, RuntimeFault: _fault, ClientGone: _gone, HTTPException: _http, Exception: _defect,
    }  # fmt: skip
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False  # a path is what it is
    app.state.door = door
    return Guard(app, door)


async def healthz(_request: Request) -> Response:
    """This process turns."""
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> Response:
    """A turn would be answered now: a session host is ready. Else 503, and why."""
    reason = await readiness(door_of(request))
    return PlainTextResponse(f"{reason or 'ready'}\n", status_code=503 if reason else 200)


async def readiness(door: Door) -> str:
    """'' when turns can be answered, else why not."""
    if door.closing.is_set():
        return "closing"
    try:
        peers = await read_peers(door.bus, timeout_s=door.config.host.retry_interval_ms / 1000)
    except RuntimeFault as fault:
        return f"broker: {fault.code}"
    return "" if any(row.role == "host" and row.state == "ready" for row in peers.peers) else "no session host is ready"


async def metrics(request: Request) -> Response:
    """What this door measured, and the counters of everybody's heartbeats."""
    door = door_of(request)
    try:
        peers = (await read_peers(door.bus, timeout_s=door.timeout_s)).peers
    except RuntimeFault:
        peers = []  # what the door knows of itself is told all the same
    return Response(door.metrics.exposition(peers), media_type="text/plain; version=0.0.4; charset=utf-8")


async def openapi(_request: Request) -> Response:
    """This API, for machines."""
    return JSONResponse(document())


async def docs(_request: Request) -> Response:
    """This API, for people: one page, nothing loaded from elsewhere."""
    rows = [
        f"<tr><td><code>{escape(method.upper())}</code></td><td><code>{escape(path)}</code></td>"
        f"<td>{escape(operation['summary'])}</td></tr>"
        for path, operations in document()["paths"].items()
        for method, operation in operations.items()
    ]
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8><title>hobus HTTP API</title><h1>hobus HTTP API</h1>"
        '<p>Schemas: <a href="/openapi.json">/openapi.json</a>. A key: <code>hobus token create --role http</code>.</p>'
        f"<table>{''.join(rows)}</table></html>"
    )
    policy = {"content-security-policy": "default-src 'none'", "x-content-type-options": "nosniff"}
    return HTMLResponse(page, headers=policy)


async def _problem(_request: Request, problem: Problem) -> Response:
    return JSONResponse(problem.body(), status_code=problem.status, headers=problem.headers)


async def _fault(request: Request, fault: RuntimeFault) -> Response:
    return await _problem(request, of_fault(fault))


async def _http(request: Request, error: HTTPException) -> Response:
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "error")
    problem = Problem(error.status_code, code, error.detail, headers=error.headers)
    return await _problem(request, problem)


async def _defect(request: Request, _error: Exception) -> Response:
    return await _problem(request, DEFECT)


async def _gone(_request: Request, _gone: ClientGone) -> Response:
    return Response(status_code=_CLIENT_GONE)
