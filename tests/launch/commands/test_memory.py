"""What `hobus memory` takes from a person, and how it says what it found."""

import pytest

from bus.messages import memory as m
from launch import exit_codes
from launch.commands import memory
from launch.errors import CommandError
from tests.actors.ho3_memory.builders import artifact


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2026-01-31", "2026-01-31T00:00:00.000000Z"),
        ("2026-01-31T12:30", "2026-01-31T12:30:00.000000Z"),
        ("2026-01-31T12:30:01Z", "2026-01-31T12:30:01.000000Z"),
        ("2026-01-31T12:30:01.5", "2026-01-31T12:30:01.500000Z"),
        (None, None),
    ],
)
def test_a_time_may_be_as_short_as_a_day(given, expected):
    """UTC; what is left out is zero."""
    assert memory._time(given) == expected


@pytest.mark.parametrize("given", ["", "yesterday", "2026-02-31", "2026-01-31T25:00", "2026-01-31T12:30+02:00", "2026"])
def test_what_is_no_time_is_told(given):
    """With an example."""
    with pytest.raises(CommandError, match="--as-of") as caught:
        memory._time(given)
    assert caught.value.exit_code == exit_codes.USAGE and "2026-01-31" in caught.value.message


@pytest.mark.parametrize("given", ["", "tool", "tool:", "Tool:x", "tool:a b", "tool:" + "x" * 200])
def test_what_is_no_signal_is_told(given):
    """With its form and the command that lists them."""
    with pytest.raises(CommandError, match="no signal") as caught:
        memory._signal(given)
    assert caught.value.exit_code == exit_codes.USAGE and caught.value.hint == "hobus memory signals"


@pytest.mark.parametrize("given", ["", "ART-", "OVL-1", "ART-a b", "ART-" + "x" * 100])
def test_what_is_no_artifact_is_told(given):
    """Before anybody is asked."""
    with pytest.raises(CommandError, match="no artifact") as caught:
        memory._artifact(given)
    assert caught.value.exit_code == exit_codes.USAGE


@pytest.mark.parametrize("given", ["", "  ", "x" * 201])
def test_a_change_needs_a_reason(given):
    """One that fits the record."""
    with pytest.raises(CommandError, match="--reason"):
        memory._given(given)


@pytest.mark.parametrize(
    ("changed", "is_active", "word"),
    [
        ({}, True, "active"),
        ({"enabled": False}, False, "off"),
        ({"weight": 0.0}, False, "silent"),
        ({}, False, "expired"),
    ],
)
def test_one_word_says_why_a_line_is_in_prompts_or_not(changed, is_active, word):
    """Off goes before silent, silent before expired."""
    overlay = m.Overlay(overlay_id="OVL-1", artifact=artifact(**changed), is_active=is_active)
    assert memory._state(overlay) == word
