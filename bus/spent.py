"""What a turn has cost and called whose run failed: HO2 says it as facts of its fault, and the session host tells it.

Pure. A failure has no other place for figures, and one without them still leaves open what was spent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.gateway import PromptResponse
from hobus.bus.messages.session import ToolCallSummary
from hobus.bus.messages.work_order import Cost

_FACT, _CALLS, _CALLS_MAX = "cost", "calls", 16  # facts are bounded
IN_DOUBT = "unknown_outcome"
_RAN = (IN_DOUBT, "tool_failed")
_WITHOUT_A_WORD = frozenset({"timeout", "peer_lost", "expired"})
"""Ends of a request that leave open what was done for it."""


def make_spent_facts(cost: Cost, calls: Sequence[ToolCallSummary] = ()) -> dict[str, Any]:
    """Return the facts by which a fault says what was spent before it, and the last tool calls."""
    spent = {name: value for name, value in cost.model_dump().items() if name != "tool_ids_used"}
    return {_FACT: spent, _CALLS: [[one.tool_id, one.status, one.code] for one in calls[-_CALLS_MAX:]]}


def read_calls(fault: RuntimeFault | None) -> list[ToolCallSummary]:
    """Return the tool calls before this fault, as it says."""
    said = [] if fault is None else fault.facts.get(_CALLS, [])
    return [ToolCallSummary(tool_id=tool_id, status=status, code=code) for tool_id, status, code in said]


def with_calls(text: str, fault: RuntimeFault | None, between: str) -> str:
    """Return the text with what a person must know before asking again of the tool calls before this fault."""
    calls, said = read_calls(fault), [text]
    begun, done = (
        ", ".join(dict.fromkeys([one.tool_id for one in calls if what in (one.code, one.status)]))
        for what in (IN_DOUBT, "Succeeded")
    )
    if begun:
        said.append(f"{begun} was begun, and nobody knows how it ended: check that before you ask for it again.")
    if done:
        said.append(f"Called before that, and succeeded: {done}.")
    return between.join(said)


def read_spent(fault: RuntimeFault | None) -> Cost:
    """Return what was spent before this fault, as it says; where it says nothing, money is unknown."""
    if fault is None:
        return Cost()
    said = fault.facts.get(_FACT)
    if said is not None:
        used = [one.tool_id for one in read_calls(fault) if one.status == "Succeeded" or one.code in _RAN]
        return Cost.model_validate({**said, "tool_ids_used": list(dict.fromkeys(used))})
    return Cost(cost_usd=None) if fault.code in _WITHOUT_A_WORD else Cost()


def with_call(cost: Cost, response: PromptResponse | None) -> Cost:
    """Return the cost with that of one more model call, answered or not; None: nobody said that there was one."""
    if response is None:
        return cost
    is_known = cost.cost_usd is not None and response.cost_usd is not None
    return cost.model_copy(
        update={
            "input_tokens": cost.input_tokens + response.input_tokens,
            "output_tokens": cost.output_tokens + response.output_tokens,
            "total_tokens": cost.total_tokens + response.input_tokens + response.output_tokens,
            "cached_tokens": cost.cached_tokens + response.cached_tokens,
            "reasoning_tokens": cost.reasoning_tokens + response.reasoning_tokens,
            "llm_calls": cost.llm_calls + (response.outcome == "SUCCESS"),
            "elapsed_ms": cost.elapsed_ms + response.latency_ms,
            "cost_usd": round((cost.cost_usd or 0.0) + (response.cost_usd or 0.0), 9) if is_known else None,
        }
    )
