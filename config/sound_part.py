"""What is left of settings without those that are at fault, so that faults of all others are told beside them. Pure.

Nothing is ever started with what is left: it only serves to look further.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from hobus.config.parse import written_path

M = TypeVar("M", bound=BaseModel)

_TRIES = 8
"""What is taken out may leave its surroundings without what they need: more often than objects stand in each other."""


def sound_part(
    model: type[M], value: Mapping[str, Any], *, shipped: Any = None, strict: bool = False
) -> tuple[M | None, set[str]]:
    """The model of `value` with each faulty setting as it is shipped, or left out; and what was taken out.

    That is told by dotted paths, and by the names of whole entries. None where nothing valid is left.
    """
    left, gone = copy.deepcopy(dict(value)), set[str]()
    for _ in range(_TRIES):
        try:
            return model.model_validate(left, strict=strict or None), gone
        except ValidationError as error:
            for detail in error.errors(include_url=False, include_context=False, include_input=False):
                # A list is one setting: what stands behind a fault in it would have another number.
                path = tuple(takewhile(lambda part: isinstance(part, str), written_path(detail["loc"], left)))
                _take_out(left, path, shipped, gone, is_unknown=detail["type"] == "extra_forbidden")
    return None, gone


def follows_from(fault: str, gone: Iterable[str]) -> bool:
    """Whether a fault speaks of what was taken out, and may be there for that reason alone."""
    return any(name in fault and re.search(_NAMED.format(name=re.escape(name)), fault) for name in gone)


_NAMED = r"(^|[^\w.]){name}(?![\w-])"
"""A path, a name in quotes, a file of that name."""


def _take_out(left: Any, path: tuple[Any, ...], shipped: Any, gone: set[str], *, is_unknown: bool) -> None:
    while path:
        *above, last = path
        around, was = _at(left, above), _at(shipped, path)
        if isinstance(around, dict) and (last in around or was is not None):
            if was is not None:
                around[last] = copy.deepcopy(was)
            else:
                removed = around.pop(last)
                gone |= {repr(last)} if isinstance(removed, dict) else set()
            gone |= set() if is_unknown else {".".join(map(str, path))}
            return
        path = path[:-1]


def _at(value: Any, path: Iterable[Any]) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value
