"""Many due times behind one timer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.deadlines import Deadlines


def test_due_exactly_now_is_due() -> None:
    deadlines = Deadlines[str]()
    deadlines.set("a", 1.0)
    assert deadlines.take_due(0.999) == []
    assert deadlines.take_due(1.0) == ["a"]
    assert deadlines.take_due(9.0) == []


def test_ties_come_in_the_order_in_which_they_were_set() -> None:
    deadlines = Deadlines[str]()
    for key in ("b", "c", "a"):
        deadlines.set(key, 1.0)
    assert deadlines.take_due(1.0) == ["b", "c", "a"]


def test_what_is_hastened_is_due_at_the_earlier_time() -> None:
    deadlines = Deadlines[str]()
    for due in (3.0, 2.0, 4.0):
        deadlines.hasten("a", due)
    assert deadlines.earliest() == 2.0
    assert deadlines.take_due(5.0) == ["a"]


def test_a_thousand_short_lives_leave_no_heap_behind() -> None:
    deadlines = Deadlines[int]()
    for key in range(10_000):
        deadlines.set(key, 100.0 + key)
        deadlines.forget(key)
    assert len(deadlines._heap) <= 65


Step = st.tuples(st.sampled_from(["set", "forget"]), st.integers(0, 5), st.integers(0, 9))


@given(st.lists(Step, max_size=200), st.integers(0, 9))
def test_it_behaves_like_a_dict_of_due_times(steps: list[tuple[str, int, int]], now: int) -> None:
    deadlines, model = Deadlines[int](), dict[int, int]()
    for what, key, due in steps:
        if what == "set":
            deadlines.set(key, due)
            model[key] = due
        else:
            deadlines.forget(key)
            model.pop(key, None)
    assert deadlines.earliest() == min(model.values(), default=None)
    assert sorted(deadlines.take_due(now)) == sorted(key for key, due in model.items() if due <= now)
    assert len(deadlines) == sum(due > now for due in model.values())
