"""What a turn's receipts add up to: cost, prompt records and tool calls. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Literal

from hobus.bus.messages.session import ToolCallSummary
from hobus.bus.messages.work_order import Cost, Receipt, Segment

CallEnd = Literal["Succeeded", "Failed", "Cancelled"]


_COUNTS = (
    "input_tokens", "output_tokens", "total_tokens", "cached_tokens", "reasoning_tokens", "llm_calls", "tool_calls",
)  # fmt: skip
_counts_of = attrgetter(*_COUNTS)


def sum_costs(receipts: Iterable[Receipt], elapsed_ms: int) -> Cost:
    """Add up the receipts' costs; money is unknown as soon as one is. Tools are named once each."""
    costs = [receipt.cost for receipt in receipts]
    usd: float | None = 0.0
    for cost in costs:
        usd = None if usd is None or cost.cost_usd is None else round(usd + cost.cost_usd, 9)
    totals = map(sum, zip(*map(_counts_of, costs), strict=True))  # without receipts none: each is 0 by default
    return Cost(
        **dict(zip(_COUNTS, totals, strict=False)),
        tool_ids_used=list(dict.fromkeys([tool_id for cost in costs for tool_id in cost.tool_ids_used])),
        elapsed_ms=elapsed_ms,
        cost_usd=usd,
    )


def list_prompt_records(receipts: Iterable[Receipt]) -> list[str]:
    """Return the turn's PROMPT_RECEIVED entries in order."""
    return [entry_id for receipt in receipts for entry_id in receipt.prompt_received_ids]


def list_tools_named(receipts: Iterable[Receipt], what: Literal["tools_missing", "tools_withheld"]) -> list[str]:
    """Return the tools that the turn's model calls did without, or that were withheld, each once."""
    outputs = [receipt.output_result for receipt in receipts]
    return list(dict.fromkeys(name for output in outputs if output is not None for name in getattr(output, what)))


def summarise_call(tool_id: str, receipt: Receipt, *, is_stale: bool = False) -> ToolCallSummary:
    """Return what became of a tool call, by its order's receipt."""
    status = "IgnoredStale" if is_stale else call_status(receipt)
    files = [] if receipt.output_result is None else receipt.output_result.text.files
    return ToolCallSummary(tool_id=tool_id, status=status, code=get_failure_code(receipt), files=files)


def call_status(receipt: Receipt) -> CallEnd:
    """Return the terminal status of a tool call, by its order's receipt."""
    if receipt.state == "completed":
        return "Succeeded"
    return "Cancelled" if get_failure_code(receipt) == "cancelled" else "Failed"


def get_failure_code(receipt: Receipt) -> str:
    """Return why an order failed; empty for a completed one."""
    if receipt.state == "completed":
        return ""
    return "execution_error" if receipt.error is None else receipt.error.code


def render_call_result(call_id: str, receipt: Receipt) -> Segment:
    """Return a call's result as the model sees it; a failed call's says so."""
    if receipt.output_result is not None and receipt.state == "completed":
        return receipt.output_result.text.model_copy(update={"name": call_id})
    message = "" if receipt.error is None else receipt.error.message
    return Segment(name=call_id, text=f"error {get_failure_code(receipt)}: {message}")
