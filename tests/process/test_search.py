"""`hobus ledger search` on a real cluster: what was said is found at once, and again after a kill, and without one."""

from __future__ import annotations

from typing import Any

import pytest

from bench.cluster import cluster_in, eventually
from hobus.launch.console import exit_codes

pytestmark = pytest.mark.process


def test_what_was_said_is_found_while_it_runs_after_a_kill_and_when_it_is_down(tmp_path):
    """The message and the answer that quotes it; in a session, by kind; the index goes with the ledger's files."""
    cluster = cluster_in(tmp_path / "home")
    cluster.up()
    try:
        assert cluster("ask", "my bicycle is green").code == exit_codes.OK
        assert cluster("ask", "what is the weather?").code == exit_codes.OK

        def found(*options: str) -> list[dict[str, Any]]:
            answer = cluster("ledger search", "BICYCLE", "--json", *options)
            assert answer.code == exit_codes.OK, answer.err
            return answer.json["hits"]

        hits = found()
        (message,) = [hit for hit in hits if hit["kind"] == "message"]
        assert message["excerpt"] == "my bicycle is green" and message["event_type"] == "RunRequested"
        refs = [hit["ref"] for hit in hits]  # a score is among the texts that are asked about
        assert [hit["ref"] for hit in found("--session", message["session_id"][:8])] == refs
        assert [hit["ref"] for hit in found("--type", "RunRequested")] == [message["ref"]]
        assert found("--since", "1h") == hits
        shown = cluster("ledger search", "bicycle")
        assert shown.code == exit_codes.OK and "my bicycle is green" in shown.out and "no cluster" not in shown.err
        nothing = cluster("ledger search", "kingfisher")
        assert nothing.code == exit_codes.OK and "nothing found (kingfisher)" in nothing.err
        wrong = cluster("ledger search", "bicycle", "--session", "ffff")
        assert wrong.code == exit_codes.USAGE and "no such session" in wrong.err

        ledger = cluster.kill("ledger/1")
        eventually(lambda: cluster.is_up("ledger/1", other_than=ledger.instance))
        assert found() == hits
        assert cluster("down").code == exit_codes.OK
        assert (cluster.home.ledger / "search.sqlite").is_file()
        (cluster.home.ledger / "search.sqlite").unlink()
        without = cluster("ledger search", "bicycle", "--json")
        assert without.code == exit_codes.OK and "no cluster runs" in without.err
        assert [hit["ref"] for hit in without.json["hits"]] == refs
    finally:
        cluster.end()
