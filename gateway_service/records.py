"""What the gateway writes into stream `prompts`. Pure. Source: spec pages "Gateway" and "The ledger".

Body 0 of every entry is its payload: ids and figures. Texts stand apart, so that erasing one forgets no spending:
PROMPT_SENT body 1 is the request (segments as {ref} or {text}, SHA-256 of the exact bytes sent and of what the call key
stands for), PROMPT_RECEIVED body 1 the content and body 2 the tool calls, where there are any.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any, Literal

from bus.errors import GatewayError
from bus.messages.base import pack, unpack
from bus.messages.gateway import Prompt, PromptMessage, PromptResponse
from bus.messages.ids import body_ref, call_id, dispatched_id, entry_id, got_key, sent_key
from bus.messages.ledger import Entry, Provenance, WriteEntry
from bus.messages.work_order import Segment, ToolCall
from bus.record.entry import checked
from config.schema import GatewayConfig, Route
from gateway_service.budget import BudgetState, Crossed, Mode, Reservation, figures_of
from gateway_service.pricing import Settlement

STREAM = "prompts"

Name = Literal["PROMPT_SENT", "PROMPT_RECEIVED", "PROMPT_FAILED"]


@dataclass(frozen=True, slots=True)
class Ask:
    """One admitted request: what is wanted, and of whom.

    `digest` is the SHA-256 of the exact bytes that stand for it there; `asked`, of what its key stands for (`ask_of`).
    """

    prompt: Prompt
    route: Route
    digest: str
    asked: str
    trace: str
    is_degraded: bool


@dataclass(frozen=True, slots=True)
class Attempt:
    """One send of one call: everything its records need."""

    ask: Ask
    number: int
    reservation: Reservation
    estimate: int
    mode: Mode

    @property
    def name(self) -> str:
        """`<call key>/<attempt>`."""
        return attempt_name(self.ask.prompt.idempotency_key, self.number)


def attempt_name(call_key: str, number: int) -> str:
    """`<call key>/<attempt>`: what PROMPT_* submission ids and once keys are made of."""
    return f"{call_key}/{number}"


def record_id(event: Name, name: str) -> str:
    """The submission id of an attempt's record."""
    return entry_id(event, name)


def ask_of(prompt: Prompt, route: Route, *, trace: str, is_degraded: bool) -> Ask:
    """An admitted prompt with its digests.

    Its key stands for what its order and the configuration that this names have fixed. Who asks for an order again may
    know other tools than who asked first, as one that has just started does, and the gateway may be routed otherwise
    since: that makes no other request of it.
    """
    wanted = _wanted(prompt)
    asked = _sha256([prompt.provider_id, prompt.model_id, prompt.domain_tags, prompt.contract_id, *wanted])
    return Ask(prompt, route, _digest(prompt, route, wanted), asked, trace, is_degraded)


def with_answer_cap(ask: Ask, max_tokens: int) -> Ask:
    """The same request with this cap of its answer, under the digest of what is sent; its key stands for the same."""
    if max_tokens == ask.prompt.max_tokens:
        return ask
    prompt = ask.prompt.model_copy(update={"max_tokens": max_tokens})
    return replace(ask, prompt=prompt, digest=_digest(prompt, ask.route, _wanted(prompt)))


def rerouted(ask: Ask, route: Route) -> Ask:
    """The same request of this model; its key stands for the same."""
    if route == ask.route:
        return ask
    return replace(ask, route=route, digest=_digest(ask.prompt, route, _wanted(ask.prompt)))


def _digest(prompt: Prompt, route: Route, wanted: list[Any]) -> str:
    """SHA-256 of the exact bytes that stand for this request at its provider."""
    tools = [
        {"tool_id": tool.tool_id, "description": tool.description, "parameters": tool.parameters}
        for tool in prompt.tools
    ]
    return _sha256([route.provider_id, route.model_id, tools, *wanted])


