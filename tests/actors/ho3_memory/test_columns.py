"""What is kept in columns: numbers for ids, sets of numbers, entries by time; each says what a plain list would say."""

import tracemalloc
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho3_memory.event_time import PointInTime
from hobus.actors.ho3_memory.id_table import IdTable, key_of
from hobus.actors.ho3_memory.names import Names
from hobus.actors.ho3_memory.number_set import NumberSet, united
from hobus.actors.ho3_memory.timed import Timed
from tests.actors.ho3_memory.builders import session
from tests.laws import law

BYTES_PER_SESSION_MAX = 64
"""Its name; 0.3 KB when each was an object of its own."""


@given(st.lists(st.text(max_size=3), max_size=60))
def test_each_id_has_one_number_as_they_come(texts):
    """And what never came has none."""
    table, known = IdTable(), list(dict.fromkeys(texts))
    assert [table.number(key_of(text)) for text in texts] == [known.index(text) for text in texts]
    assert len(table) == len(known) and table.find(key_of("never")) is None
    assert [table.find(key_of(text)) for text in known] == list(range(len(known)))


NAMES = st.one_of(
    st.uuids().map(str), st.integers(0, 9).map(session), st.text(max_size=4), st.just(str(UUID(int=0)).upper()),
    st.just(session(1).replace("-", "")), st.just(f"{session(1)}\n"),
)  # fmt: skip


@law(20, 200, names=st.lists(NAMES, max_size=30))
def test_a_name_comes_back_as_it_was(names):
    """A uuid as it is written, and anything else."""
    numbered = Names()
    numbers = [numbered.number(name) for name in names]
    assert [numbered[number] for number in numbers] == names
    assert len(set(numbers)) == len(set(names)) and set(numbers) == set(range(len(set(names))))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20))))
def test_a_set_of_numbers_is_a_set(said):
    """Sorted, also from its bytes."""
    numbers, known = NumberSet(), set()
    for is_in, number in said:
        (numbers.add if is_in else numbers.discard)(number)
        (known.add if is_in else known.discard)(number)
    assert list(numbers) == sorted(known) == list(NumberSet(numbers.to_bytes())) and len(numbers) == len(known)
    assert united([numbers, NumberSet()]) == known


@given(st.lists(st.integers(0, 9), max_size=20), st.integers(-1, 10), st.integers(-1, 21), st.data())
def test_entries_stand_by_time_and_sequence(times, at_us, seq, data):
    """In whatever order they come; the newest as of a moment is the latest of those that count."""
    entries = [(at, number) for number, at in enumerate(times)]
    timed = Timed()
    for one in data.draw(st.permutations(entries)):
        timed.insert(*one)
    assert list(timed) == sorted(entries)
    counted = [at for at, number in entries if at <= at_us and number <= seq]
    assert timed.newest_us(PointInTime(at_us, seq)) == max(counted, default=None)


def test_a_session_is_small():
    """Six thousand of them, one after the other."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        names = Names()
        for number in range(6_000):
            names.number(session(number))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / 6_000 < BYTES_PER_SESSION_MAX
