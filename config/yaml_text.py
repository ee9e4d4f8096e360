"""YAML texts of governed files; loaded only by who reads one: most processes get a snapshot, which holds none."""

from __future__ import annotations

from typing import Any

import yaml
from yaml.composer import Composer, ComposerError

from hobus.config.file_limits import describe_too_many
from hobus.config.parse import BadText

_NUMBER_MAX_CHARS = 32
"""Twice what any number that is taken has (`parse.INTEGER_MAX`): YAML reads `1:1:1…` in squared time."""

_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_SHOWN_CHARS = 80


def parse_yaml(text: str, entries_max: int | None = None) -> Any:
    """Return the value of a YAML text of plain data, of at most so many values; raises BadText with line and column."""
    try:
        loader = _Yaml(text, entries_max)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise BadText(f"{place}not YAML: {error.problem}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadText(f"not YAML: {type(error).__name__}") from error


class _Yaml(Composer, yaml.CSafeLoader):
    """A loader of plain data; a key written twice is an error here as in JSON.

    libyaml reads it, in a tenth of the time, and Python puts it together: libyaml's own way to do that has no bound for
    how deep things are nested, and ends the process.
    """

    def __init__(self, text: str, entries_max: int | None) -> None:
        yaml.CSafeLoader.__init__(self, text)
        Composer.__init__(self)
        self._entries_max = entries_max
        self._nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse aliases, a few of which may stand for more than memory holds, and too many nodes."""
        if self.check_event(yaml.AliasEvent):
            event: Any = self.get_event()
            raise ComposerError(None, None, "an alias (*name); write out what it stands for", event.start_mark)
        self._nodes += 1
        if self._entries_max is not None and self._nodes > 2 * self._entries_max:
            raise BadText(describe_too_many(self._entries_max))
        return super().compose_node(parent, index)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        if node.tag in _NUMBERS and len(node.value) > _NUMBER_MAX_CHARS:
            raise yaml.constructor.ConstructorError(None, None, "a number of too many digits", node.start_mark)
        return super().construct_object(node, deep=deep)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=deep)
            # Others have the same hash as often as somebody wants.
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(None, None, "a key that is no text", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key[:_SHOWN_CHARS]!r} is written twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)
