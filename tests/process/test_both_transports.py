"""One turn on both transports: real processes over ZeroMQ, and the simulated cluster in virtual time."""

from __future__ import annotations

import pytest

from bench.cluster import Cluster
from hobus.config.snapshot import load_snapshot
from hobus.ledger_service.reader import read_entries
from tests.journals import check_record, masked_journal
from tests.simulated import SimulatedCluster

pytestmark = pytest.mark.process


def test_the_journal_is_the_same_entry_by_entry(cluster: Cluster):
    """Two turns over sockets and simulated: with times, durations, salts and instances masked, nothing differs."""
    questions = ("what packages are installed?", "is this the end? thanks, bye")
    with SimulatedCluster(load_snapshot()) as simulated:
        session_id = simulated.ask(questions[0], input_id="in-1").session_id
        simulated.ask(questions[1], input_id="in-2", session_id=session_id)
        expected = simulated.entries()
    cluster.up("--detach")
    first = cluster.ask(questions[0], "--input-id", "in-1")
    cluster.ask(questions[1], "--input-id", "in-2", "--session", first["session_id"])
    real = list(read_entries(cluster.home.ledger, with_bodies=True))
    check_record(expected)
    check_record(real)
    for of_sockets, of_simulation in zip(masked_journal(real), masked_journal(expected), strict=True):
        assert of_sockets == of_simulation
    assert len(masked_journal(real)) > 12
