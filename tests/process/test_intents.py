"""An intent of a real session outlives SIGKILL of its supervisor in the middle of a turn."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from bench.cluster import cluster_in, eventually
from hobus.bus.record.journal import event_in
from tests.journals import check_record

pytestmark = pytest.mark.process

THINKING_MS = 400


def test_an_intent_survives_a_kill_of_its_supervisor(tmp_path: Path):
    """The supervisor dies in the second turn: the same intent, declared once, shown, and on every order; once projected."""
    cluster = cluster_in(tmp_path / "home")
    try:
        cluster.up("--detach", settings={"gateway.providers.offline.latency_ms": THINKING_MS})
        first = cluster.ask("what packages are installed?")
        session_id = first["session_id"]
        before = cluster("session show", session_id, "--json").json["view"]["active_intents"]
        assert [one["objective"] for one in before] == ["what packages are installed?"]

        asked = cluster.start_ask("and which packages are the newest?", "--session", session_id)
        dispatched = len(cluster.entries("WO_DISPATCHED"))
        eventually(lambda: len(cluster.entries("WO_DISPATCHED")) > dispatched)
        cluster.kill("ho2/1")
        out, _ = asked.communicate(timeout=60)
        assert json.loads(out)["outcome"] == "success"

        shown = cluster("session show", session_id, "--json").json
        assert shown["view"]["active_intents"] == before
        assert shown["active_intents"] == [before[0]["intent_id"]]
        kinds = Counter(entry.event_type for entry in cluster.entries())
        assert (kinds["INTENT_DECLARED"], kinds["INTENT_SUPERSEDED"], kinds["PROJECTION_COMPUTED"]) == (1, 0, 2)
        assert kinds["TookOver"] >= 2
        orders = [event_in(entry).event for entry in cluster.entries("WO_DISPATCHED")]
        named = [order.order["intent_id"] for order in orders if "intent_id" in order.order]
        assert set(named) == {before[0]["intent_id"]}
        assert f"INT-{before[0]['intent_id'][-3:]}" in cluster("session show", session_id).out
    finally:
        cluster.end()
    check_record(cluster.entries())
    cluster.verify()
