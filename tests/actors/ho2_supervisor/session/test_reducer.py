"""The reducer, rule by rule."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hobus.actors.ho2_supervisor.session import reducer
from hobus.actors.ho2_supervisor.session.journal import make_envelope
from hobus.actors.ho2_supervisor.session.reducer import reduce
from hobus.actors.ho2_supervisor.session.state import CallStatus, SessionState, pack_state
from hobus.bus.messages.ids import BESIDE_CALL_ID
from hobus.bus.messages.session import SessionConfig
from hobus.bus.record import session_facts as events
from hobus.bus.record.session_facts import SESSION_FACTS, SessionFact
from tests.actors.ho2_supervisor.journals import (
    SESSION,
    at,
    degraded,
    dispatched,
    ended,
    fold,
    issued,
    receipt,
    reduced,
    requested,
    running,
    started,
    step,
)

COMPLETED = events.RunCompleted(input_id="i1", result_ref="r/1", reply_ref="r/2", at=at(9))
FAILED = events.RunFailed(input_id="i1", code="execution_error", at=at(9))
CANCELLED = events.RunCancelled(input_id="i1", at=at(9))
CANCELLING = events.LifecycleChanged(lifecycle="Cancelling", at=at(9))
ENDED = events.SessionEnded(reason="client", turn_count=0, at=at(9))


def in_batch(*calls: str, max_in_flight: int = 2) -> SessionState:
    """A run in its second step, with a batch of these calls issued."""
    state = running(max_in_flight)
    state = fold(state, step(state))
    state = fold(state, step(state, new_round=False))
    return fold(state, issued(state, *calls))


def refusal(state: SessionState, event: SessionFact) -> str:
    """Why an event is rejected; the state must be the very same one."""
    outcome = reduced(state, event)
    assert outcome.rejection is not None
    assert outcome.state is state
    assert outcome.effects == ()
    return outcome.rejection.reason


def test_every_event_kind_has_a_rule() -> None:
    """The reducer is total: no kind of event is without an answer."""
    kinds = {cls.kind for cls in SESSION_FACTS}
    assert set(reducer._RULES) == kinds


def test_session_starts_once() -> None:
    """The second SessionStarted is rejected; the first one decides agent and limits."""
    state = started(max_in_flight=3)
    assert (state.agent_id, state.max_in_flight_effects, state.status) == ("ADMIN", 3, "open")
    again = events.SessionStarted(agent_id="X", session_config=SessionConfig(), max_in_flight_effects=1, at=at(1))
    assert "already" in refusal(state, again)


def test_take_over_counts_tenures_without_a_gap_and_raises_no_epoch() -> None:
    """Receipts of adopted orders stay valid; a tenure can neither repeat nor jump."""
    state = running()
    after = fold(state, events.TookOver(tenure=2, instance="ho2/2@b", at=at(3)))
    assert (after.tenure, after.owner) == (2, "ho2/2@b")
    assert (after.session_epoch, after.step_epoch) == (state.session_epoch, state.step_epoch)
    for tenure in (1, 3):
        assert "tenure" in refusal(state, events.TookOver(tenure=tenure, instance="x", at=at()))


def test_event_of_another_session_is_rejected() -> None:
    """A journal folds only its own events."""
    other = make_envelope(started(), requested())._replace(session_id=SESSION.replace("1", "9"))
    assert reduce(started(), other).rejection is not None


def test_run_is_requested_then_started_with_a_frozen_configuration() -> None:
    """Overrides are merged field by field at RunStarted, and the run keeps them."""
    state = fold(started(), requested(overrides=SessionConfig(model="big", max_tokens=7)))
    assert state.lifecycle == "Idle"
    assert (state.run and state.run.config) is None
    state = fold(state, events.RunStarted(at=at(2)))
    assert state.lifecycle == "Running"
    assert (state.run and state.run.config) is not None
    assert (state.run and state.run.config).model_dump() == {
        "provider_profile_id": None, "provider": "offline", "model": "big", "named_by": "session",
        "reasoning_effort": None, "max_tokens": 7,
        "caller_tools": None, "tool_choice": None, "output_schema": None, "sampling": None,
    }  # fmt: skip
    assert state.session_config.model == "rules"


@pytest.mark.parametrize("blank", ["", "  "])
@pytest.mark.parametrize("field", ["provider", "model"])
def test_blank_provider_or_model_is_rejected_at_request(field: str, blank: str) -> None:
    """A run without a model never starts."""
    assert "blank" in refusal(started(), requested(overrides=SessionConfig(**{field: blank})))


def test_second_run_waits_for_the_first() -> None:
    """At most one run is active, also between request and start."""
    assert refusal(fold(started(), requested()), requested("i2")).startswith("run_active")
    assert refusal(running(), requested("i2")).startswith("run_active")


def test_run_cannot_be_requested_before_start_or_after_end() -> None:
    """A session that is not open takes no run."""
    assert refusal(SessionState(session_id=SESSION), requested()).startswith("session_closed")
    assert refusal(fold(started(), ENDED), requested()).startswith("session_closed")


def test_attached_deadline_never_moves_backwards() -> None:
    """RunAttached moves the deadline of the active run forwards only."""
    state = running()
    later = fold(state, events.RunAttached(deadline_at=at(90), at=at(3)))
    assert later.deadline_at == at(90)
    assert fold(later, events.RunAttached(deadline_at=at(70), at=at(4))).deadline_at == at(90)
    assert "no active run" in refusal(started(), events.RunAttached(deadline_at=at(70), at=at(4)))


def test_steps_count_in_rounds_and_every_boundary_raises_the_step_epoch() -> None:
    """turn_seq counts rounds of the run, step_seq steps of the round; no id repeats."""
    state = running()
    seen = []
    for new_round in (True, False, False, True):
        state = fold(state, step(state, new_round=new_round))
        seen.append((str((state.run and state.run.step_id)).removeprefix(SESSION), state.step_epoch))
    assert seen == [("-1.1.1", 1), ("-1.1.2", 2), ("-1.1.3", 3), ("-1.2.1", 4)]


def test_step_out_of_turn_is_rejected() -> None:
    """A repeated or skipped step, and a first step that opens no round, do not apply."""
    state = running()
    first = step(state)
    assert "step" in refusal(fold(state, first), first)
    assert "step" in refusal(state, first.model_copy(update={"new_round": False}))


def test_order_is_in_flight_until_it_ends() -> None:
    """in_flight_effects counts open orders; the step's order can be dispatched once."""
    state = fold(running(), step(running()))
    state = fold(state, order := dispatched(state))
    assert (len(state.open_orders), state.open_orders) == (1, [order.wo_id])
    assert "already" in refusal(state, order)
    assert "in flight" in refusal(state, step(state))
    assert "in flight" in refusal(state, COMPLETED)
    state = fold(state, ended(order.wo_id))
    assert (len(state.open_orders), state.open_orders) == (0, [])
    assert "already" in refusal(state, order)