def _wanted(prompt: Prompt) -> list[Any]:
    messages = [
        [message.role, message.text, [call.model_dump() for call in message.tool_calls], message.tool_call_id]
        for message in prompt.messages
    ]
    schema = prompt.output_schema if prompt.structured_output else None
    return [messages, prompt.max_tokens, prompt.temperature, prompt.reasoning_effort, schema]


def _sha256(request: list[Any]) -> str:
    return hashlib.sha256(pack(request)).hexdigest()


def sent(attempt: Attempt, *, at_us: int) -> WriteEntry:
    """PROMPT_SENT: durable before anything leaves the process; first of its once key, or nothing is sent."""
    prompt = attempt.ask.prompt
    payload = {
        **_ids(attempt),
        "prompt_pack_id": prompt.prompt_pack_id,
        "contract_id": prompt.contract_id,
        "domain_tags": prompt.domain_tags,
        "max_tokens": prompt.max_tokens,
        "token_budget": prompt.token_budget,
        "temperature": prompt.temperature,
        "reasoning_effort": prompt.reasoning_effort,
        "provider_profile_id": prompt.provider_profile_id,
        "structured_output": prompt.structured_output,
        "tools": [tool.tool_id for tool in prompt.tools],
        "config_digest": prompt.config_digest,
        "degraded": attempt.ask.is_degraded,
        "budget_mode": attempt.mode,
        "reservation": {
            "tokens": attempt.reservation.tokens,
            "estimate": attempt.estimate,
            "scopes": list(attempt.reservation.scopes),
        },
    }
    request = {
        "sha256": attempt.ask.digest,
        "asked_sha256": attempt.ask.asked,
        "messages": [_message(message) for message in prompt.messages],
    }
    return WriteEntry(
        submission_id=record_id("PROMPT_SENT", attempt.name),
        stream=STREAM,
        event_type="PROMPT_SENT",
        provenance=provenance_of(prompt),
        parents=[] if attempt.ask.is_degraded else [dispatched_id(prompt.work_order_id)],
        trace=attempt.ask.trace,
        at_us=at_us,
        bodies=[pack(payload), pack(request)],
        once=sent_key(attempt.name),
    )


def numbered(calls: list[ToolCall]) -> list[ToolCall]:
    """Tool calls under their positions in the answer, whatever ids a provider gave; its own stand beside them."""
    return [
        call
        if call.call_id == (position_id := call_id(position))
        else call.model_copy(update={"call_id": position_id, "provider_call_id": call.provider_call_id or call.call_id})
        for position, call in enumerate(calls, 1)
    ]


def received(
    attempt: Attempt, response: PromptResponse, settlement: Settlement, *, answered_by: str, at_us: int
) -> WriteEntry:
    """PROMPT_RECEIVED: the recorded answer of this call key from now on.

    `model_id` is the model that was asked, as in PROMPT_SENT; `answered_by`, what its provider calls it.
    """
    payload = {
        **_ids(attempt),
        "finish_reason": response.finish_reason,
        "input_tokens": response.input_tokens,
        "output_tokens": response.output_tokens,
        "cached_tokens": response.cached_tokens,
        "reasoning_tokens": response.reasoning_tokens,
        "usage_is_estimated": response.usage_is_estimated,
        "latency_ms": response.latency_ms,
        "cost_usd": response.cost_usd,
        "budget_remaining": response.budget_remaining,
        "answered_by": answered_by,
        "settlement": _settlement(settlement),
        "content_ref": body_ref(record_id("PROMPT_RECEIVED", attempt.name), 1),
        "tool_calls": len(response.tool_calls),
    }
    bodies = [pack(payload), response.content.encode()]
    if response.tool_calls:
        bodies.append(pack([call.model_dump() for call in response.tool_calls]))
    return _end(attempt, "PROMPT_RECEIVED", bodies, reason="", at_us=at_us)


def failed(attempt: Attempt, fault: GatewayError, settlement: Settlement, *, chars_max: int, at_us: int) -> WriteEntry:
    """PROMPT_FAILED: the other possible end; its settlement says whether anything was sent and used."""
    payload = {
        **_ids(attempt),
        "code": fault.code,
        "message": fault.detail[:chars_max],
        "retryable": fault.retryable,
        "settlement": _settlement(settlement),
    }
    return _end(attempt, "PROMPT_FAILED", [pack(payload)], reason=fault.code, at_us=at_us)


