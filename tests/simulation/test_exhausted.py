"""A session whose budget is spent refuses for free: no model is asked for what cannot be answered."""

from __future__ import annotations

import pytest

from tests.actors.ho2_supervisor.rig import snapshot
from tests.simulated import SimulatedCluster


@pytest.mark.parametrize(
    ("limit", "paid"), [(("session_token_limit", 4_500), 0), (("agent_token_limit", 4_500), 0),
                        (("session_token_limit", 5_600), 1)],
)  # fmt: skip
def test_an_exhausted_budget_pays_for_no_classification(limit: tuple[str, int], paid: int) -> None:
    """Nothing where an answer cannot fit; where that shows only once its prompt is made, one classification in all."""
    config = snapshot(("budget.budget_mode", "enforce"), (f"budget.{limit[0]}", limit[1]))
    with SimulatedCluster(config) as cluster:
        session_id, calls = None, 0
        for number in range(4):
            refused = cluster.ask("hello", input_id=f"in-{number}", session_id=session_id)
            assert refused.code in ("BUDGET_EXHAUSTED", "HIERARCHY_EXCEEDED"), refused
            session_id, calls = refused.session_id, calls + refused.cost.llm_calls
        assert calls == paid
