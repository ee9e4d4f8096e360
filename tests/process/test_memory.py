"""Learning on real processes, by the command line: a habit becomes a line in the prompt, and is switched off again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.cluster import Cluster, eventually
from hobus.bus.clock import SystemClock
from hobus.bus.messages.ids import iso
from hobus.bus.record.payload import payload_of
from hobus.bus.record.payloads.orders import ContextAssembled
from tests.journals import check_record

pytestmark = pytest.mark.process

QUESTION = "what packages are installed?"


def newest_context(cluster: Cluster) -> ContextAssembled:
    """What memory gave to the newest turn's prompt."""
    return payload_of(ContextAssembled, cluster.entries("CONTEXT_ASSEMBLED")[-1].bodies[0] or b"")


def artifacts(cluster: Cluster) -> list[dict[str, Any]]:
    """What is in force, as HO3 says."""
    answer = cluster("request", "ho3", "memory.read_overlays", json.dumps({"agent_id": "ADMIN"}))
    return [row["artifact"] for row in answer.json["overlays"]]


def test_a_habit_is_learned_across_processes_and_unlearned(cluster: Cluster) -> None:
    """Five turns in three sessions; consolidated after the reply; in the next prompt by id; deactivated, and gone."""
    cluster.up()
    for _ in range(2):
        cluster.ask(QUESTION, "--session", cluster.ask(QUESTION)["session_id"])
    result = cluster.ask(QUESTION)
    assert result["consolidation_candidates"] == ["domain:system", "task:inspect", "tool:list_packages"]
    eventually(lambda: len(cluster.entries("HO3_OVERLAY")) == 3)
    [completed] = [e for e in cluster.entries("RunCompleted") if e.submission_id == f"RunCompleted:{_run(result)}"]
    dispatched = [e for e in cluster.entries("WO_DISPATCHED") if e.stream == "ho2m"]
    assert all(completed.sequence < entry.sequence for entry in dispatched)

    learned = artifacts(cluster)
    assert len(learned) == 3
    assert cluster.ask(QUESTION)["outcome"] == "success"
    assert set(newest_context(cluster).artifact_ids) == {artifact["artifact_id"] for artifact in learned}
    for artifact in learned:
        body = {
            "agent_id": "ADMIN", "artifact_id": artifact["artifact_id"], "reason": "test", "at": iso(SystemClock().now()),
        }  # fmt: skip
        assert cluster("request", "ho3", "memory.deactivate_overlay", json.dumps(body)).code == 0
    assert cluster.ask(QUESTION)["outcome"] == "success"
    assert newest_context(cluster).artifact_ids == ()

    cluster.kill("ho3/1")
    assert cluster.ask(QUESTION)["outcome"] == "success"
    eventually(lambda: cluster.is_up("ho3/1"))
    assert cluster.ask(QUESTION)["outcome"] == "success"
    assert newest_context(cluster).as_of_seq is not None
    assert artifacts(cluster) == []
    check_record(cluster.entries())
    cluster.verify()


def _run(result: dict[str, Any]) -> str:
    return f"{result['run_id']['session_id']}-{result['run_id']['run_seq']}"
