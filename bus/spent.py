"""What a turn has cost whose run failed: HO2 says it as a fact of its fault, and the session host adds what came of it.

Pure. A failure has no other place for figures, and one without them still leaves open what was spent.
"""

from __future__ import annotations

from typing import Any

from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.gateway import PromptResponse
from hobus.bus.messages.work_order import Cost

_FACT = "cost"
_WITHOUT_A_WORD = frozenset({"timeout", "peer_lost", "expired"})
"""Ends of a request that leave open what was done for it."""


def make_spent_fact(cost: Cost) -> dict[str, Any]:
    """Return the fact by which a fault says what was spent before it; tools are not named, as facts are bounded."""
    return {_FACT: {name: value for name, value in cost.model_dump().items() if name != "tool_ids_used"}}


def read_spent(fault: RuntimeFault | None) -> Cost:
    """Return what was spent before this fault, as it says; where it says nothing, money is unknown."""
    if fault is None:
        return Cost()
    said = fault.facts.get(_FACT)
    if said is not None:
        return Cost.model_validate(said)
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
