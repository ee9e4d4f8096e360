"""A text without its quoted lines and blocks: what stands behind `>`, in fences, indented as code, between tags. Pure.

In doubt a block goes on: what is left out is not counted as anybody's own words, and that is the safe side.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from hobus.actors.ho2_supervisor.learning.forwarded import without_forwarded

LEFT_OUT = "\0"
"""In place of what is left out, so that no statement goes on across it."""
_ITEM = re.compile(r"\s*(?:(?:[-*+•]|\d{1,9}[.)])\s+)*")
_QUOTING = re.compile(r">|[|│┃]|[\w.@-]{1,20}>(?=\s|$)")
"""How a quoted line begins: by the sign of mails, of a table or frame, or with somebody's initials."""
_FENCE = re.compile(r"(?P<sign>`{3,}|~{3,})(?P<info>.*)", re.DOTALL)
_INDENT = 4
"""By so many columns more than what it stands in a line is code, no fence."""
_LINE_END = re.compile(r"\r\n?|\n")
_TAG = re.compile(
    r"<(?P<ends_a>/?)(?P<a>[a-z][\w:.-]*)(?:\s[^<>]*)?>"
    r"|\[(?P<ends_b>/?)(?P<b>[a-z]+)(?:=[^\[\]\n]*)?\]"
    r"|\\(?:begin|(?P<ends_c>end))\{(?P<c>[a-z]+)\*?\}"
    r"|#\+(?:begin|(?P<ends_d>end))_(?P<d>[a-z]+)"
    r"|(?P<e><!--)|(?P<ends_e>-->)"
    r"|(?P<border>\{(?:quote|code|noformat)(?=[:}])|^ {0,3}(?::::|(?:---|===|___|\*\*\*|~~|\$\$)(?=[-=_*~$ ]*$)))"
    r"|(?P<other_speaker><\|\w+\|>|^--(?=[^\n]*--[ ]*$)-*[ \w])",
    re.IGNORECASE | re.MULTILINE,
)
"""What begins and ends an element, of HTML, of forums, of LaTeX, of Org; group `ends_x` in what ends one of kind x.

A border stands at both ends; behind the head of a forwarded mail, or the sign of a role, somebody else has the word.
"""
_QUOTES_UNENDED = frozenset(
    ["blockquote", "q", "quote", "pre", "code", "samp", "cite", "quotation", "verbatim", "", "{quote", "{code", ":::"]
)
"""Elements that quote also where nothing ends them; another name in brackets may be anything."""
_BEFORE_NAMED = re.compile(r"\w[ ,(]{1,3}\Z")
_BEHIND_NAMED = re.compile(r"(?:[?.!]|[ ,)][^\n]{0,80}\w)")
"""Around a tag that is named in a sentence (`What is a <pre> tag?`), and begins no element."""
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n|\Z")


def without_quoted(text: str) -> str:
    """The text, LEFT_OUT in place of what is quoted."""
    return _without_elements(without_forwarded(_without_lines(text)))


def _without_lines(text: str) -> str:
    """Without quoted lines and fenced blocks, also those in items of a list, and without indented code."""
    kept: list[str] = []
    fence: _Fence | None = None
    is_behind_quoted = is_behind_blank = False
    text = text.expandtabs(_INDENT)
    if len(text.strip().splitlines()) == 1:
        text = text.lstrip()  # a single line is not code because it is indented
    for whole in _LINE_END.split(text):
        pieces = whole.splitlines() or [""]  # other signs end a line for some programs, and no fence for most
        for line in pieces:
            bare = _ITEM.sub("", line, count=1)
            if fence is not None:
                kept.append(LEFT_OUT)
                fence = None if len(pieces) == 1 and fence.is_closed_by(line) else fence
                continue
            found, is_quoted = _FENCE.match(bare), _QUOTING.match(bare) is not None
            is_blank = not line.strip()
            is_behind_quoted = not is_blank and (is_quoted or is_behind_quoted)  # a wrapped line goes on without a sign
            is_left_out = found or is_behind_quoted or _is_code(line, bare, is_behind_blank=is_behind_blank)
            is_behind_blank = is_blank
            kept.append(LEFT_OUT if is_left_out else line)
            if found and not (found["sign"].startswith("`") and "`" in found["info"]):  # that is code within a line
                before = len(line) - len(bare)
                fence = _Fence(found["sign"], before if before >= _INDENT or line[:before].strip() else 0)
    return "\n".join(kept)


