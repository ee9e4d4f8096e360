"""What was asked of a session, and how its turns ended."""

from hobus.bus.messages import session as messages
from hobus.bus.messages.session import TurnResult
from hobus.bus.record import session_facts as events
from hobus.bus.record.journal import pack_result
from hobus.launch.sessions.history import list_commands, list_turns
from tests.launch.sessions.entries import AT, SESSION, Written


def test_each_command_has_its_verdict_and_its_words():
    """Applied, rejected with the reason, or not decided yet."""
    written = Written().run().command(messages.Steer(text=""), "c1", b"shorter")
    written.command(messages.Pause(), "c2", reason="cancelling: x")
    written.add(
        events.HostCommandReceived(
            command=messages.HostCommand(
                command_id="c3", issued_at=AT, command=messages.Deny(call_id="001", reason="no")
            ),
            principal="key/alice",
            door="http/1@a",
            at=AT,
        )
    )
    seen = list_commands(written.entries)
    assert [(one.command_id, one.kind, one.outcome, one.about) for one in seen] == [
        ("c1", "Steer", "applied", "shorter"),
        ("c2", "Pause", "rejected", ""),
        ("c3", "Deny", "undecided", "001 no"),
    ]
    assert seen[1].reason == "cancelling: x"
    assert (seen[2].principal, seen[2].door) == ("key/alice", "http/1@a")


def test_turns_have_their_message_and_their_end():
    """A failed one its code, a follow-up's the words of its command, an answered one the reply."""
    written = Written().run(text="first").failed()
    written.command(messages.FollowUp(text=""), "c1", b"second")
    ref = f"HostCommandReceived:{SESSION}/c1/1"
    written.add(
        events.RunRequested(
            input_ref=ref, input_id="followup:c1", input_digest="d", deadline_at=AT, config_digest="", at=AT
        )
    )
    written.add(events.RunStarted(at=AT))
    result = TurnResult(
        response="yes", outcome="success", session_id=SESSION, run_id=written.state.run_id,
        input_id="followup:c1",
    )  # fmt: skip
    entry_id = f"RunCompleted:{written.state.run_id}"
    written.add(
        events.RunCompleted(input_id="followup:c1", result_ref=f"{entry_id}/1", reply_ref=f"{entry_id}/2", at=AT),
        pack_result(result),
        b"yes",
    )
    assert [(one.run, one.text, one.outcome, one.code, one.reply) for one in list_turns(written.entries)] == [
        (1, "first", "failed", "execution_error", None),
        (2, "second", "success", "", "yes"),
    ]


def test_a_cancelled_turn_says_why_and_a_degraded_one_what_the_host_said():
    """The host brings the message of a turn that nobody requested; what it delivered replaces a failed run's silence."""
    written = Written().run()
    written.add(events.LifecycleChanged(lifecycle="Cancelling", at=AT))
    written.add(events.RunCancelled(input_id="in-1", reason="enough", at=AT))
    written.run("in-2").failed("in-2")
    for input_id in ("in-2", "in-3"):
        name = f"TurnDegraded:{SESSION}/{input_id}"
        degraded = events.TurnDegraded(
            input_id=input_id, input_ref=f"{name}/1", reply_ref=f"{name}/2", delivered=input_id == "in-2", at=AT
        )
        written.add(degraded, b"asked", b"bare", origin="host/1@b")
    assert [(one.run, one.text, one.outcome, one.code, one.reply) for one in list_turns(written.entries)] == [
        (1, "hello", "cancelled", "enough", None),
        (2, "hello", "degraded", "execution_error", "bare"),
        (None, "asked", "degraded", "", "bare"),
    ]
