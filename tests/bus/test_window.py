"""The duplicate window: recorded answers, bounded in number and bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.envelope import Kind
from hobus.bus.window import DuplicateWindow, KeptReply


def answer(body: bytes = b"x") -> KeptReply:
    """A recorded reply."""
    return KeptReply(Kind.REPLY, "bus.done", 1, body)


def test_a_recorded_answer_is_given_again() -> None:
    """Same role, type and id: the same bytes."""
    window = DuplicateWindow(ids_max=2, bytes_max=100)
    window.record(("ho2", "wo.execute", "WO-1"), answer(b"receipt"))
    assert window.recorded(("ho2", "wo.execute", "WO-1")) == answer(b"receipt")


def test_another_role_does_not_get_it() -> None:
    """Guessing an id reads nobody else's reply."""
    window = DuplicateWindow(ids_max=2, bytes_max=100)
    window.record(("ho2", "wo.execute", "WO-1"), answer())
    assert window.recorded(("ho1", "wo.execute", "WO-1")) is None


def test_the_oldest_goes_when_there_are_too_many() -> None:
    """The bound on ids is exact."""
    window = DuplicateWindow(ids_max=2, bytes_max=100)
    for name in ("a", "b", "c"):
        window.record(("ho2", "t", name), answer())
    assert window.recent_ids(5) == ["b", "c"]
    assert window.recent_ids(1) == ["c"]


def test_an_answer_larger_than_the_window_is_not_kept() -> None:
    """The bound on bytes holds even for a single answer, and the window still works afterwards."""
    window = DuplicateWindow(ids_max=9, bytes_max=10)
    window.record(("ho2", "t", "big"), answer(bytes(11)))
    assert len(window) == 0
    window.record(("ho2", "t", "small"), answer(bytes(10)))
    assert len(window) == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=40))
def test_bounds_hold_and_the_latest_answers_are_the_ones_kept(records: list[tuple[int, int]]) -> None:
    """Whatever is recorded, also one id twice: a suffix of the history that fits both bounds."""
    window = DuplicateWindow(ids_max=3, bytes_max=10)
    model: dict[int, int] = {}
    for name, size in records:
        window.record(("r", "t", str(name)), answer(bytes(size)))
        model.pop(name, None)
        model[name] = size
        while len(model) > 3 or sum(model.values()) > 10:
            del model[next(iter(model))]
        assert window.recent_ids(99) == [str(kept) for kept in model]
