"""What a turn's models were shown, word for word, and where each stretch of it stands in the record. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from hobus.bus.errors import ConfigError
from hobus.bus.messages import transcript
from hobus.bus.messages.gateway import PromptMessage
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.work_order import LEARNED, Segment
from hobus.bus.record import text_parts
from hobus.bus.record.payload import payload_in
from hobus.bus.record.payloads.prompts import (
    PromptReceived,
    PromptSent,
    SentMessage,
    SentRequest,
    SentText,
    messages_sha256,
)
from hobus.config.prompt_pack import parse_pack
from hobus.launch.sessions.account import short
from hobus.launch.sessions.evidence import ERASED, Rules, body_of
from hobus.launch.sessions.why_failed import attempt_of, failures_in

_PACK = "pack"
_LEARNED = "HO3_OVERLAY"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownStretch:
    """A stretch of a prompt."""

    role: str
    name: str
    """What its prompt pack calls it; `pack`: it stands in the pack itself."""
    source: str
    """Where the record has it: a pack, or the kinds of the entries that hold its texts."""
    sequences: tuple[int, ...]
    """Of those entries."""
    tokens: int
    """As budgets estimate them."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptShown:
    """One call of a model."""

    sequence: int
    order: str
    contract_id: str
    prompt_pack_id: str
    config_digest: str
    provider_id: str
    model_id: str
    tools: tuple[str, ...]
    reserved_tokens: int
    shown: tuple[ShownStretch, ...]
    as_sent: bool | None = None
    """Whether these texts have the digest that was recorded when they were sent; None: not all of them are there."""
    input_tokens: int | None = None
    """None, as all that follows: it was not answered."""
    output_tokens: int | None = None
    cached_tokens: int | None = None
    latency_ms: int | None = None
    cost_usd: float | None = None
    budget_remaining: int | None = None
    answered: int | None = None
    """Sequence of the answer."""
    attempt: int | None = None
    failed: int | None = None
    """Sequence of PROMPT_FAILED, whose code and words follow; None: it did not fail, or is not over yet."""
    code: str = ""
    words: str = ""


def quoted_elsewhere(turn: Iterable[Entry], known: Iterable[Entry]) -> frozenset[str]:
    """Return the ids of entries that the turn's prompts quote, by lists of parts too, and that are not `known`."""
    by_id = {entry.submission_id: entry for entry in known}
    wanted = [
        part.ref
        for entry in turn
        if isinstance(body_of(entry), PromptSent) and (request := _request(entry)) is not None
        for message in request.messages
        for part in message.parts
        if isinstance(part, SentText) and part.ref is not None
    ]
    refs: set[str] = set()
    while wanted:
        if (ref := wanted.pop()) not in refs:
            refs.add(ref)
            wanted += [one for one, _ in text_parts.parts_in(_body(ref, by_id) or b"") or () if one is not None]
    return frozenset(ref.rpartition("/")[0] for ref in refs) - by_id.keys()


def _body(ref: str, by_id: Mapping[str, Entry]) -> bytes | None:
    """Return the body that a ref names; None where it was erased, or its entry is not there."""
    submission_id, _, number = ref.rpartition("/")
    entry = by_id.get(submission_id)
    return entry.bodies[int(number)] if entry is not None and int(number) < len(entry.bodies) else None


def _request(entry: Entry) -> SentRequest | None:
    request = body_of(entry, 1)
    return request if isinstance(request, SentRequest) else None


