"""Events in columns: the ids come back as they were, each event once, in few bytes."""

import tracemalloc

import pytest

from hobus.actors.ho3_memory.event_rows import EventRows, SignalEvent
from hobus.actors.ho3_memory.event_time import PointInTime
from hobus.actors.ho3_memory.names import Names
from hobus.actors.ho3_memory.signal_log import SignalLog
from tests.actors.ho3_memory.builders import LATEST, SIGNAL, config, session, us

BYTES_PER_EVENT_MAX = 64
"""What docs/memory.md says; 0.5 KB when each event was an object of its own."""


@pytest.mark.parametrize(
    "event_id",
    [
        f"EVT-{session(1)}-12-{SIGNAL}", f"EVT-{session(2)}-12-{SIGNAL}", f"EVT-{session(1)}-12-tool:other", "=", "-",
        f"EVT-{session(1)}--{SIGNAL}", f"EVT-{session(1)}-{SIGNAL}", f"EVT-{session(1)}-a-{SIGNAL}-b-{SIGNAL}", "EVT--",
    ],
)  # fmt: skip
def test_an_id_comes_back_as_it_was(event_id):
    """Derived from session and signal, or anything else."""
    rows = EventRows(SIGNAL, Names(), of_several=False)
    assert rows.insert(SignalEvent(5, event_id, session(1), 0)) == 0
    assert (rows.event_id(0), rows.session_id(0)) == (event_id, session(1))


def test_an_entry_of_the_record_is_here_once():
    """Its sequence tells; an older entry that comes later is new."""
    rows = EventRows(SIGNAL, Names(), of_several=False)
    first = SignalEvent(5, "e1", "s1", 7)
    assert (rows.insert(first), rows.insert(first), rows.insert(SignalEvent(4, "e0", "s1", 3))) == (0, None, 0)
    assert [rows.event_id(place) for place in range(len(rows))] == ["e0", "e1"]


def test_at_one_time_the_id_decides():
    """In whatever order they come."""
    rows = EventRows(SIGNAL, Names(), of_several=False)
    for seq, name in enumerate(["b", "a", "c"]):
        rows.insert(SignalEvent(5, name, "s1", seq))
    assert [rows.event_id(place) for place in rows.counted(LATEST)] == ["a", "b", "c"]
    assert [rows.event_id(place) for place in rows.counted(PointInTime(5, 0))] == ["b"]


@pytest.mark.parametrize("events", [1_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_large_habit_is_small(events):
    """Thousands of events, three a session, followed by its gate: so many bytes each, sessions included."""
    rules = config(gate_mode="bistable")
    tracemalloc.start()
    try:
        log = SignalLog(SIGNAL, rules, "local")
        before, _ = tracemalloc.get_traced_memory()
        for number in range(events):
            name = session(number // 3 % (events // 20))  # other signals share them
            log.insert(SignalEvent(us(number / 10), f"EVT-{name}-{number % 50 + 1}-{SIGNAL}", name, number))
        log.level(LATEST)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / events < BYTES_PER_EVENT_MAX
