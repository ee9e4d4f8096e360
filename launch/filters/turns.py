"""What `session=` and `turn=` mean, for everything that belongs to a turn. Pure.

A session is named by its full id, by its first characters, or as `SES-<8 hex>`, as people see it; a turn by its run
(`<session>-<n>`, `SES-<8 hex>-<n>`), by its input (`<session>/<input>`), or by a part of any of its ids.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from hobus.bus.messages.ids import TurnRef
from hobus.launch.filters.meaning import make_matcher
from hobus.launch.filters.syntax import Value

_PREFIX = re.compile(r"[0-9a-f][0-9a-f-]*")
_OF_SESSION = re.compile(r"[0-9a-f*?]{4}[0-9a-f*?-]*(/.*)?", re.DOTALL)
_LEAST_CHARS = 3
_FULL_CHARS = len("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")
_RUN = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{4,8})-(\d+)")


def _strip_prefix(text: str) -> str:
    """Remove the letters that people put in front."""
    return text[4:].lower() if text[:4].upper() == "SES-" else text


def make_session_matcher(value: Value) -> Callable[[str], bool]:
    """Return whether a session's full id is the one that is meant; `session=` means: none."""
    text = _strip_prefix(value.text)
    if value.is_literal or not _PREFIX.fullmatch(text):
        return make_matcher(Value(text, value.is_literal))
    return lambda session_id: session_id.startswith(text)


def make_turn_matcher(value: Value) -> Callable[[TurnRef, Sequence[str]], bool]:
    """Return whether a turn, or one of these ids of what belongs to it, is the one that is meant.

    Raises ValueError for a text that names no turn, or next to every one.
    """
    text = _strip_prefix(value.text)
    is_session = value.text != text
    if (is_session and not _OF_SESSION.fullmatch(text)) or 0 < len(text) < _LEAST_CHARS:
        raise ValueError("expected a turn such as SES-1a2b3c4d-2, or at least three characters of an id")
    run = None if value.is_literal else _RUN.fullmatch(text)
    is_start_too = run is not None and len(run[1]) < _FULL_CHARS and text == value.text
    session, slash, input_id = text.partition("/")
    fits = make_matcher(Value(text, value.is_literal))
    is_wild = not value.is_literal and ("*" in text or "?" in text)

    def matches(turn: TurnRef, ids: Sequence[str]) -> bool:
        if not text:
            return not turn.session_id
        if run is not None:
            is_it = turn.run_seq == int(run[2]) and turn.session_id.startswith(run[1])
            # Some digits and a number may also be the beginning of a longer id, unless written as people see a run.
            return is_it or (is_start_too and turn.session_id.startswith(text))
        if is_wild:
            return fits(turn.run) or any(fits(one) for one in ids)
        if slash and turn.input_id == input_id and turn.session_id.startswith(session):
            return True
        return turn.session_id.startswith(text) or any(text in one for one in ids)

    return matches