def test_order_needs_its_step() -> None:
    """An order of another step, or with an id of its own making, is rejected."""
    state = fold(running(), step(running()))
    foreign = dispatched(state).model_copy(update={"wo_id": "WO-x"})
    assert "neither" in refusal(state, foreign)
    old = dispatched(state)
    assert "active step" in refusal(fold(state, step(state)), old)


def test_second_receipt_is_journaled_and_ignored() -> None:
    """A receipt that comes twice, or for an order nobody sent, changes nothing but the time."""
    state = fold(running(), step(running()))
    state = fold(state, order := dispatched(state), ended(order.wo_id))
    outcome = reduced(state, ended(order.wo_id))
    assert outcome.rejection is None
    assert outcome.state == replace(state, updated_at=outcome.state.updated_at)


def test_batch_dispatches_at_most_what_may_be_in_flight() -> None:
    """max_in_flight_effects bounds the fan-out; a place is free again with each receipt."""
    state = in_batch("001", "002", "003")
    first, second, third = (dispatched(state, call) for call in ("001", "002", "003"))
    state = fold(state, first, second)
    assert "at most 2" in refusal(state, third)
    assert len(fold(state, ended(first.wo_id), third).open_orders) == 2


def test_batch_takes_only_its_own_calls() -> None:
    """While a batch is active, the step dispatches calls of that batch that are still pending."""
    state = in_batch("001")
    assert "neither" in refusal(state, dispatched(state, "002"))
    assert "neither" in refusal(state, dispatched(state))
    done = fold(state, receipt(state, "001"))
    assert "neither" in refusal(done, dispatched(done, "001"))


