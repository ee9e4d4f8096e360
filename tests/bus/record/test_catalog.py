"""The catalogue of entries, held against what is really written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.catalog import ROLES
from hobus.bus.messages.ledger import STREAMS, Entry, Write
from hobus.bus.record.catalog import KINDS, SESSION, EntryKind, find_kind, may_write_entry
from hobus.bus.record.entry import WriteEntry
from tests.simulated import SimulatedCluster

SYSTEM = frozenset({"launcher", "operator", "ledger", "http"})


def test_each_row_is_of_a_stream_and_of_writers_and_stands_once() -> None:
    """Two rows of one kind would let the second one rule."""
    keys = Counter((row.stream, row.event_type, role) for row in KINDS for role in row.writers)
    assert set(keys.values()) == {1}
    assert {row.stream for row in KINDS} == {*STREAMS, SESSION}
    assert {role for row in KINDS for role in row.writers} <= {*ROLES}
    assert all(row.means.endswith(".") for row in KINDS)


@pytest.fixture(scope="module")
def written() -> Iterator[tuple[list[Entry], set[str]]]:
    """The record of a few turns, with tools and memory, and the types that others rest on or wait for at a write's end."""
    barriers: set[str] = set()
    plain = Write.to_bytes

    def noted(self: Write) -> bytes:
        if self.urgent:
            last = -1 - (self.parts[-1].resting if self.parts else 0)
            barriers.add(self.entries[last].event_type)
        return plain(self)

    with pytest.MonkeyPatch.context() as patch, SimulatedCluster(shipped_snapshot()) as cluster:
        patch.setattr(Write, "to_bytes", noted)

        first = cluster.ask("what packages are installed?", input_id="in-0")
        for number, text in enumerate(("is the ledger intact?", "what did this session cost?", "hello"), 1):
            cluster.ask(text, input_id=f"in-{number}", session_id=first.session_id)
        yield cluster.entries(), barriers


def rows_of(entries: list[Entry]) -> list[tuple[Entry, EntryKind]]:
    """Each entry with its row."""
    rows = [(entry, find_kind(entry.origin.partition("/")[0], entry.stream, entry.event_type)) for entry in entries]
    assert all(row is not None for _, row in rows)
    return [(entry, row) for entry, row in rows if row is not None]


def test_what_is_written_is_as_its_row_says(written: tuple[list[Entry], set[str]]) -> None:
    """Its id, its once key; and it has texts behind its payload only where the row names them."""
    entries, _ = written
    seen: Counter[str] = Counter()
    for entry, row in rows_of(entries):
        role = entry.origin.partition("/")[0]
        again = WriteEntry(*entry[:12], bodies=[body or b"" for body in entry.bodies])
        assert role in SYSTEM or may_write_entry(role, again, entry.origin), entry
        assert len(entry.bodies) <= 1 or row.texts, entry.event_type
        seen[row.event_type] += len(entry.bodies) > 1
    expected = {"RunRequested", "WO_DISPATCHED", "RunCompleted", "PROMPT_SENT", "PROMPT_RECEIVED", "OrderEnded"}
    assert {name for name, count in seen.items() if count} >= expected


def test_a_turn_waits_for_what_is_marked_so(written: tuple[list[Entry], set[str]]) -> None:
    """Who waits for a write waits for its last entry, or the last one that others rest on.

    All tools of these turns only read, and their calls begin without a record.
    """
    entries, waited_for = written
    marked = {row.event_type for _, row in rows_of(entries) if row.is_barrier}
    assert {"WO_DISPATCHED", "RunCompleted", "PROMPT_SENT"} <= marked <= waited_for
    assert "TOOL_STARTED" not in marked
