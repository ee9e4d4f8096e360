"""What is left after a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho3_memory.event_time import HOUR_US, compute_remaining, decay


@pytest.mark.parametrize(
    ("age_hours", "expected"),
    [(0, 1.0), (-5, 1.0), (336, 0.5), (672, 0.25), (168, 0.707106781), (1, 0.997939188), (100_000, 0.0)],
)
def test_decay_at_its_borders(age_hours, expected):
    assert decay(0, age_hours * HOUR_US, 336) == expected


@given(st.integers(0, 10**15), st.integers(0, 10**15), st.floats(0.01, 10_000))
def test_decay_never_grows_with_age(one_us, other_us, half_life_hours):
    younger, older = sorted((one_us, other_us))
    assert 0.0 <= decay(0, older, half_life_hours) <= decay(0, younger, half_life_hours) <= 1.0
    assert compute_remaining(older, half_life_hours) <= compute_remaining(younger, half_life_hours)
