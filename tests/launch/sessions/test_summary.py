"""Where a session stands, by the end of its journal."""

from bench import builders
from hobus.bus.messages import session
from hobus.bus.messages.ids import RunId, StepId, ToolBatchId, TurnId
from hobus.bus.record import session_facts as events
from hobus.launch.cli.commands.session import describe_lifecycle
from hobus.launch.sessions.listing import STATES
from hobus.launch.sessions.summary import SessionRow, fold_standing, is_enough
from tests.journals import receipt
from tests.launch.sessions.entries import AT, SESSION, Written
from tests.launch.sessions.test_replay import with_snapshot

STEP = StepId(turn_id=TurnId(run_id=RunId(session_id=SESSION, run_seq=1), turn_seq=1), step_seq=1)
CALLS = [
    {"call_id": "001", "tool_id": "show_cost", "arguments": {"n": 1}},
    {"call_id": "002", "tool_id": "list_tools", "arguments": {}},
]


def holding() -> Written:
    written = Written().run()
    written.add(events.StepStarted(step_id=STEP, new_round=True, at=AT))
    written.add(
        events.OrderDispatched(wo_id=f"WO-{STEP}", wo_type="synthesize", step_id=STEP, order=builders.order(), at=AT)
    )
    asked = receipt(f"WO-{STEP}", output_result={"tool_calls": CALLS})
    written.add(events.OrderEnded(wo_id=f"WO-{STEP}", receipt=asked, at=AT))
    step = StepId(turn_id=STEP.turn_id, step_seq=2)
    written.add(events.StepStarted(step_id=step, new_round=False, at=AT))
    batch = ToolBatchId(step_id=step, batch_seq=1)
    written.add(events.ToolBatchIssued(tool_batch_id=batch, call_ids=["001", "002"], held=["001"], at=AT))
    return written.add(events.LifecycleChanged(lifecycle="WaitingInput", at=AT))


def agrees(written: Written) -> None:
    standing = fold_standing(written.entries)
    state = written.state
    expected = "Running" if state.lifecycle == "Idle" and state.run_id is not None else state.lifecycle
    held = [] if state.tool_batch is None else state.tool_batch.held
    assert (standing.lifecycle, standing.held, standing.state) == (expected, held, state)
    assert standing.input_id == ((state.run and state.run.input_id) or "")


def test_what_a_held_call_wants_is_known():
    standing = fold_standing(holding().entries)
    (held,) = standing.held_calls()
    assert (held.call_id, held.tool_id, held.arguments) == ("001", "show_cost", {"n": 1})
    assert standing.waits_for == "approval of 001 show_cost" and standing.lifecycle == "WaitingInput"
    agrees(holding())


def test_a_run_at_work_waits_for_whom_it_asked():
    """So a list shows it during a provider's outage, too."""
    written = Written().run()
    assert fold_standing(written.entries).waits_for == ""
    written.add(events.StepStarted(step_id=STEP, new_round=True, at=AT))
    written.add(
        events.OrderDispatched(wo_id=f"WO-{STEP}", wo_type="synthesize", step_id=STEP, order=builders.order(), at=AT)
    )
    assert fold_standing(written.entries).waits_for == "a model"
    written = holding().command(session.Deny(call_id="001"), "c1")
    call, step = f"WO-{SESSION}-1.1.2.002", StepId(turn_id=STEP.turn_id, step_seq=2)
    written.add(events.OrderDispatched(wo_id=call, wo_type="tool_call", step_id=step, order=builders.order(), at=AT))
    assert fold_standing(written.entries).waits_for == "a tool"


def test_a_session_that_left_says_where_it_went():
    """It is open, and not here: a list that has it says so."""
    written = Written()
    assert SessionRow.of(written.entries[0], fold_standing(written.entries)).shown_state == "Idle"
    written.add(events.SessionLeft(cell="b", at=AT))
    row = SessionRow.of(written.entries[0], standing := fold_standing(written.entries))
    assert row.shown_state == "moved to b" and not STATES["open"](row)
    assert describe_lifecycle(standing) == "moved to cell b"


def test_it_follows_every_command_as_the_reducer_does():
    """Pause, resume, steer, approve, deny, cancel; applied and rejected."""
    written = holding()
    agrees(written.command(session.Pause(), "c1"))
    agrees(written.command(session.Resume(), "c2"))
    agrees(written.command(session.Pause(), "c3", reason="already_paused: x"))
    agrees(written.command(session.Deny(call_id="001"), "c4"))
    assert written.state.lifecycle == "Running"
    agrees(written.command(session.Cancel(reason="enough"), "c5"))
    assert fold_standing(written.entries).lifecycle == "Cancelling"
    approved = holding().command(session.Approve(call_id="001"), "c1")
    agrees(approved)
    assert fold_standing(approved.entries).waits_for == ""


def test_a_paused_run_waits_for_a_resume():
    written = Written().run().command(session.Pause(), "c1").add(events.LifecycleChanged(lifecycle="Paused", at=AT))
    assert fold_standing(written.entries).waits_for == "a resume"
    agrees(written)
    agrees(written.command(session.Resume(), "c2"))


def test_ended_runs_and_sessions():
    """Idle again, with the number of its runs; closed for good."""
    written = Written().run().failed().run("in-2")
    assert fold_standing(written.entries).runs == 2 and fold_standing(written.entries).input_id == "in-2"
    agrees(written.failed("in-2"))
    written.add(events.SessionEnded(reason="client", turn_count=0, at=AT))
    agrees(written)
    assert fold_standing(written.entries).state.status == "closed"


def test_the_text_of_the_active_runs_input_is_found():
    """A follow-up's stands in its command; between two runs there is none."""
    written = Written().run().command(session.FollowUp(text=""), "c1", b"and then?")
    assert fold_standing(written.entries).input_ref == f"RunRequested:{SESSION}/in-1/1"
    assert fold_standing(written.failed().entries).input_ref == ""
    ref = f"HostCommandReceived:{SESSION}/c1/1"
    written.add(
        events.RunRequested(
            input_ref=ref, input_id="followup:c1", input_digest="d", deadline_at=AT, config_digest="", at=AT
        )
    )
    assert fold_standing(written.entries).input_ref == ref


def test_a_journals_end_says_enough_from_its_newest_snapshot_on():
    """A long run's end says nothing of its beginning; a snapshot that is whole says all that was before it."""
    entries = holding().entries
    assert is_enough(entries[-2:], has_earlier=False) and not is_enough(entries, has_earlier=True)
    written = with_snapshot()
    number = [entry.event_type for entry in written.entries].index("STATE_SNAPSHOT")
    end = written.entries[number - 2 :]
    assert is_enough(end, has_earlier=True) and fold_standing(end).state == written.state
    damaged = [entry._replace(bodies=[entry.bodies[0], None]) if entry.bodies[1:] else entry for entry in end]
    assert not is_enough(damaged, has_earlier=True)