def closed_as_unknown(entry: Entry, reservation: Reservation, *, at_us: int) -> WriteEntry:
    """The end of a PROMPT_SENT whose sender is gone: settled at its reservation, and said to be unknown."""
    payload = unpack(entry.bodies[0] or b"\x80")
    name = entry.submission_id.removeprefix("PROMPT_SENT:")
    settlement = Settlement(tokens=reservation.tokens, cost_usd=None, is_unknown=True, was_sent=True)
    body = {
        key: payload.get(key)
        for key in ("call_key", "attempt", "agent_id", "session_id", "work_order_id", "provider_id", "model_id")
    } | {
        "code": "UNKNOWN_OUTCOME",
        "message": "the gateway that sent it ended before it recorded an end",
        "retryable": True,
        "settlement": _settlement(settlement),
    }
    return WriteEntry(
        submission_id=record_id("PROMPT_FAILED", name),
        stream=STREAM,
        event_type="PROMPT_FAILED",
        reason="UNKNOWN_OUTCOME",
        provenance=entry.provenance,
        parents=[entry.submission_id],
        trace=entry.trace,
        at_us=at_us,
        bodies=[pack(body)],
        once=got_key(name),
    )


def rejected(  # noqa: PLR0913 - one argument per fact
    prompt: Prompt,
    fault: GatewayError,
    number: str,
    *,
    outcome: str,
    trace: str,
    is_degraded: bool,
    config: GatewayConfig,
    at_us: int,
) -> WriteEntry:
    """PROMPT_REJECTED {agent, session, contract, code, message, outcome}: no prompt text.

    What ended a call before its (next) send: nothing was called for it, unless an earlier attempt's records say so.
    """
    payload = {
        "agent_id": prompt.agent_id,
        "session_id": prompt.session_id,
        "contract_id": prompt.contract_id,
        "work_order_id": prompt.work_order_id,
        "code": fault.code,
        "message": fault.detail[: config.message_max_chars],
        "outcome": outcome,
        "degraded": is_degraded,
    }
    return WriteEntry(
        submission_id=f"PROMPT_REJECTED:{prompt.idempotency_key[: config.key_max_chars]}/{number}",
        stream=STREAM,
        event_type="PROMPT_REJECTED",
        decision="REJECTED",
        reason=fault.code,
        provenance=provenance_of(prompt),
        trace=trace,
        at_us=at_us,
        bodies=[pack(payload)],
    )


def allocated(scope: str, limit: int, *, at_us: int) -> WriteEntry:
    """BUDGET_ALLOCATED: this scope is used for the first time, or its configured limit has changed."""
    return WriteEntry(
        submission_id=f"BUDGET_ALLOCATED:{scope}/{limit}",
        stream=STREAM,
        event_type="BUDGET_ALLOCATED",
        at_us=at_us,
        bodies=[pack({"scope": scope, "limit": limit})],
    )


def released(attempt: Attempt, code: str, number: str, *, at_us: int) -> WriteEntry:
    """BUDGET_RELEASED: what an attempt held is free again, and no PROMPT_SENT says that it ever was held."""
    payload = {
        "call_key": attempt.ask.prompt.idempotency_key,
        "attempt": attempt.number,
        "tokens": attempt.reservation.tokens,
        "scopes": list(attempt.reservation.scopes),
        "code": code,
    }
    return WriteEntry(
        submission_id=f"BUDGET_RELEASED:{attempt.name}/{number}",
        stream=STREAM,
        event_type="BUDGET_RELEASED",
        reason=code,
        provenance=provenance_of(attempt.ask.prompt),
        trace=attempt.ask.trace,
        at_us=at_us,
        bodies=[pack(payload)],
    )