def _is_code(line: str, bare: str, *, is_behind_blank: bool) -> bool:
    """Whether it is indented as code is, and no item of a list within another one."""
    unindented = line.lstrip()
    is_item = bare != unindented and not is_behind_blank
    return bool(unindented) and len(line) - len(unindented) >= _INDENT and not is_item


class _Fence(NamedTuple):
    """What began a fenced block: only its like ends it. In doubt it goes on."""

    sign: str
    column: int  # where the item of the list begins that it stands in; 0: it stands in none

    def is_closed_by(self, line: str) -> bool:
        """The same sign at least as often, nothing behind it, and within the item of the list that it began in."""
        bare = line.strip()
        indent = len(line) - len(line.lstrip())
        return (
            len(bare) >= len(self.sign)
            and set(bare) == {self.sign[0]}
            and self.column <= indent < self.column + _INDENT
        )


class _Element(NamedTuple):
    """One that began and is not over."""

    begins: int
    depth: int = 1
    last_end: int = 0  # behind the last tag that ended one of its name
    is_named: bool = False  # in a sentence about the tag


def _name_of(tag: re.Match[str]) -> tuple[tuple[str, str], bool]:
    """Kind and name of the element, and whether it ends there."""
    if border := tag["border"]:
        return ("border", border.strip().casefold()), False
    kind = next(kind for kind in "abcde" if tag[f"ends_{kind}"] or tag[kind])
    return (kind, "" if kind == "e" else tag[kind].casefold()), bool(tag[f"ends_{kind}"])


def _elements(text: str) -> list[tuple[int, int]]:
    """From where to where they reach, each with its tags."""
    spans: list[tuple[int, int]] = []
    begun: dict[tuple[str, str], _Element] = {}
    for tag in _TAG.finditer(text):
        if tag["other_speaker"]:
            spans.append((tag.start(), len(text)))
            break
        name, is_end = _name_of(tag)
        one = begun.get(name)
        if not is_end and (one is None or not tag["border"]):
            named = _is_named(text, tag)
            begun[name] = (
                _Element(tag.start(), is_named=named)
                if one is None
                else one._replace(depth=one.depth + 1, is_named=named and one.is_named)
            )
        elif one is not None and one.depth == 1:
            spans.append((begun.pop(name).begins, tag.end()))
        elif one is not None:
            begun[name] = one._replace(depth=one.depth - 1, last_end=tag.end())
    return spans + [
        (one.begins, _end_of_unended(text, one) if name in _QUOTES_UNENDED else one.last_end)
        for (_, name), one in begun.items()
        if name in _QUOTES_UNENDED or one.last_end
    ]


def _is_named(text: str, tag: re.Match[str]) -> bool:
    before = text[max(0, tag.start() - 4) : tag.start()]
    return bool(_BEFORE_NAMED.search(before) and _BEHIND_NAMED.match(text, tag.end()))


def _end_of_unended(text: str, element: _Element) -> int:
    """The text's, or its paragraph's where the tag is only named."""
    end = _PARAGRAPH_END.search(text, element.begins) if element.is_named and element.depth == 1 else None
    return len(text) if end is None else end.start()


def _without_elements(text: str) -> str:
    """Without what stands between two tags of one name, whatever the name: it was put there as a text of its own."""
    kept: list[str] = []
    position = 0
    for begins, ends in sorted(_elements(text)):
        if begins > position:
            kept += [text[position:begins], LEFT_OUT]
        position = max(position, ends)
    return "".join([*kept, text[position:]])
