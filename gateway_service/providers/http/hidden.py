"""The key in what a server says: hidden, before anybody reads, shows or records it. Pure."""

from __future__ import annotations

import re
from typing import Any

from hobus.bus.messages.gateway import PromptResponse
from hobus.config.secret_refs import HIDDEN

_KEY_PART_CHARS = 8
"""So many characters of a key in a row are too many."""

_SECRET_CHARS = 16
"""A shorter key is a word that a local server wants to see (`EMPTY`, `ollama`): in an answer it is a word."""


def without_key(text: str, key: str) -> str:
    """The text of a fault with the key hidden, and with every part of it that can be told from other words.

    In whatever case: some of what is quoted was folded on its way.
    """
    text = _whole(text, key)
    folded_key, at = key.lower(), 0
    while at + _KEY_PART_CHARS <= len(text):
        if text[at : at + _KEY_PART_CHARS].lower() not in folded_key:
            at += 1
            continue
        end = at + _KEY_PART_CHARS
        while end < len(text) and text[at : end + 1].lower() in folded_key:
            end += 1
        text = text[:at] + HIDDEN + text[end:]
        at += len(HIDDEN)
    return text


def said_without_key(text: str, key: str) -> str:
    """What a model says, with the whole of a key hidden; parts of one are left, for it may speak of how keys look."""
    return _whole(text, key) if len(key) >= _SECRET_CHARS else text


def answer_without_key(answer: PromptResponse, key: str) -> PromptResponse:
    """The answer with the key in none of its texts."""
    if len(key) < _SECRET_CHARS:
        return answer
    calls = [call.model_copy(update=_hidden(dict(call), key)) for call in answer.tool_calls]
    return answer.model_copy(update=_hidden(dict(answer), key) | {"tool_calls": calls})


def _hidden(value: Any, key: str) -> Any:
    if isinstance(value, str):
        return said_without_key(value, key)
    if isinstance(value, list):
        return [_hidden(item, key) for item in value]
    if isinstance(value, dict):
        return {_hidden(name, key): _hidden(item, key) for name, item in value.items()}
    return value


def _whole(text: str, key: str) -> str:
    return re.sub(re.escape(key), HIDDEN, text, flags=re.IGNORECASE) if key else text
