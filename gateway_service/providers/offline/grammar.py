"""The grammar of the offline model: patterns from `grammar.json`, compiled once. Pure."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable
from importlib.resources import files
from typing import NamedTuple

_FILE = "grammar.json"
_CUT = " … "


_Pattern = re.Pattern[str]


class Intent(NamedTuple):
    """Something that an administration question wants to know, and the tool that knows it."""

    tool_id: str
    domain: str
    says: str
    any: _Pattern
    none: _Pattern


class Grammar(NamedTuple):
    """Everything that the rules match against lower-case text with single spaces."""

    read_chars: int
    intents: tuple[Intent, ...]
    config_sections: dict[str, _Pattern]
    speech: dict[str, _Pattern]
    labels: dict[str, tuple[tuple[str, _Pattern], ...]]
    changes: _Pattern

    def read(self, text: str) -> str:
        """Return what is read of a text: all of it, or, of a long one, beginning and end, in no sentence together."""
        if len(text) <= self.read_chars:
            return text
        half = (self.read_chars - len(_CUT)) // 2
        return f"{text[:half]}{_CUT}{text[-half:]}"

    def normalise(self, text: str) -> str:
        """Return what is read of the text, as the patterns want it: lower case, straight quotes, single spaces."""
        return _normalise(self.read(text))

    def find_intents(self, text: str) -> list[Intent]:
        """Return what a normal text asks for, in the order in which it speaks of it."""
        found = [
            (match.start(), number, intent)
            for number, intent in enumerate(self.intents)
            if (match := intent.any.search(text)) and intent.none.search(text) is None
        ]
        return [intent for _position, _number, intent in sorted(found)]

    def says(self, name: str, text: str) -> bool:
        """Return whether a normal text matches the named pattern of section `speech`."""
        return self.speech[name].search(text) is not None

    def label(self, kind: str, text: str) -> str | None:
        """Return the first label of `tasks` or `domains` whose pattern matches."""
        return next((label for label, pattern in self.labels[kind] if pattern.search(text)), None)


@functools.lru_cache(maxsize=64)
def _normalise(text: str) -> str:
    return " ".join(text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").lower().split())


@functools.cache
def load_grammar() -> Grammar:
    """Load the shipped grammar, cached: compiling its 60 patterns takes some 10 ms."""
    data = json.loads(files("hobus.gateway_service.providers.offline").joinpath(_FILE).read_text(encoding="utf-8"))
    return Grammar(
        read_chars=data["read_chars"],
        intents=tuple(
            Intent(
                row["tool_id"],
                row["domain"],
                row["says"],
                _join_patterns(row["any"]),
                _join_patterns(row["none"] or ["(?!)"]),
            )
            for row in data["intents"]
        ),
        config_sections={name: re.compile(rf"\b{name.replace('_', '[_ ]')}s?\b") for name in data["config_sections"]},
        speech={name: re.compile(pattern) for name, pattern in data["speech"].items()},
        labels={
            kind: tuple((row["label"], _join_patterns(row["any"])) for row in data[kind])
            for kind in ("tasks", "domains")
        },
        changes=re.compile(data["changes"]),
    )


def _join_patterns(patterns: Iterable[str]) -> _Pattern:
    """Return a pattern that finds the first place where any of them matches."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
