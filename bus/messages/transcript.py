"""Earlier turns of a session as one text, written where they are chosen and made messages of where a model is asked.

One text, since the record then names all of it by one ref, whose parts stand where they were recorded first. Each
message begins with a mark that no text of it holds (`actors/ho2_supervisor/turn/blocks.py`) and its role; what stands
before the first mark is the digest of still older turns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from hobus.bus.messages.gateway import PromptMessage
from hobus.bus.messages.work_order import Segment, ToolCall

NAME = "history"
"""Of the segment that holds such a text, and of the segments of the messages that are made of it."""
_MARK, _CALLS, _END = "\x1e", "\x1f", "\n"
_SHORTENED = "Earlier in this conversation, shortened:\n"


def begins(role: str, call_id: str = "") -> str:
    """What stands before the text of a message."""
    return f"{_MARK}{role} {call_id}".rstrip() + _END


def ends(calls: Sequence[ToolCall] = ()) -> str:
    """What stands behind it, with the calls that an assistant's message asks for."""
    if not calls:
        return _END
    return f"{_CALLS}{json.dumps([call.model_dump(exclude_defaults=True) for call in calls], ensure_ascii=True)}{_END}"


def expanded(messages: Sequence[PromptMessage]) -> list[PromptMessage]:
    """The messages as a provider is asked with them: earlier turns are messages like all others."""
    return [one for message in messages for one in (_read(message.text) if message.role == NAME else [message])]


def _read(text: str) -> Iterator[PromptMessage]:
    digest, *pieces = text.split(_MARK)
    if digest:
        yield _message("user", _SHORTENED + digest.rstrip(_END))
    for piece in pieces:
        head, _, rest = piece.partition(_END)
        role, _, call_id = head.partition(" ")
        said, _, calls = rest.removesuffix(_END).partition(_CALLS)
        yield _message(role, said, call_id, [ToolCall.model_validate(one) for one in json.loads(calls or "[]")])


def _message(role: str, text: str, call_id: str = "", calls: Sequence[ToolCall] = ()) -> PromptMessage:
    segments = [Segment(name=NAME, text=text)] if text else []
    return PromptMessage.model_validate(
        {"role": role, "segments": segments, "tool_calls": list(calls), "tool_call_id": call_id}
    )
