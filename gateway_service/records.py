"""What the gateway writes into stream `prompts`, and reads back from it. Pure.

What stands in the entries: `bus.record.payloads.prompts`. Each reader raises ValueError for a payload that it cannot
read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hobus.bus.errors import GatewayError
from hobus.bus.fair import get_owner
from hobus.bus.messages.base import make_from, pack
from hobus.bus.messages.gateway import Prompt, PromptMessage, PromptResponse, SeenImage, list_texts
from hobus.bus.messages.ids import (
    call_id,
    derive_body_ref,
    derive_dispatched_id,
    derive_entry_id,
    derive_got_key,
    derive_sent_key,
)
from hobus.bus.messages.ledger import Entry, Provenance, WriteEntry
from hobus.bus.messages.work_order import BudgetMode, ToolCall
from hobus.bus.record.entry import check_entry
from hobus.bus.record.payload import pack_payload, read_payload, unpack_payload
from hobus.bus.record.payloads.prompts import (
    AnswerCalls,
    PromptFailed,
    PromptReceived,
    PromptSent,
    SentRequest,
    hash_messages,
    list_scopes,
    name_order_scope,
    shorten_ref,
)
from hobus.config.sections.gateway import Route
from hobus.gateway_service.budget import Reservation
from hobus.gateway_service.limits import MESSAGE_MAX_CHARS
from hobus.gateway_service.pricing import NEVER_SENT, Settlement, make_unknown
from hobus.gateway_service.vectors import VectorPrompt

PackTexts = Mapping[tuple[str, str], Mapping[str, int]]
"""By digest of the configuration and pack: texts that stand in the record with CONFIG_SNAPSHOT, with their numbers."""


def number_texts(config_digest: str, texts: Mapping[str, tuple[str, ...]]) -> PackTexts:
    """Return the packs' `texts`, by pack id, in order."""
    numbers = {pack_id: {text: number for number, text in enumerate(found)} for pack_id, found in texts.items()}
    return {(config_digest, pack_id): found for pack_id, found in numbers.items()}


STREAM = "prompts"


class PromptCall(Struct, frozen=True):
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
    """SHA-256 of the transcript."""
    about: Provenance
    """Who and what its records are about."""
    principal: str = ""
    """Whose vectors are wanted; an answer is for its session."""


class Attempt(Struct, eq=False):
    """One send of one call: what its records need, and what became of it.

    Without a settlement at its end it was never sent, and its reservation is released.
    """

    ask: PromptCall
    name: str
    """`<call key>/<attempt>`."""
    number: int
    reservation: Reservation
    estimate: int
    mode: BudgetMode
    settlement: Settlement | None = None
    is_submitted: bool = False
    """Its PROMPT_SENT was handed over: the record says what became of it."""
    is_spooled: bool = False


def attempt_name(call_key: str, number: int) -> str:
    """Return `<call key>/<attempt>`: what PROMPT_* submission ids and once keys are made of.

    The sender adds `.<epoch of the gateway>` where a call leaves before the ledger has answered.
    """
    return f"{call_key}/{number}"


def ask_of(prompt: Prompt, route: Route, *, trace: str, is_degraded: bool, principal: str = "") -> PromptCall:
    """Return an admitted prompt with its digests.

    Its key stands for what its order and the configuration that this names have fixed. Who asks for an order again may
    know other tools than who asked first, as one that has just started does, and the gateway may be routed otherwise
    since: that makes no other request of it.
    """
    messages = zip(prompt.messages, list_texts(prompt.messages), strict=True)
    said = hash_messages([(one.role, text, one.tool_calls, one.tool_call_id) for one, text in messages])
    key_of = pack([prompt.provider_id, prompt.model_id, prompt.domain_tags, prompt.contract_id])
    asked = hashlib.sha256(key_of + said + _pack_manner(prompt)).digest()
    about = get_provenance(prompt)
    of_whom = get_owner(principal) if isinstance(prompt, VectorPrompt) else ""
    return PromptCall(
        prompt, route, _digest_request(prompt, route, said), asked, trace, is_degraded, said, about, of_whom
    )


def change_request(ask: PromptCall, route: Route, **fields: Any) -> PromptCall:
    """Return the same request of this model with these fields, under the digest of what is sent.

    Its key stands for the same.

    Messages may have images then, and no other words.
    """
    is_same_route = route is ask.route or route == ask.route
    if is_same_route and not [name for name in fields if fields[name] != getattr(ask.prompt, name)]:
        return ask
    prompt = ask.prompt.model_copy(update=fields)
    return replace(ask, prompt=prompt, route=route, digest=_digest_request(prompt, route, ask.said))


def _digest_request(prompt: Prompt, route: Route, said: bytes) -> bytes:
    """Return SHA-256 of all that stands for this request at its provider."""
    tools = [(tool.tool_id, tool.description, tool.parameters) for tool in prompt.tools]
    request = [route.provider_id, route.model_id, tools, *_list_images(prompt)]
    return hashlib.sha256(pack(request) + said + _pack_manner(prompt)).digest()


