"""What a turn's models were shown, word for word, and where each stretch of it stands in the record. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from hobus.bus.errors import ConfigError
from hobus.bus.messages import transcript
from hobus.bus.messages.gateway import PromptMessage
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.work_order import LEARNED, Segment
from hobus.bus.record import text_parts
from hobus.bus.record.payloads.prompts import (
    PromptReceived,
    PromptSent,
    SentMessage,
    SentRequest,
    SentText,
    hash_messages,
)
from hobus.config.prompt_pack import parse_pack
from hobus.launch.sessions.evidence import ERASED, Evidence, Rules, Seen, decode_body
from hobus.launch.sessions.steps import Step

_PACK = "pack"
_LEARNED = "HO3_OVERLAY"
_Part: TypeAlias = tuple[str, str, tuple[int, ...], str]
"""Name, source, sequences and text of a stretch."""


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

    step: Step
    """Which one, when, and how it ended."""
    sent: PromptSent
    answer: PromptReceived | None
    """None: it was not answered, or that was erased."""
    shown: tuple[ShownStretch, ...]
    as_sent: bool | None
    """Whether these texts have the digest that was recorded when they were sent; None: not all of them are there."""


def quoted_elsewhere(turn: Iterable[Entry], known: Iterable[Entry]) -> frozenset[str]:
    """Return the ids of entries that the turn's prompts quote, by lists of parts too, and that are not `known`."""
    by_id = {entry.submission_id: entry for entry in known}
    wanted = [
        part.ref
        for entry in turn
        if isinstance(decode_body(entry), PromptSent) and (request := _request(entry)) is not None
        for message in request.messages
        for part in message.parts
        if isinstance(part, SentText) and part.ref is not None
    ]
    refs: set[str] = set()
    while wanted:
        if (ref := wanted.pop()) not in refs:
            refs.add(ref)
            wanted += [one for one, _ in text_parts.read_parts(_body(ref, by_id) or b"") or () if one is not None]
    return frozenset(ref.rpartition("/")[0] for ref in refs) - by_id.keys()


def _body(ref: str, by_id: Mapping[str, Entry]) -> bytes | None:
    """Return the body that a ref names; None where it was erased, or its entry is not there."""
    submission_id, _, number = ref.rpartition("/")
    entry = by_id.get(submission_id)
    return entry.bodies[int(number)] if entry is not None and int(number) < len(entry.bodies) else None


def _request(entry: Entry) -> SentRequest | None:
    request = decode_body(entry, 1)
    return request.spell_refs(entry.provenance.session_id) if isinstance(request, SentRequest) else None


def prompts_shown(
    turn: Sequence[Seen], steps: Sequence[Step], found: Evidence, learned: Mapping[str, int]
) -> Iterator[PromptShown]:
    """Yield each prompt, its answer, and where its stretches came from; `learned`: line of memory -> its entry."""
    by_id, rules = found.by_id, found.rules
    of_call = {one.sequences[0]: one for one in steps if one.kind == "model"}
    answers = {one.entry.sequence: one.said for one in turn if isinstance(one.said, PromptReceived)}
    types = {one.entry.sequence: one.type for one in turn}
    behind = {(LEARNED, text): (_LEARNED, sequence) for text, sequence in learned.items()}
    for one in steps:
        if one.verdict == "failed" and one.arguments is not None:  # the next order brings its words, as models see them
            told = (one.order.rpartition(".")[2], f"error {one.code}: {one.words}")
            behind[told] = (types[one.sequences[-1]], one.sequences[-1])
    for one in turn:
        if not isinstance(one.said, PromptSent):
            continue
        step, request = of_call[one.entry.sequence], _request(one.entry)
        texts = _texts_of_pack(one.said.prompt_pack_id, rules)
        messages = () if request is None else request.messages
        parts = [(message, _parts(message, one.said.prompt_pack_id, texts, by_id)) for message in messages]
        yield PromptShown(
            step=step,
            sent=one.said,
            answer=answers.get(step.sequences[-1]),
            shown=tuple(
                _stretch(message.role, part, rules, behind) for message, stretches in parts for part in stretches
            ),
            as_sent=None if request is None else _is_as_sent(request, parts),
        )


def _stretch(
    role: str, part: _Part, rules: Rules | None, behind: Mapping[tuple[str, str], tuple[str, int]]
) -> ShownStretch:
    """Return the stretch; `behind`: its name and text -> kind and sequence of the entry whose words they are."""
    name, source, sequences, text = part
    if (name, text) in behind:
        kind, sequence = behind[name, text]
        source = f"{kind}, {source}" if sequences else kind
        sequences = (sequence, *sequences)
    tokens = -(-len(text) // (1 if rules is None else rules.chars_per_token))
    if role == transcript.NAME:  # earlier turns, as the messages that a provider got
        said = transcript.expand([PromptMessage(role="history", segments=[Segment(text=text)])])
        text = "\n".join(f"{message.role}: {message.text}" for message in said if message.text)
    return ShownStretch(role=role, name=name, source=source, sequences=sequences, tokens=tokens, text=text)


def _is_as_sent(request: SentRequest, shown: Sequence[tuple[SentMessage, Sequence[_Part]]]) -> bool | None:
    found = hash_messages(
        (message.role, "".join([text for *_, text in parts]), message.tool_calls, message.tool_call_id)
        for message, parts in shown
    )
    if found == request.messages_sha256:
        return True
    is_whole = request.messages_sha256 and not any(ERASED in text for _, parts in shown for *_, text in parts)
    return False if is_whole else None


def _texts_of_pack(pack_id: str, rules: Rules | None) -> tuple[str, ...]:
    words = None if rules is None else rules.prompt_packs.get(pack_id)
    try:
        return () if words is None else parse_pack(pack_id, words).texts
    except ConfigError:
        return ()


def _parts(message: SentMessage, pack_id: str, texts: tuple[str, ...], by_id: Mapping[str, Entry]) -> list[_Part]:
    found: list[_Part] = []
    for part in message.parts:
        if isinstance(part, int):
            found.append((_PACK, pack_id, (), texts[part] if part < len(texts) else ERASED))
        elif part.ref is None:
            found.append((part.name, "made for this prompt", (), part.text))
        else:
            seen: list[Entry] = []
            text = text_behind(part.ref, by_id, seen.append)
            kinds = ", ".join(dict.fromkeys(one.event_type for one in seen))
            found.append((part.name, kinds or "not in this record", tuple(one.sequence for one in seen), text))
    return found


def messages_sent(entry: Entry, texts: tuple[str, ...], by_id: Mapping[str, Entry]) -> list[PromptMessage]:
    """Return the messages of a prompt as its provider got them; `texts`: those of its pack."""
    request = _request(entry)
    return transcript.expand(
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
    parts = text_parts.read_parts(body)
    if parts is None:
        return body.decode("utf-8", "replace")
    return "".join(
        text if one is None else text_parts.cut_part(text, text_behind(one, by_id, seen)) for one, text in parts
    )
