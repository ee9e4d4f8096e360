"""A text with its marks in one form, so that no rule has to know what a keyboard or a language has for them. Pure.

Quotation marks become `"`, `'` or `` ` ``, apostrophes `'`, brackets of other scripts `「` and `」` (they quote or set
apart: in doubt the same). By what Unicode says of a character, not by a list of them.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache

OPENING, CLOSING = "「」"
QUOTATION_MARKS = f"\"'`{OPENING}{CLOSING}"
"""What every mark is after `alike`."""
_ACCENT_AS_APOSTROPHE = re.compile(r"(?<=[^\W\d_])`(?=[^\W\d_])")

_LEADING_ZEROS = re.compile(r"&#0+(?=[0-9])")
_TOO_LARGE = re.compile(r"&#[0-9]{8,};?")
"""No character has such a number; a longer one Python does not even read."""
_MARKS_TOGETHER = 30
"""So many accents on one letter no language has (UAX 15, stream-safe text); normalizing sorts them in square time."""


def alike(text: str) -> str:
    """The text with its marks in one form, HTML's names of characters read, and without what cannot be seen (a BOM)."""
    text = html.unescape(_TOO_LARGE.sub("\ufffd", _LEADING_ZEROS.sub("&#", text)))
    forms = {ord(char): form for char in set(text) if not char.isascii() and (form := _form(char)) is not None}
    text = unicodedata.normalize("NFKC", _stream_safe(text.translate(forms)))
    return _ACCENT_AS_APOSTROPHE.sub("'", text)


def _stream_safe(text: str) -> str:
    """Without the accents that stand behind many others."""
    accents = "".join(char for char in set(text) if unicodedata.combining(char))
    if not accents:
        return text
    return re.sub(f"([{accents}]{{{_MARKS_TOGETHER}}})[{accents}]+", r"\1", text)


@lru_cache(maxsize=1024)
def _form(char: str) -> str | None:
    """What stands for a character that is no ASCII; None: itself."""
    kind, name = unicodedata.category(char), unicodedata.name(char, "").replace("-", " ").split()
    if kind == "Cf":
        return ""
    if kind in ("Pi", "Pf") or "QUOTATION" in name:
        return "'" if "SINGLE" in name and "ANGLE" not in name else '"'
    if kind in ("Lm", "Po", "Sk") and not {"PRIME", "APOSTROPHE", "COMMA", "GERESH", "GERSHAYIM"}.isdisjoint(name):
        is_comma = "COMMA" in name and kind != "Lm"  # a comma of another script
        return None if is_comma else "'" if {"DOUBLE", "TRIPLE", "GERSHAYIM"}.isdisjoint(name) else '"'
    if kind == "Sk" and name[:2] in (["ACUTE", "ACCENT"], ["GRAVE", "ACCENT"]):
        return "`"
    is_typed = unicodedata.normalize("NFKC", char).isascii()  # a wide `(` is an ordinary one
    return None if is_typed else {"Ps": OPENING, "Pe": CLOSING}.get(kind)
