"""The derived state and the record: restarts with and without checkpoints, kills at any moment, entries nobody heard of."""

import asyncio
from copy import deepcopy

import pytest

from hobus.actors.ho3_memory import limits, records
from hobus.actors.ho3_memory.checkpoint import FILE
from hobus.actors.ho3_memory.store import Store
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages import memory as m
from hobus.bus.messages.base import canonical_bytes, pack
from tests.actors.ho3_memory.builders import AGENT, artifact, at, event_id, signal
from tests.actors.ho3_memory.rig import cluster

pytestmark = pytest.mark.slow

TIMES = {"trace": "", "at_us": 7}


@pytest.fixture
def said(monkeypatch):
    """How far memory processes say that they are, page by page."""
    told, read = [], Store._read_page

    async def reading(store, *page):
        is_more = await read(store, *page)
        told.append(store.at_what)
        return is_more

    monkeypatch.setattr(Store, "_read_page", reading)
    return told


@pytest.fixture
def taken(monkeypatch):
    """Sequences of the entries that memory processes read from the ledger."""
    sequences = []
    take = Store._take
    monkeypatch.setattr(
        Store,
        "_take",
        lambda store, entries: (sequences.extend(one.sequence for one in entries), take(store, entries))[1],
    )
    return sequences


def fill(made):
    """Eight entries: six events, an artifact, a change of it."""
    made.log(*(signal(number, number, number % 3) for number in range(3)))
    made.log_overlay(artifact(hours=2))
    made.log(*(signal(number, number, number % 3) for number in range(3, 6)))
    change = m.UpdateOverlayWeight(
        agent_id=AGENT, artifact_id=artifact().artifact_id, new_weight=0.3, reason="-", at=at(3)
    )
    made.ask(change, m.OverlayChanged)


def state(made):
    """All answers as of one moment, as bytes."""
    as_of = m.AsOf(as_of_ts=at(500), as_of_seq=made.stats().applied_seq, from_clock=False)
    return [canonical_bytes(made.signals(as_of=as_of)), canonical_bytes(made.overlays(as_of=as_of))]


def test_a_start_reads_only_what_came_after_the_checkpoint(monkeypatch, taken):
    monkeypatch.setattr(limits, "CHECKPOINT_ENTRIES", 4)
    with cluster() as made:
        fill(made)
        made.log(signal(6, 6))
        before, reached = state(made), made.stats().checkpoint_seq
        assert reached == 7
        taken.clear()
        made.restart_memory()
        assert taken == [8]
        assert state(made) == before and made.stats().checkpoint_seq == reached


def test_a_checkpoint_has_nothing_sent_again_that_was_logged_here(monkeypatch, taken):
    """The streams are looked over without bodies; what stands there is not taken a second time."""
    monkeypatch.setattr(limits, "CHECKPOINT_ENTRIES", 4)
    asked, page = [], LedgerClient.page
    with cluster() as made:
        monkeypatch.setattr(
            LedgerClient,
            "page",
            lambda client, question: (asked.append(question.with_bodies), page(client, question))[1],
        )
        fill(made)
        assert made.stats().checkpoint_seq == 7
        assert set(asked) == {False} and taken == []


def test_many_that_log_at_once_write_one_checkpoint(monkeypatch):
    """Whoever finds it under way leaves it to who began it: each stream is read on once, not once by each of them."""
    monkeypatch.setattr(limits, "CHECKPOINT_ENTRIES", 4)
    asked, page = [], LedgerClient.page
    with cluster() as made:
        monkeypatch.setattr(
            LedgerClient, "page", lambda client, question: (asked.append(question), page(client, question))[1]
        )

        async def run():
            logged = (m.LogSignals(agent_id=AGENT, signals=[signal(number, number)]) for number in range(20))
            await asyncio.gather(*(made.request(message, m.SignalsLogged) for message in logged))

        made.world.run(run())
        assert len(asked) == len(records.STREAMS)
        assert made.stats().checkpoint_seq >= 19


def test_a_memory_that_is_told_to_end_leaves_a_checkpoint_of_everything(taken):
    with cluster() as made:
        fill(made)
        before = state(made)
        made.world.run(made.world.stop(made.ho3, 1.0))
        taken.clear()
        made.start_memory()
        made.world.run(made.world.settled())
        assert taken == [] and state(made) == before and made.stats().checkpoint_seq == 7


