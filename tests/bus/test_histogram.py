"""Durations as counters, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.histogram import BOUNDS_MS, Durations, Histogram, read_histograms


@pytest.mark.parametrize(
    ("elapsed_s", "bounds"), [(-1, 14), (0, 14), (0.001, 14), (0.0011, 13), (0.005, 13), (60, 1), (60.001, 0)]
)
def test_a_duration_is_counted_up_to_its_bound(elapsed_s, bounds):
    one = Histogram()
    one.add(elapsed_s)
    counters = one.counters("turn")
    assert sum(value for name, value in counters.items() if "_le_" in name) == bounds
    assert counters["turn_ms_count"] == 1


@given(
    st.lists(st.floats(0, 100), max_size=30),
    st.dictionaries(st.sampled_from(["calls", "x_ms_sum", "y"]), st.integers()),
)
def test_what_was_told_is_read_again_and_other_counters_stay(elapsed, others):
    """Sums and counts; what is no whole histogram is a counter."""
    one = Histogram()
    for elapsed_s in elapsed:
        one.add(elapsed_s)
    found, rest = read_histograms(one.counters("queue_wait") | others)
    assert rest == others and list(found) == ["queue_wait"]
    told = found["queue_wait"]
    assert (
        isinstance(told, Durations)
        and told.number == len(elapsed)
        and [bound for bound, _ in told.at_most_ms] == [*BOUNDS_MS]
    )
    assert abs(told.sum_ms - 1000 * sum(elapsed)) <= 1
