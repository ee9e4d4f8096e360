"""How values stand in a page: times, amounts, ids. Pure but for the time zone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hobus.bus.messages.ids import parse_iso, shorten_session
from hobus.launch.cli.web import limits
from hobus.launch.console import output

_GOOD = frozenset({"ready", "success", "approved", "applied", "active", "crossed"})
_WARN = frozenset({
    "degraded", "draining", "starting", "WaitingInput", "Paused", "pending", "backoff", "queued", "undecided",
    "Cancelling", "late", "warn", "expired", "waits",
})  # fmt: skip
_BAD = frozenset({
    "failed", "lost", "error", "denied", "rejected", "dead", "malformed", "refused", "cancelled", "stopped", "stalled",
})  # fmt: skip


def choose_tone(word: str) -> str:
    """Return the class of a badge by the word in it: what needs somebody's eye is loud, all else is quiet."""
    first = str(word).split("(")[0].split(" ")[0].split(":")[0]
    return "good" if first in _GOOD else "warn" if first in _WARN else "bad" if first in _BAD else "plain"


def format_moment(at: Any) -> str:
    """Return day and minute of ISO 8601, of microseconds, or of seconds since 1970."""
    return "-" if at in (None, "", 0) else output.format_minute(_read_seconds(at))


def format_time_of_day(at: Any) -> str:
    return "-" if at in (None, "", 0) else output.format_clock_time(_read_seconds(at))


def format_ago(at: Any, now: float) -> str:
    return "-" if at in (None, "", 0) else f"{output.format_duration(max(0.0, now - _read_seconds(at)))} ago"


_SECONDS_MAX = 100_000_000_000  # of a moment in seconds; a greater one is in microseconds


def _read_seconds(at: Any) -> float:
    if isinstance(at, str):
        return parse_iso(at)
    return at / 1_000_000 if at > _SECONDS_MAX else at


_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Characters after which others stand in another order than they were written in."""


def escape_turning(value: Any) -> Any:
    """Return a text with such characters as escapes: nobody approves arguments other than those that are shown."""
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return _TURNING.sub(lambda found: f"\\u{ord(found[0]):04x}", value) if is_text else value


def fold_text(text: Any) -> str:
    whole, most = str(text), limits.TEXT_CHARS
    left = output.format_count(len(whole) - most, "further character")
    return whole if len(whole) <= most else f"{whole[:most]}\n… and {left}"


def format_json(value: Any) -> str:
    """Return a value as people read JSON; a text as it is."""
    return fold_text(value if isinstance(value, str) else output.as_json(value, indent=2))


def format_or_dash(show: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: "-" if value is None else show(value)


def _format_ms(value: int) -> str:
    return f"{value:,} ms" if value < _MS_MAX else output.format_duration(value / 1000)


_MS_MAX = 10_000  # from there on in seconds
FILTERS: dict[str, Callable[..., Any]] = {
    "tone": choose_tone, "moment": format_moment, "clock": format_time_of_day, "ago": format_ago, "long": fold_text,
    "pretty": format_json, "session": shorten_session, "money": output.format_money, "counted": output.format_count,
    "size": format_or_dash(output.format_size), "ms": format_or_dash(_format_ms),
    "thousands": format_or_dash(output.format_thousands), "seconds": format_or_dash(output.format_duration),
}  # fmt: skip
