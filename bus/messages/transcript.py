"""Earlier turns of a session as one text, written where they are chosen and made messages of where a model is asked.

One text, since the record then names all of it by one ref, whose parts stand where they were recorded first. Each
message begins with a mark that no text of it holds (`actors/ho2_supervisor/turn/blocks.py`) and its role; what stands
before the first mark is the digest of still older turns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from pydantic import TypeAdapter

from hobus.bus.messages.gateway import PromptMessage
from hobus.bus.messages.work_order import Segment, ToolCall

NAME = "history"
"""Of the segment that holds such a text, and of the segments of the messages that are made of it."""
_MARK, _CALLS, _END = "\x1e", "\x1f", "\n"
_ROLES = ("user", "assistant", "tool")
_CALLED = TypeAdapter(list[ToolCall])
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
    """The messages as a provider is asked with them: earlier turns are messages like all others.

    Raises ValueError for a text that `begins` and `ends` did not write.
    """
    return [one for message in messages for one in (_read(message.text) if message.role == NAME else [message])]


def _read(text: str) -> Iterator[PromptMessage]:
    digest, *pieces = text.split(_MARK)
    if digest:
        yield _message("user", _SHORTENED + digest.rstrip(_END))
    for piece in pieces:
        head, _, rest = piece.partition(_END)
        role, _, call_id = head.partition(" ")
        if role not in _ROLES:
            raise ValueError(f"a message of an earlier turn is by {role[:20]!r}")
        said, _, calls = rest.removesuffix(_END).partition(_CALLS)
        yield _message(role, said, call_id, _CALLED.validate_json(calls) if calls else [])


def _message(role: str, text: str, call_id: str = "", calls: list[ToolCall] | None = None) -> PromptMessage:
    """Not checked again: a turn's prompt has dozens of them, and its text was."""
    said = Segment.model_construct(name=NAME, ref=None, text=text, artifact_id=None, files=[])
    return PromptMessage.model_construct(
        role=role, segments=[said] if text else [], tool_calls=calls or [], tool_call_id=call_id
    )
