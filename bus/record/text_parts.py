"""Texts that are made of recorded texts: one ref for the whole, behind which a list of the parts stands. Pure.

A prompt shows twenty turns of a session; each of their texts has a ref of its own already. The order that shows them
first brings, as one body, which parts they are; it, later orders of the run and the prompts' records then name that
body alone. A text body is UTF-8, so the mark in front of such a list cannot begin one.

The lines that stand for still older turns have no ref: they are made for the prompt. A turn changes them by a line at
the end, and a few at the beginning once the budget is full, so they are recorded whole only now and then; the orders in
between name a stretch of that text and bring what has been added since.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hobus.bus.messages.base import pack, unpack
from hobus.bus.messages.ids import OWN_SESSION
from hobus.bus.messages.work_order import Segment

_MARK = b"\xc1"
_SESSION = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_USUAL = (("RunRequested:~/", "\1"), ("OrderEnded:WO-~-", "\2"), ("PROMPT_RECEIVED:WO-~-", "\3"))
"""How nearly all refs of a conversation begin, and what stands for that."""
_TAKEN = re.compile(f"[{OWN_SESSION}\1-\3]")
_LONG_CHARS = 2048
"""From here on a text without ref is worth a body of its own. Only size depends on it, never what a prompt shows."""
_FRESH_SHARE = 1 / 16
"""What may be new before such a text is recorded whole again: near the least bytes per turn for lines of 50."""
Part = tuple[str | None, str]
"""(ref, '') of a recorded text, (ref, 'start:end') of a stretch of one, or (None, text) of one that stands here."""


class TextPart(NamedTuple):
    """A stretch of what a prompt shows; without a ref it was made for the prompt."""

    ref: str | None
    text: str
    stretch: str = ""
    """`start:end` in the text behind the ref, characters; empty: all of it."""


class KeptText(NamedTuple):
    """A text made for prompts, as an earlier order of this owner recorded it."""

    ref: str
    text: str


def merge(parts: Iterable[TextPart]) -> list[TextPart]:
    """Return the text in as few parts as can be: what stands between two recorded texts is one."""
    found: list[TextPart] = []
    for part in parts:
        if part.ref is None and found and found[-1].ref is None:
            found[-1] = TextPart(None, found[-1].text + part.text)
        elif part.text or part.ref is not None:
            found += (part,)
    return found


def join_parts(name: str, parts: Sequence[TextPart]) -> Segment:
    return Segment(name=name, text="".join([part.text for part in parts]))


def pack_body(parts: Sequence[TextPart]) -> bytes:
    return _pack_list(_pack_forms(parts))


def _pack_forms(parts: Sequence[TextPart]) -> list[Part]:
    return [(None, text) if ref is None else (ref, stretch) for ref, text, stretch in parts]


def share_text(parts: Sequence[TextPart], kept: KeptText | None, new_ref: str) -> tuple[bytes, KeptText | None]:
    """Return the body that lists these parts without a long first text, and that text if it is to be recorded anew.

    `kept`: the last one that was recorded so; `new_ref`: where this one would be.
    """
    first = parts[0]
    if first.ref is not None or len(first.text) < _LONG_CHARS:
        return pack_body(parts), None
    listed = _pack_forms(parts[1:])
    if kept is not None:
        start = kept.text.find(first.text[: first.text.find("\n") + 1])
        common = count_common_chars(kept.text[max(0, start) :], first.text)
        if start >= 0 and len(first.text) - common <= len(first.text) * _FRESH_SHARE:
            stretch = (kept.ref, f"{start}:{start + common}")
            return _pack_list([stretch, (None, first.text[common:]), *listed]), None
    return _pack_list([(new_ref, ""), *listed]), KeptText(new_ref, first.text)


def _pack_list(parts: Sequence[Part]) -> bytes:
    """Pack the list: a session's id that a ref names stands once, in front, and a repeated text by its first place."""
    found = next((match for ref, _ in parts if ref is not None and (match := _SESSION.search(ref))), None)
    session_id = "" if found is None else found[0]
    items: list[Any] = [session_id]
    places: dict[str, int] = {}
    refs = [ref for ref, _ in parts if ref is not None]
    short = _shorten(refs, session_id)
    for place, (ref, text) in enumerate(parts, 1):
        if ref is not None:
            items += (short[ref],) if ref in short and not text else ([short.get(ref, ref), text],)
        elif text in places:
            items += (places[text],)
        else:
            places[text] = place
            items += (text,)
    return _MARK + pack(items)


def _shorten(refs: Sequence[str], session_id: str) -> dict[str, bytes]:
    """Shorten all refs at once, two for each turn of a prompt; empty where one could not be read back."""
    together = "\n".join(refs)
    if not session_id or _TAKEN.search(together) or together.count("\n") >= len(refs):
        return {}
    together = together.replace(session_id, OWN_SESSION)
    for usual, short in _USUAL:
        together = together.replace(usual, short)
    return dict(zip(refs, together.encode().split(b"\n"), strict=True))


def cut_part(stretch: str, text: str) -> str:
    """Return what a part shows of the text behind its ref. Raises ValueError for a damaged list."""
    if not stretch:
        return text
    start, end = map(int, stretch.split(":"))
    return text[start:end]


def join(parts: Sequence[Part], texts: Mapping[str, str]) -> str:
    return "".join([text if ref is None else cut_part(text, texts[ref]) for ref, text in parts])


def is_list(body: bytes) -> bool:
    return body.startswith(_MARK)


def read_parts(body: bytes) -> list[Part] | None:
    """Return the parts that a body lists; None for a plain text. Raises ValueError for a damaged list."""
    if not is_list(body):
        return None
    items = unpack(body[len(_MARK) :])
    if type(items) is not list or not items or type(items[0]) is not str:
        raise ValueError("not a list of parts")
    session_id = items[0]

    parts: list[Part] = []
    for item in items[1:]:
        match item:
            case str():
                parts.append((None, item))
            case int() if 0 < item < len(items) and type(items[item]) is str:
                parts.append((None, items[item]))
            case bytes():
                parts.append((_lengthen(item, session_id), ""))
            case [(str() | bytes()) as ref, str() as stretch]:
                parts.append((_lengthen(ref, session_id), stretch))
            case _:
                raise ValueError("not a part of a list")
    return parts


def _lengthen(ref: str | bytes, session_id: str) -> str:
    if isinstance(ref, str):
        return ref
    whole = ref.decode()
    for usual, short in _USUAL:
        whole = whole.replace(short, usual)
    return whole.replace(OWN_SESSION, session_id)


def count_common_chars(one: str, other: str) -> int:
    """Return how many characters both begin with; by halving, since comparing a stretch costs next to nothing."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
