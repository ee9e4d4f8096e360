"""Ends of a run that are refusals on purpose: the user is told, nobody degrades. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hobus.actors.ho2_supervisor.turn import chain
from hobus.bus.messages.ids import RunId
from hobus.bus.messages.session import HeldCall, ToolCallSummary, TurnResult
from hobus.bus.messages.work_order import Receipt

SENTENCES: Mapping[str, str] = {
    "BUDGET_EXHAUSTED": "This would exceed the token budget.",
    "HIERARCHY_EXCEEDED": "This would exceed a budget above this session.",
    "TURN_LIMIT": "This turn reached the limit of model calls.",
    "NOT_ALLOCATED": "No budget is allocated for this.",
    "FORBIDDEN": "This agent may not use that provider or model.",
    "AUTH_ERROR": "The gateway did not accept the caller.",
    "PROVIDER_NOT_FOUND": "There is no such provider of models.",
    "MODEL_NOT_FOUND": "There is no such model.",
    "PROVIDER_UNUSABLE": "The provider of the model cannot be used.",
    "PROVIDER_REFUSED": "The provider of the model refused.",
    "budget_exhausted": "The token budget of this turn is spent.",
    "turn_limit_exceeded": "This turn reached the limit of model rounds (budget.turn_limit).",
    "tool_name_taken": "A tool of yours has the name of one of the agent's own; give it another name.",
    "format_not_met": "The model's answer does not have the form that was asked for.",
    "answer_cut": "The model gave no answer.",
    "tool_invalid_args": "The model does not get its calls of tools right.",
    "MODEL_UNFIT": "The model cannot take what was asked of it.",
    "CONTEXT_TOO_LONG": "The conversation is longer than the model can read.",
    "cancelled": "The turn was cancelled.",
}
"""Verdict code -> the one sentence that the user reads."""


_ALONE = frozenset({"AUTH_ERROR", "TURN_LIMIT", "turn_limit_exceeded"})
"""Codes whose sentence says all; of the others the fault says who refused, what does not fit where, and the fix."""


def is_verdict(code: str) -> bool:
    """Return whether a run that ends with this code was answered by that (and not left to degradation)."""
    return code in SENTENCES


def make_verdict_result(  # noqa: PLR0913 - the facts of a TurnResult
    code: str,
    *,
    session_id: str,
    run_id: RunId | None,
    input_id: str,
    receipts: Sequence[Receipt] = (),
    elapsed_ms: int = 0,
    tool_calls: Sequence[ToolCallSummary] = (),
    detail: str = "",
) -> TurnResult:
    """Return the answer that a verdict is; a budget's has the figures, a provider's who refused, and the fix."""
    said = f"{SENTENCES[code][:-1]}: {detail.rstrip('.')}." if detail and code not in _ALONE else SENTENCES[code]
    return TurnResult(
        response=said,
        outcome="error",
        session_id=session_id,
        run_id=run_id,
        input_id=input_id,
        tool_calls=list(tool_calls),
        exchange_entry_ids=chain.list_prompt_records(receipts),
        cost=chain.sum_costs(receipts, elapsed_ms),
        elapsed_ms=elapsed_ms,
        code=code,
    )


WAITING = "run_waiting"
"""The code of an error that ends nothing: the run goes on when an operator says so."""


def make_held_up(
    session_id: str, run_id: RunId | None, input_id: str, standstill: str | None, held: Sequence[HeldCall]
) -> TurnResult:
    """Return what a client is told whose time is over while the run stands still; no verdict."""
    session = f"SES-{session_id[:8]}"
    calls = ", ".join(f"{call.call_id} ({call.tool_id})" for call in held)
    sentences = {
        "Paused": f"The turn is paused; `hobus session resume {session}` lets it go on.",
        "WaitingInput": f"The turn waits for an approval of {calls}: `hobus session approve {session} <call>`.",
    }
    sentence = sentences.get(standstill or "", "The turn was held up and is at work again.")
    said = f"{sentence} Ask again under the same input id for its answer."
    return TurnResult(
        response=said, outcome="error", session_id=session_id, run_id=run_id, input_id=input_id, code=WAITING
    )
