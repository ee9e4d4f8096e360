"""What follows from what happens to a member of the cluster, which states it has, and who comes and leaves by a scale."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.builders import shipped_snapshot
from hobus.bus.messages.control import PeerRow
from hobus.launch.cluster.run_file import State
from hobus.launch.launcher.supervision import (
    Born,
    DrainAsked,
    Effect,
    Event,
    Exited,
    LeaveAsked,
    Member,
    Reported,
    RetryDue,
    Spawned,
    SpawnFailed,
    Unheard,
    apply,
    change_to,
    count_anew,
    get_next_state,
    get_number,
    list_given_up,
)  # fmt: skip
from hobus.launch.limits import WATCH_INTERVAL_MS

CONFIG = shipped_snapshot().config.launcher.model_copy(
    update={
        "restart_backoff_min_ms": 100,
        "restart_backoff_max_ms": 1000,
        "healthy_after_ms": 60_000,
        "crash_budget": 2,
        "crash_window_ms": 60_000,
        "stuck_after_ms": 5_000,
        "ready_timeout_ms": 20_000,
        "finish_ms": 30_000,
        "drain_ms": 3_000,
    }
)


def row(instance="ho1/1@a", state="ready", last_beat_ms=0, reason="", in_flight=0):
    return PeerRow(
        instance=instance, role="ho1", offers=["ho1"], state=state, reason=reason, slots=4, in_flight=in_flight, keys=0,
        last_beat_ms=last_beat_ms, connected_ms=0,
    )  # fmt: skip


def after(member, *events):
    effects = []
    for event in events:
        member, effects = apply(member, event, CONFIG)
    return member, effects


FRESH = Member(actor="ho1/1", role="ho1")
STARTED = after(FRESH, Spawned("ho1/1@a", 100.0), Born("ho1/1@a", 41, "m"))[0]
READY = after(STARTED, Reported(row(), 100.5))[0]


def test_a_crash_is_told_to_the_broker_before_the_restart_is_planned():
    """An exit tells the bus at once and plans the restart after the back-off."""
    member, effects = after(READY, Exited("ho1/1@a", "signal 9", 110.0, 0.0))
    assert member.state == "backoff" and member.pid == 0 and member.note == "signal 9"
    assert effects == [
        Effect("lost", instance="ho1/1@a", detail="signal 9"),
        Effect("retry", at=110.0),
    ]
    assert apply(member, RetryDue(), CONFIG)[1] == [Effect("spawn")]


def test_exit_zero_without_being_asked_is_a_crash():
    """A process that leaves by itself is started again."""
    assert after(READY, Exited("ho1/1@a", "exit 0", 110.0, 0.0))[0].state == "backoff"


def test_a_restart_counts_and_forgets_the_old_incarnation():
    member, _ = after(READY, Exited("ho1/1@a", "signal 9", 110.0, 0.0), Spawned("ho1/1@b", 111.0))
    assert (member.state, member.restarts, member.ready_after_ms, member.instance) == ("starting", 1, 0, "ho1/1@b")


def test_news_of_an_earlier_incarnation_changes_nothing():
    """A late exit or row under an old name is ignored."""
    member, _ = after(READY, Exited("ho1/1@a", "signal 9", 110.0, 0.0), Spawned("ho1/1@b", 111.0))
    assert after(member, Exited("ho1/1@a", "signal 9", 112.0, 0.0)) == (member, [])
    assert after(member, Reported(row("ho1/1@a"), 112.0))[0].state == "starting"


def test_a_birth_is_known_by_its_incarnation():
    """Between asking for a process and its birth there is no pid; one that was given up meanwhile gets none."""
    asked, _ = after(FRESH, Spawned("ho1/1@a", 100.0))
    assert (asked.state, asked.pid) == ("starting", 0)
    assert after(asked, Born("ho1/1@x", 41, "m"))[0] == asked
    assert after(asked, Born("ho1/1@a", 41, "m"))[0].pid == 41
    gone, _ = after(asked, Exited("ho1/1@a", "not started: no memory", 101.0, 0.0))
    assert after(gone, Born("ho1/1@a", 41, "m"))[0] == gone


def test_the_crash_budget_gives_the_process_up():
    """After the budget nothing is planned any more, and the note says which limit it was."""
    member, effects = after(
        READY,
        Exited("ho1/1@a", "exit 1", 110.0, 0.0),
        Spawned("ho1/1@b", 111.0),
        Exited("ho1/1@b", "exit 1", 112.0, 0.0),
    )
    assert member.state == "failed" and "launcher.crash_budget" in member.note
    assert [effect.kind for effect in effects] == ["lost", "gave_up"]


def test_damage_gives_the_process_up_at_once_with_its_own_words():
    """Exit 3: another start would end the same way; the note is the place that the process named."""
    why = "damaged: segments/0.seg, byte 353: a body's mark is damaged"
    member, effects = after(STARTED, Exited("ho1/1@a", "exit 3", 110.0, 0.0, why))
    assert (member.state, member.note, member.is_damaged, member.pid) == ("failed", why, True, 0)
    assert [effect.kind for effect in effects] == ["lost", "gave_up"] and effects[0].detail == "exit 3"
    silent, _ = after(STARTED, Exited("ho1/1@a", "exit 3", 110.0, 0.0))
    assert silent.note.startswith("exit 3: ")


def test_the_note_of_a_crash_is_how_it_ended_and_why():
    """What the process said last stays readable while it waits for its next start, and when it is given up."""
    first, _ = after(STARTED, Exited("ho1/1@a", "exit 1", 110.0, 0.0, "rejected: another one"))
    assert first.note == "exit 1: rejected: another one" and not first.is_damaged
    last, _ = after(first, Spawned("ho1/1@b", 111.0), Exited("ho1/1@b", "exit 1", 112.0, 0.0, "rejected: it"))
    assert last.state == "failed" and last.note.startswith("exit 1: rejected: it; given up after 2 crashes")


def test_a_disk_without_room_is_waited_for():
    """However often its process ends for that: the note says so, and the next start is never far away."""
    member = STARTED
    for number in range(20):
        member, effects = after(member, Exited(member.instance, "exit 1", 110.0 + number, 0.0, "disk_full: 5 bytes"))
        assert (member.state, member.note) == ("backoff", "exit 1: disk_full: 5 bytes")
        assert [effect.kind for effect in effects] == ["lost", "retry"]
        member, _ = after(member, Spawned(f"ho1/1@n{number}", 110.5 + number))


def test_a_process_that_cannot_be_made_is_tried_again():
    """No process, no death to tell; the back-off is the same."""
    member, effects = after(FRESH, Spawned("ho1/1@a", 4.0), SpawnFailed("Resource temporarily unavailable", 5.0, 0.0))
    assert member.state == "backoff" and "not started" in member.note
    assert [effect.kind for effect in effects] == ["retry"]


@pytest.mark.parametrize(("silent_ms", "is_killed"), [(5_000, False), (5_001, True)])
def test_a_silent_process_is_stuck_just_beyond_the_limit(silent_ms, is_killed):
    """Exactly stuck_after_ms of silence is still allowed."""
    effects = after(READY, Reported(row(last_beat_ms=silent_ms), 100.5 + silent_ms / 1000))[1]
    assert bool(effects) == is_killed
    if is_killed:
        assert effects[0].kind == "kill" and effects[0].instance == "ho1/1@a"


def test_after_a_sleep_of_the_launcher_everybody_has_its_time_again():
    """Who was silent meanwhile may have slept too: its silence, and the time to end, count from the waking."""
    slept = Reported(row(last_beat_ms=45_000), 145.6)
    assert after(READY, slept)[1][0].kind == "kill"
    assert after(count_anew(READY, 145.5), slept)[1] == []
    assert after(count_anew(READY, 145.5), Reported(row(last_beat_ms=50_100), 150.6))[1][0].kind == "kill"
    told = after(READY, LeaveAsked("start", 101.0), Reported(row(state="draining"), 101.2))[0]
    assert after(told, Reported(row(state="draining"), 145.6))[1][0].kind == "kill"
    assert after(count_anew(told, 145.5), Reported(row(state="draining"), 145.6))[1] == []


def test_a_process_that_the_broker_never_saw_has_the_time_to_get_ready():
    """Before its first word the start-up limit counts, not the beat's."""
    assert after(STARTED, Reported(None, 119.9))[1] == []
    assert after(STARTED, Reported(None, 120.1))[1][0].kind == "kill"


