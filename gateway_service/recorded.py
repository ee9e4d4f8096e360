"""What the gateway reads back from its own records. Pure; the other half of `records.py`."""

from __future__ import annotations

from typing import Any

from bus.errors import GatewayError
from bus.messages.base import unpack
from bus.messages.gateway import PromptResponse
from bus.messages.ledger import Entry
from bus.messages.work_order import ToolCall
from gateway_service.budget import Reservation, order_scope
from gateway_service.pricing import NEVER_SENT, Settlement
from gateway_service.records import Ask, record_id


def reservation_in(entry: Entry) -> Reservation | None:
    """The reservation of a PROMPT_SENT; None where its payload was erased."""
    if not entry.bodies or entry.bodies[0] is None:
        return None
    held = unpack(entry.bodies[0])["reservation"]
    name = entry.submission_id.removeprefix("PROMPT_SENT:")
    return Reservation(reservation_id=name, tokens=held["tokens"], scopes=tuple(held["scopes"]))


def order_limit_in(entry: Entry) -> tuple[str, int] | None:
    """(scope, limit) of the order behind a PROMPT_SENT; None where its payload was erased, or it has no bound."""
    if not entry.bodies or entry.bodies[0] is None:
        return None
    payload = unpack(entry.bodies[0])
    limit = payload.get("token_budget")
    return None if limit is None else (order_scope(payload["work_order_id"]), limit)


def snapshot_in(entry: Entry) -> tuple[int, dict[str, dict[str, Any]], list[str]]:
    """(sequence up to which, figures of the scopes, names of the open calls) of a BUDGET_SNAPSHOT.

    Raises ValueError, TypeError or LookupError where it cannot be read.
    """
    if not entry.bodies or entry.bodies[0] is None:
        raise LookupError("erased")
    payload = unpack(entry.bodies[0])
    return payload["after"], payload["scopes"], payload["open"]


def settlement_in(entry: Entry) -> Settlement:
    """The settlement of an attempt's end; an erased payload settles nothing more than its reservation's release."""
    if not entry.bodies or entry.bodies[0] is None:
        return NEVER_SENT
    return Settlement(**unpack(entry.bodies[0])["settlement"])


def is_another(sent: Entry, ask: Ask) -> bool:
    """Whether a PROMPT_SENT under this key was of another request; not to be told where it was erased."""
    return _request_in(sent).get("asked_sha256", ask.asked) != ask.asked


def response_in(sent: Entry, entry: Entry) -> PromptResponse:
    """The recorded answer behind a PROMPT_RECEIVED, as its PROMPT_SENT was asked.

    Raises GatewayError(UNAVAILABLE) where its content was erased.
    """
    name = entry.submission_id.removeprefix("PROMPT_RECEIVED:")
    if any(body is None for body in entry.bodies):
        raise GatewayError("UNAVAILABLE", f"the recorded answer {entry.submission_id} was erased; ask under a new key")
    payload = unpack(entry.bodies[0] or b"")
    calls = unpack(entry.bodies[2] or b"") if payload["tool_calls"] else []
    return PromptResponse(
        outcome="SUCCESS",
        content=(entry.bodies[1] or b"").decode(),
        content_ref=payload["content_ref"],
        tool_calls=[ToolCall.model_validate(call) for call in calls],
        finish_reason=payload["finish_reason"],
        input_tokens=payload["input_tokens"],
        output_tokens=payload["output_tokens"],
        cached_tokens=payload["cached_tokens"],
        reasoning_tokens=payload.get("reasoning_tokens", 0),  # not in records of earlier versions
        usage_is_estimated=payload.get("usage_is_estimated", False),
        provider_id=payload["provider_id"],
        model_id=payload["model_id"],
        latency_ms=payload["latency_ms"],
        cost_usd=payload["cost_usd"],
        budget_remaining=payload["budget_remaining"],
        context_hash=_request_in(sent).get("sha256", ""),
        tools_told=unpack(sent.bodies[0])["tools"] if sent.bodies and sent.bodies[0] is not None else [],
        sent_record_id=record_id("PROMPT_SENT", name),
        received_record_id=entry.submission_id,
        attempts=payload["attempt"],
    )


def _request_in(sent: Entry) -> dict[str, Any]:
    """Body 1 of a PROMPT_SENT; empty where it was erased."""
    if len(sent.bodies) < 2 or sent.bodies[1] is None:  # noqa: PLR2004 - payload and request
        return {}
    request: dict[str, Any] = unpack(sent.bodies[1])
    return request