@pytest.mark.parametrize("calls", [[], ["001", "001"]])
def test_batch_needs_distinct_calls(calls: list[str]) -> None:
    """An empty batch could never settle meaningfully, a doubled call never twice."""
    state = fold(running(), step(running()))
    assert "at least one" in refusal(state, issued(state, *calls))


def test_one_batch_at_a_time() -> None:
    """A batch blocks the next one and the next step until each of its calls has its end."""
    state = in_batch("001")
    again = issued(state, "002")
    assert "are pending" in refusal(state, again)
    assert "in flight" in refusal(state, step(state))
    state = fold(state, receipt(state, "001"))
    assert "next one" in refusal(state, again)  # the same batch number again
    assert fold(state, step(state)).tool_batch is None


@pytest.mark.parametrize(
    ("failure", "stale", "became"),
    [
        ("", 0, CallStatus(state="Succeeded")),
        ("expired", 0, CallStatus(state="Failed", code="expired")),
        ("cancelled", 0, CallStatus(state="Cancelled", code="cancelled")),
        ("", 1, CallStatus(state="IgnoredStale")),
    ],
)
def test_the_end_of_an_order_is_the_end_of_its_call(failure: str, stale: int, became: CallStatus) -> None:
    """With its code, under the fence of the order; the batch is complete with its last one."""
    state = in_batch("002", "001")
    first = dispatched(state, "002")
    state = fold(state, first, receipt(state, "001"))
    assert state.tool_batch is not None and not state.tool_batch.is_complete
    state = fold(state, ended(first.wo_id, state, failure=failure, stale=stale))
    assert state.tool_batch is not None and state.tool_batch.is_complete
    assert state.tool_batch.call_status["002"] == became


def test_first_terminal_status_of_a_call_stands() -> None:
    """A later receipt for the same call is journaled and ignored."""
    state = in_batch("001")
    state = fold(state, receipt(state, "001", "Failed"))
    outcome = reduced(state, receipt(state, "001", "Succeeded"))
    assert outcome.rejection is None
    assert outcome.state.tool_batch == state.tool_batch


def test_arrival_order_does_not_matter() -> None:
    """A batch whose receipts came in another order is the same batch."""
    state = in_batch("001", "002")
    left = fold(state, receipt(state, "001"), receipt(state, "002", "Failed"))
    right = fold(state, receipt(state, "002", "Failed"), receipt(state, "001"))
    assert pack_state(left) == pack_state(right)


@pytest.mark.parametrize("epochs", [{"step_epoch": 0}, {"session_epoch": 7}, {"step_epoch": 99}])
def test_receipt_under_another_fence_is_ignored_as_stale(epochs: dict[str, int]) -> None:
    """Any epoch but the current one marks the call IgnoredStale; the batch can still settle."""
    state = in_batch("001")
    outcome = reduced(state, receipt(state, "001", **epochs))
    assert outcome.state.tool_batch is not None
    assert outcome.state.tool_batch.call_status["001"].state == "IgnoredStale"
    assert outcome.state.tool_batch.is_complete


def test_receipt_after_the_run_was_cleared_is_journaled_and_ignored() -> None:
    """A late receipt finds no batch and changes nothing but the time."""
    state = in_batch("001")
    late = receipt(state, "001")
    cleared = fold(state, FAILED)
    outcome = reduced(cleared, late)
    assert outcome.rejection is None
    assert outcome.state == replace(cleared, updated_at=outcome.state.updated_at)


def test_receipt_for_a_call_that_was_never_asked_is_rejected() -> None:
    """A batch knows its calls."""
    assert "no call" in refusal(in_batch("001"), receipt(in_batch("001"), "009"))