def test_a_stuck_process_is_killed_once_per_silence():
    """The kill's exit needs a moment; it is not ordered again at the next look."""
    member, effects = after(READY, Reported(None, 106.0))
    assert effects[0].kind == "kill"
    assert after(member, Reported(None, 106.2))[1] == []


def test_a_drained_process_ends_as_stopped_and_is_not_restarted():
    """What was asked for is no crash, but the broker is told all the same."""
    member, effects = after(READY, DrainAsked())
    assert member.state == "draining" and [effect.kind for effect in effects] == ["drain"]
    ended, effects = after(member, Exited("ho1/1@a", "exit 0", 120.0, 0.0))
    assert ended.state == "stopped" and ended.note == ""
    assert [effect.kind for effect in effects] == ["lost"]


def test_a_drained_member_in_back_off_is_not_started_any_more():
    """A restart that falls due after the drain does nothing."""
    waiting, _ = after(READY, Exited("ho1/1@a", "signal 9", 110.0, 0.0))
    stopped, effects = after(waiting, DrainAsked())
    assert stopped.state == "stopped" and effects == []
    assert after(stopped, RetryDue())[1] == []


def test_a_service_is_given_up_when_its_last_member_failed():
    failed, alive = Member(actor="ho1/1", role="ho1", state="failed"), Member(actor="ho1/2", role="ho1", state="ready")
    assert list_given_up([failed, alive]) == []
    assert list_given_up([failed]) == ["ho1"]


