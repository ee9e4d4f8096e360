"""What a learned line must look like, since it is copied verbatim into prompts: one short plain sentence.

A prompt
pack keeps its parts apart by tags, so a line that could open or close one is no line either. Markers are looked for in
the line's skeleton, in which letters that look alike are one letter.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of what a reader does not see or what breaks a line: controls, formats, separators, unassigned."""
_FILLERS = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U0001d159\U00016fe4"
    + "".join(map(chr, (*range(0xFE00, 0xFE0E), *range(0xE0100, 0xE01F0))))
)
"""Letters, marks and signs that nobody sees: fillers of Hangul and others, the blank Braille cell, variants."""
_EMOJI_STYLES = frozenset("\ufe0e\ufe0f")
"""They choose how the sign before them looks; behind anything else nobody sees them."""
_STYLED = frozenset({"So", "Sm", "Po", "Nd"})

_LOOKALIKES = str.maketrans(
    {
        **dict(zip("авгезіїјкмнопрстухѕԁһԛԝӏьѵ", "abre3iijkmhonpctyxsdhqwlbv", strict=True)),
        **dict(zip("αβγεηικνορστυχω", "abyenikvopotuxw", strict=True)),
        **dict(zip("օոսհցԍքյաւ", "onuhggpjwu", strict=True)),
        **dict(zip("ıɑɡɩɪʏʀɴʟꜱᴀᴄᴅᴇᴊᴋᴍᴏᴘᴛᴜᴠᴡᴢⅼ", "iagiiyrnlsacdejkmoptuvwzl", strict=True)),
        **dict.fromkeys("\u2236\ua789\u02d0\u02f8\u05c3\u0589\u0703\u0704\ua4fd\u16ec\u1804\u205a\u2982", ":"),
        **dict.fromkeys(
            "\u2039\u27e8\u3008\u276c\u276e\u2770\u2991\u2993\u2996\u29fc\u02c2\u02f1\u1438\u16b2\U0001d236", "<"
        ),
        **dict.fromkeys(
            "\u203a\u27e9\u3009\u276d\u276f\u2771\u2992\u2994\u2995\u29fd\u02c3\u02f2\u1433\U00016f3f\U0001d237", ">"
        ),
        **dict.fromkeys("\u300a\u27ea\u00ab\u226a\u22d6\u22d8\u2aa1\u2af7\u2b9c", "<"),
        **dict.fromkeys("\u300b\u27eb\u00bb\u226b\u22d7\u22d9\u2aa2\u2af8\u2b9e\u27a4", ">"),
        **dict.fromkeys(
            "\u2044\u2215\u29f8\u2571\u27cb\u0338\u2041\u1735\u2cc7\u3033\u30ce\u31d3\u4e3f\U0001d23a", "/"
        ),
    }
)
"""Small letters of other scripts that look like a Latin one, and signs that look like a colon, a bracket or a slash."""

_FOREIGN_SCRIPTS = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "LISU", "COPTIC")
_WORD = re.compile(r"[^\W\d_]{2,}")
_OF_UNITS = frozenset("\u03bc\u03a9\u0394\u03b1\u03b2\u03b3\u03c0")
"""Greek letters that stand beside Latin ones in units and names of quantities: a small mu and a Latin s."""
_TAG = re.compile(r"<\s*(?:[/!?]|[^\W\d])")
"""The beginning of a tag, whatever its name. A number after `<` is a comparison."""

_MARKERS = re.compile(
    r"""
    \b(?:system|assistant|user|human|developer|tool|function|ai)\s*[:>]   # the beginning of somebody's turn
    | <\s*/                         # the end of a block, under whatever brackets
    | <\s*(?:system|assistant|user|human|developer|tool|function|instructions?|prompt|preferences|context
        |earlier_messages|classification|reviewer_note|message)\b
    | \{\{ | \}\} | \{% | %\}       # a template's own
    | <\| | \|>                     # <|im_start|>
    | \[\[ | \]\]                   # [[system]]
    | \[/?inst\b | <</?\s*sys\b     # [INST], <<SYS>>
    | ^\s*\#{1,6}\s | ```           # a heading, a fence
    """,
    re.VERBOSE | re.IGNORECASE,
)

