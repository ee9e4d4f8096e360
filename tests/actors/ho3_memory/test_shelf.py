"""Which artifacts newer ones have superseded: kept up with each change, and what the definition says."""

from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho3_memory.overlay_log import OverlayLog
from hobus.actors.ho3_memory.shelf import Shelf
from tests.actors.ho3_memory.builders import LATEST, artifact, confirmed, logged, moment, off, on, session, weighed

SIGNALS = ("tool:a", "tool:b", "tool:c")
CHANGES = {"off": off, "on": on, "confirmed": confirmed}

SAID = st.lists(
    st.tuples(
        st.sampled_from(["logged", "logged", "off", "on", "confirmed", "weight"]),
        st.integers(0, 4),  # which artifact
        st.integers(0, 9),  # hours
        st.sets(st.sampled_from(SIGNALS), min_size=1, max_size=2),
        st.sampled_from([None, None, 1, 2]),  # of which session
        st.booleans(),  # a constraint
        st.booleans(),  # whether somebody reads it then
    ),
    max_size=14,
)


def fact(seq, kind, number, hours, *, signals, of_session, is_rule):
    """What is said of an artifact."""
    name = f"ART-{number}"
    if kind == "logged":
        scope = {} if of_session is None else {"scope": "session", "session_id": session(of_session)}
        made = artifact(
            hours=hours, artifact_id=name, source_signal_ids=sorted(signals),
            artifact_type="constraint" if is_rule else "task_pattern", **scope,
        )  # fmt: skip
        return logged(made, seq)
    if kind == "weight":
        return weighed(seq, hours, 0.5, name)
    return CHANGES[kind](seq, hours, name)


def by_definition(logs, as_of):
    """For each of its signals somebody newer that has held, everywhere or in the same session."""
    there = [(log.overlay_id, found) for log in logs if (found := log.standing(as_of)) is not None]

    def is_covered(one, signal_id):
        return any(
            other.has_held and other.made > one.made and signal_id in other.artifact.source_signal_ids
            and other.artifact.session_id in (None, one.artifact.session_id)
            for _, other in there
        )  # fmt: skip

    return {
        name for name, one in there if not all(is_covered(one, signal) for signal in one.artifact.source_signal_ids)
    }


def told(found):
    """What stands, in its order."""
    return [(log.overlay_id, one.artifact.whole(), one.made, one.is_pending) for log, one in found]


@given(SAID, st.integers(0, 12), st.integers(0, 14))
def test_what_is_kept_is_what_the_definition_says(said, hours, seq):
    """As of now after every change, whether anybody read in between or not; and as of any earlier moment."""
    shelf, logs = Shelf(), {}
    for number, (kind, which, at_hours, signals, of_session, is_rule, is_read) in enumerate(said):
        log = logs.setdefault(which, OverlayLog(f"OVL-{which}"))
        log.append(fact(number, kind, which, at_hours, signals=signals, of_session=of_session, is_rule=is_rule))
        shelf.put(log)
        if is_read:
            found = {log.overlay_id for log, _ in shelf.standing(LATEST)}
            assert found == by_definition(logs.values(), LATEST)
    for as_of in (LATEST, moment(hours, seq)):
        found = shelf.standing(as_of)
        assert {log.overlay_id for log, _ in found} == by_definition(logs.values(), as_of)
        for asked in (SIGNALS[:1], SIGNALS[1:], ()):
            resting = [one for one in found if not set(asked).isdisjoint(one[1].artifact.source_signal_ids)]
            assert told(shelf.standing(as_of, asked)) == told(resting)
