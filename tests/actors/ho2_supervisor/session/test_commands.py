"""Host commands and leases at the reducer: what each does, and why each is refused."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hobus.actors.ho2_supervisor.session import commands
from hobus.actors.ho2_supervisor.session import commands as rules
from hobus.actors.ho2_supervisor.session.journal import make_envelope
from hobus.actors.ho2_supervisor.session.reducer import reduce
from hobus.actors.ho2_supervisor.session.state import Reduced, SessionState, replace_run
from hobus.bus.messages import session
from hobus.bus.messages.ids import RunId, derive_lease_id, format_iso, parse_iso
from hobus.bus.record import session_facts as events
from tests.actors.ho2_supervisor.journals import (
    SESSION,
    at,
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

RUN = RunId(session_id=SESSION, run_seq=1)
TERMS = events.LeaseTerms(ttl_secs=10, heartbeat_timeout_secs=4)
LEASE = derive_lease_id(RUN, 1)


def received(state: SessionState, command: session.Command, **fields: object) -> SessionState:
    """The state after this command came."""
    sent = session.HostCommand.model_validate(
        {"command_id": "c1", "issued_at": at(1), "command": command.model_dump(), **fields}
    )
    return fold(state, events.HostCommandReceived(command=sent, at=at(1)))


def decided(state: SessionState, command: session.Command, *, when: int = 2, **fields: object) -> Reduced:
    """What applying this command gives."""
    state = received(state, command, **fields)
    return reduce(state, make_envelope(state, events.HostCommandApplied(command_id="c1", at=at(when))))


def applied(state: SessionState, command: session.Command, *, when: int = 2) -> SessionState:
    """The state after it; it must apply."""
    outcome = decided(state, command, when=when)
    assert outcome.rejection is None, outcome.rejection
    return outcome.state


def refused(state: SessionState, command: session.Command, **fields: object) -> str:
    """The code of the refusal; after the rejection is journaled the state is the one before the command came."""
    outcome = decided(state, command, **fields)
    assert outcome.rejection is not None
    after = fold(outcome.state, events.HostCommandRejected(command_id="c1", reason=outcome.rejection.reason, at=at(3)))
    assert after == state
    code = outcome.rejection.reason.partition(":")[0]
    assert code in session.COMMAND_REFUSALS
    return code


def paused() -> SessionState:
    """A run that stands at a step boundary since second 3."""
    state = applied(running(), session.Pause())
    state = fold(state, events.LifecycleChanged(lifecycle="Paused", at=at(3)))
    return replace(state, applied_command_ids=[])


def held(*calls: str) -> SessionState:
    """A run in WaitingInput since second 3, whose batch holds these calls; call 009 is not held."""
    state = running()
    state = fold(state, step(state))
    state = fold(state, step(state, new_round=False))
    batch = issued(state, *calls, "009").model_copy(update={"held": list(calls)})
    state = fold(state, batch)
    return fold(state, events.LifecycleChanged(lifecycle="WaitingInput", at=at(3)))


def leased() -> SessionState:
    """A run with a lease issued at second 1: 10 s long, 4 s of silence."""
    state = fold(fold(started(), requested("i1").model_copy(update={"lease": TERMS})), events.RunStarted(at=at(1)))
    return fold(
        state,
        events.LeaseIssued(lease_id=LEASE, issued_at=at(1), expires_at=at(11), heartbeat_timeout_secs=4, at=at(1)),
    )


def test_a_steer_waits_for_the_next_round_which_names_it() -> None:
    """Its ref is pending until a new round observes it; a round that does not name it cannot begin."""
    state = applied(running(), session.Steer(text=""))
    assert state.pending_steer == [rules.derive_text_ref(SESSION, "c1")]
    deaf = step(state)
    assert isinstance(deaf, events.StepStarted)
    deaf = deaf.model_copy(update={"steers": []})
    assert reduced(state, deaf).rejection is not None
    after = fold(state, deaf.model_copy(update={"steers": state.pending_steer}))
    assert after.pending_steer == []


def test_a_follow_up_is_taken_by_the_run_that_names_it_and_in_order() -> None:
    """Accepted also without a run; the second one cannot begin before the first."""
    state = applied(started(), session.FollowUp(text=""))
    first = state.pending_follow_up[0]
    state = replace(state, pending_follow_up=[first, "other/1"])
    second = requested("f2").model_copy(update={"input_ref": "other/1"})
    assert reduced(state, second).rejection is not None
    after = fold(state, requested("f1").model_copy(update={"input_ref": first}))
    assert after.pending_follow_up == ["other/1"]


def test_a_pause_begins_at_a_boundary_and_stops_every_effect() -> None:
    """No step begins once it was asked for, none is paused in the middle of an order, none begins while it lasts."""
    state = running()
    state = fold(state, step(state))
    order = dispatched(state)
    state = applied(fold(state, order), session.Pause())
    pausing = events.LifecycleChanged(lifecycle="Paused", at=at(3))
    assert reduced(state, pausing).rejection is not None
    state = fold(state, ended(order.wo_id))
    assert reduced(state, step(state, new_round=False)).rejection is not None
    state = fold(state, pausing)
    assert (state.lifecycle, (state.run and state.run.waiting_since)) == ("Paused", at(3))
    assert reduced(state, step(state, new_round=False)).rejection is not None


def test_resume_goes_on_and_gives_the_waited_time_back() -> None:
    """Paused from second 3 to 8: the deadline moves by 5 s; a pause that has not begun is taken back."""
    state = paused()
    before = state.deadline_at
    outcome = decided(state, session.Resume(), when=8)
    assert (outcome.state.lifecycle, (outcome.state.run and outcome.state.run.waiting_since)) == ("Running", None)
    assert before is not None
    assert outcome.state.deadline_at == format_iso(parse_iso(before) + 5)
    asked = replace(applied(running(), session.Pause()), applied_command_ids=[])
    assert applied(asked, session.Resume()).pause_requested is False


@pytest.mark.parametrize("state", [running(), paused(), held("001")], ids=["Running", "Paused", "WaitingInput"])
def test_cancel_raises_both_epochs_and_tells_who_drives(state: SessionState) -> None:
    """From then on receipts of earlier orders are stale, and no effect is issued."""
    state = replace(state, applied_command_ids=[])
    outcome = decided(state, session.Cancel(reason="enough"))
    after = outcome.state
    assert outcome.effects == ("run_stops",)
    assert (after.lifecycle, (after.run and after.run.cancel_reason)) == ("Cancelling", "enough")
    assert (after.session_epoch, after.step_epoch) == (state.session_epoch + 1, state.step_epoch + 1)
    assert reduced(after, step(after)).rejection is not None
    assert refused(replace(after, applied_command_ids=[]), session.Cancel()) == "cancelling"


def test_a_call_that_was_cancelled_in_flight_is_ignored_as_stale() -> None:
    """Its late receipt is journaled, and the batch has it as IgnoredStale."""
    state = held("001")
    late = receipt(state, "009")
    state = applied(state, session.Cancel())
    after = fold(state, late)
    assert after.tool_batch is not None
    assert after.tool_batch.call_status["009"].state == "IgnoredStale"
    cancelled = events.RunCancelled(input_id="i1", at=at(9))
    assert "in flight" in str(reduced(after, cancelled).rejection)  # 001 still waits
    closed = receipt(state, "001", status="Cancelled")
    assert fold(after, closed, cancelled).lifecycle == "Idle"


def test_approvals_let_calls_run_one_by_one_and_the_last_one_ends_the_waiting() -> None:
    """A held call cannot be dispatched; a denied one has failed; the run goes on when none is left."""
    state = held("001", "002")
    state = replace(applied(state, session.Approve(call_id="001")), applied_command_ids=[])
    assert state.lifecycle == "WaitingInput"
    outcome = decided(state, session.Deny(call_id="002"), when=5)
    batch = outcome.state.tool_batch
    assert batch is not None
    assert (batch.held, batch.call_status["002"].code) == ([], rules.DENIED)
    assert (batch.may_run("001"), batch.may_run("002")) == (True, False)
    assert outcome.state.lifecycle == "Running"
    again = replace(outcome.state, applied_command_ids=[])
    assert refused(again, session.Approve(call_id="001")) == "call_not_open"


def test_a_heartbeat_moves_both_ends_of_the_lease() -> None:
    """Silence is counted from the last heartbeat, the length too; an older one, or of another lease, is refused."""
    state = applied(leased(), session.LeaseHeartbeat(lease_id=LEASE, heartbeat_at=at(4)))
    assert state.lease is not None
    assert (state.lease.expires_at, commands.find_lease_expiry(state)) == (at(14), at(8))
    state = replace(state, applied_command_ids=[])
    assert refused(state, session.LeaseHeartbeat(lease_id=LEASE, heartbeat_at=at(4))) == "not_newer"
    assert refused(state, session.LeaseHeartbeat(lease_id="LEASE-x-1", heartbeat_at=at(5))) == "wrong_lease"
    assert refused(state, session.LeaseHeartbeat(lease_id=LEASE, heartbeat_at=at(8))) == "lease_expired"


def test_a_lease_is_over_at_a_journaled_time_and_cancels_once() -> None:
    """A moment before it nothing happens; from it on the run is cancelled, and a second time changes nothing."""
    state = leased()
    before = reduced(state, events.TimePassed(at=at(4)))
    assert before.state.lifecycle == "Running"
    outcome = reduced(state, events.TimePassed(at=at(5)))
    assert outcome.effects == ("run_stops",)
    assert reduced(outcome.state, events.TimePassed(at=at(9))).effects == ()
    wrong = events.LeaseIssued(lease_id=LEASE, issued_at=at(1), expires_at=at(12), heartbeat_timeout_secs=4, at=at(1))
    assert reduced(replace_run(before.state, before.state.run, lease=None), wrong).rejection is not None


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (session.Steer(text=""), "no_active_run"),
        (session.Pause(), "no_active_run"),
        (session.Resume(), "no_active_run"),
        (session.Cancel(), "no_active_run"),
        (session.Approve(call_id="001"), "no_active_run"),
        (session.Deny(call_id="001"), "no_active_run"),
        (session.LeaseHeartbeat(lease_id="l", heartbeat_at=at(2)), "no_active_run"),
    ],
    ids=lambda value: getattr(value, "kind", value),
)
def test_commands_of_a_run_need_one(command: session.Command, code: str) -> None:
    """Before the first run, and after the last, each is refused with that reason and changes nothing."""
    assert refused(started(), command) == code
    over = fold(running(), events.RunFailed(input_id="i1", code="x", at=at(5)))
    assert refused(over, command) == code


@pytest.mark.parametrize(
    "command", [session.Pause(), session.Steer(text=""), session.FollowUp(text=""), session.Cancel()]
)
def test_the_wrong_run_or_epoch_is_refused(command: session.Command) -> None:
    """A command for a finished or unknown run, or for another epoch, changes nothing."""
    state = running()
    other = {"session_id": SESSION, "run_seq": 7}
    assert refused(state, command, target_run_id=other) == "stale_target"
    assert refused(state, command, expected_session_epoch=3) == "stale_epoch"
    for stands, says in ((state, f"the active run is {SESSION}-1"), (started(), "no run is active")):
        rejection = decided(stands, command, target_run_id=other).rejection
        assert rejection is not None and rejection.reason.endswith(f"{SESSION}-7 is not active; {says}")
    closed = fold(started(), events.SessionEnded(reason="x", turn_count=0, at=at(5)))
    assert refused(closed, command) == "session_closed"


def test_what_has_no_effect_is_refused() -> None:
    """A second pause, a resume of a running run, a call that nobody holds."""
    assert refused(paused(), session.Pause()) == "already_paused"
    assert refused(running(), session.Resume()) == "not_paused"
    assert refused(running(), session.Approve(call_id="001")) == "call_not_open"


def test_commands_come_one_at_a_time_and_count_once() -> None:
    """A second one before the first is decided, an id that was applied, a decision about nothing: rejected."""
    state = received(running(), session.Pause())
    other = session.HostCommand(command_id="c2", issued_at=at(1), command=session.Pause())
    assert reduced(state, events.HostCommandReceived(command=other, at=at(2))).rejection is not None
    state = fold(state, events.HostCommandApplied(command_id="c1", at=at(2)))
    same = other.model_copy(update={"command_id": "c1"})
    assert reduced(state, events.HostCommandReceived(command=same, at=at(2))).rejection is not None
    assert reduced(state, events.HostCommandApplied(command_id="c1", at=at(2))).rejection is not None
    assert reduced(state, events.HostCommandRejected(command_id="c1", reason="r", at=at(2))).rejection is not None


def test_remembered_command_ids_are_bounded() -> None:
    """The newest ones stay."""
    state = replace(started(), applied_commands_max=2, applied_command_ids=["a", "b"])
    assert applied(state, session.FollowUp(text="")).applied_command_ids == ["b", "c1"]
