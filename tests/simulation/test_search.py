"""What real turns said is found in their session by its supervisor, and asked of the ledger by nobody else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.errors import BusError
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.ledger import Search
from tests.simulated import SimulatedCluster


def test_messages_replies_and_results_of_tools_of_real_turns_are_found_under_refs_that_read():
    """Each once; the ref of each leads to the very text, for the role that finds it."""
    snapshot = shipped_snapshot()
    with SimulatedCluster(snapshot) as cluster:
        first = cluster.ask("what packages are installed?", input_id="in-1")
        cluster.ask("my bicycle is green", input_id="in-2", session_id=first.session_id)
        other = cluster.ask("my bicycle is blue", input_id="in-3")
        ledger = LedgerClient(cluster.world.client("ho2"), snapshot.config.ledger)

        async def asked(words):
            question = Search(words=words, session_id=first.session_id, streams=["session"], limit=9)
            searched = await ledger.search(question)
            texts = [(await ledger.body(one.ref)).decode() for one in searched.hits]
            assert searched.reached == searched.head
            assert all(one.excerpt in text for one, text in zip(searched.hits, texts, strict=True))
            return [(one.kind, text) for one, text in zip(searched.hits, texts, strict=True)]

        bicycles = cluster.world.run(asked("the bicycle"))
        packages = cluster.world.run(asked("PKG ADMIN AGENT"))
    assert ("message", "my bicycle is green") in bicycles and "blue" not in str(bicycles)
    kinds = [kind for kind, _ in packages]
    assert kinds.count("result") == 1 and ("reply", first.response) in packages
    assert other.session_id != first.session_id


@pytest.fixture(scope="module")
def said() -> Iterator[tuple[SimulatedCluster, str]]:
    """A cluster, and a session in which something was said."""
    with SimulatedCluster(shipped_snapshot()) as cluster:
        yield cluster, cluster.ask("hello", input_id="in-1").session_id


@pytest.mark.parametrize("role", ["ho3", "gateway", "host", "http", "launcher"])
def test_nobody_else_may_ask(said, role):
    """The lane's policy refuses it before the ledger sees it."""
    cluster, session_id = said
    ledger = LedgerClient(cluster.world.client(role), cluster.snapshot.config.ledger)
    question = Search(words="hello", session_id=session_id, limit=1)
    with pytest.raises(BusError) as refused:
        cluster.world.run(ledger.search(question))
    assert refused.value.code == "denied"
