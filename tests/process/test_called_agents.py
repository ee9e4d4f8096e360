"""An agent that another calls, on real processes: whoever is killed meanwhile, no model is asked twice."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from bench.cluster import cluster, eventually
from hobus.bus.messages.ids import derive_called_session
from hobus.launch.app.agent import Agent
from hobus.launch.console import exit_codes
from tests.journals import check_record

pytestmark = pytest.mark.process

DESK = Agent("desk", "You book rooms.", tools=["list_tools"])
CLERK = Agent("clerk", "You ask the desk.", tools=[DESK])
FILES = [one.to_files()[f"agents/{one.agent_id}.json"] for one in (CLERK, DESK)]
SLOW = {"gateway.providers.offline.latency_ms": 1500, "ho1.count": 1, "ho2.count": 1, "ho2.classify": False}
TASK = "use DESK for use list_tools {}"


def test_a_kill_in_the_middle_of_the_called_turn_asks_no_model_twice() -> None:
    """The answer is there, each agent's model was asked as often as without it, and `hobus why` names both turns."""
    with cluster(SLOW, agents=FILES) as up:
        for killed in ("ho1/1", "ho2/1"):
            before = len(up.entries("PROMPT_SENT"))
            asked = up.start_ask(TASK, "--agent", "CLERK", "--timeout", "100")
            eventually(lambda n=before: any(e.provenance.agent_id == "DESK" for e in up.entries("PROMPT_SENT")[n:]))
            up.kill(killed)
            out, _ = asked.communicate(timeout=150)
            result = json.loads(out)
            assert (asked.returncode, result["outcome"]) == (exit_codes.OK, "success"), result
            assert result["response"].startswith("DESK: ") and "tools are available" in result["response"]
            sent = up.entries("PROMPT_SENT")[before:]
            assert Counter(one.provenance.agent_id for one in sent) == {"CLERK": 2, "DESK": 2}, killed
        outer = f"{result['session_id']}-1"
        inner = f"{derive_called_session(f'WO-{outer}.1.2.001')}-1"
        assert up("why", "--json", outer).json["calls"] == [inner]
        assert up("why", "--json", inner).json["called_by"] == outer
        assert (
            f"which answered in turn {inner}" in up("why", outer).out and f"turn {outer} called" in up("why", inner).out
        )
        check_record(up.entries())
        up.verify()
