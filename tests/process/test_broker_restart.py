"""SIGKILL of the broker while work is under way: what was announced to the next one is attached there, not done again."""

from __future__ import annotations

import json
import os
import signal

import psutil
import pytest

from bench.cluster import Cluster, eventually
from hobus.bus.record.journal import event_in
from hobus.launch.process.failpoint import VARIABLE
from tests.journals import check_record

pytestmark = pytest.mark.process

QUESTION = "what did this session cost?"
ORDERS = 4  # classify, synthesize, one tool call, synthesize


def test_a_model_order_at_work_is_not_executed_again(cluster: Cluster):
    """The broker dies while the model thinks: each order reaches a worker once, and each of its prompts a provider."""
    cluster.up(settings={"gateway.providers.offline.latency_ms": 600})
    asked = cluster.start_ask(QUESTION, "--input-id", "in-1")
    eventually(lambda: cluster.entries("PROMPT_SENT"))
    cluster.kill("broker/1")
    _nothing_was_done_twice(cluster, *asked.communicate(timeout=120))


def test_a_tool_order_at_work_is_not_executed_again(cluster: Cluster):
    """The broker dies while the tool runs: the tool goes on in the new broker's time and is not started again."""
    cluster.env[VARIABLE] = "ho1/1:STOP:before-send:gateway.read_budget:1"
    cluster.up()
    asked = cluster.start_ask(QUESTION, "--input-id", "in-1")
    pid = cluster.row("ho1/1").pid
    eventually(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    cluster.kill("broker/1")
    os.kill(pid, signal.SIGCONT)
    _nothing_was_done_twice(cluster, *asked.communicate(timeout=120))


def _nothing_was_done_twice(cluster: Cluster, out: bytes, err: bytes) -> None:
    """A success, by the executor that had the work, which took up each order once."""
    result = json.loads(out)
    assert result["outcome"] == "success", err
    eventually(lambda: cluster.is_up("broker/1"))
    peers = cluster("request", "broker", "broker.read_peers").json["peers"]
    executor = next(peer for peer in peers if peer["role"] == "ho1")
    entries = cluster.entries()
    ended = [event_in(entry).event.receipt for entry in entries if entry.event_type == "OrderEnded"]
    assert [receipt["executed_by"] for receipt in ended] == [executor["instance"]] * ORDERS
    # One that answers before its supervisor is back is asked again, and its window answers: a duplicate, no second run.
    assert executor["counters"]["inbox_handled"] == ORDERS
    assert sum(entry.event_type == "TOOL_STARTED" for entry in entries) == 1
    assert sum(entry.event_type == "PROMPT_SENT" for entry in entries) == ORDERS - 1
    assert {row.actor for row in cluster.run().children if row.restarts} == {"broker/1"}
    check_record(entries)
    cluster.verify()
