"""An artifact's life: every change is an entry, the log's order decides, and the past stays as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho3_memory.overlay_log import Change, OverlayLog, Standing, find_state
from tests.actors.ho3_memory.builders import artifact, at, confirmed, logged, moment, off, on, weighed


def log_of(*facts):
    """The log of what was said, in the record's order."""
    changes = [
        Change(one.seq, one.at_us, one.kind, one.submission_id, one.weight, one.principal or "", one.door, one.artifact)
        for one in sorted(facts, key=lambda one: one.seq)
    ]
    return OverlayLog("OVL-1", changes)


def made(seq, hours=0.0, **changed):
    """Logged at that hour."""
    return logged(artifact(hours=hours, **changed), seq)


def stand(log, hours, seq=2**62):
    """(enabled, weight) as of then; None before it was there."""
    found = log.standing(moment(hours, seq))
    return None if found is None else (found.artifact.enabled, found.artifact.weight)


def state(log, hours, *, is_superseded=False):
    """One word for it as of then."""
    return log.overlay(moment(hours), is_superseded=is_superseded).state


def test_an_artifact_lives_through_its_entries():
    log = log_of(made(1), weighed(2, 10, 0.5), off(3, 20), made(4, 30, weight=0.9))
    assert [stand(log, hours) for hours in (-1, 0, 9, 10, 20, 29, 30)] == [
        None, (True, 0.8), (True, 0.8), (True, 0.5), (False, 0.5), (False, 0.5), (True, 0.9),
    ]  # fmt: skip
    assert log.change_count == 4 and log.newest.seq == 4


def test_a_question_as_of_a_sequence_sees_what_was_appended_by_then():
    log = log_of(made(1), off(5, 2))
    assert stand(log, 100, 4) == (True, 0.8) and stand(log, 100, 5) == (False, 0.8)
    assert stand(log, 100, 0) is None


def test_the_logs_order_decides_between_two_changes_of_one_time_or_of_crossing_times():
    assert stand(log_of(made(1), weighed(2, 5, 0.1), weighed(3, 5, 0.2)), 5) == (True, 0.2)
    assert stand(log_of(made(1), weighed(2, 6, 0.1), weighed(3, 5, 0.2)), 6) == (True, 0.2)


def test_later_changes_are_named_in_order():
    log = log_of(made(1), weighed(2, 10, 0.5), off(3, 20))
    overlay = log.overlay(moment(100), is_superseded=False)
    assert (
        overlay is not None
        and [one.entry_id for one in overlay.changes] == ["weight 2", "off 3"]
        and not overlay.is_active
    )
    earlier = log.overlay(moment(10), is_superseded=False)
    assert earlier is not None and [one.entry_id for one in earlier.changes] == ["weight 2"] and earlier.is_active
    assert log.overlay(moment(-1), is_superseded=False) is None


@pytest.mark.parametrize(
    ("changed", "hours", "expected"),
    [
        ({"expires_at_event_ts": at(10)}, 10, True),
        ({"expires_at_event_ts": at(10)}, 10.000_001, False),
        ({}, 10**6, True),
        ({"weight": 0.0}, 0, False),
        ({"enabled": False}, 0, False),
    ],
)
def test_active_is_enabled_and_of_some_weight_and_not_past_its_expiry(changed, hours, expected):
    standing = Standing(artifact(**changed), moment(0), is_pending=False, has_held=True)
    assert (find_state(standing, at(hours), is_superseded=False) == "active") is expected


def test_a_constraint_waits_for_a_person_each_time_it_is_logged():
    rule = {"artifact_type": "constraint"}
    log = log_of(made(1, **rule), confirmed(2, 10), weighed(3, 12, 0.5), off(4, 20), made(5, 30, **rule))
    assert [state(log, hours) for hours in (0, 9, 10, 12, 20, 30)] == [
        "pending", "pending", "active", "active", "off", "pending",
    ]  # fmt: skip


def test_what_a_person_switches_on_again_is_on():
    log = log_of(made(1), off(2, 10), on(3, 20))
    assert [state(log, hours) for hours in (9, 10, 20)] == ["active", "off", "active"]
    rejected = log_of(made(1, artifact_type="constraint"), off(2, 10), on(3, 20))
    assert [state(rejected, hours) for hours in (9, 10, 20)] == ["pending", "off", "pending"]


def test_a_state_names_the_first_thing_that_keeps_it_out_of_prompts():
    assert state(log_of(made(1, artifact_type="constraint", weight=0.0)), 1) == "pending"
    assert state(log_of(made(1, weight=0.0)), 1, is_superseded=True) == "silent"
    assert state(log_of(made(1)), 1, is_superseded=True) == "superseded"


def test_a_repeat_is_exactly_what_was_logged_before():
    assert log_of(made(1)).is_repeat(artifact())
    assert not log_of(made(1)).is_repeat(artifact(weight=0.7))
    assert log_of(made(1), off(2, 5)).is_repeat(artifact())
    assert log_of(made(1), off(2, 5), made(3, 9)).is_repeat(artifact())
    assert not log_of(made(1), off(2, 5)).is_repeat(artifact(hours=6))
    assert not log_of().is_repeat(artifact())


CHANGES = st.lists(
    st.one_of(
        st.builds(lambda hours: ("off", hours), st.integers(0, 20)),
        st.builds(
            lambda hours, weight: ("weight", hours, weight), st.integers(0, 20), st.sampled_from([0.0, 0.25, 0.5])
        ),
        st.builds(lambda hours: ("made", hours), st.integers(0, 20)),
    ),
    max_size=8,
)


def change_of(seq, said):
    """The entry behind a drawn tuple."""
    kind, hours, *rest = said
    return {"off": off, "weight": weighed, "made": made}[kind](seq, hours, *rest)


@given(said=CHANGES, later=CHANGES, hours=st.integers(-1, 25))
def test_later_entries_change_no_answer_of_before(said, later, hours):
    changes = [made(0), *(change_of(seq, one) for seq, one in enumerate(said, start=1))]
    head = len(said)
    before = log_of(*changes).overlay(moment(hours, head), is_superseded=False)
    for seq, one in enumerate(later, start=head + 1):
        changes.append(change_of(seq, one))
        assert log_of(*changes).overlay(moment(hours, head), is_superseded=False) == before
