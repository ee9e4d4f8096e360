"""What the gateway writes into stream `prompts`, and reads back from it. Pure.

What stands in the entries: `bus.record.payloads.prompts`. Each reader raises ValueError for a payload that it cannot
read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from hobus.bus.errors import GatewayError
from hobus.bus.messages.base import pack
from hobus.bus.messages.gateway import Prompt, PromptMessage, PromptResponse
from hobus.bus.messages.ids import body_ref, call_id, dispatched_id, entry_id, got_key, sent_key
from hobus.bus.messages.ledger import Entry, Provenance, WriteEntry
from hobus.bus.messages.work_order import Segment, ToolCall
from hobus.bus.record.entry import checked
from hobus.bus.record.payload import pack_payload, payload_in, payload_of
from hobus.bus.record.payloads.prompts import (
    AnswerCalls,
    BreakerChanged,
    BudgetAllocated,
    BudgetCrossed,
    BudgetReleased,
    BudgetSnapshot,
    CallAsked,
    PromptFailed,
    PromptReceived,
    PromptRejected,
    PromptSent,
    SentMessage,
    SentRequest,
    SentText,
    order_scope,
    scopes_of,
)
from hobus.config.schema import GatewayConfig, Route
from hobus.gateway_service.budget import BudgetState, Crossed, Mode, Reservation, figures_of
from hobus.gateway_service.pricing import NEVER_SENT, Settlement

_NONE: Mapping[str, int] = {}


class PackTexts:
    """Of the packs of this gateway's own configuration; what another one says is not known here."""

    def __init__(self, config_digest: str, texts: Mapping[str, tuple[str, ...]]) -> None:
        """`texts`: by pack id, in order."""
        self._config_digest = config_digest
        self._numbers: dict[str, Mapping[str, int]] = {
            pack_id: {text: number for number, text in enumerate(found)} for pack_id, found in texts.items()
        }

    def of(self, prompt: Prompt) -> Mapping[str, int]:
        """The texts of the pack that this prompt was made from, each with its number there.

        None of them where it was made under another configuration.
        """
        if prompt.config_digest != self._config_digest:
            return _NONE
        return self._numbers.get(prompt.prompt_pack_id, _NONE)


STREAM = "prompts"

Name = Literal["PROMPT_SENT", "PROMPT_RECEIVED", "PROMPT_FAILED"]


@dataclass(frozen=True, slots=True)
class Ask:
    """One admitted request: what is wanted, and of whom.

    `digest` is the SHA-256 of the exact bytes that stand for it there; `asked`, of what its key stands for (`ask_of`).
    """

    prompt: Prompt
    route: Route
    digest: bytes
    asked: bytes
    trace: str
    is_degraded: bool
    said: bytes
    """The transcript, as it is digested."""


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
        return self.reservation.reservation_id


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
    said = pack([_said(message) for message in prompt.messages])
    key_of = pack([prompt.provider_id, prompt.model_id, prompt.domain_tags, prompt.contract_id])
    asked = hashlib.sha256(key_of + said + _manner(prompt)).digest()
    return Ask(prompt, route, _digest(prompt, route, said), asked, trace, is_degraded, said)


def with_answer_cap(ask: Ask, max_tokens: int) -> Ask:
    """The same request with this cap of its answer, under the digest of what is sent; its key stands for the same."""
    if max_tokens == ask.prompt.max_tokens:
        return ask
    prompt = ask.prompt.model_copy(update={"max_tokens": max_tokens})
    return replace(ask, prompt=prompt, digest=_digest(prompt, ask.route, ask.said))


def rerouted(ask: Ask, route: Route) -> Ask:
    """The same request of this model; its key stands for the same."""
    if route is ask.route or route == ask.route:
        return ask
    return replace(ask, route=route, digest=_digest(ask.prompt, route, ask.said))


def _digest(prompt: Prompt, route: Route, said: bytes) -> bytes:
    """SHA-256 of the exact bytes that stand for this request at its provider."""
    tools = [(tool.tool_id, tool.description, tool.parameters) for tool in prompt.tools]
    return hashlib.sha256(pack([route.provider_id, route.model_id, tools]) + said + _manner(prompt)).digest()


def _said(message: PromptMessage) -> list[Any]:
    calls = [_asked_for(call) for call in message.tool_calls]
    return [message.role, message.text, calls, message.tool_call_id]


def _manner(prompt: Prompt) -> bytes:
    schema = prompt.output_schema if prompt.structured_output else None
    return pack([prompt.max_tokens, prompt.temperature, prompt.reasoning_effort, schema])