def _list_images(prompt: Prompt) -> tuple[str, ...]:
    segments = [segment for message in prompt.messages for segment in message.segments]
    return tuple([file.ref for segment in segments for file in segment.files if isinstance(file, SeenImage)])


def _pack_manner(prompt: Prompt) -> bytes:
    schema = prompt.output_schema if prompt.structured_output else None
    drawn = [] if prompt.sampling is None else [prompt.sampling.model_dump()]
    drawn += [prompt.vector_numbers] if isinstance(prompt, VectorPrompt) else []
    return pack([prompt.max_tokens, prompt.temperature, prompt.reasoning_effort, schema, *drawn])


def make_entry(
    event_type: str, about: str, *behind: bytes, payload: tuple[Any, ...], at: float, **facts: Any
) -> WriteEntry:
    """Build `<event type>:<about>` with its payload, and the bodies `behind` it; `at`: seconds since 1970 UTC.

    `facts`: its other fields.
    """
    return WriteEntry(
        submission_id=derive_entry_id(event_type, about),
        stream=STREAM,
        event_type=event_type,
        at_us=round(at * 1_000_000),
        bodies=[pack_payload(payload), *behind],
        **facts,
    )


def make_sent(attempt: Attempt, packs: PackTexts, *, at: float) -> WriteEntry:
    """Build PROMPT_SENT: durable before anything leaves the process; first of its once key, or nothing is sent."""
    ask, prompt = attempt.ask, attempt.ask.prompt
    payload = make_from(
        PromptSent, prompt, provider_id=ask.route.provider_id, model_id=ask.route.model_id,
        config_sha256=bytes.fromhex(prompt.config_digest.removeprefix("sha256:")), budget_mode=attempt.mode,
        reserved_tokens=attempt.reservation.tokens, estimated_tokens=attempt.estimate,
        tools=tuple([tool.tool_id for tool in prompt.tools]), domain_tags=tuple(prompt.domain_tags),
        degraded=ask.is_degraded, principal=ask.principal,
        called_in=tuple([caller.session_id for caller in prompt.callers]),
    )  # fmt: skip
    of_pack = packs.get((prompt.config_digest, prompt.prompt_pack_id), {})
    messages = tuple([_make_message(message, of_pack, prompt.session_id) for message in prompt.messages])
    request = SentRequest(ask.digest, ask.asked, messages, ask.said, _list_images(prompt))
    parents = [] if ask.is_degraded or not prompt.work_order_id else [derive_dispatched_id(prompt.work_order_id)]
    return make_entry(
        "PROMPT_SENT", attempt.name, pack_payload(request), payload=payload, at=at, provenance=ask.about,
        parents=parents, trace=ask.trace, once=derive_sent_key(attempt.name),
    )  # fmt: skip


def number_calls(calls: list[ToolCall]) -> list[ToolCall]:
    """Return tool calls under their positions in the answer; the provider's own ids stand beside them."""
    return [
        call
        if call.call_id == (position_id := call_id(position))
        else call.model_copy(update={"call_id": position_id, "provider_call_id": call.provider_call_id or call.call_id})
        for position, call in enumerate(calls, 1)
    ]


def make_received(attempt: Attempt, response: PromptResponse, *, answered_by: str, at: float) -> WriteEntry:
    """Build PROMPT_RECEIVED: the recorded answer of this call key from now on.

    `model_id` is the model that was asked, as in PROMPT_SENT; `answered_by`, what its provider calls it.
    """
    route = attempt.ask.route
    payload = make_from(
        PromptReceived,
        response,
        provider_id=route.provider_id,
        model_id=route.model_id,
        answered_by="" if answered_by == route.model_id else answered_by,
    )
    calls = [pack_payload(AnswerCalls(tuple(response.tool_calls)))] if response.tool_calls else []
    return _end_of(attempt, "PROMPT_RECEIVED", payload, response.content.encode(), *calls, at=at)


def make_failed(attempt: Attempt, fault: GatewayError, settlement: Settlement, *, at: float) -> WriteEntry:
    """Build PROMPT_FAILED: the other possible end; its settlement says whether anything was sent and used."""
    route, said = attempt.ask.route, fault.detail[:MESSAGE_MAX_CHARS]
    payload = PromptFailed(route.provider_id, route.model_id, said, fault.retryable, *settlement)
    return check_entry(_end_of(attempt, "PROMPT_FAILED", payload, reason=fault.code, at=at))  # it may be a plugin's