def breaker_changed(  # noqa: PLR0913 - one argument per fact
    route: Route, before: str, after: str, *, failures: int, code: str, until_us: int, number: str, at_us: int
) -> WriteEntry:
    """BREAKER_CHANGED: from when on a provider's model is called, left alone, or tried."""
    payload = {
        "provider_id": route.provider_id,
        "model_id": route.model_id,
        "from": before,
        "to": after,
        "failures": failures,
        "until_us": until_us,
    }
    return WriteEntry(
        submission_id=f"BREAKER_CHANGED:{number}",
        stream=STREAM,
        event_type="BREAKER_CHANGED",
        decision=after.upper(),
        reason=code,
        at_us=at_us,
        bodies=[pack(payload)],
    )


def snapshot(state: BudgetState, after: int, *, at_us: int) -> WriteEntry:
    """BUDGET_SNAPSHOT: what the stream comes to up to `after`, a sequence; the next start reads on from there."""
    payload = {"after": after, "scopes": figures_of(state), "open": sorted(state.open)}
    return WriteEntry(
        submission_id=f"BUDGET_SNAPSHOT:{after}",
        stream=STREAM,
        event_type="BUDGET_SNAPSHOT",
        at_us=at_us,
        bodies=[pack(payload)],
    )


def crossed(effect: Crossed, attempt: Attempt, *, at_us: int) -> WriteEntry:
    """BUDGET_WARNING: in mode warn, once per crossing of a limit."""
    payload = {
        "scope": effect.scope,
        "limit": effect.limit,
        "used": effect.used,
        "reserved": effect.reserved,
        "call_key": attempt.ask.prompt.idempotency_key,
    }
    return WriteEntry(
        submission_id=f"BUDGET_WARNING:{attempt.name}/{effect.scope.partition(':')[0]}",
        stream=STREAM,
        event_type="BUDGET_WARNING",
        decision="WARNING",
        reason="BUDGET_EXHAUSTED",
        provenance=provenance_of(attempt.ask.prompt),
        trace=attempt.ask.trace,
        at_us=at_us,
        bodies=[pack(payload)],
    )


def provenance_of(prompt: Prompt) -> Provenance:
    """Who and what a prompt is about."""
    return Provenance(
        agent_id=prompt.agent_id,
        agent_class=prompt.agent_class,
        framework_id=prompt.framework_id,
        package_id=prompt.package_id,
        session_id=prompt.session_id,
        run_seq=prompt.run_seq,
        work_order_id=prompt.work_order_id,
        tier=prompt.tier,
    )


def _end(attempt: Attempt, event: Name, bodies: list[bytes], *, reason: str, at_us: int) -> WriteEntry:
    return checked(  # its reason may be a plugin's own
        WriteEntry(
            submission_id=record_id(event, attempt.name),
            stream=STREAM,
            event_type=event,
            reason=reason,
            provenance=provenance_of(attempt.ask.prompt),
            parents=[record_id("PROMPT_SENT", attempt.name)],
            trace=attempt.ask.trace,
            at_us=at_us,
            bodies=bodies,
            once=got_key(attempt.name),
        )
    )


def _ids(attempt: Attempt) -> dict[str, Any]:
    prompt = attempt.ask.prompt
    return {
        "call_key": prompt.idempotency_key,
        "attempt": attempt.number,
        "agent_id": prompt.agent_id,
        "session_id": prompt.session_id,
        "work_order_id": prompt.work_order_id,
        "provider_id": attempt.ask.route.provider_id,
        "model_id": attempt.ask.route.model_id,
    }


def _settlement(settlement: Settlement) -> dict[str, Any]:
    return {
        "tokens": settlement.tokens,
        "cost_usd": settlement.cost_usd,
        "is_unknown": settlement.is_unknown,
        "was_sent": settlement.was_sent,
    }


def _message(message: PromptMessage) -> dict[str, Any]:
    return {
        "role": message.role,
        "segments": [_segment(segment) for segment in message.segments],
        "tool_calls": [call.model_dump() for call in message.tool_calls],
        "tool_call_id": message.tool_call_id,
    }


def _segment(segment: Segment) -> dict[str, str]:
    text = {"text": segment.text} if segment.ref is None else {"ref": segment.ref}
    return {"name": segment.name} | text