@pytest.mark.parametrize("event", [COMPLETED, FAILED])
def test_end_of_a_run_clears_it_and_the_session_is_idle(event: SessionFact) -> None:
    """The run is over, its number is spent, the session stays open."""
    state = running()
    outcome = reduced(state, event)
    after = outcome.state
    assert (after.lifecycle, after.run_id, (after.run and after.run.input_id), after.status) == (
        "Idle",
        None,
        None,
        "open",
    )
    assert after.next_run_seq == 2
    assert fold(after, requested("i2")).run_id.run_seq == 2


def test_run_that_never_started_can_fail_but_not_complete() -> None:
    """A requested run whose deadline has passed is failed by its new owner."""
    state = fold(started(), requested())
    assert fold(state, FAILED).run_id is None
    assert "table" in refusal(state, COMPLETED)


def test_end_of_another_input_is_rejected() -> None:
    """A run ends under its own input id."""
    assert "i9" in refusal(running(), FAILED.model_copy(update={"input_id": "i9"}))


def test_cancelling_raises_both_epochs_and_stops_new_effects() -> None:
    """After the cancel, nothing is issued, and the run can end only as cancelled."""
    state = in_batch("001")
    after = fold(state, CANCELLING)
    assert (after.session_epoch, after.step_epoch) == (state.session_epoch + 1, state.step_epoch + 1)
    assert "no effect" in refusal(after, dispatched(after, "001"))
    assert "table" in refusal(after, FAILED)
    assert "in flight" in refusal(after, CANCELLED)
    assert fold(after, receipt(after, "001"), CANCELLED).lifecycle == "Idle"
    assert "table" in refusal(running(), CANCELLED)


def test_a_cancelled_run_with_an_order_under_way_is_not_over() -> None:
    """Nothing that was sent is lost sight of: its end, or that it was given up, is journaled first."""
    state = in_batch("001")
    after = fold(state, dispatched(state, "001"), CANCELLING, receipt(state, "001"))
    assert "in flight" in refusal(after, CANCELLED)


def test_degraded_turn_ends_its_run_at_once() -> None:
    """Open orders are ignored as stale, both epochs rise, and the session is idle."""
    state = in_batch("001", "002")
    state = fold(state, dispatched(state, "001"))
    outcome = reduced(state, degraded())
    after = outcome.state
    assert (after.lifecycle, after.run_id, len(after.open_orders)) == ("Idle", None, 0)
    assert (after.session_epoch, after.step_epoch) == (state.session_epoch + 1, state.step_epoch + 1)


def test_degraded_turn_of_another_input_leaves_the_run_alone() -> None:
    """TurnDegraded is legal in every state; only its own input's run ends."""
    state = running()
    after = fold(state, degraded("i7"))
    assert after == replace(state, updated_at=after.updated_at)


def test_degraded_turn_may_come_first_in_a_stream() -> None:
    """The host could answer before HO2 ever lived; the session starts afterwards."""
    state = fold(SessionState(session_id=SESSION), degraded())
    assert not state.is_started
    state = fold(
        state,
        events.TookOver(tenure=1, instance="ho2/1@a", at=at(9)),
        events.SessionStarted(agent_id="ADMIN", session_config=SessionConfig(), max_in_flight_effects=1, at=at(9)),
    )
    assert state.is_started
    assert state.created_at == at(8)


def test_session_ends_when_no_run_is_active() -> None:
    """A finished run is not a finished session; an active run has to be cancelled first."""
    assert "active" in refusal(running(), ENDED)
    closed = fold(started(), ENDED)
    assert closed.status == "closed"
    assert "not open" in refusal(closed, ENDED)


def test_event_of_another_run_or_epoch_is_stale() -> None:
    """What an old drive of the run wanted to append does not apply after a fence."""
    state = running()
    late = make_envelope(state, step(state))
    assert reduce(fold(state, degraded()), late).rejection is not None
    moved = fold(state, step(state))
    assert reduce(moved, late).rejection is not None


