"""Entries and events: ids, bodies, and back."""

from __future__ import annotations

from hobus.actors.ho2_supervisor.session import journal
from hobus.bus.messages.base import pack, unpack
from hobus.bus.messages.ids import RunId
from hobus.bus.messages.ledger import Provenance, name_session_stream
from hobus.bus.record import session_facts as events
from hobus.bus.record.journal import Recorded, find_own_text, read_recorded
from tests.actors.ho2_supervisor.journals import (
    SESSION,
    at,
    degraded,
    dispatched,
    ended,
    fold,
    requested,
    running,
    step,
)

RUN = RunId(session_id=SESSION, run_seq=4)


def test_events_about_one_thing_have_its_id_and_all_else_is_counted() -> None:
    """The forms of the specification, for every kind that has one of its own."""
    state = fold(running(), step(running()))
    completed = events.RunCompleted(input_id="i1", result_ref="r", reply_ref="r", at=at())
    wo_id = f"WO-{SESSION}-1.1.1"
    assert journal.derive_event_id(SESSION, requested(), RUN) == f"RunRequested:{SESSION}/i1"
    assert journal.derive_event_id(SESSION, degraded(), RUN) == f"TurnDegraded:{SESSION}/i1"
    took = events.TookOver(tenure=3, instance="x", at=at())
    assert journal.derive_event_id(SESSION, took, None) == f"TookOver:{SESSION}/3"
    assert journal.derive_event_id(SESSION, dispatched(state), RUN) == f"WO_DISPATCHED:{wo_id}"
    assert journal.derive_event_id(SESSION, ended(wo_id), RUN) == f"OrderEnded:{wo_id}"
    assert journal.derive_event_id(SESSION, completed, RUN) == f"RunCompleted:{SESSION}-4"
    assert journal.derive_event_id(SESSION, events.RunStarted(at=at()), RUN) is None
    assert journal.derive_counted_id("SessionStarted", SESSION, 1, 1) == f"SESSION_START:{SESSION}/1.1"
    assert journal.derive_counted_id("RunFailed", SESSION, 2, 9) == f"RunFailed:{SESSION}/2.9"


def test_entry_carries_the_event_and_its_conditions_and_gives_it_back() -> None:
    """Body 0 is the event, further bodies follow; prev, tenure and once are the write's conditions."""
    event = journal.make_envelope(running(), events.RunAttached(deadline_at=at(9), at=at(2)))
    entry = journal.make_entry(
        event, submission_id="s", prev="p", tenure=2, at_us=7, bodies=[b"text"], once="k", provenance=Provenance()
    )
    assert (entry.stream, entry.event_type) == (name_session_stream(SESSION), "RunAttached")
    assert (entry.prev, entry.tenure, entry.once) == ("p", 2, "k")
    back = read_recorded(entry)
    assert back is not None
    assert (back.submission_id, back.event, back.bodies[1]) == ("s", event, b"text")


def test_entry_that_holds_no_event_gives_none() -> None:
    """Erased, of a later version, or not ours: replay says so instead of guessing."""
    event = journal.make_envelope(running(), events.RunStarted(at=at()))
    entry = journal.make_entry(event, submission_id="s", prev="p", tenure=2, at_us=7, provenance=Provenance())
    for bodies in ([], [b"\xc1"], [pack({"kind": "RunStarted"})], [pack([*unpack(entry.bodies[0]), 1])]):
        assert read_recorded(entry._replace(bodies=bodies)) is None


def test_text_is_found_in_its_own_entry_only() -> None:
    """A ref into another entry, beyond the bodies, or to an erased one gives nothing."""
    entry = Recorded("s/1", journal.make_envelope(running(), events.RunStarted(at=at())), (b"", "ü".encode(), None))
    assert find_own_text(entry, "s/1/1") == "ü"
    for ref in ("s/1/2", "s/1/3", "t/1", "nonsense"):
        assert find_own_text(entry, ref) is None


def test_digest_depends_on_input_and_text() -> None:
    """Equal texts of two inputs cannot be told from the digests."""
    first = journal.digest_input("i1", "hello")
    assert first == journal.digest_input("i1", "hello")
    assert len({first, journal.digest_input("i2", "hello"), journal.digest_input("i1", "hullo")}) == 3
