"""A client that waits while the cluster takes no further turn."""

from __future__ import annotations

import pytest

from hobus.bus.dispatch import Actor, Call
from hobus.bus.messages.ids import derive_session_id
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.launch.sessions.turns import process_turn
from tests.conformance.clusters import SimCluster, bus_settings


class Host(Actor):
    """Refuses twice, each time for four seconds, then answers."""

    service = "host"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def on_turn(self, message: ProcessTurn, _call: Call) -> TurnResult:
        self.asked.append(message.input_id)
        is_busy = len(self.asked) < 3
        return TurnResult(
            response="busy" if is_busy else "yes", outcome="error" if is_busy else "success", run_id=None,
            session_id=derive_session_id("door", message.input_id), input_id=message.input_id,
            code="busy" if is_busy else None, retry_after_ms=4000 if is_busy else None,
        )  # fmt: skip


@pytest.mark.parametrize(("timeout_s", "says", "pauses"), [(30.0, "yes", [4.0, 4.0]), (5.0, "busy", [4.0])])
def test_it_asks_again_as_soon_as_it_may_under_the_same_input_and_not_beyond_its_time(timeout_s, says, pauses):
    """It is told of each pause; where its time ends before, the refusal is the answer."""
    cluster, told = SimCluster(bus_settings()), list[float]()
    host = Host()
    cluster.run(cluster.start(host, role="host"))
    door = cluster.run(cluster.start(None, role="door"))
    turn = ProcessTurn(input_id="i1", text="hello")
    result = cluster.run(process_turn(door, turn, timeout_s=timeout_s, when_busy=told.append))
    assert set(host.asked) == {"i1"}
    assert result.response == says
    assert told == pauses
    cluster.close()
