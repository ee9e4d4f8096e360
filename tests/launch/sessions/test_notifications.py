"""What somebody who waits for a turn is told of its journal."""

from __future__ import annotations

from collections.abc import Callable

from hobus.actors.ho2_supervisor.session.commands import derive_text_ref
from hobus.bus.messages import session
from hobus.bus.messages.ids import RunId, StepId, TurnId
from hobus.bus.record import session_facts as events
from hobus.launch.sessions.notifications import Noticed, describe_in_chat, describe_in_shell
from tests.launch.sessions.entries import AT, SESSION, Written
from tests.launch.sessions.test_summary import holding

ROUND = StepId(turn_id=TurnId(run_id=RunId(session_id=SESSION, run_seq=1), turn_seq=1), step_seq=1)


def told(written: Written, *own: str, says: Callable[..., str] = describe_in_chat) -> list[str]:
    noticed = Noticed(SESSION, says=says, own=set(own))
    return [text for entry in written.entries for text, _ in noticed.take(entry)]


def paused() -> Written:
    written = Written().run().command(session.Pause(), "c-1")
    return written.add(events.LifecycleChanged(lifecycle="Paused", at=AT))


def test_a_pause_says_how_to_go_on_in_the_words_of_who_reads_it():
    """A chat is told what to type there, a shell its command; the end of the pause is told too."""
    assert told(paused(), "c-1") == ["the turn is paused", "/resume lets it go on, /cancel ends it"]
    shell = told(paused(), "c-1", says=describe_in_shell)
    assert "hobus session resume SES-11111111 lets it go on" in shell[1]
    assert told(paused().command(session.Resume(), "c-2"), "c-1")[-1] == "the turn goes on"
    assert told(paused().command(session.Resume(), "c-2"), "c-1", "c-2")[-1] != "the turn goes on"


def test_a_held_call_is_told_with_its_tool_and_arguments():
    lines = told(holding())
    assert lines[-2] == 'the turn waits for your approval of call 001: show_cost {"n": 1}'
    assert lines[-1] == "/approve 001 lets it run, /deny 001 does not"


def test_what_others_do_is_told_and_what_one_does_oneself_is_not():
    """By its words; a refused command is nobody's but its sender's."""
    written = Written().run().command(session.Steer(text=""), "c-1", b"be\n brief\x1b[2J")
    written.command(session.Pause(), "c-2", reason="no_active_run: x").command(session.Cancel(reason="late"), "c-3")
    assert told(written) == ["somebody steered the turn: “be brief\ufffd[2J”", "somebody cancels the turn: “late”"]
    assert told(written, "c-1", "c-3") == []


def test_a_steer_is_told_again_when_a_round_takes_it_up():
    written = Written().run().command(session.Steer(text=""), "c-1", b"be brief")
    written.add(events.StepStarted(step_id=ROUND, new_round=True, steers=[derive_text_ref(SESSION, "c-1")], at=AT))
    assert told(written, "c-1") == ["the steer was taken up: “be brief”"]


def test_a_take_over_is_told_while_a_turn_runs_and_not_before():
    """Whoever loads an idle session takes it over too."""
    written = Written().run().add(events.TookOver(tenure=2, instance="ho2/2@b", at=AT))
    assert told(written) == ["another supervisor took the turn over (ho2/2@b, tenure 2)"]


def test_a_journal_that_is_found_is_told_from_its_turn_on():
    """What was before it is not; without a turn it is only told how it stands."""
    written = paused().command(session.Steer(text=""), "c-2", b"x")
    fresh, later = (Noticed(SESSION, says=describe_in_chat) for _ in range(2))
    assert [text for text, _ in fresh.catch_up(written.entries, input_id="in-1")] == [
        "somebody pauses the turn", "the turn is paused", "/resume lets it go on, /cancel ends it",
        "somebody steered the turn: “x”",
    ]  # fmt: skip
    assert [text for text, _ in later.catch_up(written.entries, input_id="")] == [
        "the turn is paused", "/resume lets it go on, /cancel ends it"
    ]  # fmt: skip
    assert later.standing.input_id == "in-1"