def test_a_checkpoint_goes_on_after_a_restart(monkeypatch, taken):
    monkeypatch.setattr(limits, "CHECKPOINT_ENTRIES", 4)
    with cluster() as made:
        fill(made)
        made.restart_memory()
        made.log(*(signal(number, number, 1) for number in range(6, 12)))
        before = state(made)
        assert made.stats().checkpoint_seq >= 11
        taken.clear()
        made.restart_memory()
        assert all(sequence > 10 for sequence in taken)
        assert state(made) == before


def test_without_a_checkpoint_everything_is_read_in_pages(monkeypatch, taken, said):
    """The same state; how far it is it says; a checkpoint is written whenever one is due, so that little waits for one."""
    monkeypatch.setattr(limits, "CHECKPOINT_ENTRIES", 4)
    monkeypatch.setattr(limits, "REBUILD_PAGE", 2)
    with cluster() as made:
        fill(made)
        before = state(made)
        del made.world.media["ho3"].files[FILE]
        taken.clear()
        said.clear()
        made.restart_memory()
        assert sorted(taken) == list(range(8)) and state(made) == before
        assert said[-1].startswith("reads what was learned: entry ") and len(set(said)) > 3
        assert made.stats().checkpoint_seq > 7 - 4


@pytest.mark.parametrize("place", [0, 5, 60, -1])
def test_a_damaged_checkpoint_is_not_believed(monkeypatch, taken, place):
    """Any changed byte: what stands before its frame counts, the rest is read from the record."""
    monkeypatch.setattr(limits, "CHECKPOINT_ENTRIES", 4)
    with cluster() as made:
        fill(made)
        before = state(made)
        made.write_checkpoint[place] ^= 0x10
        taken.clear()
        made.restart_memory()
        assert len(taken) > 1 and state(made) == before
        made.world.run(made.world.stop(made.ho3, 1.0))
        taken.clear()
        made.start_memory()
        made.world.run(made.world.settled())
        assert taken == [] and state(made) == before  # the damage was written over


@pytest.mark.parametrize("has_the_same", [False, True])
def test_a_checkpoint_of_another_record_is_not_believed(monkeypatch, has_the_same):
    """Nor where that holds the same entries, one place further: the place and the chain tell."""
    monkeypatch.setattr(limits, "CHECKPOINT_ENTRIES", 4)
    with cluster() as one, cluster() as other:
        fill(one)
        other.log(*(signal(100 + number, number) for number in range(8)))
        if has_the_same:
            fill(other)
        before = state(other)
        other.world.media["ho3"].files[FILE] = deepcopy(one.world.media["ho3"].files[FILE])
        other.restart_memory()
        assert state(other) == before
        assert {event_id(100 + number) for number in range(8)} <= {*other.signals().signals[0].event_ids}


def test_a_checkpoint_that_is_ahead_of_the_ledger_is_not_believed(monkeypatch):
    """A record that was put back to an earlier state decides."""
    monkeypatch.setattr(limits, "CHECKPOINT_ENTRIES", 4)
    with cluster() as made:
        made.log(signal(0, 0))
        made.world.kill(made.ho3)
        made.world.run(asyncio.sleep(1))
        earlier = deepcopy(made.world.media["ledger"].files)
        made.start_memory()
        made.world.run(made.world.settled())
        fill(made)
        for instance in (made.ho3, made.ledger.instance):
            made.world.kill(instance)
        made.world.media["ledger"].files = earlier
        made.start_ledger()
        made.start_memory()
        made.world.run(made.world.settled())
        assert made.signals().signals[0].event_ids == [event_id(0)] and made.overlays().overlays == []


def test_a_full_disk_costs_the_checkpoint_alone(monkeypatch, taken):
    monkeypatch.setattr(limits, "CHECKPOINT_ENTRIES", 2)
    with cluster() as made:
        made.world.media["ho3"].capacity_bytes = 10
        fill(made)
        before = state(made)
        assert made.stats().checkpoint_seq == -1
        taken.clear()
        made.restart_memory()
        assert sorted(taken) == list(range(8)) and state(made) == before
        made.world.media["ho3"].capacity_bytes = 1 << 20
        made.log(*(signal(number, number) for number in range(6, 12)))
        assert made.stats().checkpoint_seq > 7