class TestCommands:
    """What an operator asks of one process: finish and start anew, rest, or leave for good."""

    @pytest.mark.parametrize(
        ("then", "state", "kinds"),
        [
            ("start", "stopped", ["lost", "took_up", "spawn"]),
            ("stay", "stopped", ["lost"]),
            ("remove", "stopped", ["lost", "remove"]),
        ],
    )
    def test_it_finishes_its_work_is_told_to_end_and_then_follows_what_was_asked(self, then, state, kinds):
        """Rest first; the word to end only once it has nothing in flight and the broker gives it nothing new."""
        member, effects = after(READY, LeaveAsked(then, 200.0))
        assert member.state == "draining" and effects == [Effect("rest", instance="ho1/1@a")]
        assert after(member, Reported(row(), 200.1))[1] == []  # the broker has not heard of it yet
        assert after(member, Reported(row(state="draining", in_flight=1), 200.2))[1] == []
        member, effects = after(member, Reported(row(state="draining"), 201.0))
        assert effects == [Effect("drain", instance="ho1/1@a")]
        assert after(member, Reported(row(state="draining"), 201.1))[1] == []
        member, effects = after(member, Exited("ho1/1@a", "exit 0", 201.2, 0.0))
        assert member.state == state and [effect.kind for effect in effects] == kinds
        assert ("until it is restarted" in member.note) == (then == "stay")

    def test_a_door_ends_by_itself_when_its_clients_are_answered(self):
        """No request in flight on the bus says nothing of them; who takes too long is told to end all the same."""
        started, _ = after(Member(actor="http/1", role="http"), Spawned("ho1/1@a", 100.0), Born("ho1/1@a", 41, "m"))
        member, effects = after(started, Reported(row(), 100.5), LeaveAsked("remove", 200.0))
        assert effects == [Effect("rest", instance="ho1/1@a")]
        assert after(member, Reported(row(state="draining"), 201.0))[1] == []
        ended = after(member, Exited("ho1/1@a", "exit 0", 204.0, 0.0))[1]
        assert [effect.kind for effect in ended] == ["lost", "remove"]
        late, effects = after(member, Reported(row(state="draining"), 230.1))
        assert [effect.kind for effect in effects] == ["drain"] and "launcher.finish_ms" in late.note

    def test_work_that_takes_too_long_is_given_back_and_said_so(self):
        """Exactly finish_ms is still allowed; a broker that does not answer changes nothing about it."""
        member, _ = after(READY, LeaveAsked("start", 200.0))
        assert after(member, Reported(row(state="draining", in_flight=1), 230.0))[1] == []
        late, effects = after(member, Unheard(230.1))
        assert effects == [Effect("drain", instance="ho1/1@a")] and "launcher.finish_ms" in late.note
        assert after(late, Unheard(233.1))[1] == []
        killed, effects = after(late, Unheard(233.2))
        assert [effect.kind for effect in effects] == ["kill"] and "launcher.drain_ms" in killed.note

    def test_a_kill_does_not_wait(self):
        """SIGKILL at once, and the next incarnation after it; its history of crashes is forgotten."""
        member, effects = after(READY, LeaveAsked("start", 200.0, kill=True))
        assert [effect.kind for effect in effects] == ["kill"]
        member, effects = after(member, Exited("ho1/1@a", "signal 9", 200.1, 0.0))
        assert [effect.kind for effect in effects] == ["lost", "took_up", "spawn"]
        assert member.history.crashes == () and member.state == "stopped"

    def test_whoever_does_not_run_needs_no_finishing(self):
        """Failed, waiting for its next try, or drained: the command has its effect at once."""
        waiting, _ = after(READY, Exited("ho1/1@a", "signal 9", 110.0, 0.0))
        failed, _ = after(waiting, Spawned("ho1/1@b", 111.0), Exited("ho1/1@b", "exit 1", 112.0, 0.0))
        rested, _ = after(waiting, LeaveAsked("stay", 113.0))
        assert failed.state == "failed" and rested.state == "stopped"
        for member in (waiting, failed, rested):
            following, effects = after(member, LeaveAsked("start", 120.0))
            assert following.state == "stopped" and [effect.kind for effect in effects] == ["took_up", "spawn"]
            assert after(following, Spawned("ho1/1@c", 120.0))[0].state == "starting"
            assert [effect.kind for effect in after(member, LeaveAsked("remove", 120.0))[1]] == ["remove"]
        assert after(rested, RetryDue())[1] == []

    def test_the_last_word_counts(self):
        """Scaled up again while it leaves: it comes back; the cluster's own stop overrules every command."""
        member, _ = after(READY, LeaveAsked("remove", 200.0), LeaveAsked("start", 200.5))
        assert [e.kind for e in after(member, Exited("ho1/1@a", "exit 0", 201.0, 0.0))[1]] == [
            "lost",
            "took_up",
            "spawn",
        ]
        member, effects = after(member, DrainAsked())
        assert [effect.kind for effect in effects] == ["drain"]
        assert [e.kind for e in after(member, Exited("ho1/1@a", "exit 0", 201.0, 0.0))[1]] == ["lost"]


