"""A journal folded entry by entry, for those who do not own its session."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from hobus.actors.ho2_supervisor.session.journal import NOTHING, read_steps, reduce_steps
from hobus.actors.ho2_supervisor.session.record import SessionRecord
from hobus.actors.ho2_supervisor.session.state import SessionState
from hobus.bus.messages import session
from hobus.bus.messages.ledger import Entry, WriteEntry
from hobus.bus.record import session_facts as events
from hobus.bus.record.journal import read_recorded
from tests.actors.ho2_supervisor.lives import FORWARD, LIMITS, MOVES, OPENING, Life
from tests.launch.sessions.entries import AT, SESSION, Written


def journal() -> Written:
    """A run that was steered and failed."""
    return Written().run().command(session.Steer(text=""), "c1", b"say it").failed()


def test_each_entry_stands_between_the_states_around_it() -> None:
    """The first one tells which session it is."""
    written = journal()
    found = list(reduce_steps(written.entries))
    assert [one.entry for one in found] == written.entries
    assert found[0].before == SessionState(session_id=SESSION) and found[-1].after == written.state
    assert all(one.after is other.before for one, other in pairwise(found))
    requested = next(one for one in found if one.entry.event_type == "RunRequested")
    assert requested.before.run is None and requested.after.run is not None


def test_what_does_not_apply_and_what_does_not_read_leave_the_state() -> None:
    """The one says why, the other has no event."""
    written = journal().add(events.RunStarted(at=AT))
    last = list(reduce_steps(written.entries))[-1]
    assert last.after is last.before and "no requested run" in last.rejection
    [erased] = read_steps(last.after, written.entries[0]._replace(bodies=[None]))
    assert erased.recorded is None and erased.after is last.after and erased.rejection == ""
    assert next(read_steps(NOTHING, written.entries[0]._replace(bodies=[None]))).after is NOTHING


def test_a_journals_end_is_folded_from_the_state_before_it() -> None:
    """It gives what the whole one gives."""
    entries = journal().entries
    *_, middle = reduce_steps(entries[:4])
    *_, last = reduce_steps(entries[4:], middle.after)
    *_, whole = reduce_steps(entries)
    assert last.after == whole.after


@pytest.mark.parametrize("seed", range(8))
def test_whoever_reads_sees_the_state_that_its_owner_has(seed: int) -> None:
    """After every entry of any life."""
    rng = random.Random(seed)
    life = Life(rng.choice)
    for name in [*OPENING, *(name for _ in range(40) for name in rng.choice([*FORWARD, [rng.choice(sorted(MOVES))]]))]:
        life.move(name)
    record, state = SessionRecord(SESSION, LIMITS), NOTHING
    for written in life.entries:
        [one] = read_steps(state, _read(written))
        taken = read_recorded(written)
        assert taken is not None
        record.take(taken)
        state = one.after
        assert state == record.state and one.rejection == ""


def _read(written: WriteEntry) -> Entry:
    """As the ledger gives it back."""
    added = {"origin": "", "ledger_at_us": 0, "body_hashes": (), "body_lengths": (), "sequence": 0, "chain": b""}
    return Entry(**written._asdict() | added)
