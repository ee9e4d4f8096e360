"""The API as an OpenAPI document, from the very models that read requests. Pure."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from hobus.bus.messages.session import CommandVerdict, SessionClosed, SessionReady, SessionView, TurnResult
from hobus.launch.cluster.version import software_version
from hobus.launch.http import openai_words, sessions_api

_SESSION = {"name": "session_id", "in": "path", "required": True, "schema": {"type": "string", "format": "uuid"}}
_KEY = {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "maxLength": 200}}
_AFTER = {"name": "after", "in": "query", "schema": {"type": "integer"}}
_FOLLOW = {"name": "follow", "in": "query", "schema": {"type": "boolean"}}
_LAST = {"name": "Last-Event-ID", "in": "header", "schema": {"type": "integer"}}
_HOBUS_SESSION = {"name": "X-Hobus-Session", "in": "header", "schema": {"type": "string"}}

_Operation = tuple[str, str, str, type[BaseModel] | None, type[BaseModel] | None, list[dict[str, Any]]]


def _first_line(handler: Any) -> str:
    return (handler.__doc__ or "").partition("\n")[0]


@cache
def _operations() -> list[_Operation]:
    s, w = sessions_api, openai_words
    one = "/v1/sessions/{session_id}"
    both = [_KEY, _HOBUS_SESSION]
    return [
        ("get", "/v1/models", "Agents, and models of providers", None, None, []),
        ("get", "/v1/models/{model}", "One of them", None, None, []),
        ("post", "/v1/chat/completions", "OpenAI chat completions over a session", w.ChatRequest, None, both),
        ("post", "/v1/responses", "OpenAI responses over a session", w.ResponsesRequest, None, both),
        ("post", "/v1/sessions", _first_line(s.start_session), s.StartBody, SessionReady, [_KEY]),
        ("get", one, _first_line(s.read_session), None, SessionView, [_SESSION]),
        ("delete", one, _first_line(s.end_session), None, SessionClosed, [_SESSION]),
        ("post", f"{one}/turns", _first_line(s.turn), s.TurnBody, TurnResult, [_SESSION, _KEY]),
        ("post", f"{one}/commands", _first_line(s.command), s.CommandBody, CommandVerdict, [_SESSION, _KEY]),
        ("get", f"{one}/events", _first_line(s.session_events), None, None, [_SESSION, _AFTER, _FOLLOW, _LAST]),
        ("get", "/healthz", "This process turns", None, None, []),
        ("get", "/readyz", "A turn would be answered now", None, None, []),
        ("get", "/metrics", "Prometheus exposition", None, None, []),
    ]


@cache
def document() -> dict[str, Any]:
    """OpenAPI 3.1."""
    models = {cls for _, _, _, body, answer, _ in _operations() for cls in (body, answer) if cls is not None}
    ordered = sorted(models, key=lambda cls: cls.__name__)
    _, schema = models_json_schema(
        [(cls, "validation") for cls in ordered], ref_template="#/components/schemas/{model}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for method, path, summary, body, answer, parameters in _operations():
        operation: dict[str, Any] = {"summary": summary, "parameters": parameters, "responses": {
            "200": {"description": "OK"} if answer is None else _json("OK", answer),
            "default": {"description": "An error, in OpenAI's shape: {error: {message, type, param, code}}"},
        }}  # fmt: skip
        if body is not None:
            operation["requestBody"] = {"required": True, **_json("", body)}
        paths.setdefault(path, {})[method] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "hobus", "version": software_version()},
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": schema.get("$defs", {}),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _json(description: str, cls: type[BaseModel]) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{cls.__name__}"}}}
    return {"description": description, "content": content}
