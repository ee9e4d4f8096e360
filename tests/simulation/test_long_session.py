"""A conversation of many turns: the agent remembers what was said, and the last turn costs what an early one did."""

from __future__ import annotations

from itertools import pairwise

from hobus.bus.messages.session import TurnResult
from hobus.config.snapshot import Snapshot
from tests.gateway_service.rig import snapshot
from tests.journals import check_record, count_of
from tests.simulated import SimulatedCluster


def converse(made: Snapshot, count: int) -> tuple[list[TurnResult], list[int]]:
    """So many turns of one session; the results, and what each ten of them recorded beside snapshots now and then."""
    results: list[TurnResult] = []
    entries: list[int] = [0]
    with SimulatedCluster(made) as cluster:
        session_id = None
        for number in range(count):
            text = "what did I ask before?" if number % 5 == 4 else f"tell me of topic {number}"
            results.append(cluster.ask(text, input_id=f"in-{number}", session_id=session_id))
            session_id = results[-1].session_id
            if number % 10 == 9:
                recorded = cluster.entries()
                snapshots = count_of(recorded, "STATE_SNAPSHOT") + count_of(recorded, "BUDGET_SNAPSHOT")
                entries.append(len(recorded) - snapshots)
        check_record(cluster.entries())
    return results, [later - earlier for earlier, later in pairwise(entries)]


def check(results: list[TurnResult], entries: list[int], made: Snapshot) -> None:
    """Everything was answered and remembered; no turn recorded or read more than the history's budget explains."""
    assert {result.outcome for result in results} == {"success"}
    for number in range(4, len(results), 5):
        assert f"“tell me of topic {number - 1}”" in results[number].response
    assert len(set(entries[1:])) == 1, "a turn records more than an earlier one"
    tokens = [result.cost.input_tokens for result in results]
    assert max(tokens) <= tokens[0] + made.config.budget.projection_budget + _NEWEST_LINE
    assert min(tokens[-10:]) > tokens[0], "nothing of the past is shown any more"


_NEWEST_LINE = 40
"""What a classification sees of the past."""


def test_many_turns_are_remembered_and_none_costs_more_than_its_history_budget():
    """A small budget is full after a few turns; from then on turns are equal."""
    made = snapshot(budget={"history_budget": 300}, ho2={"history_turns_max": 4})
    results, entries = converse(made, 40)
    check(results, entries, made)
    tokens = [result.cost.input_tokens for result in results]
    assert max(tokens[30:]) <= 1.02 * max(tokens[20:30])
