"""Event time is exact."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho3_memory.event_time import HOUR_US, convert_hours, format_timestamp, parse_micros, read_clock_us
from hobus.bus.errors import MemoryFault

LAST_US = parse_micros("9999-12-31T23:59:59.999999Z")


@given(st.integers(0, LAST_US))
def test_a_time_and_its_timestamp_are_one(at_us):
    assert parse_micros(format_timestamp(at_us)) == at_us


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00.000000Z", 0),
        ("1970-01-01T01:00:00.000001Z", HOUR_US + 1),
        ("2026-01-01T00:00:00.000000Z", 1_767_225_600_000_000),
    ],
)
def test_known_times(text, expected):
    assert parse_micros(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-30T00:00:00.000000Z",
        "2026-13-01T00:00:00.000000Z",
        "0000-01-01T00:00:00.000000Z",
        "2026-01-01T24:00:01.000000Z",
    ],
)
def test_a_day_that_no_calendar_has_is_refused_by_name(text):
    with pytest.raises(MemoryFault, match=text) as caught:
        parse_micros(text)
    assert caught.value.code == "invalid_time" and not caught.value.retryable


def test_beyond_the_calendar_is_its_last_microsecond():
    assert format_timestamp(LAST_US + 1) == "9999-12-31T23:59:59.999999Z"


def test_the_clock_and_settings_are_read_in_microseconds():
    """Both without a rounding error that a comparison could see."""
    assert read_clock_us(1_767_225_600.000001) == 1_767_225_600_000_001
    assert (convert_hours(168), convert_hours(0.5)) == (168 * HOUR_US, HOUR_US // 2)
