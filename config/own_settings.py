"""One setting of `admin_config.json` by its dotted path: read, laid over what is shipped, taken away again. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, cast

from hobus.config.load import merge

_DEPTH_MAX = 64
"""Dots in a path: more than any setting has."""


class NoSuchSetting(ValueError):
    """Say how far a path leads that leads nowhere."""


def flatten_settings(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Map each dotted path to its value, in the order of the file; a list and an empty object are values."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        path = f"{above}{key}"
        found |= flatten_settings(value, f"{path}.") if isinstance(value, dict) and value else {path: value}
    return found


def lay_over(shipped: Mapping[str, Any], own: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return `own` that also says this of the setting. Raises NoSuchSetting where something above it is no object."""
    *above, last = _split_path(merge(shipped, own), path)
    changed = dict(own)
    here = changed
    for step in above:
        here[step] = dict(here[step]) if isinstance(here.get(step), dict) else {}
        here = here[step]
    here[last] = value
    return changed


def take_away(own: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return `own` that says nothing of the setting, nor holds what is empty without it. Raises NoSuchSetting."""
    step, *below = _split_path(own, path)
    if step not in own:
        raise NoSuchSetting(f"{path}: it is as it is shipped; there is nothing to take away")
    rest = {key: value for key, value in own.items() if key != step}
    if not below:
        return rest
    left = take_away(own[step], path[len(step) + 1 :]) if isinstance(own[step], dict) else {}
    return {key: left if key == step else value for key, value in own.items()} if left else rest


def describe_no_such(path: str, values: Mapping[str, Any]) -> str:
    """Return what is said of a path that leads nowhere, with those like it; empty if it leads somewhere."""
    known = list(_list_paths(values))
    if path in known:
        return ""
    last = path.rpartition(".")[2]
    near = get_close_matches(path, known, n=_NEAR_MAX) or [one for one in known if one.rpartition(".")[2] == last]
    if near:
        return f"there is no setting {path[:80]}; did you mean {' or '.join(near[:_NEAR_MAX])}?"
    return f"there is no setting {path[:80]}; they are in {', '.join(values)}"


_NEAR_MAX = 3


def _list_paths(values: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for key, value in values.items():
        yield f"{above}{key}"
        if isinstance(value, Mapping):
            yield from _list_paths(cast("Mapping[str, Any]", value), f"{above}{key}.")


def make_own_schema(schema: Any) -> Any:
    """Return the JSON Schema of a file that may leave out whatever it does not change."""
    if isinstance(schema, dict):
        return {
            key: make_own_schema(value) for key, value in schema.items() if key != "required" or isinstance(value, dict)
        }
    return [make_own_schema(one) for one in schema] if isinstance(schema, list) else schema


def _split_path(values: Any, path: str, above: str = "") -> list[str]:
    """Return the keys behind a path; one that is there may have dots in it."""
    if not isinstance(values, Mapping):
        raise NoSuchSetting(f"{above}{path}: {above.rstrip('.')} is not an object")
    if path.count(".") > _DEPTH_MAX:
        raise NoSuchSetting(f"{above}{path[:40]}…: no path of a setting")
    known = [key for key in values if path == key or path.startswith(f"{key}.")]
    step = max(known, key=len, default=path.partition(".")[0])
    rest = path[len(step) + 1 :]
    if not step or path.endswith("."):
        raise NoSuchSetting(f"{above}{path}: no path of a setting")
    if not rest:
        return [step]
    return [step, *(_split_path(values[step], rest, f"{above}{step}.") if step in values else rest.split("."))]
