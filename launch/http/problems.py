"""What a client of the door is told when something is wrong, in the shape that OpenAI's clients read. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from math import ceil
from typing import Any

from starlette.exceptions import HTTPException

from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.session import TurnResult

STATUS = {
    "invalid_input": 400, "malformed": 400, "rejected": 400,
    "tool_name_taken": 400, "agent_mismatch": 400,
    "FORBIDDEN": 403, "AUTH_ERROR": 403, "denied": 403,
    "not_found": 404, "unknown_artifact": 404, "PROVIDER_NOT_FOUND": 404, "MODEL_NOT_FOUND": 404,
    "input_conflict": 409, "run_active": 409, "run_waiting": 409, "session_closed": 409,
    "cancelled": 409, "fenced": 409,
    "CONTEXT_TOO_LONG": 400, "MODEL_UNFIT": 400, "INVALID_INPUT": 400,
    "too_large": 413, "format_not_met": 422, "answer_cut": 422, "tool_invalid_args": 422,
    "busy": 429, "BUDGET_EXHAUSTED": 429, "HIERARCHY_EXCEEDED": 429, "TURN_LIMIT": 429, "NOT_ALLOCATED": 429,
    "RATE_LIMITED": 429, "PROVIDER_RATE_LIMITED": 429,
    "PROVIDER_ERROR": 502, "PROVIDER_REFUSED": 502, "PROVIDER_UNUSABLE": 502, "UNKNOWN_OUTCOME": 502,
    "CIRCUIT_OPEN": 503, "UNAVAILABLE": 503, "PROVIDER_TIMEOUT": 504, "DEADLINE_EXCEEDED": 504,
    "no_route": 503, "peer_lost": 503, "unavailable": 503, "disk_full": 503, "moved": 503, "unreadable": 503,
    "session_left": 503, "expired": 504, "deadline_exceeded": 504,
}  # fmt: skip
"""Code of a fault or of a turn's verdict -> HTTP status; any other is 500."""

_PARAMS = {"agent_mismatch": "model", "MODEL_UNFIT": "model"}
"""Code -> the field of a request in OpenAI's words that it is about."""

_TYPES = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    405: "invalid_request_error",
    409: "conflict_error", 413: "invalid_request_error", 415: "invalid_request_error", 421: "invalid_request_error",
    422: "invalid_request_error",
    408: "invalid_request_error", 429: "rate_limit_error", 431: "invalid_request_error",
}  # fmt: skip


class Problem(Exception):
    """An answer that is an error: its status, a code to go by, and a sentence."""

    def __init__(  # noqa: PLR0913 - what an answer has
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.headers = dict(headers or {})
        self.facts = dict(facts or {})

    def body(self) -> dict[str, Any]:
        """Return the body in the shape of OpenAI's API; what is hobus's own stands beside its fields."""
        kind = _TYPES.get(self.status, "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code, **self.facts}}


DEFECT = Problem(500, "internal", "a defect of the door; its log says where")


def make_head_too_large() -> Problem:
    return Problem(431, "head_too_large", "request line and headers are too large")


def write_whole(problem: Problem) -> tuple[dict[str, str], bytes]:
    body = json.dumps(problem.body(), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return {"content-type": "application/json", "content-length": str(len(body)), **problem.headers}, body


def as_bytes(problem: Problem) -> bytes:
    """Return a whole answer for a connection that had no whole request; it is the last one there."""
    headers, body = write_whole(problem)
    lines = [f"{name}: {value}" for name, value in ({"connection": "close"} | headers).items()]
    head = "\r\n".join([f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}", *lines, "", ""])
    return head.encode("latin-1", "replace") + body


def make_door_closing() -> Problem:
    """Return that the door closes, no verdict on a turn: another door may be asked the same."""
    return Problem(
        503, "door_closing", "this door closes; ask again, another one answers", headers={"retry-after": "1"}
    )


def convert_error(error: Exception) -> Problem:
    """Return the problem behind whatever a handler raised; DEFECT for what none should."""
    match error:
        case Problem():
            return error
        case RuntimeFault():
            return convert_fault(error)
        case HTTPException():
            code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "error")
            return Problem(error.status_code, code, error.detail, headers=error.headers)
        case _:
            return DEFECT


def convert_fault(fault: RuntimeFault) -> Problem:
    if fault.code == "cancelled":  # this process ends
        return make_door_closing()
    status = STATUS.get(fault.code, HTTPStatus.INTERNAL_SERVER_ERROR)
    headers: dict[str, str] = {}
    if fault.retry_after_ms is not None and fault.retryable:
        headers["retry-after"] = str(max(1, ceil(fault.retry_after_ms / 1000)))
    return Problem(status, fault.code, fault.detail, headers=headers)


def convert_result(result: TurnResult) -> Problem | None:
    """Return the problem that a turn ended in; None for one that was answered, also if degraded."""
    if result.outcome != "error":
        return None
    facts = {"session_id": result.session_id, "input_id": result.input_id, "outcome": result.outcome}
    return convert_code(result.code or "error", result.response, retry_after_ms=result.retry_after_ms, facts=facts)


def convert_code(
    code: str, said: str, *, retry_after_ms: int | None = None, facts: Mapping[str, Any] | None = None
) -> Problem:
    status = STATUS.get(code, HTTPStatus.INTERNAL_SERVER_ERROR)
    # What passes may be asked again, as soon as its provider may. All else was tried as often as the configuration
    # says: who asks anew pays again. OpenAI's clients go by these headers.
    is_passing = status == HTTPStatus.SERVICE_UNAVAILABLE or code in ("busy", "RATE_LIMITED")
    headers = {} if is_passing else {"x-should-retry": "false"}
    if is_passing or retry_after_ms:
        headers["retry-after"] = str(max(1, ceil((retry_after_ms or 0) / 1000)))
    return Problem(status, code, said, param=_PARAMS.get(code), headers=headers, facts=facts)