def prompt_shown(
    entry: Entry, said: PromptSent, turn: Sequence[Entry], by_id: Mapping[str, Entry], rules: Rules | None
) -> PromptShown:
    """Return one prompt, its answer, and where its stretches came from; `by_id`: entries its texts may stand in."""
    call = entry.submission_id.partition(":")[2]
    answered = next((one for one in turn if one.submission_id == f"PROMPT_RECEIVED:{call}"), None)
    answer = None if answered is None else payload_in(PromptReceived, answered)
    failures = failures_in(one for one in turn if one.submission_id == f"PROMPT_FAILED:{call}")
    failed = failures[0] if failures else None
    chars = 1 if rules is None else rules.chars_per_token
    texts = _texts_of_pack(said.prompt_pack_id, rules)
    request = _request(entry)
    messages = () if request is None else request.messages
    shown = [
        [
            ShownStretch(
                role=message.role,
                tokens=-(-len(text) // chars),
                name=name,
                source=source,
                sequences=sequences,
                text=text,
            )
            for name, source, sequences, text in _parts(message, said.prompt_pack_id, texts, by_id)
        ]
        for message in messages
    ]
    return PromptShown(
        sequence=entry.sequence,
        order=short(entry.provenance.work_order_id or ""),
        contract_id=said.contract_id,
        prompt_pack_id=said.prompt_pack_id,
        config_digest=said.config_digest,
        provider_id=said.provider_id,
        model_id=said.model_id,
        tools=said.tools,
        reserved_tokens=said.reserved_tokens,
        shown=tuple(_readable(one) for one in chain.from_iterable(shown)),
        as_sent=None if request is None else _is_as_sent(request, shown),
        answered=None if answered is None else answered.sequence,
        attempt=attempt_of(entry),
        **({} if failed is None else {"failed": failed.sequence, "code": failed.code, "words": failed.words}),
        **({} if answer is None else {name: getattr(answer, name) for name in _OF_AN_ANSWER}),
    )


_OF_AN_ANSWER = ("input_tokens", "output_tokens", "cached_tokens", "latency_ms", "cost_usd", "budget_remaining")


def _readable(one: ShownStretch) -> ShownStretch:
    """Return earlier turns as the messages that a provider got."""
    if one.role != transcript.NAME:
        return one
    said = transcript.expanded([PromptMessage(role="history", segments=[Segment(text=one.text)])])
    return replace(one, text="\n".join(f"{message.role}: {message.text}" for message in said if message.text))


def _is_as_sent(request: SentRequest, shown: Sequence[Sequence[ShownStretch]]) -> bool | None:
    found = messages_sha256(
        (message.role, "".join([one.text for one in stretches]), message.tool_calls, message.tool_call_id)
        for message, stretches in zip(request.messages, shown, strict=True)
    )
    if found == request.messages_sha256:
        return True
    is_whole = request.messages_sha256 and not any(ERASED in one.text for one in chain.from_iterable(shown))
    return False if is_whole else None


def with_learned(prompt: PromptShown, learned: Mapping[str, int]) -> PromptShown:
    """Add where lines of memory were learned: `learned`, line -> sequence of that entry."""
    return replace(prompt, shown=tuple(_learned(one, learned) for one in prompt.shown))


def _learned(one: ShownStretch, learned: Mapping[str, int]) -> ShownStretch:
    if one.name != LEARNED or one.text not in learned:
        return one
    kinds = f"{_LEARNED}, {one.source}" if one.sequences else _LEARNED
    return replace(one, source=kinds, sequences=(learned[one.text], *one.sequences))


def _texts_of_pack(pack_id: str, rules: Rules | None) -> tuple[str, ...]:
    words = None if rules is None else rules.prompt_packs.get(pack_id)
    try:
        return () if words is None else parse_pack(pack_id, words).texts
    except ConfigError:
        return ()


def _parts(
    message: SentMessage, pack_id: str, texts: tuple[str, ...], by_id: Mapping[str, Entry]
) -> Iterable[tuple[str, str, tuple[int, ...], str]]:
    for part in message.parts:
        if isinstance(part, int):
            yield _PACK, pack_id, (), texts[part] if part < len(texts) else ERASED
        elif part.ref is None:
            yield part.name, "made for this prompt", (), part.text
        else:
            seen: list[Entry] = []
            text = text_behind(part.ref, by_id, seen.append)
            kinds = ", ".join(dict.fromkeys(one.event_type for one in seen))
            yield part.name, kinds or "not in this record", tuple(one.sequence for one in seen), text


def messages_sent(entry: Entry, texts: tuple[str, ...], by_id: Mapping[str, Entry]) -> list[PromptMessage]:
    """Return the messages of a prompt as its provider got them; `texts`: those of its pack."""
    request = _request(entry)
    return transcript.expanded(
        [
            PromptMessage(
                role=message.role,
                segments=[Segment(text="".join([text for *_, text in _parts(message, "", texts, by_id)]))],
                tool_calls=list(message.tool_calls),
                tool_call_id=message.tool_call_id,
            )
            for message in (() if request is None else request.messages)
        ]
    )


def text_behind(ref: str, by_id: Mapping[str, Entry], seen: Callable[[Entry], object] = lambda _entry: None) -> str:
    """Return the text that a ref names, put together from its parts where it has any; `seen` is told of each entry."""
    body = _body(ref, by_id)
    if body is None:
        return ERASED
    seen(by_id[ref.rpartition("/")[0]])
    parts = text_parts.parts_in(body)
    if parts is None:
        return body.decode("utf-8", "replace")
    return "".join(
        text if one is None else text_parts.of_part(text, text_behind(one, by_id, seen)) for one, text in parts
    )
