"""Which variables of an environment somebody gets, by name; `launch.given` reads the environment itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, cast

from hobus.config.secret_refs import is_secret_ref

_REFERENCE = "env:"


def allowed(names: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The variables whose names match one of these (shell patterns)."""
    return {name: value for name, value in environ.items() if any(fnmatchcase(name, pattern) for pattern in names)}


def referred_to(value: Any) -> Iterator[str]:
    """Names of the variables to which `env:NAME` references in a JSON-like value lead, at any depth."""
    if isinstance(value, str):
        if value.startswith(_REFERENCE) and is_secret_ref(value):
            yield value.removeprefix(_REFERENCE)
    elif isinstance(value, Mapping):
        for item in cast("Mapping[str, Any]", value).values():
            yield from referred_to(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from referred_to(item)
