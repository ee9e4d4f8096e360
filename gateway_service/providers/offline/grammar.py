"""The grammar of the offline model: patterns from `grammar.json`, compiled once. Pure."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection
from importlib.resources import files
from typing import NamedTuple

_FILE = "grammar.json"
_CUT = " … "


_Patterns = tuple[re.Pattern[str], ...]


class Intent(NamedTuple):
    """Something that an administration question wants to know, and the tool that knows it."""

    tool_id: str
    domain: str
    says: str
    any: _Patterns
    none: _Patterns

    def position_in(self, text: str) -> int | None:
        """Where the text first speaks of it; None if it does not."""
        if any(pattern.search(text) for pattern in self.none):
            return None
        found = [match.start() for pattern in self.any if (match := pattern.search(text))]
        return min(found) if found else None


class Grammar(NamedTuple):
    """Everything that the rules match against lower-case text with single spaces."""

    read_chars: int
    intents: tuple[Intent, ...]
    config_sections: tuple[str, ...]
    speech: dict[str, re.Pattern[str]]
    tasks: tuple[tuple[str, _Patterns], ...]
    domains: tuple[tuple[str, _Patterns], ...]
    changes: re.Pattern[str]

    def read(self, text: str) -> str:
        """What is read of a text: all of it, or, of a long one, its beginning and its end, in no sentence together."""
        if len(text) <= self.read_chars:
            return text
        half = (self.read_chars - len(_CUT)) // 2
        return f"{text[:half]}{_CUT}{text[-half:]}"

    def normal(self, text: str) -> str:
        """What is read of the text, as the patterns want it: lower case, straight quotes, single spaces."""
        return " ".join(self.read(text).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").lower().split())

    def intents_in(self, text: str, tool_ids: Collection[str] | None = None) -> list[Intent]:
        """What a normal text asks for, in the order in which it speaks of it; only of tools in `tool_ids`, if given."""
        found = [
            (position, intent)
            for intent in self.intents
            if (tool_ids is None or intent.tool_id in tool_ids) and (position := intent.position_in(text)) is not None
        ]
        return [intent for _position, intent in sorted(found, key=lambda row: row[0])]

    def says(self, name: str, text: str) -> bool:
        """Whether a normal text matches the named pattern of section `speech`."""
        return self.speech[name].search(text) is not None

    def label(self, kind: str, text: str) -> str | None:
        """The first label of `tasks` or `domains` whose patterns match."""
        rows = self.tasks if kind == "tasks" else self.domains
        return next((label for label, patterns in rows if any(pattern.search(text) for pattern in patterns)), None)


@functools.cache
def load_grammar() -> Grammar:
    """The shipped grammar; 60 patterns, so that compiling them takes some 10 ms."""
    data = json.loads(files("hobus.gateway_service.providers.offline").joinpath(_FILE).read_text(encoding="utf-8"))
    return Grammar(
        read_chars=data["read_chars"],
        intents=tuple(
            Intent(row["tool_id"], row["domain"], row["says"], _patterns(row["any"]), _patterns(row["none"]))
            for row in data["intents"]
        ),
        config_sections=tuple(data["config_sections"]),
        speech={name: re.compile(pattern) for name, pattern in data["speech"].items()},
        tasks=tuple((row["label"], _patterns(row["any"])) for row in data["tasks"]),
        domains=tuple((row["label"], _patterns(row["any"])) for row in data["domains"]),
        changes=re.compile(data["changes"]),
    )


def _patterns(patterns: list[str]) -> _Patterns:
    return tuple(re.compile(pattern) for pattern in patterns)
