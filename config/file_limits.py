"""How much one governed file may be, whoever wrote it: looking at it has a bound before it is looked at."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from hobus.config import files
from hobus.config.limits import FILE_ENTRIES_MAX
from hobus.config.parse import BadText, parse_json
from hobus.config.schema import AdminConfig


class Limits(NamedTuple):
    """Limits of each file; None: unknown, and nothing starts, since what is shipped does not say it."""

    bytes_max: int | None
    entries_max: int | None
    """Values in it, those within lists and objects counted. Of settings as many as their form has."""


def read_limits(config: AdminConfig | None) -> Limits:
    """Return the limits of these settings; without any, of the shipped ones."""
    if config is not None:
        return Limits(config.ledger.bodies_max_bytes, FILE_ENTRIES_MAX)
    try:
        text = (files.SHIPPED_ROOT / files.ADMIN_CONFIG).read_text(encoding="utf-8")
        return Limits(_read_shipped_bytes(text), FILE_ENTRIES_MAX)
    except (OSError, ValueError):
        return Limits(None, None)


def get_file_max_bytes(config: AdminConfig | None = None) -> int | None:
    """Return how long a governed file may be: together they are one body of the record."""
    return read_limits(config).bytes_max


@lru_cache(maxsize=1)
def _read_shipped_bytes(text: str) -> int | None:
    """Return the shipped limit, cached, as it is asked for every file of a home."""
    try:
        settings: Any = parse_json(text)
        return int(settings["ledger"]["bodies_max_bytes"])
    except (BadText, KeyError, TypeError, ValueError):
        return None


def explain_too_long(size_bytes: int, max_bytes: int | None) -> str:
    """Return why a file of so many bytes is not read, as the end of a sentence about it; empty: it is."""
    if max_bytes is None or size_bytes <= max_bytes:
        return ""
    return f"has {size_bytes} bytes; at most {max_bytes} are read (ledger.bodies_max_bytes); shorten it, or remove it"


def explain_too_many(value: Any, entries_max: int | None) -> str:
    """Return why a file with this value is not looked at, in the same form."""
    count, waiting = 0, [value]
    while waiting:
        if entries_max is not None and count + len(waiting) > entries_max:
            return describe_too_many(entries_max)
        one = waiting.pop()
        count += 1
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return ""


def describe_too_many(entries_max: int) -> str:
    """Return that a file has more values than that."""
    return f"has more than {entries_max} values; shorten it, or remove it"
