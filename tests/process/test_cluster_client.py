"""Python programs on a cluster's own machine, over its bus."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from bench.cluster import Cluster
from hobus import ClusterClient, ClusterError
from hobus.bus.messages.session import TurnResult

pytestmark = pytest.mark.process


def test_a_program_asks_streams_and_steers_over_the_bus(cluster: Cluster) -> None:
    """What stands in the record is what it was told; a repeated input is answered once; from two threads at once."""
    cluster.up()
    with ClusterClient(cluster.home.root, timeout_s=30) as client:
        session = client.start()
        pieces = list(client.stream("what packages are installed?", session_id=session, input_id="one"))
        again = client.ask("what packages are installed?", session_id=session, input_id="one")
        assert pieces[-1].result is not None and pieces[-1].result.response == again.response
        assert any(piece.text for piece in pieces[:-1])
        view = client.session(session)
        assert view.session_id == session
        verdict = client.command(session, "Steer", text="briefly")
        assert verdict.outcome == "rejected", "nothing runs"
        formed = client.ask("city: Bern", output_schema={"type": "object", "properties": {"city": {"type": "string"}}})
        assert formed.outcome == "success"
        answers: list[TurnResult] = []
        threads = [threading.Thread(target=lambda: answers.append(client.ask("hello"))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [answer.outcome for answer in answers] == ["success"] * 2
        with pytest.raises(ValueError, match="Nonsense"):
            client.command(session, "Nonsense")
        with pytest.raises(ClusterError) as blank:
            client.ask(" ", session_id=session)
        assert (blank.value.code, blank.value.is_verdict) == ("invalid_input", True)
        assert client.session(f"SES-{session[:8]}").session_id == session
        assert client.ask("hello again", session_id=session[:13]).session_id == session
        client.end(session[:12])
        with pytest.raises(ClusterError, match="session_closed"):
            client.ask("hello?", session_id=session)


def test_without_a_cluster_it_says_how_to_start_one(tmp_path: Path) -> None:
    before = threading.active_count()
    with pytest.raises(ClusterError, match="no cluster runs"):
        ClusterClient(tmp_path)
    assert threading.active_count() == before