def test_an_entry_that_cannot_be_read_keeps_nobody_from_remembering():
    with cluster() as made:
        junk = records.make_signal_entry(AGENT, signal(9, 9), **TIMES)._replace(bodies=[pack(["junk"])])
        made.write_as_memory([junk])
        fill(made)
        made.restart_memory()
        assert made.stats().events == 6


def test_what_an_earlier_incarnation_wrote_and_nobody_heard_of_is_found():
    """The ledger knows an event that is not here: the streams are read on before anything is answered."""
    with cluster() as made:
        made.log(signal(0, 0))
        unheard = [records.make_signal_entry(AGENT, signal(number, number), **TIMES) for number in (1, 2)]
        unheard.append(records.make_overlay_entry(AGENT, artifact(hours=1), earlier=0, **TIMES))
        made.write_as_memory(unheard)
        assert made.stats().events == 1
        logged = made.log(signal(3, 3), signal(1, 1))
        assert logged.gates[0].count == 4
        assert (made.stats().events, made.stats().overlays) == (4, 1)
        before = state(made)
        made.restart_memory()
        assert state(made) == before


def test_a_conflict_with_an_unheard_entry_brings_it_in():
    with cluster() as made:
        made.write_as_memory([records.make_signal_entry(AGENT, signal(0, 5), **TIMES)])
        assert made.refusal(m.LogSignal(agent_id=AGENT, signal=signal(0, 0)), m.SignalsLogged).code == "event_conflict"
        assert [(found.count, found.last_seen) for found in made.signals().signals] == [(1, at(5))]


@pytest.mark.parametrize("victim", ["ho3", "ledger"])
def test_a_kill_between_write_and_answer_loses_and_doubles_nothing(monkeypatch, victim):
    """At moment after moment of a LOG the process dies and comes back: answered once, counted once, recorded once."""
    monkeypatch.setattr(limits, "CHECKPOINT_ENTRIES", 2)
    moment_s, struck = 0.0, 0
    while True:
        with cluster() as made:
            made.log(signal(0, 0))
            is_asking, hits = [True], []

            def kill(made=made, is_asking=is_asking, hits=hits):
                hits.append(is_asking[0])
                made.world.kill(made.ho3 if victim == "ho3" else made.ledger.instance)
                restart = made.start_memory if victim == "ho3" else made.start_ledger
                made.world.loop.call_later(0.3, restart)

            made.world.loop.call_later(moment_s, kill)
            message = m.LogSignals(agent_id=AGENT, signals=[signal(1, 1, 1), signal(2, 2, 2)])
            logged = made.ask(message, m.SignalsLogged, timeout_s=30.0)
            is_asking[0] = False
            made.world.run(asyncio.sleep(3))
            entries = [entry.submission_id for entry in made.run(made.entries())]
            stats = made.stats()
        assert logged.gates[0].count == 3, moment_s
        assert len(entries) == len(set(entries)) == stats.events == 3, moment_s
        if not hits[0]:
            break
        struck += 1
        moment_s += 0.0005
    assert struck >= 3


def test_an_answer_that_nobody_waits_for_any_more_still_counts():
    """A caller that gave up, a cancel, a deadline: the state follows the record, not the callers."""
    with cluster() as made:

        async def give_up():
            asked = asyncio.ensure_future(
                made.request(m.LogSignal(agent_id=AGENT, signal=signal(0, 0)), m.SignalsLogged)
            )
            await asyncio.sleep(0.0012)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
            await asyncio.sleep(1)

        made.world.run(give_up())
        assert made.stats().events == len(made.run(made.entries()))


def test_many_at_once_are_applied_in_the_order_of_the_record(monkeypatch):
    """Interleaved callers: every answer's sequence covers its own events, and the head covers all."""
    monkeypatch.setattr(limits, "CHECKPOINT_ENTRIES", 7)
    with cluster() as made:

        async def all_at_once():
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(
                        made.request(m.LogSignal(agent_id=AGENT, signal=signal(n, 100 - n, n)), m.SignalsLogged)
                    )
                    for n in range(15)
                ]
            return [task.result() for task in tasks]

        answers = made.world.run(all_at_once())
        assert all(answer.new_count == 1 for answer in answers)
        head = made.run(made.entries())[-1].sequence
        assert made.stats().applied_seq == head and made.stats().events == 15
        assert made.signals().signals[0].event_ids == [event_id(n) for n in reversed(range(15))]
        before = state(made)
        made.restart_memory()
        assert state(made) == before
