"""Earlier turns of a session as one text, written where they are chosen and made messages of where a model is asked.

One text, since the record then names all of it by one ref, whose parts stand where they were recorded first. Each
message begins with a mark that no text of it holds (`actors/ho2_supervisor/turn/blocks.py`) and its role; what stands
before the first mark is the digest of still older turns.

A prompt shows nearly all that the one before did. So an order brings what is new and names, by its digest, what that
goes on from (`goes_on`). The gateway has it (`whole`); where it has not, as after a restart, all of it is sent again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from msgspec.json import Decoder

from hobus.bus.json_text import write_json
from hobus.bus.messages.gateway import PromptMessage
from hobus.bus.messages.work_order import Segment, ToolCall, WorkOrder

NAME = "history"
"""Of the segment that holds such a text, and of the segments of the messages that are made of it."""
UNKNOWN = "history_unknown"
"""Code of the gateway's fault for a prompt that goes on from a text which it has not."""
_MARK, _CALLS, _END = "\x1e", "\x1f", "\n"
_ROLES: Mapping[str, Literal["user", "assistant", "tool"]] = {"user": "user", "assistant": "assistant", "tool": "tool"}
_BEHIND_ANSWER = re.compile(rf"{_MARK}assistant{_END}[^{_MARK}{_CALLS}]*(?={_MARK}user{_END})")
"""Up to where a person's message follows an answer: between two turns."""
_CALLED = Decoder(list[ToolCall])
_KEPT, _KEPT_CHARS = 4096, 4096
"""Messages that are made once, as nearly all of a prompt stood in the one before. Only speed depends on these."""
_SHORTENED = "Earlier in this conversation, shortened:\n"


def write_head(role: str, call_id: str = "") -> str:
    return f"{_MARK}{role} {call_id}".rstrip() + _END


def ends(calls: Sequence[ToolCall] = ()) -> str:
    """Return what stands behind a message, with the calls that an assistant's message asks for."""
    asked = [call.model_dump(exclude_defaults=True) for call in calls]
    return f"{_CALLS}{write_json(asked)}{_END}" if asked else _END


class Told(NamedTuple):
    """The text with which a model was asked, and its digest."""

    chars: int
    digest: bytes


def tell_transcript(order: WorkOrder) -> Told | None:
    """Return the earlier turns of this order; None: it shows none."""
    text = next((one.text for one in order.input_context if one.name == NAME), "")
    return Told(len(text), _hash_text(text)) if text else None


def goes_on(order: WorkOrder, last: Told | None) -> WorkOrder:
    """Return the order without the earlier turns that its session's last prompt had; whole where they differ now."""
    said = next((one for one in order.input_context if one.name == NAME), None)
    if said is None or last is None or _hash_text(said.text[: last.chars]) != last.digest:
        return order
    new = said.model_copy(update={"text": said.text[last.chars :]})
    inputs = [new if one is said else one for one in order.input_context]
    return order.model_copy(update={"input_context": inputs, "history_after": last.digest})


def find_newer_half(text: str) -> int:
    """Return where the turns begin that make at most half of this text; its end: none does."""
    begins = (match.end() for match in _BEHIND_ANSWER.finditer(text))
    return next((place for place in begins if place >= len(text) / 2), len(text))


def join_whole(known: str, new: str, after: bytes) -> str | None:
    """Return the text that goes on with `new` from one of this digest; None unless `known` fits, or is whole."""
    return next((text + new for text in (known, known.removesuffix(new)) if _hash_text(text) == after), None)


def _hash_text(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def expand(messages: Sequence[PromptMessage]) -> list[PromptMessage]:
    """Return the messages as a provider is asked with them: earlier turns are messages like all others.

    Raises ValueError for a text that `begins` and `ends` did not write.
    """
    return [one for message in messages for one in (_read(message.text) if message.role == NAME else [message])]


def _read(text: str) -> list[PromptMessage]:
    digest, *pieces = text.split(_MARK)
    older = [_make_message("user", _SHORTENED + digest.rstrip(_END))] if digest else []
    return older + [_read_one(piece) if piece[_KEPT_CHARS:] else _one_kept(piece) for piece in pieces]


def _read_one(piece: str) -> PromptMessage:
    head, _, rest = piece.partition(_END)
    name, _, call_id = head.partition(" ")
    role = _ROLES.get(name)
    if role is None:
        raise ValueError(f"a message of an earlier turn is by {name[:20]!r}")
    said, _, calls = rest.removesuffix(_END).partition(_CALLS)
    return _make_message(role, said, call_id, _CALLED.decode(calls) if calls else [])


_one_kept = lru_cache(maxsize=_KEPT)(_read_one)


def _make_message(
    role: Literal["user", "assistant", "tool"], text: str, call_id: str = "", calls: Sequence[ToolCall] = ()
) -> PromptMessage:
    """Build a message unchecked: a turn's prompt has dozens of them, and its text was checked."""
    said = Segment(name=NAME, ref=None, text=text)
    return PromptMessage(role=role, segments=[said] if text else [], tool_calls=list(calls), tool_call_id=call_id)