# --- states ---------------------------------------------------------------------------------------------------------

EXPECTED = {
    ("stopped", "spawned"): "starting",
    ("stopped", "drain"): "stopped",
    ("backoff", "spawned"): "starting",
    ("backoff", "gave_up"): "failed",
    ("backoff", "drain"): "stopped",
    ("failed", "drain"): "stopped",
    ("draining", "is_starting"): "draining",
    ("draining", "is_ready"): "draining",
    ("draining", "is_degraded"): "draining",
    ("draining", "crashed"): "stopped",
    ("draining", "ended"): "stopped",
    ("draining", "drain"): "draining",
} | {
    (state, event): after
    for state in ("starting", "ready", "degraded")
    for event, after in {
        "is_starting": "starting",
        "is_ready": "ready",
        "is_degraded": "degraded",
        "crashed": "backoff",
        "gave_up": "failed",
        "drain": "draining",
        "ended": "stopped",
    }.items()
}


def test_every_pair_of_state_and_event_is_decided():
    """Each pair gives the state written here, or is refused as a programming error."""
    pairs = [(state, event) for state in get_args(State) for event in get_args(Event)]
    assert EXPECTED.keys() <= set(pairs)
    assert {pair: decided(*pair) for pair in pairs} == {pair: EXPECTED.get(pair, "refused") for pair in pairs}


def decided(state, event):
    try:
        return get_next_state(state, event)
    except ValueError as refused:
        return "refused" if event in str(refused) else refused


# --- scaling --------------------------------------------------------------------------------------------------------


def executors(*numbers, leaving=()):
    made = [
        Member(actor=f"ho1/{n}", role="ho1", state="ready", then="remove" if n in leaving else "stay",
               resting_since=1.0 if n in leaving else 0.0)
        for n in numbers
    ]  # fmt: skip
    return [*made, Member(actor="ho2/1", role="ho2", state="ready")]


@given(numbers=st.sets(st.integers(1, 30)), count=st.integers(1, 30))
def test_afterwards_there_are_exactly_the_numbers_up_to_the_count(numbers, count):
    change = change_to(executors(*sorted(numbers)), "ho1", count)
    left = numbers - {get_number(actor) for actor in change.leaving}
    assert left | {get_number(actor) for actor in change.new} == set(range(1, count + 1))


def test_who_is_not_heard_any_more_is_known_since_its_last_beat():
    """Not at the first look of a broker that does not know it, which may have just begun; heard again, it is forgotten."""
    soon = 100.5 + 2 * WATCH_INTERVAL_MS / 1000
    assert after(READY, Reported(None, soon))[0].silent_since == 0.0
    silent = after(READY, Reported(None, soon + 0.1), Reported(None, soon + 0.5))[0]
    assert (silent.silent_since, silent.state, silent.row().silent_since) == (READY.seen_at, "ready", READY.seen_at)
    assert after(silent, Reported(row(), soon + 1))[0].silent_since == 0.0
    assert after(silent, Exited("ho1/1@a", "signal 9", soon + 1, 0.5))[0].silent_since == 0.0
    assert after(STARTED, Reported(None, 102.9))[0].silent_since == 0.0, "it was never heard: it is starting"


def test_a_degraded_process_says_why():
    """The reason that a peer gives is its note, and is gone when it is ready again."""
    degraded, _ = after(READY, Reported(row(state="degraded", reason="no ledger"), 101.0))
    assert (degraded.state, degraded.note) == ("degraded", "no ledger")
    again, _ = after(degraded, Reported(row(), 102.0))
    assert (again.state, again.note, again.ready_after_ms) == ("ready", "", 500)
