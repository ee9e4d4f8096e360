"""What the gateway reads back from its own records. Pure; the other half of `records.py`.

Each raises ValueError for a payload that cannot be read.
"""

from __future__ import annotations

from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import PromptResponse
from hobus.bus.messages.ids import body_ref
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.work_order import ToolCall
from hobus.bus.record.payload import payload_in, payload_of
from hobus.bus.record.payloads.prompts import (
    AnswerCalls,
    BudgetSnapshot,
    PromptFailed,
    PromptReceived,
    PromptSent,
    SentRequest,
    order_scope,
    scopes_of,
)
from hobus.gateway_service.budget import Reservation
from hobus.gateway_service.pricing import NEVER_SENT, Settlement
from hobus.gateway_service.records import Ask, record_id


def reservation_in(entry: Entry) -> Reservation | None:
    """The reservation of a PROMPT_SENT; None where its payload was erased."""
    return held_in(entry)[0]


def held_in(entry: Entry) -> tuple[Reservation | None, tuple[str, int] | None]:
    """The reservation of a PROMPT_SENT, and (scope, limit) of its order where that has a bound; None where erased."""
    sent = payload_in(PromptSent, entry)
    if sent is None:
        return None, None
    name = entry.submission_id.removeprefix("PROMPT_SENT:")
    reservation = Reservation(name, sent.reserved_tokens, scopes_of(entry.provenance, sent))
    if sent.token_budget is None:
        return reservation, None
    return reservation, (order_scope(entry.provenance.work_order_id), sent.token_budget)


def snapshot_in(entry: Entry) -> BudgetSnapshot:
    """What a BUDGET_SNAPSHOT says. Raises LookupError where it was erased."""
    found = payload_in(BudgetSnapshot, entry)
    if found is None:
        raise LookupError("erased")
    return found


def settlement_in(entry: Entry) -> Settlement:
    """The settlement of an attempt's end; an erased payload settles nothing more than its reservation's release."""
    if entry.event_type == "PROMPT_RECEIVED":
        received = payload_in(PromptReceived, entry)
        if received is None:
            return NEVER_SENT
        return Settlement(tokens=received.tokens, cost_usd=received.cost_usd, is_unknown=False, was_sent=True)
    failed = payload_in(PromptFailed, entry)
    if failed is None:
        return NEVER_SENT
    return Settlement(failed.tokens, failed.cost_usd, failed.is_unknown, failed.was_sent)


def is_another(sent: Entry, ask: Ask) -> bool:
    """Whether a PROMPT_SENT under this key was of another request; not to be told where it was erased."""
    request = _request_in(sent)
    return request is not None and request.asked_sha256 != ask.asked


def response_in(sent: Entry, entry: Entry) -> PromptResponse:
    """The recorded answer behind a PROMPT_RECEIVED, as its PROMPT_SENT was asked.

    Raises GatewayError(UNAVAILABLE) where its content was erased.
    """
    name = entry.submission_id.removeprefix("PROMPT_RECEIVED:")
    received = payload_in(PromptReceived, entry)
    if received is None or any(body is None for body in entry.bodies):
        raise GatewayError("UNAVAILABLE", f"the recorded answer {entry.submission_id} was erased; ask under a new key")
    content, *more = (body or b"" for body in entry.bodies[1:])
    calls = payload_of(AnswerCalls, more[0]).tool_calls if more else ()
    asked, request = payload_in(PromptSent, sent), _request_in(sent)
    return PromptResponse(
        outcome="SUCCESS",
        content=content.decode(),
        content_ref=body_ref(entry.submission_id, 1),
        tool_calls=[ToolCall(**call._asdict()) for call in calls],
        finish_reason=received.finish_reason,
        input_tokens=received.input_tokens,
        output_tokens=received.output_tokens,
        cached_tokens=received.cached_tokens,
        reasoning_tokens=received.reasoning_tokens,
        usage_is_estimated=received.usage_is_estimated,
        provider_id=received.provider_id,
        model_id=received.model_id,
        latency_ms=received.latency_ms,
        cost_usd=received.cost_usd,
        budget_remaining=received.budget_remaining,
        context_hash="" if request is None else request.sha256.hex(),
        tools_told=[] if asked is None else list(asked.tools),
        sent_record_id=record_id("PROMPT_SENT", name),
        received_record_id=entry.submission_id,
        attempts=int(name.rpartition("/")[2]),
    )


def _request_in(sent: Entry) -> SentRequest | None:
    """Body 1 of a PROMPT_SENT; None where it was erased."""
    if len(sent.bodies) < 2 or sent.bodies[1] is None:  # noqa: PLR2004 - payload and request
        return None
    return payload_of(SentRequest, sent.bodies[1])
