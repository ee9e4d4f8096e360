"""A journal folded again."""

from bench.builders import shipped_snapshot
from hobus.actors.ho2_supervisor.session import snapshot
from hobus.actors.ho2_supervisor.session.record import SessionRecord
from hobus.actors.ho2_supervisor.session.state import hash_state
from hobus.actors.ho2_supervisor.turn.turn import compute_history_limits
from hobus.bus.messages import session
from hobus.bus.record import session_facts as events
from hobus.bus.record.journal import read_recorded
from hobus.launch.sessions.replay import find_first_difference, replay
from tests.launch.sessions.entries import AT, SESSION, Written

LIMITS = compute_history_limits(shipped_snapshot().config)


def journal() -> Written:
    return Written().run().command(session.Steer(text=""), "c1", b"say it").failed().run("in-2").failed("in-2")


def test_a_journal_that_fits_gives_the_reducers_state():
    written = journal()
    found = replay(SESSION, written.entries)
    assert found.fits and found.entries == len(written.entries)
    assert found.state_hash == hash_state(written.state)


def test_what_no_owner_would_take_does_not_fit():
    """The loader's rule: an entry of another tenure than the stream is in, or of no known place in it."""
    for changed, what in (({"tenure": 2}, "tenure 2"), ({"prev": None}, "names no entry before it")):
        entries = journal().entries
        entries[4] = entries[4]._replace(**changed)
        misfit = replay(SESSION, entries).misfits[0]
        assert (misfit.kind, misfit.submission_id) == ("hole", entries[4].submission_id) and what in misfit.what


def test_an_erased_event_and_a_rejected_one_are_named():
    written = journal()
    entries = list(written.entries)
    entries[4] = entries[4]._replace(bodies=[None])
    written = journal().add(events.RunStarted(at=AT))
    assert next(one.kind for one in replay(SESSION, entries).misfits) == "unreadable"
    (rejected,) = replay(SESSION, written.entries).misfits
    assert rejected.kind == "rejected" and "no requested run" in rejected.what


def with_snapshot() -> Written:
    written = journal()
    record = SessionRecord(SESSION, LIMITS)
    for entry in map(read_recorded, written.entries):
        if entry is not None:
            record.take(entry)
    event, bodies = snapshot.make_snapshot(record, "STATE_SNAPSHOT:x", AT)
    return written.add(event, *bodies).run("in-3").failed("in-3")


def test_a_snapshot_gives_the_same_state():
    found = replay(SESSION, with_snapshot().entries)
    assert found.fits, found.misfits
    assert found.from_snapshot and found.events["STATE_SNAPSHOT"] == 1


def test_a_snapshot_that_was_changed_is_named():
    """Its record has another hash than its event says."""
    entries = with_snapshot().entries
    number = next(n for n, entry in enumerate(entries) if entry.event_type == "STATE_SNAPSHOT")
    bodies = list(entries[number].bodies)
    bodies[1] = (bodies[1] or b"")[:-1] + b"\x00"
    entries[number] = entries[number]._replace(bodies=bodies)
    (misfit,) = replay(SESSION, entries).misfits
    assert misfit.kind == "snapshot" and "hash" in misfit.what


def test_the_first_difference_is_a_path():
    assert find_first_difference({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}) == "state.a[1].b: 2 and 3"
    assert find_first_difference({"a": 1}, {"a": 1}) == ""
