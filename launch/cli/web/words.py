"""How values stand in a page: times, amounts, ids. Pure but for the time zone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hobus.bus.messages.ids import parse_iso, shown_session
from hobus.launch.cli.web import limits
from hobus.launch.console.output import as_json, clock_time, counted, day_and_minute, duration, money, size, thousands

_GOOD = frozenset({"ready", "success", "approved", "applied", "active", "crossed"})
_WARN = frozenset({
    "degraded", "draining", "starting", "WaitingInput", "Paused", "pending", "backoff", "queued", "undecided",
    "Cancelling", "late", "warn", "expired", "waits",
})  # fmt: skip
_BAD = frozenset({
    "failed", "lost", "error", "denied", "rejected", "dead", "malformed", "refused", "cancelled", "stopped", "stalled",
})  # fmt: skip


def tone(word: str) -> str:
    """Return the class of a badge by the word in it: what needs somebody's eye is loud, all else is quiet."""
    first = str(word).split("(")[0].split(" ")[0].split(":")[0]
    return "good" if first in _GOOD else "warn" if first in _WARN else "bad" if first in _BAD else "plain"


def moment(at: Any) -> str:
    """Return day and minute of ISO 8601, of microseconds, or of seconds since 1970."""
    return "-" if at in (None, "", 0) else day_and_minute(_seconds(at))


def time_of_day(at: Any) -> str:
    return "-" if at in (None, "", 0) else clock_time(_seconds(at))


def ago(at: Any, now: float) -> str:
    return "-" if at in (None, "", 0) else f"{duration(max(0.0, now - _seconds(at)))} ago"


_SECONDS_MAX = 100_000_000_000
"""Of a moment in seconds, for thousands of years; a greater one is in microseconds."""


def _seconds(at: Any) -> float:
    if isinstance(at, str):
        return parse_iso(at)
    return at / 1_000_000 if at > _SECONDS_MAX else at


def long_text(text: Any) -> str:
    whole = str(text)
    left = len(whole) - limits.TEXT_CHARS
    return whole if left <= 0 else f"{whole[: limits.TEXT_CHARS]}\n… and {counted(left, 'further character')}"


def in_json(value: Any) -> str:
    """Return a value as people read JSON; a text as it is."""
    return long_text(value if isinstance(value, str) else as_json(value, indent=2))


def or_dash(show: Callable[[Any], str]) -> Callable[[Any], str]:
    def shown(value: Any) -> str:
        return "-" if value is None else show(value)

    return shown


def _in_ms(value: int) -> str:
    return f"{value:,} ms" if value < _MS_MAX else duration(value / 1000)


_MS_MAX = 10_000
"""From there on in seconds."""
FILTERS: dict[str, Callable[..., Any]] = {
    "tone": tone, "moment": moment, "clock": time_of_day, "ago": ago, "long": long_text, "pretty": in_json,
    "session": shown_session, "money": money, "counted": counted, "size": or_dash(size), "ms": or_dash(_in_ms),
    "thousands": or_dash(thousands), "seconds": or_dash(duration),
}  # fmt: skip