_ORDERS = re.compile(
    r"""
    \b(?:ignor|disregard|forget|forgot|overrid|overrul|bypass|skip|discard|neglect)\w*\b.{0,60}
        \b(?:previous|prior|earlier|preceding|above|before|all|any|every|these|those|your|system|other|safety
            |everything|anything|whatever)\b.{0,40}
        \b(?:instruct(?:ions?|ed)|prompts?|rules?|messages?|guidelines?|directions?|directives?|orders?|polic(?:y|ies)
            |constraints?|restrictions?|training|told|taught)\b
    | \b(?:you\s+are|act)\s+(?:now|from\s+now\s+on)\b | \bnew\s+(?:system\s+)?instructions?\b
    | \b(?:reveal|print|repeat|show|leak|output|disclos)\w*\b.{0,40}
        \b(?:system\s+prompt|instructions|api\s+keys?|passwords?|secrets?|credentials?)\b
    | \b(?:jailbreak|developer\s+mode|dan\s+mode|no\s+restrictions|without\s+(?:any\s+)?restrictions)\b
    """,
    re.VERBOSE,
)
"""What tells a model to leave its instructions, in English. A filter of words proves nothing: what holds is that a line
is its principal's own, that a constraint waits for a person, and that lines stand below the system's words."""

_SENTENCE_END = re.compile(
    r"(?:\w{3,}|[\d)\]\"'\u201d\u2019])[.!?]+[\"')\]\u201d\u2019]*\s+(?=[^\W\d_a-z]|[\"'(\u201c])"
)
"""A word of three letters or more (no `e.g.`, no initials), its mark, then a capital letter or an opening."""

_WIDE_SENTENCE_END = re.compile(r"[\u3002\uff01\uff1f](?=\S)")


def find_line_fault(line: str, *, chars_max: int) -> str:
    """Return what is wrong with the line, without repeating it, or ''."""
    if len(line) > chars_max:
        return f"context_line has {len(line)} characters; the limit is {chars_max}"
    if hidden := _find_hidden(line):
        return f"context_line holds the control or invisible character U+{ord(hidden):04X}"
    if line != line.strip():
        return "context_line begins or ends with white space"
    plain = unicodedata.normalize("NFKC", line)  # wide and styled letters are read as what they stand for
    skeleton = _make_skeleton(plain)
    if any(_MARKERS.search(read) is not None for read in (plain, skeleton)):
        return "context_line holds a role marker"
    if _has_mixed_word(plain):
        return "context_line holds a word of letters of several scripts that look alike"
    if _ORDERS.search(" ".join(skeleton.split())) is not None:
        return "context_line reads like an order to leave the instructions"
    if _TAG.search(plain) is not None:
        return "context_line holds a tag"
    if _SENTENCE_END.search(plain) is not None or _WIDE_SENTENCE_END.search(line) is not None:
        return "context_line is more than one sentence"
    return ""


def _find_hidden(line: str) -> str:
    """Return the first invisible character; empty: there is none."""
    for before, char in pairwise(f" {line}"):
        is_loose = char in _EMOJI_STYLES and unicodedata.category(before) not in _STYLED
        if is_loose or char in _FILLERS or unicodedata.category(char) in _HIDDEN:
            return char
    return ""


def _make_skeleton(plain: str) -> str:
    """Return the line as it looks: without case and accents, look-alike letters of other scripts as Latin ones."""
    bare = "".join(char for char in unicodedata.normalize("NFKD", plain) if unicodedata.category(char) != "Mn")
    return bare.casefold().translate(_LOOKALIKES)


def _has_mixed_word(plain: str) -> bool:
    """Return whether a word mixes Latin and look-alike letters, which only serves to pass for another word."""
    for word in _WORD.findall(plain):
        names = [unicodedata.name(char, "") for char in word if char not in _OF_UNITS]
        if any(name.startswith("LATIN") for name in names) and any(name.startswith(_FOREIGN_SCRIPTS) for name in names):
            return True
    return False
