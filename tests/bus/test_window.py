"""The duplicate window: recorded answers, bounded in number and bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.envelope import Kind
from hobus.bus.window import DuplicateWindow, KeptReply


def answer(body: bytes = b"x") -> KeptReply:
    return KeptReply(Kind.REPLY, "bus.done", 1, body)


def test_a_recorded_answer_is_given_again() -> None:
    window = DuplicateWindow(ids_max=2, bytes_max=100, age_max_s=60.0)
    window.record(("ho2", "wo.execute", "WO-1"), answer(b"receipt"), 0.0)
    assert window.recorded(("ho2", "wo.execute", "WO-1")) == answer(b"receipt")


def test_another_role_does_not_get_it() -> None:
    window = DuplicateWindow(ids_max=2, bytes_max=100, age_max_s=60.0)
    window.record(("ho2", "wo.execute", "WO-1"), answer(), 0.0)
    assert window.recorded(("ho1", "wo.execute", "WO-1")) is None


def test_the_oldest_goes_when_there_are_too_many() -> None:
    window = DuplicateWindow(ids_max=2, bytes_max=100, age_max_s=60.0)
    for name in ("a", "b", "c"):
        window.record(("ho2", "t", name), answer(), 0.0)
    assert window.list_recent_ids(5) == ["b", "c"]
    assert window.list_recent_ids(1) == ["c"]


def test_an_answer_is_forgotten_once_it_is_too_old() -> None:
    window = DuplicateWindow(ids_max=9, bytes_max=100, age_max_s=60.0)
    window.record(("ho2", "t", "a"), answer(b"1"), 0.0)
    window.record(("ho2", "t", "b"), answer(b"2"), 10.0)
    window.record(("ho2", "t", "a"), answer(b"3"), 20.0)
    window.record(("ho2", "t", "c"), answer(), 70.0)
    assert window.list_recent_ids(9) == ["b", "a", "c"]
    window.record(("ho2", "t", "d"), answer(), 70.1)
    assert window.list_recent_ids(9) == ["a", "c", "d"]
    assert window.recorded(("ho2", "t", "a")) == answer(b"3")
    window.record(("ho2", "t", "e"), answer(), 999.0)
    assert window.list_recent_ids(9) == ["e"]


def test_an_answer_larger_than_the_window_is_not_kept() -> None:
    """The bound on bytes holds even for a single answer, and the window still works afterwards."""
    window = DuplicateWindow(ids_max=9, bytes_max=10, age_max_s=60.0)
    window.record(("ho2", "t", "big"), answer(bytes(11)), 0.0)
    assert len(window) == 0
    window.record(("ho2", "t", "small"), answer(bytes(10)), 0.0)
    assert len(window) == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=40))
def test_bounds_hold_and_the_latest_answers_are_the_ones_kept(records: list[tuple[int, int]]) -> None:
    window = DuplicateWindow(ids_max=3, bytes_max=10, age_max_s=60.0)
    model: dict[int, int] = {}
    for name, size in records:
        window.record(("r", "t", str(name)), answer(bytes(size)), 0.0)
        model.pop(name, None)
        model[name] = size
        while len(model) > 3 or sum(model.values()) > 10:
            del model[next(iter(model))]
        assert window.list_recent_ids(99) == [str(kept) for kept in model]
