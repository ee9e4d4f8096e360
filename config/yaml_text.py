"""YAML texts of governed files; loaded only by who reads one: most processes get a snapshot, which holds none."""

from __future__ import annotations

from typing import Any

import yaml
from yaml.composer import Composer

from hobus.config.parse import BadText


def yaml_value(text: str) -> Any:
    """The value of a YAML text of plain data; raises BadText with line and column."""
    try:
        return yaml.load(text, Loader=_Yaml)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise BadText(f"{place}not YAML: {error.problem}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadText(f"not YAML: {type(error).__name__}") from error


class _Yaml(Composer, yaml.CSafeLoader):
    """Plain data; a key written twice is an error here as in JSON.

    libyaml reads it, in a tenth of the time, and Python puts it together: libyaml's own way to do that has no bound for
    how deep things are nested, and ends the process.
    """

    def __init__(self, text: str) -> None:
        yaml.CSafeLoader.__init__(self, text)
        Composer.__init__(self)

    def compose_node(self, parent: Any, index: Any) -> Any:
        """No alias: a few lines of them stand for more than any memory holds."""
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, "an alias (*name); write out what it stands for", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: list[Any] = []
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=deep)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} is written twice", key_node.start_mark
                )
            seen.append(key)
        return super().construct_mapping(node, deep=deep)
