"""How a turn ends in the record: the answer with its judgement, or the verdict; durable before the reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import structlog

from hobus.actors.ho2_supervisor.ownership.owner import OwnedSession
from hobus.actors.ho2_supervisor.session_end import end_with_call
from hobus.actors.ho2_supervisor.turn import caller_tools, chain
from hobus.actors.ho2_supervisor.turn.run import Run
from hobus.actors.ho2_supervisor.turn.verdicts import make_verdict_result
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ids import derive_body_ref, derive_completed_id, derive_turn_key, is_beside
from hobus.bus.messages.session import ToolCallSummary, TurnResult
from hobus.bus.messages.work_order import CUT, REFUSAL, OutputResult
from hobus.bus.record.journal import pack_result
from hobus.bus.record.payloads.orders import Escalation, RunBudget
from hobus.bus.record.session_facts import OpenCalls, RunCompleted, RunFailed
from hobus.bus.spent import make_spent_facts

_log = structlog.get_logger("ho2_supervisor")


def _count_over_budget(run: Run) -> int:
    """Return the session's tokens beyond its budget, which mode warn allows."""
    budget = run.config.budget
    over = run.session.record.total_tokens - run.agent.budget_tokens("session", budget)
    return max(0, over) if budget.budget_mode == "warn" else 0


async def record_answer(
    run: Run, answer: OutputResult, faults: Sequence[str], tool_calls: Sequence[ToolCallSummary]
) -> TurnResult:
    """Make the turn's result durable: RunCompleted, and in the same write what explains it.

    With memory on, the result names the signals that may be consolidated now, as CONSOLIDATION_DUE has them. Of a run
    that is answered and not over it names what its orders have brought so far, and nothing is learned yet.
    """
    session = run.session
    answered_by = next((wo_id for wo_id in reversed(run.effects.receipts) if not is_beside(wo_id)), "")
    receipts, elapsed_ms = list(run.effects.receipts.values()), run.elapsed_ms
    own = [receipt for wo_id, receipt in run.effects.receipts.items() if not is_beside(wo_id)]  # who comes first or not
    handed_out = caller_tools.as_told(caller_tools.list_handed_out(answer, run.run_config), run.run_id, run.round_count)
    result = TurnResult(
        response=answer.text.text, outcome="success", session_id=session.session_id, run_id=run.run_id,
        input_id=run.requested.input_id, tool_calls=list(tool_calls), caller_calls=handed_out,
        refused=run.run_config.output_schema is not None and answer.finish_reason == REFUSAL,
        cut=answer.finish_reason if answer.finish_reason in CUT else "",
        tools_missing=chain.list_tools_named(receipts, "tools_missing"),
        tools_withheld=chain.list_tools_named(receipts, "tools_withheld"),
        exchange_entry_ids=chain.list_prompt_records(receipts),
        template_fault=run.template_fault, over_budget=_count_over_budget(run), quality_gate_passed=not faults,
        remembered=session.untold, cost=chain.sum_costs(own, elapsed_ms), elapsed_ms=elapsed_ms,
    )  # fmt: skip
    completion_id = derive_completed_id(run.run_id)
    has_own_text = bool(handed_out) or not answer.text.ref
    words = caller_tools.render_reply(answer.text.text, handed_out)
    run.session.append(
        RunCompleted(
            input_id=run.requested.input_id,
            result_ref=derive_body_ref(completion_id, 1),
            reply_ref=derive_body_ref(completion_id, 2) if has_own_text else answer.text.ref or "",
            open_calls=OpenCalls(wo_id=answered_by, call_ids=[call.tool_call_id for call in handed_out])
            if handed_out
            else None,
            faults=list(faults),
            steers_unobserved=session.record.state.pending_steer,
            at=run.session.now(),
        ),
        bodies=[pack_result(result), *([words.encode()] if has_own_text else [])],
        once=derive_turn_key(run.session.session_id, run.requested.input_id),
        trace=run.trace,
        result=result,
    )
    if faults:
        payload, parents = Escalation(answered_by, tuple(faults)), [completion_id]
        session.also(run.make_entry("ESCALATION", payload, decision="ESCALATED", parents=parents))
    end_with_call(session, run.requested, trace=run.trace, is_errand=run.is_errand)
    if run.learning is None or session.record.state.is_answered:
        await session.barrier()
    if run.learning is None or session.record.state.is_answered:
        return result
    learned = await run.learning.persist_and_learn(session, trace=run.trace)
    return result.model_copy(
        update={
            "consolidation_candidates": list(learned.candidates),
            "remembered": learned.remembered or result.remembered,
        }
    )


async def record_verdict(run: Run, fault: RuntimeFault, tool_calls: Sequence[ToolCallSummary]) -> TurnResult:
    """Record a verdict as the input's one answer: RunFailed is durable before the reply."""
    result = make_verdict_result(
        fault.code, session_id=run.session.session_id, run_id=run.run_id, input_id=run.requested.input_id,
        receipts=list(run.effects.receipts.values()), elapsed_ms=run.elapsed_ms, tool_calls=tool_calls,
        detail=fault.detail,
    )  # fmt: skip
    once = derive_turn_key(run.session.session_id, result.input_id)
    _append_failed(run.session, result.input_id, fault.code, pack_result(result), trace=run.trace, once=once)
    learning = run.learning
    await (run.session.barrier() if learning is None else learning.persist_and_learn(run.session, trace=run.trace))
    return result


def record_failure(session: OwnedSession, input_id: str, fault: RuntimeFault, *, trace: str) -> None:
    """Record RunFailed, and why, with the next barrier. The input has no answer by that: the host may give one."""
    turn_id = "" if session.record.run is None else str(session.record.run.run_id)
    _log.warning("run_failed", turn=turn_id, input_id=input_id, code=fault.code)
    _append_failed(session, input_id, fault.code, fault.detail.encode(), trace=trace)


def _append_failed(  # noqa: PLR0913 - what the event says, and whether it is the input's answer
    session: OwnedSession, input_id: str, code: str, detail: bytes, *, trace: str, once: str | None = None
) -> None:
    detail_ref = derive_body_ref(session.new_id("RunFailed"), 1)
    event = RunFailed(input_id=input_id, code=code, detail_ref=detail_ref, at=session.now())
    requested = session.record.run and session.record.run.requested
    session.append(event, bodies=[detail], once=once, trace=trace)
    if requested is not None:
        end_with_call(session, requested, trace=trace)


async def sum_spent(run: Run | None) -> dict[str, Any]:
    """Return what a failed run has cost and called so far, as facts of its fault: whoever degrades tells that.

    An order that was sent and has no receipt may have cost something: money is unknown then.
    """
    if run is None:
        return {}
    cost = chain.sum_costs(run.effects.receipts.values(), run.elapsed_ms)
    known = cost.model_copy(update={"cost_usd": None}) if run.effects.has_open_model_calls else cost
    return make_spent_facts(known, await run.effects.list_calls())


def warn_of_budget(run: Run, tokens_used: int) -> None:
    """Record BUDGET_WARNING once per round: the next round runs over the turn's budget, which mode warn allows."""
    if run.is_round_recorded(run.round_count + 1):
        return
    payload = RunBudget(tokens_used, run.budget_tokens)
    run.session.also(run.make_entry("BUDGET_WARNING", payload, reason="followup_min_remaining"))
