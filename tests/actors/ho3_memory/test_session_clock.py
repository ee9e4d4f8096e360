"""A clock of sessions: each begins once, and what it is as of a sequence stays so."""

from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho3_memory.session_clock import SessionClock

NOTED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), max_size=12)


def clock_of(noted):
    """(session, time), each noted at its sequence."""
    clock = SessionClock()
    for session, at_us, seq in noted:
        clock.note(session, at_us, seq)
    return clock


@given(NOTED, st.randoms(use_true_random=False), st.integers(0, 21), st.integers(-1, 12))
def test_a_session_begins_with_its_first_entry_in_the_log(noted, draw, at_us, seq):
    """Whatever order the entries come in, and whatever older events come later."""
    entries = [(session, at, place) for place, (session, at) in enumerate(noted)]
    begins = {}
    for session, at, place in entries:
        begins.setdefault(session, (at, place))
    draw.shuffle(entries)
    clock = clock_of(entries)
    assert clock.at(at_us) == sum(at <= at_us for at, _ in begins.values())
    then = clock.as_of(seq)
    assert then.at(at_us) == sum(at <= at_us and place <= seq for at, place in begins.values())
    assert clock.counts_all(at_us, seq) == (then.at(at_us) == clock.at(at_us))


@given(NOTED)
def test_it_says_from_when_on_it_stands_otherwise(noted):
    """Before that it is as it was."""
    clock = SessionClock()
    for seq, (session, at_us) in enumerate(noted):
        before = [clock.at(at) for at in range(22)]
        changed = clock.note(session, at_us, seq)
        same_until = 22 if changed is None else changed
        after = [clock.at(at) for at in range(22)]
        assert after[:same_until] == before[:same_until]
        assert changed is None or after[changed] == before[changed] + 1
