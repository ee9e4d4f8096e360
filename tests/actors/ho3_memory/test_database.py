"""Memory's working store: nobody else can reach it, and what SQLite cannot do ends the process."""

import asyncio
import sqlite3

import pytest

from hobus.actors.ho3_memory import database
from hobus.actors.ho3_memory.agent_memory import AgentMemory
from hobus.actors.ho3_memory.database import FILE, DatabaseFailed, Databases
from hobus.bus.disk import RealDisk
from hobus.bus.messages import memory as m
from hobus.bus.messages.ids import LOCAL
from tests.actors.ho3_memory.builders import AGENT, artifact, config, logged, moment, seen, signal
from tests.actors.ho3_memory.rig import cluster


def filled(memory, count=400):
    """Events and artifacts, more than the pages that are kept in RAM."""
    for number in range(count):
        memory.apply(seen(2 * number, number, number % 7))
        memory.apply(logged(artifact(str(number), hours=number), 2 * number + 1))
    return memory


def answers(memory):
    """As of the head, and of a moment in between."""
    return [
        (list(memory.list_active_biases(as_of, principal=LOCAL, session_id=None)), memory.counts(as_of))
        for as_of in (moment(500), moment(100), moment(500, 100))
    ]


@pytest.mark.slow
def test_in_a_file_it_answers_as_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "PAGE_CACHE_KB", 16)
    memory = filled(AgentMemory(AGENT, config(), Databases(RealDisk(tmp_path)).open()))
    assert list(tmp_path.iterdir()) == []
    assert answers(memory) == answers(filled(AgentMemory(AGENT, config())))


def test_a_link_in_its_place_is_replaced_and_what_it_leads_to_left_alone(tmp_path):
    other, place = tmp_path / "other", tmp_path / "memory"
    place.mkdir()
    other.write_text("kept")
    (place / FILE).symlink_to(other)
    filled(AgentMemory(AGENT, config(), Databases(RealDisk(place)).open()), 3)
    assert other.read_text() == "kept"


def test_after_a_failure_nothing_is_answered():
    faults = []
    databases = Databases(None, faults.append)
    memory, other = (AgentMemory(AGENT, config(), databases.open()) for _ in range(2))
    memory._database._connection.execute("DROP TABLE windows")
    with pytest.raises(DatabaseFailed):
        memory.apply(logged(artifact(), 0))
    for one in (memory, other):
        with pytest.raises(DatabaseFailed):
            one.counts(moment(1))
    with pytest.raises(DatabaseFailed):
        databases.open()
    assert faults == [databases.fault] and databases.fault.retryable


def test_a_failed_store_ends_the_process_which_starts_anew_from_the_record():
    with cluster() as made:
        ended = []
        made.world.on_ended = lambda instance, fault: ended.append((instance, fault))
        made.restart_memory()  # so that its end is watched
        made.log(signal(0, 0))
        made.log_overlay(artifact())
        connection = made.memory._store.memory(AGENT)._database._connection
        connection.set_authorizer(lambda *_: sqlite3.SQLITE_DENY)
        old, message = made.ho3, m.LogSignals(agent_id=AGENT, signals=[signal(1, 1)])
        for fault in (
            made.refusal(message, m.SignalsLogged),
            made.refusal(m.ReadOverlays(agent_id=AGENT, active_only=False), m.Overlays),
        ):
            assert (fault.code, fault.retryable) == ("unavailable", True)
        made.world.run(asyncio.sleep(0.1))
        assert [instance for instance, _ in ended] == [old] and isinstance(ended[0][1], DatabaseFailed)
        made.restart_memory()
        assert made.ask(message, m.SignalsLogged).new_count == 0
        assert (made.stats().events, made.stats().overlays) == (2, 1)


def test_questions_about_agents_that_have_learned_nothing_open_one_empty_store_for_all_of_them(monkeypatch):
    """A store of its own for each question would be kept until the next collection of cycles."""
    opened = []
    monkeypatch.setattr(database, "_open", lambda disk, of=database._open: opened.append(disk) or of(disk))
    with cluster() as made:
        for agent_id in ("CLERK", "CLERK", "SCRIBE"):
            assert made.ask(m.ReadOverlays(agent_id=agent_id, active_only=False), m.Overlays).overlays == []
        assert opened == [None]
        made.log(signal(0, 0))
        assert len(opened) == 2
