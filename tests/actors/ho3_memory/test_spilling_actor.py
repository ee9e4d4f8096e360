"""The memory process with next to no room: the same answers, and an end with a reason when the spill file is damaged."""

import asyncio

import pytest

from hobus.actors.ho3_memory.actor import Memory
from hobus.actors.ho3_memory.checkpoint import FILE as CHECKPOINT
from hobus.actors.ho3_memory.spill_file import FILE, SpillUnreadable
from hobus.bus.messages import memory as m
from hobus.bus.messages.base import canonical_bytes
from hobus.bus.messages.ids import LOCAL
from tests.actors.ho3_memory.builders import AGENT, artifact, at, signal
from tests.actors.ho3_memory.rig import cluster

NO_ROOM = {"resident_mb_max": 0.000_001, "checkpoint_entries": 6}
OTHER = "domain:docs"


def fill(made):
    """A dozen events of two signals, an artifact that another one supersedes, a failure."""
    for number in range(6):
        made.log(signal(number, number, number % 3), signal(100 + number, number, number % 3, OTHER))
    made.log_overlay(artifact("old", hours=2))
    made.log_overlay(artifact("new", hours=5))
    failure = m.LogConsolidationFailure(
        agent_id=AGENT, principal=LOCAL, signal_id=OTHER, wo_id="", code="x", reason="no", line="bad", at=at(6)
    )
    made.ask(failure, m.ConsolidationFailureLogged)


def state(made):
    """All answers as of one moment, as bytes."""
    as_of = m.AsOf(as_of_ts=at(20), as_of_seq=made.stats().applied_seq, from_clock=False)
    moment = {"agent_id": AGENT, "as_of_ts": as_of.as_of_ts, "as_of_seq": as_of.as_of_seq}
    answers = [
        made.signals(as_of=as_of),
        made.overlays(as_of=as_of),
        made.ask(m.ReadReview(**moment), m.Review),
        made.ask(m.ReadActiveBiases(principal=LOCAL, session_id=None, **moment), m.Biases),
        made.ask(m.CheckGate(signal_id=OTHER, principal=LOCAL, **moment), m.GateChecked),
    ]
    return [canonical_bytes(one) for one in answers]


def test_a_process_without_room_answers_as_one_with_all_of_it():
    """Before and after a kill, from a checkpoint or without; the file begins anew with each start."""
    with cluster(checkpoint_entries=6) as whole, cluster(**NO_ROOM) as small:
        fill(whole)
        fill(small)
        assert state(small) == state(whole)
        assert small.memory.counters()["resident_kb"] < 4 and small.memory.counters()["spilled_kb"] > 0
        assert whole.memory.counters()["spilled_kb"] == 0
        for _ in range(2):
            small.restart_memory()
            assert state(small) == state(whole)
            del small.world.media["ho3"].files[CHECKPOINT]


@pytest.mark.parametrize("how", ["changed", "gone"])
def test_a_damaged_spill_file_ends_the_process_which_starts_anew_from_the_record(how):
    """Whoever asks is told to ask again, nothing wrong is answered or written; the next incarnation has all of it."""
    with cluster(**NO_ROOM) as made:
        ended = []
        made.world.on_ended = lambda instance, fault: ended.append((instance, fault))
        made.restart_memory()  # so that its end is watched
        fill(made)
        before = state(made)
        content = made.world.media["ho3"].files[FILE].content
        if how == "gone":
            content.clear()
        else:
            content[:] = bytes(byte ^ 1 for byte in content)
        old = made.ho3
        fault = made.refusal(m.ReadOverlays(agent_id=AGENT, active_only=False), m.Overlays)
        assert (fault.code, fault.retryable) == ("unavailable", True)
        made.world.run(asyncio.sleep(0.1))
        [(instance, why)] = ended
        assert instance == old and isinstance(why, SpillUnreadable)
        made.restart_memory()
        assert state(made) == before


def test_a_signal_that_meets_the_damage_is_in_the_record_and_counts_once():
    """Its sender is told that memory cannot say; logged again to the successor it is no second one."""
    with cluster(**NO_ROOM) as made:
        fill(made)
        content = made.world.media["ho3"].files[FILE].content
        content[:] = bytes(byte ^ 1 for byte in content)
        message = m.LogSignals(agent_id=AGENT, signals=[signal(50, 7), signal(51, 7, 0, OTHER)])
        assert made.refusal(message, m.SignalsLogged).code == "unavailable"
        made.restart_memory()
        assert made.ask(message, m.SignalsLogged).new_count == 0
        assert made.stats().events == 14


def test_on_a_full_disk_memory_goes_on_and_says_so():
    """What cannot go out stays."""
    with cluster(checkpoint_entries=6) as whole, cluster(**NO_ROOM) as small:
        small.world.media["ho3"].capacity_bytes = 3000
        fill(whole)
        fill(small)
        assert state(small) == state(whole)
        assert small.memory.counters()["spill_failures"] > 0


def test_a_rebuild_keeps_little_while_it_reads(monkeypatch):
    """Without a checkpoint a long record is read page by page: neither facts nor events gather in RAM."""
    with cluster(resident_mb_max=0.000_001, checkpoint_entries=10, rebuild_page=7, signals_max=64) as made:
        for first in range(0, 100, 50):
            made.log(*(signal(number, number, number % 9) for number in range(first, first + 50)))
            made.log_overlay(artifact(str(first), hours=first + 50))
        before = state(made)
        del made.world.media["ho3"].files[CHECKPOINT]
        waiting, ready = [], Memory.ready

        async def watched(memory):
            take = memory._store._take
            memory._store._take = lambda entry: (take(entry), waiting.append(len(memory._store._since_checkpoint)))
            return await ready(memory)

        monkeypatch.setattr(Memory, "ready", watched)
        made.restart_memory()
        assert state(made) == before
        assert len(waiting) == 102 and max(waiting) <= 30
