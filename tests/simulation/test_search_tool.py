"""The tool that searches what was said, called through a whole simulated cluster."""

from __future__ import annotations

import asyncio
import json

from tests.actors.ho2_supervisor.rig import snapshot
from tests.simulated import SimulatedCluster

NEEDLE = "By the way: the spare key of the boathouse lies under the third flowerpot."
CALL = 'use search {"words": "flowerpot boathouse", "limit": 5}'


def test_a_session_is_searched_for_its_own_words_alone() -> None:
    """What was said in another one is not found, by no word."""
    with SimulatedCluster(snapshot()) as cluster:
        session_id = cluster.ask(NEEDLE, input_id="in-1").session_id
        cluster.world.run(asyncio.sleep(1))
        cluster.ask(CALL, input_id="in-2", session_id=session_id)
        cluster.ask(CALL, input_id="in-3")
        ends = [one for one in cluster.entries() if one.event_type == "OrderEnded" and one.submission_id.count(".") > 2]
        found = [json.loads((one.bodies[1] or b"").decode()) for one in ends]
    assert [NEEDLE in json.dumps(one["found"]) for one in found] == [True, False]
    assert all(0 < one["score"] <= 1 and one["sequence"] for one in found[0]["found"])
