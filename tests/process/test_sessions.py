"""The exit criteria of a session on the real bus: real processes, killed, stopped and drained while they are spoken to."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bench.cluster import Cluster, cluster_in
from hobus.bus.messages.session import Steer
from hobus.launch.cluster.client import connect_bus
from tests.journals import check_record
from tests.sessions import QUESTION, Person, answering, names

pytestmark = pytest.mark.process

THINKING_MS = 400


def begun(directory: Path, *changes: tuple[str, object]) -> Cluster:
    cluster = cluster_in(directory / "home")
    cluster.up("--detach", settings={"gateway.providers.offline.latency_ms": THINKING_MS, **dict(changes)})
    return cluster


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """Starts clusters, and ends them with a look at their record."""
    made: list[Cluster] = []

    def start(*changes: tuple[str, object]) -> Cluster:
        made.append(begun(tmp_path, *changes))
        return made[-1]

    yield start
    for cluster in made:
        cluster.end()
        check_record(cluster.entries())
        cluster.verify()


@asynccontextmanager
async def person_at(cluster: Cluster, role: str = "operator") -> AsyncIterator[Person]:
    """Somebody's own connection; one of a role, since they share this process."""
    place = cluster.place
    async with connect_bus(place, role, timeout_s=10) as bus:
        yield Person(bus, place.snapshot.config)


def play(cluster: Cluster, story: Callable[[Person], Awaitable[None]]) -> None:
    async def played() -> None:
        async with person_at(cluster) as person:
            await story(person)

    asyncio.run(played())


def test_supervisor_that_was_stopped_cannot_go_on(begin: Callable[..., Cluster]) -> None:
    """SIGSTOP in the middle of a turn, SIGCONT when another has answered: it writes nothing, and asks no model."""
    cluster = begin(("ho2.count", 2))

    async def story(person: Person) -> None:
        await person.begin()
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(person.say(QUESTION))
            owner = (await person.until(answering)).owner
            pid = cluster.row(owner.partition("@")[0]).pid
            os.kill(pid, signal.SIGSTOP)
            try:
                await person.until(lambda view: view.owner != owner)
                await person.command(Steer(text="and is the ledger intact?"))
            finally:
                if cluster.row(owner.partition("@")[0]).pid == pid:
                    os.kill(pid, signal.SIGCONT)
        assert asked.result().outcome == "success"
        await asyncio.sleep(2)
        journal = await person.journal()
        assert names(journal).count("RunCompleted") == 1
        fenced = [n for n, e in enumerate(journal) if e.event_type == "TookOver"][-1]
        assert len({e.origin for e in journal[fenced:]}) == 1
        sent = [e.submission_id for e in cluster.entries("PROMPT_SENT")]
        assert len(sent) == len(set(sent))

    play(cluster, story)