def handing_out() -> SessionState:
    """A session whose newest turn has handed out two calls."""
    open_calls = events.OpenCalls(wo_id="WO-x", call_ids=["call_1", "call_2"])
    return fold(running(), COMPLETED.model_copy(update={"open_calls": open_calls}))


def test_open_calls_are_those_of_the_newest_answered_turn() -> None:
    """Failed and cancelled runs answer nothing and leave them; an answer without calls and the host's own close them."""
    state = handing_out()
    assert state.open_calls == events.OpenCalls(wo_id="WO-x", call_ids=["call_1", "call_2"])
    again = fold(state, requested("i2"), events.RunStarted(at=at(2)))
    assert again.open_calls == state.open_calls
    assert fold(again, FAILED.model_copy(update={"input_id": "i2"})).open_calls == state.open_calls
    assert fold(again, COMPLETED.model_copy(update={"input_id": "i2"})).open_calls is None
    assert fold(again, degraded("i2")).open_calls is None
    assert fold(state, degraded("i2")).open_calls is None


def test_a_run_that_brings_results_goes_on_with_open_calls_alone() -> None:
    """Of an order that is not the one that asked, or of none, nothing begins."""
    given = [events.GivenResult(tool_call_id="call_1", content_ref="x/2")]
    right = requested("i2").model_copy(update={"results": given, "continues": "WO-x"})
    assert fold(handing_out(), right).run_id is not None
    for wrong in (right.model_copy(update={"continues": "WO-y"}), right.model_copy(update={"continues": None})):
        assert refusal(handing_out(), wrong).startswith("invalid_input")
    assert refusal(started(), right).startswith("invalid_input")


# --- an order that nothing waits for --------------------------------------------------------------------------------------


def with_labels_out() -> tuple[SessionState, str]:
    """A run in its first step, whose answer is there and whose classification is on its way."""
    state = running(2)
    state = fold(state, step(state))
    order, labels = dispatched(state), dispatched(state, BESIDE_CALL_ID)
    return fold(state, order, labels, ended(order.wo_id)), labels.wo_id


def test_a_run_is_over_with_the_later_of_its_answer_and_its_classification() -> None:
    """Until then it is Completed and no other begins; a second end changes nothing."""
    state, labels = with_labels_out()
    answered = fold(state, COMPLETED)
    assert (answered.lifecycle, answered.is_answered, answered.open_orders) == ("Completed", True, [labels])
    assert "run_active" in refusal(answered, requested(input_id="i2"))
    assert "active" in refusal(answered, ENDED)
    over = fold(answered, ended(labels))
    assert (over.lifecycle, over.run, over.is_answered) == ("Idle", None, False)
    assert fold(over, ended(labels)).lifecycle == "Idle"
    assert fold(over, requested(input_id="i2")).run is not None
    first = fold(state, ended(labels))
    assert first.lifecycle == "Running"
    assert replace(fold(first, COMPLETED), updated_at=None) == replace(over, updated_at=None)


def test_steps_calls_and_a_pause_wait_for_no_classification() -> None:
    """They wait for whatever else is on its way; and it takes a place among what may be in flight."""
    state, labels = with_labels_out()
    assert state.awaited_orders == []
    after = fold(state, step(state))
    assert after.open_orders == [labels]
    asked = fold(after, dispatched(after))
    assert "in flight" in refusal(asked, step(asked))
    assert "in flight" in refusal(asked, COMPLETED)
    batch = fold(fold(state, step(state, new_round=False)))
    batch = fold(batch, issued(batch, "001", "002"))
    batch = fold(batch, dispatched(batch, "001"))
    assert "at most 2" in refusal(batch, dispatched(batch, "002"))


@pytest.mark.parametrize("event", [FAILED, CANCELLED, CANCELLING])
def test_an_answered_run_ends_in_no_other_way(event: SessionFact) -> None:
    """Its answer stands."""
    state, _ = with_labels_out()
    refusal(fold(state, COMPLETED), event)


def test_an_answered_run_issues_nothing_and_has_no_lease() -> None:
    """No step begins, no order leaves."""
    state, _ = with_labels_out()
    answered = fold(state, COMPLETED)
    refusal(answered, step(answered))
    assert answered.lease is None
