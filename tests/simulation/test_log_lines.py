"""What the actors log of a turn: lines that name it, and none of its text."""

from __future__ import annotations

import json

from structlog.testing import capture_logs

from bench.builders import shipped_snapshot
from hobus.launch.logs.lines import make_turn_test, read_line
from tests.simulated import SimulatedCluster

QUESTION = "what packages are installed?"


def test_every_step_of_a_turn_is_logged_under_its_name():
    """`hobus logs --turn` finds the run's start and end and each of its orders by the run, whole or short."""
    with SimulatedCluster(shipped_snapshot()) as cluster, capture_logs() as logs:
        first = cluster.ask(QUESTION, input_id="in-1")
        cluster.ask(QUESTION, input_id="in-2", session_id=first.session_id)
    lines = [read_line(json.dumps(log), actor="", earlier_at=0.0) for log in logs]
    short = f"SES-{first.session_id[:8]}"
    for name in (f"{short}-1", f"{first.session_id}-1"):
        found = [line.record for line in lines if make_turn_test(name)(line)]
        events = [record["event"] for record in found]
        assert events.count("run_started") == events.count("turn_answered") == 1
        assert events.count("work_order_ended") == first.cost.llm_calls + first.cost.tool_calls
        assert {record["turn"] for record in found} == {str(first.run_id)}
    answered = next(log for log in logs if log["event"] == "turn_answered")
    assert (answered["outcome"], answered["rounds"] > 0) == ("success", True)
    assert len([line for line in lines if make_turn_test(short)(line)]) > len(
        [line for line in lines if make_turn_test(name)(line)]
    )
    assert QUESTION not in json.dumps(logs) and first.response not in json.dumps(logs)
