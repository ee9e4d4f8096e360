"""Who begins where: the same at every door, evenly, and with another cell only for those who go there."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.launch.cells.map import choose_cell

NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=12)
CELLS = st.sets(NAMES, min_size=1, max_size=6)


@given(NAMES, CELLS, NAMES)
def test_a_cell_more_changes_nobody_who_does_not_go_there(person, cells, more):
    """And so one fewer changes only those who were in it."""
    assert choose_cell(person, cells | {more}) in (choose_cell(person, cells), more)


@given(NAMES, CELLS)
def test_the_order_of_the_cells_is_none_of_its_business(person, cells):
    """Every door has the same answer."""
    assert choose_cell(person, sorted(cells)) == choose_cell(person, sorted(cells, reverse=True))


def test_people_are_spread_evenly():
    """Of 3,000 people among three cells each has a third, give or take a tenth of that."""
    counts = Counter(choose_cell(f"key/{number}", ["a", "b", "c"]) for number in range(3_000))
    assert all(900 < count < 1_100 for count in counts.values())


def test_nobody_begins_where_there_is_no_cell():
    """Said as what it is."""
    with pytest.raises(ValueError, match="empty"):
        choose_cell("alice", [])
