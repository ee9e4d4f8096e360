"""An attention template that somebody asks for by name, over every way in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.cluster import Cluster
from hobus import Client, ClusterClient, ClusterError, HttpError
from hobus.bus.record.payload import unpack_payload
from hobus.bus.record.payloads.orders import ContextAssembled
from hobus.launch.console import exit_codes

pytestmark = pytest.mark.process

QUESTION = "what packages are installed?"
MOMENT = {"stage": "moment", "type": "custom", "config": {"handler": "moment"}}


def template(directory: Path, template_id: str, **applies_to: Any) -> None:
    """A file of a home: a context that says when the message was sent, and nothing else."""
    value = {
        "template_id": template_id, "version": "1.0.0", "title": "of a test", "applies_to": applies_to, "pipeline": [MOMENT],
        "budget": {"max_context_tokens": 500, "max_queries": 1, "timeout_ms": 1000},
        "fallback": {"on_timeout": "return_partial", "on_empty": "proceed_empty"},
    }  # fmt: skip
    file = directory / "attention" / f"{template_id}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))


def chosen(cluster: Cluster) -> list[tuple[str, str]]:
    """By which template each turn's context was filled, and why; consolidations come whenever they come."""
    found = [unpack_payload(ContextAssembled, entry.bodies[0] or b"") for entry in cluster.entries("CONTEXT_ASSEMBLED")]
    return [(one.template_id, one.chosen_by) for one in found if one.template_id != "ATT-CONSOLIDATE-001"]


def test_a_template_is_asked_for_by_name_over_every_way_in(cluster: Cluster) -> None:
    """`ask` and `chat`, HTTP, the bus; of a first message it stays the session's; what cannot be is refused unrecorded."""
    config = cluster.home.root / "config"
    template(
        config, "ATT-MOMENT-001", agent_class=["ADMIN"], framework_id=["FMWK-107"], tier=["ho1"]
    )  # not ADMIN's tier
    template(config, "ATT-PLAIN-001", tier=["hot"])  # less specific than the shipped one
    cluster.up("--http", "127.0.0.1:0")
    named, shipped = ("ATT-PLAIN-001", "override"), ("ATT-ADMIN-001", "selectors")

    session_id = cluster.ask(QUESTION, "--template", "ATT-PLAIN-001")["session_id"]
    cluster.ask(QUESTION, "--session", session_id)
    assert chosen(cluster) == [named, named]  # the session's from then on
    other = cluster.ask(QUESTION)["session_id"]
    cluster.ask(QUESTION, "--session", other, "--template", "ATT-PLAIN-001")
    cluster.ask(QUESTION, "--session", other)
    assert chosen(cluster)[2:] == [shipped, named, shipped]
    told = cluster("why", f"SES-{other[:8]}-2")
    assert "context of the answer by ATT-PLAIN-001 1.0.0, asked for by name" in told.out, told
    piped = cluster("chat", "--template", "ATT-PLAIN-001", stdin=b"hello\nand bye\n")
    assert piped.code == 0 and chosen(cluster)[5:] == [named, named]

    with ClusterClient(cluster.home.root) as bus:
        bus.ask(QUESTION, template="ATT-PLAIN-001")
        assert chosen(cluster)[-1] == named
        count = len(cluster.entries("SESSION_START"))
        with pytest.raises(ClusterError, match="there are ATT-ADMIN-001") as no:
            bus.ask(QUESTION, template="ATT-NONE-001")
        assert no.value.code == "invalid_input"
    key = cluster("token create", "--role", "http", "--name", "app").out.strip()
    with Client(f"http://{cluster.home.bound(http=True)}", key, timeout_s=30) as http:
        http.ask(QUESTION, template="ATT-PLAIN-001")
        assert chosen(cluster)[-1] == named
        begun = http.start()
        before = len(cluster.entries("RunRequested"))
        with pytest.raises(HttpError) as refused:
            http.ask(QUESTION, session_id=begun, template="ATT-NONE-001")
        assert refused.value.status == 400 and "there are ATT-ADMIN-001" in str(refused.value)
    refused_here = cluster("ask", "--template", "ATT-NONE-001", QUESTION)
    assert refused_here.code == exit_codes.USAGE and "there are ATT-ADMIN-001" in refused_here.err, refused_here
    assert cluster("chat", "--template", "ATT-NONE-001", stdin=b"hello\n").code == exit_codes.USAGE
    assert len(cluster.entries("RunRequested")) == before
    assert len(cluster.entries("SESSION_START")) == count + 2  # the two that a program began over HTTP

    against = cluster("ask", "--template", "ATT-MOMENT-001", QUESTION)
    assert against.code == 0 and "ATT-MOMENT-001 was named" in against.err, against
    assert ("ATT-MOMENT-001", "override") in chosen(cluster)

    (config / "attention" / "ATT-PLAIN-001.json").unlink()
    assert cluster("reload").code == 0
    said = cluster("ask", "--session", session_id, QUESTION)
    gone = "there is no attention template 'ATT-PLAIN-001'"
    assert said.code == 0 and f"its attention template: {gone}" in said.err, said
    assert gone in cluster.ask(QUESTION, "--session", session_id)["template_fault"]
    cluster.verify()