def sent(attempt: Attempt, packs: PackTexts, *, at_us: int) -> WriteEntry:
    """PROMPT_SENT: durable before anything leaves the process; first of its once key, or nothing is sent."""
    ask, prompt = attempt.ask, attempt.ask.prompt
    payload = PromptSent(
        provider_id=ask.route.provider_id,
        model_id=ask.route.model_id,
        contract_id=prompt.contract_id,
        prompt_pack_id=prompt.prompt_pack_id,
        config_digest=prompt.config_digest,
        max_tokens=prompt.max_tokens,
        temperature=prompt.temperature,
        budget_mode=attempt.mode,
        reserved_tokens=attempt.reservation.tokens,
        estimated_tokens=attempt.estimate,
        token_budget=prompt.token_budget,
        tools=tuple(tool.tool_id for tool in prompt.tools),
        domain_tags=tuple(prompt.domain_tags),
        structured_output=prompt.structured_output,
        reasoning_effort=prompt.reasoning_effort,
        provider_profile_id=prompt.provider_profile_id,
        degraded=ask.is_degraded,
    )
    of_pack = packs.of(prompt)
    request = SentRequest(ask.digest, ask.asked, tuple(_message(message, of_pack) for message in prompt.messages))
    return WriteEntry(
        submission_id=record_id("PROMPT_SENT", attempt.name),
        stream=STREAM,
        event_type="PROMPT_SENT",
        provenance=provenance_of(prompt),
        parents=[] if ask.is_degraded else [dispatched_id(prompt.work_order_id)],
        trace=ask.trace,
        at_us=at_us,
        bodies=[pack_payload(payload), pack_payload(request)],
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


def received(attempt: Attempt, response: PromptResponse, *, answered_by: str, at_us: int) -> WriteEntry:
    """PROMPT_RECEIVED: the recorded answer of this call key from now on.

    `model_id` is the model that was asked, as in PROMPT_SENT; `answered_by`, what its provider calls it.
    """
    route = attempt.ask.route
    payload = PromptReceived(
        provider_id=route.provider_id,
        model_id=route.model_id,
        input_tokens=response.input_tokens,
        output_tokens=response.output_tokens,
        cost_usd=response.cost_usd,
        budget_remaining=response.budget_remaining,
        latency_ms=response.latency_ms,
        finish_reason=response.finish_reason,
        cached_tokens=response.cached_tokens,
        reasoning_tokens=response.reasoning_tokens,
        usage_is_estimated=response.usage_is_estimated,
        answered_by="" if answered_by == route.model_id else answered_by,
    )
    bodies = [pack_payload(payload), response.content.encode()]
    if response.tool_calls:
        bodies.append(pack_payload(AnswerCalls(tuple(map(_asked_for, response.tool_calls)))))
    return _end(attempt, "PROMPT_RECEIVED", bodies, reason="", at_us=at_us)


def failed(attempt: Attempt, fault: GatewayError, settlement: Settlement, *, chars_max: int, at_us: int) -> WriteEntry:
    """PROMPT_FAILED: the other possible end; its settlement says whether anything was sent and used."""
    payload = _failed(attempt.ask.route, fault.detail[:chars_max], settlement, retryable=fault.retryable)
    return _end(attempt, "PROMPT_FAILED", [pack_payload(payload)], reason=fault.code, at_us=at_us)


def closed_as_unknown(entry: Entry, reservation: Reservation, *, at_us: int) -> WriteEntry:
    """The end of a PROMPT_SENT whose sender is gone: settled at its reservation, and said to be unknown."""
    name = entry.submission_id.removeprefix("PROMPT_SENT:")
    settlement = Settlement(tokens=reservation.tokens, cost_usd=None, is_unknown=True, was_sent=True)
    said = "the gateway that sent it ended before it recorded an end"
    sent_to = payload_in(PromptSent, entry)
    route = None if sent_to is None else Route(provider_id=sent_to.provider_id, model_id=sent_to.model_id)
    body = _failed(route, said, settlement, retryable=True)
    return WriteEntry(
        submission_id=record_id("PROMPT_FAILED", name),
        stream=STREAM,
        event_type="PROMPT_FAILED",
        reason="UNKNOWN_OUTCOME",
        provenance=entry.provenance,
        parents=[entry.submission_id],
        trace=entry.trace,
        at_us=at_us,
        bodies=[pack_payload(body)],
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
    """PROMPT_REJECTED: no prompt text.

    What ended a call before its (next) send: nothing was called for it, unless an earlier attempt's records say so.
    """
    payload = PromptRejected(
        contract_id=prompt.contract_id,
        message=fault.detail[: config.message_max_chars],
        outcome=outcome,
        degraded=is_degraded,
    )
    return WriteEntry(
        submission_id=f"PROMPT_REJECTED:{prompt.idempotency_key[: config.key_max_chars]}/{number}",
        stream=STREAM,
        event_type="PROMPT_REJECTED",
        decision="REJECTED",
        reason=fault.code,
        provenance=provenance_of(prompt),
        trace=trace,
        at_us=at_us,
        bodies=[pack_payload(payload)],
    )


def allocated(scope: str, limit: int, *, at_us: int) -> WriteEntry:
    """BUDGET_ALLOCATED: this scope is used for the first time, or its configured limit has changed."""
    return WriteEntry(
        submission_id=f"BUDGET_ALLOCATED:{scope}/{limit}",
        stream=STREAM,
        event_type="BUDGET_ALLOCATED",
        at_us=at_us,
        bodies=[pack_payload(BudgetAllocated(scope, limit))],
    )


def released(attempt: Attempt, code: str, number: str, *, at_us: int) -> WriteEntry:
    """BUDGET_RELEASED: what an attempt held is free again, and no PROMPT_SENT says that it ever was held."""
    payload = BudgetReleased(attempt.reservation.tokens, attempt.reservation.scopes)
    return WriteEntry(
        submission_id=f"BUDGET_RELEASED:{attempt.name}/{number}",
        stream=STREAM,
        event_type="BUDGET_RELEASED",
        reason=code,
        provenance=provenance_of(attempt.ask.prompt),
        trace=attempt.ask.trace,
        at_us=at_us,
        bodies=[pack_payload(payload)],
    )


def breaker_changed(  # noqa: PLR0913 - one argument per fact
    route: Route, before: str, after: str, *, failures: int, code: str, until_us: int, number: str, at_us: int
) -> WriteEntry:
    """BREAKER_CHANGED: from when on a provider's model is called, left alone, or tried."""
    payload = BreakerChanged(route.provider_id, route.model_id, before, after, failures, until_us)
    return WriteEntry(
        submission_id=f"BREAKER_CHANGED:{number}",
        stream=STREAM,
        event_type="BREAKER_CHANGED",
        decision=after.upper(),
        reason=code,
        at_us=at_us,
        bodies=[pack_payload(payload)],
    )


def snapshot(state: BudgetState, after: int, *, at_us: int) -> WriteEntry:
    """BUDGET_SNAPSHOT: what the stream comes to up to `after`, a sequence; the next start reads on from there."""
    payload = BudgetSnapshot(after, figures_of(state), tuple(sorted(state.open)))
    return WriteEntry(
        submission_id=f"BUDGET_SNAPSHOT:{after}",
        stream=STREAM,
        event_type="BUDGET_SNAPSHOT",
        at_us=at_us,
        bodies=[pack_payload(payload)],
    )


def crossed(effect: Crossed, attempt: Attempt, *, at_us: int) -> WriteEntry:
    """BUDGET_WARNING: in mode warn, once per crossing of a limit."""
    payload = BudgetCrossed(effect.scope, effect.limit, effect.used, effect.reserved)
    return WriteEntry(
        submission_id=f"BUDGET_WARNING:{attempt.name}/{effect.scope.partition(':')[0]}",
        stream=STREAM,
        event_type="BUDGET_WARNING",
        decision="WARNING",
        reason="BUDGET_EXHAUSTED",
        provenance=provenance_of(attempt.ask.prompt),
        trace=attempt.ask.trace,
        at_us=at_us,
        bodies=[pack_payload(payload)],
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
    entry = WriteEntry(
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
    return checked(entry) if reason else entry  # it may be a plugin's own


def _failed(route: Route | None, message: str, settlement: Settlement, *, retryable: bool) -> PromptFailed:
    return PromptFailed(
        provider_id="" if route is None else route.provider_id,
        model_id="" if route is None else route.model_id,
        message=message,
        retryable=retryable,
        tokens=settlement.tokens,
        cost_usd=settlement.cost_usd,
        is_unknown=settlement.is_unknown,
        was_sent=settlement.was_sent,
    )


def _message(message: PromptMessage, of_pack: Mapping[str, int]) -> SentMessage:
    parts = tuple(_part(segment, of_pack) for segment in message.segments)
    return SentMessage(message.role, parts, tuple(map(_asked_for, message.tool_calls)), message.tool_call_id)


def _part(segment: Segment, of_pack: Mapping[str, int]) -> int | SentText:
    if segment.ref is not None:
        return SentText(segment.name, segment.ref)
    number = of_pack.get(segment.text)
    return SentText(segment.name, None, segment.text) if number is None else number


def _asked_for(call: ToolCall) -> CallAsked:
    return CallAsked(call.call_id, call.provider_call_id, call.tool_id, call.arguments)


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
