"""What `session=` and `turn=` mean."""

from __future__ import annotations

import pytest

from hobus.bus.messages.ids import TurnRef
from hobus.launch.filters.syntax import Value
from hobus.launch.filters.turns import make_session_matcher, make_turn_matcher
from tests.launch.filters.frames import OTHER, SESSION

TURN = TurnRef(SESSION, 2, "in-7")


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        (SESSION, True),
        (OTHER, False),
        ("1a2b", True),
        ("1a2b3c4d-0000", True),
        ("SES-1a2b3c4d", True),
        ("ses-1A2B3C4D", True),
        ("SES-1a2b9999", False),
        ("1a2b*1", True),
        ("", False),
        ("xyz", False),
    ],
)
def test_a_session_is_named_by_id_prefix_or_shown_form(text, fits):
    assert make_session_matcher(Value(text))(SESSION) == fits


def test_no_session_is_asked_for_by_the_empty_value():
    assert make_session_matcher(Value(""))("")
    assert not make_session_matcher(Value("1a2b"))("")


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        (f"{SESSION}-2", True),
        (f"{SESSION}-3", False),
        (f"{SESSION}-22", False),
        ("SES-1a2b3c4d-2", True),
        ("1a2b3c4d-2", True),
        ("SES-1a2b-2", True),
        ("1a2b3-2", True),
        ("SES-1a2b-1", False),
        ("SES-1a2b3c4d-1", False),
        ("SES-1a2b9999-2", False),
        ("1a2b3c4d-0", True),  # the beginning of the id, too
        ("SES-1a2b3c4d-0", False),  # a run, as people see one
        ("SES-1a2b3c4d", True),
        (SESSION, True),
        (f"{SESSION}/in-7", True),
        (f"{SESSION}/in-8", False),
        ("SES-1a2b3c4d/in-7", True),
        ("in-7/door", True),  # a part of an id
        ("*-2", True),
        ("", False),
    ],
)
def test_a_turn_is_named_by_run_input_session_or_a_part_of_an_id(text, fits):
    """A run's number is compared as a number, never as a prefix of another."""
    ids = ("", f"turn:{SESSION}/in-7/door/1@d:5", "", "", "")
    assert make_turn_matcher(Value(text))(TURN, ids) == fits