def make_unknown_end(prompt_sent: Entry | WriteEntry, reservation: Reservation, *, at: float) -> WriteEntry:
    """Build the end of a PROMPT_SENT whose sender is gone: settled at its reservation, and said to be unknown."""
    sent_to, said = read_payload(PromptSent, prompt_sent), "the gateway that sent it ended before it recorded an end"
    asked = ("", "") if sent_to is None else (sent_to.provider_id, sent_to.model_id)
    payload = PromptFailed(*asked, said, True, *make_unknown(reservation.tokens))  # noqa: FBT003 - retryable
    about = {"provenance": prompt_sent.provenance, "trace": prompt_sent.trace}
    return _end(read_name(prompt_sent), "PROMPT_FAILED", payload, reason="UNKNOWN_OUTCOME", at=at, **about)


def get_provenance(prompt: Prompt) -> Provenance:
    return make_from(Provenance, prompt)


def _end_of(
    attempt: Attempt, event_type: str, payload: tuple[Any, ...], *behind: bytes, reason: str = "", at: float
) -> WriteEntry:
    ask = attempt.ask
    return _end(attempt.name, event_type, payload, *behind, reason=reason, provenance=ask.about, trace=ask.trace, at=at)


def _end(name: str, event_type: str, payload: tuple[Any, ...], *behind: bytes, **facts: Any) -> WriteEntry:
    parents = [derive_entry_id("PROMPT_SENT", name)]
    return make_entry(event_type, name, *behind, payload=payload, parents=parents, once=derive_got_key(name), **facts)


def _make_message(message: PromptMessage, of_pack: Mapping[str, int], session_id: str) -> Any:
    """Return a SentMessage with its SentTexts as they stand in the record: plain rows."""
    parts = [
        (segment.name, shorten_ref(segment.ref, session_id), "")
        if segment.ref is not None
        else of_pack.get(segment.text, (segment.name, None, segment.text))
        for segment in message.segments
    ]
    return message.role, parts, message.tool_calls, message.tool_call_id


def read_name(entry: Entry | WriteEntry) -> str:
    """Return `<call key>/<attempt>` of a PROMPT_* entry."""
    return entry.submission_id.partition(":")[2]


def read_held(entry: Entry | WriteEntry) -> tuple[Reservation | None, tuple[str, int] | None]:
    """Return the reservation of a PROMPT_SENT, and (scope, limit) of its order if bounded; None where erased."""
    sent = read_payload(PromptSent, entry)
    if sent is None:
        return None, None
    reservation = Reservation(read_name(entry), sent.reserved_tokens, list_scopes(entry.provenance, sent))
    if sent.token_budget is None:
        return reservation, None
    return reservation, (name_order_scope(entry.provenance.work_order_id), sent.token_budget)


def read_settlement(entry: Entry | WriteEntry) -> Settlement:
    """Return the settlement of an attempt's end; an erased payload settles only its reservation's release."""
    if entry.event_type == "PROMPT_RECEIVED":
        received = read_payload(PromptReceived, entry)
        if received is None:
            return NEVER_SENT
        return Settlement(tokens=received.tokens, cost_usd=received.cost_usd, is_unknown=False, was_sent=True)
    failed = read_payload(PromptFailed, entry)
    if failed is None:
        return NEVER_SENT
    return Settlement(*failed[-4:])


def is_another(sent: Entry, ask: PromptCall) -> bool:
    """Return whether a PROMPT_SENT under this key was of another request; False where it was erased."""
    request = _read_request(sent)
    return request is not None and request.asked_sha256 != ask.asked


def read_response(sent: Entry, entry: Entry) -> PromptResponse:
    """Return the recorded answer behind a PROMPT_RECEIVED, as its PROMPT_SENT was asked.

    Raises GatewayError(UNAVAILABLE) where its content was erased.
    """
    name, received = read_name(entry), read_payload(PromptReceived, entry)
    if received is None or any(body is None for body in entry.bodies):
        raise GatewayError("UNAVAILABLE", f"the recorded answer {entry.submission_id} was erased; ask under a new key")
    content, *more = (body or b"" for body in entry.bodies[1:])
    calls = unpack_payload(AnswerCalls, more[0]).tool_calls if more else ()
    asked, request = read_payload(PromptSent, sent), _read_request(sent)
    figures = received._asdict()
    del figures["answered_by"]
    return PromptResponse(
        **figures,
        outcome="SUCCESS",
        content=content.decode(),
        content_ref=derive_body_ref(entry.submission_id, 1),
        tool_calls=list(calls),
        context_hash="" if request is None else request.sha256.hex(),
        tools_told=[] if asked is None else list(asked.tools),
        sent_record_id=derive_entry_id("PROMPT_SENT", name),
        received_record_id=entry.submission_id,
        attempts=int(name.rpartition("/")[2].partition(".")[0]),
    )


def _read_request(sent: Entry) -> SentRequest | None:
    """Return body 1 of a PROMPT_SENT; None where it was erased."""
    if len(sent.bodies) < 2 or sent.bodies[1] is None:  # noqa: PLR2004 - payload and request
        return None
    return unpack_payload(SentRequest, sent.bodies[1])
