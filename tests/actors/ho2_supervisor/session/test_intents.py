"""Intents as a session's journal folds them: what may follow what, and that nothing of it is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho2_supervisor.session.intents import IntentFact, Intents
from hobus.actors.ho2_supervisor.session.state import SessionState, pack_state
from hobus.bus.record import session_facts as events
from tests.actors.ho2_supervisor.journals import SESSION, at, fold, reduced, running, started


def intent(number: int) -> str:
    """An intent's id."""
    return f"INT-{SESSION}-{number:03d}"


def declared(number: int, second: int = 1) -> events.IntentDeclared:
    """It begins."""
    ref = f"INTENT_DECLARED:{SESSION}/{number:03d}/1"
    return events.IntentDeclared(intent_id=intent(number), scope="session", objective_ref=ref, at=at(second))


def superseded(number: int, by: int) -> events.IntentSuperseded:
    """Another one takes its place."""
    return events.IntentSuperseded(
        intent_id=intent(number), superseded_by_intent_id=intent(by), reason="new_objective", at=at(2)
    )


def closed(number: int) -> events.IntentClosed:
    """Nothing takes its place."""
    return events.IntentClosed(intent_id=intent(number), outcome="closed", reason="close_signal", at=at(2))


def doubted(*numbers: int, chosen: int) -> events.IntentConflict:
    """The turn goes on with one of them."""
    return events.IntentConflict(
        reason="unclear_signal", active_intent_ids=[intent(one) for one in numbers], chosen=intent(chosen), at=at(2)
    )


def refusal(state: SessionState, event: IntentFact | events.SessionEnded) -> str:
    """Why it is rejected; the state stays the very same."""
    outcome = reduced(state, event)
    assert outcome.rejection is not None
    assert outcome.state is state
    return outcome.rejection.reason


def test_an_intent_is_declared_superseded_and_closed() -> None:
    """The newest one is what a turn goes by; ids are counted and never come twice."""
    state = fold(running(), declared(1))
    assert state.intents.active_ids == [intent(1)]
    state = fold(state, superseded(1, by=2), declared(2))
    assert (state.intents.active_ids, state.intents.next_seq) == ([intent(2)], 3)
    state = fold(state, closed(2))
    assert (state.intents.newest, state.intents.next_seq) == (None, 3)
    assert fold(state, declared(3)).intents.active_ids == [intent(3)]


def test_what_does_not_follow_is_rejected() -> None:
    """An id out of turn, one that is not active, a conflict about others than those that are."""
    state = fold(running(), declared(1))
    assert "the next one is" in refusal(state, declared(1))
    assert "the next one is" in refusal(state, declared(3))
    assert "not active" in refusal(state, closed(2))
    assert "not active" in refusal(fold(state, closed(1)), closed(1))
    assert "not the next one" in refusal(state, superseded(1, by=3))
    assert "names the active intents" in refusal(state, doubted(1, 2, chosen=1))
    assert "names the active intents" in refusal(state, doubted(1, chosen=2))


def test_doubts_are_counted_and_the_newest_is_kept() -> None:
    """A flag that nobody can see is no flag; what is kept of them does not grow."""
    state = fold(running(), declared(1), doubted(1, chosen=1), declared(2), doubted(1, 2, chosen=2))
    newest = state.intents.newest_conflict
    assert newest is not None
    assert (state.intents.conflict_count, newest.active_intent_ids, newest.chosen) == (
        2, [intent(1), intent(2)], intent(2),
    )  # fmt: skip


def test_no_intent_outlives_its_session() -> None:
    """SESSION_END leaves none active, also where nobody closed it before; afterwards nothing is declared."""
    ended = events.SessionEnded(reason="client", turn_count=0, at=at(9))
    state = fold(started(), declared(1), ended)
    assert state.intents.active == []
    assert "session_closed" in refusal(state, declared(2))


def test_intents_change_in_whatever_state_the_run_is() -> None:
    """They are facts, no effects: a run that is being cancelled may have declared one a moment before."""
    state = fold(running(), events.LifecycleChanged(lifecycle="Cancelling", at=at(3)))
    assert fold(state, declared(1)).intents.active_ids == [intent(1)]


def test_intents_are_part_of_the_state() -> None:
    """Its hash is another one with them."""
    assert pack_state(fold(running(), declared(1))) != pack_state(running())


@given(steps=st.lists(st.tuples(st.sampled_from(["declare", "supersede", "close", "doubt"]), st.integers(1, 4))))
def test_no_sequence_of_events_breaks_the_intents(steps: list[tuple[str, int]]) -> None:
    """Whatever comes: ids are unique and rise, an intent that ended never comes back, the count of doubts never falls."""
    state, over, intents = running(), set[str](), Intents()
    for what, number in steps:
        event: IntentFact
        match what:
            case "declare":
                event = declared(number)
            case "supersede":
                event = superseded(number, by=state.intents.next_seq)
            case "close":
                event = closed(number)
            case _:
                event = doubted(*(int(one[-3:]) for one in state.intents.active_ids), chosen=number)
        state = reduced(state, event).state
        over |= set(intents.active_ids) - set(state.intents.active_ids)
        assert sorted(set(state.intents.active_ids)) == state.intents.active_ids
        assert not over & set(state.intents.active_ids)
        assert state.intents.next_seq >= intents.next_seq
        assert state.intents.conflict_count >= intents.conflict_count
        intents = state.intents
