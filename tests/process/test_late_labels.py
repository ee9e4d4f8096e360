"""A classification that its model sits on: the answer leaves, a supervisor dies, the next turn sees what it brought."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from typing import Any

import pytest

from bench.builders import shipped_snapshot
from bench.cluster import Cluster, eventually
from bench.gateway.servers import Request, whole
from hobus.bus.record.journal import read_event
from hobus.config.files import SHIPPED_ROOT
from tests.actors.ho2_supervisor.rig import CLASSIFIED

pytestmark = pytest.mark.process
OWN = {"agent_id": "CLERK", "agent_class": "RESIDENT", "classification": "beside"}


def completion(text: str) -> bytes:
    choices = [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return whole(
        {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage}
    )


def instance_at(url: str) -> dict[str, Any]:
    instance = {
        "kind": "openai", "base_url": f"{url}/v1", "key": None, "any_model": True, "models": [], "concurrency_max": None,
        "max_tokens_field": "max_tokens", "structured": "json_schema", "omit": [],
    }  # fmt: skip
    route = {"provider_id": "slow", "model_id": "m"}
    offline = shipped_snapshot().config.gateway.providers["offline"].model_dump(mode="json")
    # Longer than anything here takes on a busy machine: only the test lets the labels go.
    return {
        "gateway.providers": {"offline": offline, "slow": instance},
        "gateway.default_route": route,
        "ho2.classify_timeout_ms": 120_000,
    }


def test_an_answer_waits_for_no_labels_and_the_next_turn_sees_them_though_its_supervisor_died(
    cluster: Cluster, server: Any
) -> None:
    """The reply stands, each model call is made once, and the intent stands before the next turn begins."""
    may_label, labelled = threading.Event(), list[str]()

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        text = "done"
        if request.method == "POST" and request.json.get("response_format"):
            labelled.append(request.body.decode())
            while not may_label.is_set():
                await asyncio.sleep(0.02)
            text = json.dumps(CLASSIFIED)
        writer.write(completion(text))
        await writer.drain()

    agents = cluster.home.root / "config" / "agents"
    agents.mkdir(parents=True)
    shipped = json.loads((SHIPPED_ROOT / "agents" / "ADMIN.json").read_text())
    (agents / "CLERK.json").write_text(json.dumps(shipped | OWN))
    cluster.up(settings=instance_at(server(behave).url))

    first = cluster.ask("what is installed?", "--agent", "CLERK")
    assert (first["outcome"], first["response"]) == ("success", "done")
    eventually(lambda: labelled)
    before = cluster.kill("ho2/1").instance
    eventually(lambda: cluster.is_up("ho2/1", other_than=before))
    may_label.set()
    second = cluster.ask("and what else?", "--session", first["session_id"])
    assert second["outcome"] == "success"

    entries = [one for one in cluster.entries() if one.provenance.session_id == first["session_id"]]
    of_first = [one for one in entries if one.provenance.run_seq == 1]
    begun = next(one.sequence for one in entries if one.event_type == "RunRequested" and one.provenance.run_seq == 2)
    kinds = [one.event_type for one in of_first if one.sequence < begun]
    assert [kinds.count(kind) for kind in ("RunCompleted", "INTENT_DECLARED", "OrderEnded")] == [1, 1, 2]
    ended = [read_event(one).event for one in of_first if one.event_type == "OrderEnded"]
    assert [one.receipt.state for one in ended] == ["completed", "completed"]
    assert [one.event_type for one in of_first].count("PROMPT_SENT") == 2
    assert sum("what is installed?" in body for body in labelled[:1]) == 1
    assert (
        cluster.ask("what is installed?", "--input-id", first["input_id"], "--session", first["session_id"])["response"]
        == "done"
    )
    told = cluster("why", f"{first['session_id']}-1")
    assert re.search(r"where [0-9,]+ ms went, and [0-9,]+ ms behind the answer", told.out), told
    assert cluster.record_verdict() == "ok"
