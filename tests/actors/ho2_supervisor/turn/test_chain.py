"""What receipts add up to."""

from __future__ import annotations

from hobus.actors.ho2_supervisor.turn.chain import call_status, get_failure_code, sum_costs, summarise_call
from hobus.bus.messages.work_order import Cost, Receipt, ToolCall, WorkOrderError
from tests.actors.ho2_supervisor.journals import at
from tests.actors.ho2_supervisor.rig import receipt_of
from tests.actors.ho2_supervisor.turn.test_work_orders import synthesized, tool_order


def costing(usd: float | None, *tools: str) -> Receipt:
    """A receipt with this cost."""
    cost = Cost(
        input_tokens=2, output_tokens=3, total_tokens=5, llm_calls=1, tool_calls=len(tools), tool_ids_used=list(tools),
        cost_usd=usd,
    )  # fmt: skip
    return receipt_of(synthesized(), "said", at()).model_copy(update={"cost": cost})


def test_costs_are_summed_and_tools_named_once() -> None:
    """Every count is the sum; tools in the order of their first use."""
    total = sum_costs([costing(0.1, "b", "a"), costing(0.2, "a")], 7)
    assert total == Cost(
        input_tokens=4, output_tokens=6, total_tokens=10, llm_calls=2, tool_calls=3, tool_ids_used=["b", "a"],
        elapsed_ms=7, cost_usd=0.3,
    )  # fmt: skip


def test_one_unknown_price_makes_the_sum_unknown() -> None:
    """Unknown is not zero, wherever it stands."""
    assert sum_costs([costing(None), costing(0.2)], 0).cost_usd is None
    assert sum_costs([costing(0.2), costing(None)], 0).cost_usd is None
    assert sum_costs([], 0).cost_usd == 0.0


def test_tool_calls_end_succeeded_failed_or_cancelled() -> None:
    """A receipt says how its call ended."""
    call = ToolCall(call_id="001", tool_id="list_tools", arguments={})
    done = receipt_of(tool_order(), "x", at())
    failed = receipt_of(tool_order(), WorkOrderError(code="tool_failed", message="m"), at())
    cancelled = receipt_of(tool_order(), WorkOrderError(code="cancelled", message="m"), at())
    assert [call_status(receipt) for receipt in (done, failed, cancelled)] == ["Succeeded", "Failed", "Cancelled"]
    assert [get_failure_code(receipt) for receipt in (done, failed, cancelled)] == ["", "tool_failed", "cancelled"]
    summary = [summarise_call(call.tool_id, receipt) for receipt in (done, failed)]
    assert [(one.tool_id, one.status, one.code) for one in summary] == [
        ("list_tools", "Succeeded", ""), ("list_tools", "Failed", "tool_failed"),
    ]  # fmt: skip
