"""What differs between two frozen configurations, by the names that people know. Pure."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, NamedTuple

from hobus.config.own_settings import flatten_settings
from hobus.config.snapshot import Snapshot

_ASSETS = {
    "agents": "agent", "contracts": "contract", "prompt_packs": "prompt pack", "templates": "attention template",
    "frameworks": "framework",
    "specs": "spec", "packages": "package",
}  # fmt: skip
NOT_THERE = object()


class Difference(NamedTuple):
    """A setting by its dotted path, with its values; or an asset, such as `agent CLERK`, with what became of it."""

    name: str
    before: Any = None
    after: Any = None
    how: str = ""
    """Of an asset: `added`, `removed` or `altered`."""

    @property
    def is_setting(self) -> bool:
        """Return whether it has values, `NOT_THERE` where a side knows no such setting."""
        return (self.before, self.after) != (None, None)


def list_differences(before: Snapshot, after: Snapshot) -> list[Difference]:
    """Return settings in the order of the configuration, then assets by kind and id."""
    was, now = (flatten_settings(one.config.model_dump(mode="json")) for one in (before, after))
    settings = [Difference(path, was.get(path, NOT_THERE), now.get(path, NOT_THERE)) for path in {**was, **now}]
    found = [one for one in settings if one.before != one.after]
    for mapping, kind in _ASSETS.items():
        there, here = getattr(before, mapping), getattr(after, mapping)
        found += [
            Difference(f"{kind} {name}", how=_describe_change(name, there, here))
            for name in sorted({*there, *here})
            if there.get(name) != here.get(name)
        ]
    return found


def _describe_change(name: str, there: Container[str], here: Container[str]) -> str:
    return "added" if name not in there else "removed" if name not in here else "altered"
