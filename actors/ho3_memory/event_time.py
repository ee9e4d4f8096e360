"""Event time as whole microseconds since 1970 UTC, so that comparing is exact; what is left after a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from hobus.bus.errors import MemoryFault
from hobus.bus.messages.ids import format_iso

HOUR_US = 3_600_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_UTC = _EPOCH.replace(tzinfo=None)
_TIMES_KEPT = 1024
"""Whose texts are remembered: of what was learned it is said again and again when; only speed depends on it."""
_MICROSECOND = timedelta(microseconds=1)
LAST_US = (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC) - _EPOCH) // _MICROSECOND


class PointInTime(NamedTuple):
    """As of when: events of a later time or a later ledger sequence do not count."""

    at_us: int
    seq: int


def parse_micros(timestamp: str) -> int:
    """Return microseconds since 1970 of a `Timestamp`. Raises MemoryFault(invalid_time) for an impossible day."""
    try:
        return (datetime.fromisoformat(timestamp) - _EPOCH) // _MICROSECOND
    except ValueError as error:
        raise MemoryFault("invalid_time", f"{timestamp[:40]!r}: {error}") from None


@lru_cache(maxsize=_TIMES_KEPT)
def format_timestamp(at_us: int) -> str:
    """Return a time as `Timestamp`; one beyond the calendar as its last microsecond."""
    return (_EPOCH_UTC + timedelta(microseconds=min(at_us, LAST_US))).isoformat(timespec="microseconds") + "Z"


def read_clock_us(now_s: float) -> int:
    return parse_micros(format_iso(now_s))


def convert_hours(hours: float) -> int:
    return round(hours * HOUR_US)


DECIMALS = 9
"""Every float that is recorded, ranked or compared is rounded to so many decimals first: same bytes on any machine."""


def compute_remaining(age_us: int, half_life_hours: float) -> float:
    """Return the unrounded share left after `age_us`: 1 at no age or a negative one, one half at one half-life."""
    if age_us <= 0:
        return 1.0
    return 2.0 ** -(age_us / HOUR_US / half_life_hours)


def decay(last_seen_us: int, as_of_us: int, half_life_hours: float) -> float:
    """Return what a signal weighs that was last seen then: at most 1, rounded."""
    return round(compute_remaining(as_of_us - last_seen_us, half_life_hours), DECIMALS)
