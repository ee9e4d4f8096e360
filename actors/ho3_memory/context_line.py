"""What a learned line must look like, since it is copied verbatim into prompts: one short plain sentence.

Source: spec page "HO3: signal-based memory", Data: length-bounded, no control characters, no role markers.
"""

from __future__ import annotations

import re
import unicodedata

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of what a reader does not see or what breaks a line: controls, formats, separators, unassigned."""

_MARKERS = re.compile(
    r"""
    \b(?:system|assistant|user|human|developer|tool|function|ai)\s*[:>]   # the beginning of somebody's turn
    | <\s*/?\s*(?:system|assistant|user|human|developer|tool|function|instructions?|prompt)\b
    | <\| | \|>                     # <|im_start|>
    | \[\[ | \]\]                   # [[system]]
    | \[/?inst\b | <</?\s*sys\b     # [INST], <<SYS>>
    | ^\s*\#{1,6}\s | ```           # a heading, a fence
    """,
    re.VERBOSE | re.IGNORECASE,
)

_SENTENCE_END = re.compile(
    r"(?:\w{3,}|[\d)\]\"'\u201d\u2019])[.!?]+[\"')\]\u201d\u2019]*\s+(?=[^\W\d_a-z]|[\"'(\u201c])"
)
"""A word of three letters or more (no `e.g.`, no initials), its mark, then a capital letter or an opening."""

_WIDE_SENTENCE_END = re.compile(r"[\u3002\uff01\uff1f](?=\S)")


def fault_of_line(line: str, *, chars_max: int) -> str:
    """'' or what is wrong with the line, without repeating it."""
    if len(line) > chars_max:
        return f"context_line has {len(line)} characters; the limit is {chars_max} (ho3.context_line_max_chars)"
    hidden = next((char for char in line if unicodedata.category(char) in _HIDDEN), None)
    if hidden is not None:
        return f"context_line holds the control or invisible character U+{ord(hidden):04X}"
    if line != line.strip():
        return "context_line begins or ends with white space"
    plain = unicodedata.normalize("NFKC", line)  # wide and styled letters are read as what they stand for
    if _MARKERS.search(plain) is not None:
        return "context_line holds a role marker"
    if _SENTENCE_END.search(plain) is not None or _WIDE_SENTENCE_END.search(line) is not None:
        return "context_line is more than one sentence"
    return ""
