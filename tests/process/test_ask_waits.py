"""`hobus ask` while the broker is away: it goes on trying until --timeout, then says how to ask again."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from bench.cluster import Cluster
from hobus.launch.console import exit_codes

pytestmark = pytest.mark.process

QUESTION = "what packages are installed?"
CLIENT_S = 0.5


def test_a_question_outlives_a_broker_that_is_away(cluster: Cluster):
    """One connection's time-out is not the end of it; at --timeout the input id is named, under which it is answered."""
    patient = {"launcher.stuck_after_ms": 120_000}  # on a busy machine it stands still for longer than usual
    cluster.up(settings={"launcher.client_timeout_ms": round(CLIENT_S * 1000), **patient})
    broker = cluster.row("broker/1").pid
    os.kill(broker, signal.SIGSTOP)
    try:
        early = cluster("ask", "--timeout", "2", "--input-id", "in-1", QUESTION)
        waiting = cluster.start_ask(QUESTION, "--timeout", "30")
        time.sleep(6 * CLIENT_S)
        still_waits = waiting.poll() is None
    finally:
        os.kill(broker, signal.SIGCONT)
    out, err = waiting.communicate(timeout=120)
    assert early.code == exit_codes.UNREACHABLE and "--input-id in-1" in early.err, early.err
    assert still_waits, err.decode()
    assert json.loads(out)["outcome"] == "success", err.decode()
    nothing = cluster("logs", "--turn", "SES-00000000-9")
    assert (nothing.code, nothing.out) == (exit_codes.USAGE, "") and "names turn SES-00000000-9" in nothing.err
    found = cluster("logs", "--turn", f"SES-{json.loads(out)['session_id'][:8]}-1", "--json").out
    assert {"run_started", "turn_answered", "work_order_ended"} <= {json.loads(x)["event"] for x in found.splitlines()}
