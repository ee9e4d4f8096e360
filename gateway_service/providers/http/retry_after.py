"""When a provider may be asked again, as its headers say. Pure.

`retry-after` is seconds or a date; where it is missing, the limits themselves say when they are reset: as a duration
(`6m0s`, `120ms`), as seconds, or as a moment. A moment counts from the server's own `Date`, else from this clock.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_AFTER_MAX_MS = 2**31
"""Three weeks: whoever says more says never."""

_A_MOMENT_S = 10**9
"""So many seconds are a moment, in 2001 or later; from a thousand times as many on they are milliseconds."""

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s|d)")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RESET = re.compile(r"(?:x-ratelimit-reset(-.+)?|anthropic-ratelimit(-.+)-reset)")


def retry_after_ms(headers: Mapping[str, str], now: float) -> int | None:
    """Return when another try may be allowed; None if the headers do not say. `now`: seconds since 1970 UTC."""
    named = {name.lower(): value for name, value in headers.items()}
    now = _parse_moment(named.get("date", "")) or now
    milliseconds = _parse_number(named.get("retry-after-ms", ""))
    after_s = _parse_seconds(named.get("retry-after", ""), now) if milliseconds is None else milliseconds / 1000
    if after_s is None:
        after_s = _reset_s(named, now)
    return None if after_s is None or after_s < 0 else min(math.ceil(after_s * 1000), _AFTER_MAX_MS)


def _reset_s(headers: Mapping[str, str], now: float) -> float | None:
    """Return when the limits that are used up are there again; where none says so, the first of all."""
    resets: list[tuple[bool, float]] = []
    for name, value in headers.items():
        match, after_s = _RESET.fullmatch(name), _parse_seconds(value, now)
        if match is not None and after_s is not None and after_s >= 0:
            left = headers.get(name.replace("reset", "remaining"), "")
            resets.append((_parse_number(left) == 0, after_s))
    used_up = [after_s for is_used_up, after_s in resets if is_used_up]
    return max(used_up) if used_up else min((after_s for _, after_s in resets), default=None)


def _parse_seconds(text: str, now: float) -> float | None:
    """Return the seconds until then: by a number, a duration, or a moment."""
    number = _parse_number(text)
    if number is None:
        if _DURATION.fullmatch(text.strip()):
            return sum(float(size) * _SECONDS[unit] for size, unit in _PART.findall(text))
        moment = _parse_moment(text)
        return None if moment is None else moment - now
    if number >= _A_MOMENT_S:
        return (number / 1000 if number >= _A_MOMENT_S * 1000 else number) - now
    return number


def _parse_moment(text: str) -> float | None:
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            found = read(text.strip())
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
        except (TypeError, ValueError, OverflowError):
            continue
    return None


def _parse_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
