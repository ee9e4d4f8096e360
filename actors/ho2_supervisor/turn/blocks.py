"""Texts as the blocks of a prompt take them: nothing in them opens or closes one, nor moves a terminal. Pure.

A character stands for each that is replaced, so that sizes stay as they were counted. Of a recorded text the stretches
between are still named by its ref: what the record gives back is word for word what was sent.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from hobus.bus.record.text_parts import TextPart

if TYPE_CHECKING:  # a command that reads a journal loads no governed files
    from hobus.actors.ho2_supervisor.attention.context import Fragment

_CLOSING = re.compile(r"</(\w+)>")
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)"
_APART = "|"
"""Is in nothing that is replaced, and ends a block's name as the end of a text does."""
_PICTURES = ord("\N{SYMBOL FOR NULL}")
"""From here on Unicode has the pictures of control characters: ESC is shown as one sign."""


def make_harmless(parts: Collection[TextPart], unsafe: re.Pattern[str]) -> tuple[TextPart, ...]:
    """Return the parts with everything replaced that is `compile_unsafe` the packs in force."""
    if unsafe.search(_APART.join([part.text for part in parts])) is None:  # nearly always
        return tuple(parts)
    return tuple([one for part in parts for one in _make_part_harmless(part, unsafe)])


def make_whole_harmless(fragment: Fragment, unsafe: re.Pattern[str]) -> Fragment:
    """Do as `harmless` for prompts whose inputs name whole texts alone: a changed part loses its ref."""
    parts: list[TextPart] = []
    for part in fragment.parts:
        safe = make_harmless([part], unsafe)
        parts.append(part if safe == (part,) else TextPart(None, "".join([one.text for one in safe])))
    return fragment._replace(parts=tuple(parts))


def compile_unsafe(prompt_packs: Mapping[str, str]) -> re.Pattern[str]:
    """Match `<` of every block of these packs, open or closing, and control characters."""
    return _compile(tuple(prompt_packs.values()))


@lru_cache(maxsize=4)
def _compile(packs: tuple[str, ...]) -> re.Pattern[str]:
    names = sorted({name for pack in packs for name in _CLOSING.findall(pack)})
    blocks = rf"<(?=\s*/?\s*(?:{'|'.join(names)})\b)|" if names else ""
    return re.compile(blocks + _CONTROL, re.IGNORECASE)


def _show_char(char: str) -> str:
    if char == "<":
        return "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}"
    if char == "\x7f":
        return "␡"
    return chr(_PICTURES + ord(char)) if char < " " else "\N{REPLACEMENT CHARACTER}"


def _make_part_harmless(part: TextPart, unsafe: re.Pattern[str]) -> list[TextPart]:
    found = list(unsafe.finditer(part.text))
    if not found:
        return [part]
    if part.ref is None:
        return [TextPart(None, unsafe.sub(lambda match: _show_char(match[0]), part.text))]
    begin = int(part.stretch.partition(":")[0]) if part.stretch else 0
    parts: list[TextPart] = []
    at = 0
    for match in found:
        if match.start() > at:
            parts.append(_stretch(part, begin, at, match.start()))
        parts.append(TextPart(None, _show_char(match[0])))
        at = match.end()
    if at < len(part.text):
        parts.append(_stretch(part, begin, at, len(part.text)))
    return parts


def _stretch(part: TextPart, begin: int, start: int, end: int) -> TextPart:
    return TextPart(part.ref, part.text[start:end], f"{begin + start}:{begin + end}")
