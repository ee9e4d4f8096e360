"""One user turn, top to bottom. Every await is a recorded order or the barrier before the reply.

After a crash it runs again from the top, and what the journal holds answers at once (`effects.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.limits import HISTORY_DIGEST_CHARS, MISTAKES_MAX
from hobus.actors.ho2_supervisor.turn import (
    caller_tools,
    chain,
    classification,
    context,
    history,
    intents,
    quality_gate,
    tool_batch,
    turn_record,
    work_orders,
)
from hobus.actors.ho2_supervisor.turn.classification import Classification
from hobus.actors.ho2_supervisor.turn.effects import OpenOrder
from hobus.actors.ho2_supervisor.turn.history import HistoryLimits
from hobus.actors.ho2_supervisor.turn.run import Run
from hobus.actors.ho2_supervisor.turn.shortening import shorten
from hobus.actors.ho2_supervisor.turn.work_orders import OrderContext
from hobus.bus.errors import GATEWAY_REFUSALS, WorkOrderFault
from hobus.bus.messages.given_history import cut_middle, find_own_words, split_stretches
from hobus.bus.messages.ids import BESIDE_CALL_ID, derive_beside_order_id
from hobus.bus.messages.ledger import WriteEntry
from hobus.bus.messages.session import ToolCallSummary, TurnResult
from hobus.bus.messages.transcript import NAME as HISTORY
from hobus.bus.messages.work_order import (
    CUT,
    INSTRUCTIONS,
    Exchange,
    OutputResult,
    Receipt,
    Segment,
    WorkOrder,
)
from hobus.bus.record.text_parts import TextPart
from hobus.config.assets import AgentFile
from hobus.config.model_choice import find_choice_fault, get_named_route
from hobus.config.prompt_contracts import get_contract_id
from hobus.config.schema import AdminConfig

_BUDGETS = frozenset({"BUDGET_EXHAUSTED", "HIERARCHY_EXCEEDED"})
"""Met by a classification they may be those of its order alone: the answer's own order meets what is the session's."""

_STEERED = "The answer above has not been sent: more was said meanwhile. Answer anew, keeping what still holds."


_MISTAKES = frozenset({"tool_invalid_args", "tool_not_found"})
"""Codes of calls that the model itself got wrong; it is told so as their result."""


class Progress(Struct):
    """What the rounds of a turn have brought so far; a failing run reports from it."""

    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    tool_calls: list[ToolCallSummary] = field(default_factory=list[ToolCallSummary])
    tokens_used: int = 0
    parent: str | None = None
    beside: Sequence[Segment] | None = None  # what the message is classified beside, together with the first round
    rejections: int = 0
    mistakes: int = 0  # rounds in a row in which the model got every call wrong
    best: tuple[OutputResult, Sequence[str]] | None = None  # with what is wrong with it
    with_prompt: list[WriteEntry] = field(default_factory=list[WriteEntry])  # leave with the next order of an answer

    def put_back(self, output: OutputResult, note: str) -> None:
        """Make an answer a draft: the next round shows it, and the note that says why it was not sent."""
        draft = output.text.model_copy(update={"name": "draft"})
        self.exchanges.append(Exchange(text=draft, said=[Segment(name="note", text=note)]))

    def say(self, words: Sequence[Segment]) -> None:
        """Show the next round what was said to the run meanwhile, behind all that it was shown before."""
        if words:
            last = self.exchanges.pop() if self.exchanges else Exchange()
            self.exchanges.append(last.model_copy(update={"said": [*last.said, *words]}))


async def take_turn(run: Run, progress: Progress) -> TurnResult:
    """Answer the run's input; RunCompleted is durable when this returns. Raises RuntimeFault: the run has failed."""
    run.begin()
    if run.requested.model and (refused := find_choice_fault(run.requested.model, run.agent, run.config.gateway)):
        raise refused
    inputs = await _begin(run, progress)

    while True:
        _require_round(run, progress)
        receipt = await _synthesize(run, inputs, progress)
        if receipt.state == "failed" and receipt.wo_id in run.memo.given_up:
            continue  # the run failed with it, and goes on since
        if chain.get_failure_code(receipt) == "CONTEXT_TOO_LONG" and shorten(run, inputs, progress.exchanges):
            continue
        output = _require_output(receipt)
        progress.parent = receipt.wo_id
        progress.tokens_used += receipt.cost.total_tokens
        is_handed_out = bool(caller_tools.list_handed_out(output, run.run_config))
        if output.tool_calls and not is_handed_out:
            run.draft.take_back("tools")
            await _call_tools(run, output, progress)
            continue
        faults, rank = (
            quality_gate.find_faults(quality_gate.list_criteria(run.config), output, is_handed_out=is_handed_out),
            quality_gate.rank,
        )
        if is_handed_out or progress.best is None or rank(output, faults) >= rank(*progress.best):
            progress.best = (output, faults)
        may_retry = progress.rejections < run.config.quality_gate.max_retries and _has_room(run, progress)
        if faults and may_retry and output.finish_reason not in CUT:  # the cap is still the same
            run.draft.take_back("rejected")
            progress.rejections += 1
            progress.put_back(output, f"The answer above was not sent, since {'; '.join(faults)}. Answer again.")
        elif await _is_steered(run, progress):
            run.draft.take_back("steered")
            progress.best = None
            if not is_handed_out:
                progress.put_back(output, _STEERED)
        else:
            break

    return await turn_record.record_answer(run, *progress.best, progress.tool_calls)


async def _begin(run: Run, progress: Progress) -> list[Segment]:
    """Return the prompt's inputs that stay the same in every round.

    Of a turn that brings results of calls they are those of the turn that asked; nothing is classified or recalled.
    """
    if run.requested.continues is None:
        inputs, progress.with_prompt = await _understand(run, progress)
        return inputs
    shown, exchanges = await caller_tools.read_continued(run.session, run.requested, run.memo.results)
    progress.exchanges += exchanges
    context.record_again(run, run.requested.continues, shown)
    return shown


async def _is_steered(run: Run, progress: Progress) -> bool:
    """Return whether a finished answer becomes a draft: somebody said something, and a further round is left.

    The last step boundary of the run: one that is to be paused stands still here, before its answer counts.
    """
    if not run.is_round_recorded(run.round_count + 1):
        await run.boundary()
    return run.is_steered and _has_room(run, progress)


async def _understand(run: Run, progress: Progress) -> tuple[list[Segment], list[WriteEntry]]:
    """Return the prompt's inputs (those shown before, as they were) and the entries that leave with the prompt."""
    labels, shown, entries = await context.understand(
        run, _compute_history_limits(run), lambda beside: _classify(run, progress, beside)
    )
    contract = run.resources.snapshot.contracts[get_contract_id(run.agent, "synthesize")]
    is_told = "classification" in contract.input_schema.get("properties", {})  # for packs of one's own
    inputs = [
        Segment(name=INSTRUCTIONS, text=run.agent.system_prompt),
        *shown,
        *([Segment(name="classification", text=labels.as_text())] if is_told else []),
        *_make_asked(run, shown),
    ]
    return inputs, entries


def _make_asked(run: Run, shown: Sequence[Segment]) -> list[Segment]:
    """Return what is to be answered; in a first turn behind what a client told of the conversation so far.

    A run that goes on has that in its recorded history.
    """
    ref, text = run.requested.input_ref, run.input_text
    given = history.list_given(ref, text)
    told = "".join([part.text for part in given])
    known = next((one.text for one in shown if one.name == HISTORY), "")
    if not given or (known and not known.endswith(told)):
        return [Segment(name="user_input", ref=ref, text=text, files=list(run.memo.images))]
    own = split_stretches(text)[-1]
    words = TextPart(ref, text[own.start :], f"{own.start}:{own.end}")
    return [
        *([] if known else run.effects.make_one_segment(HISTORY, given)),
        *(
            one.model_copy(update={"files": list(run.memo.images)})
            for one in run.effects.make_one_segment("user_input", [words])
        ),
    ]


async def _classify(run: Run, progress: Progress, beside: Sequence[Segment]) -> Classification:
    """Return the message's labels, asked for beside this context; empty without a classification, or when it failed.

    A gateway's refusal ends the turn.
    """
    match run.classification:
        case "off":
            labels = Classification()
        case "beside":
            progress.beside = beside
            return Classification()  # nothing that is shown waits for it
        case "before":
            receipt = await run.effects.order(_make_classification(run, await run.new_round(), beside))
            if (code := chain.get_failure_code(receipt)) in GATEWAY_REFUSALS - _BUDGETS:
                raise _make_fault(receipt)
            progress.parent = None if code else receipt.wo_id
            labels = _read_labels(run, receipt)
    intents.settle(run, labels)
    return labels


async def settle(run: Run) -> None:
    """End an answered run's classification, which another drive of it began; the run is over then."""
    run.effects.recall()
    if (order := await run.effects.recorded(derive_beside_order_id(run.run_id))) is not None:
        await _record_classified(run, order)


async def _record_classified(run: Run, order: OpenOrder) -> None:
    """Journal what a classification beside its answer brings, whenever it comes, and then its end.

    So a run that is over with it leaves nothing undone.
    """
    await run.effects.finish(order, lambda receipt: intents.settle(run, _read_labels(run, receipt)))
    session = run.session
    if session.record.run is not run.memo or session.record.state.lifecycle != "Running":
        session.flush()  # else somebody waits for the next write


def _make_classification(run: Run, context: OrderContext, beside: Sequence[Segment], call_id: str = "") -> WorkOrder:
    config, settings = run.config, run.session.record.state.session_config
    provider_id, model_id = get_named_route(
        run.resources.snapshot.choose_model_for(
            run.agent, "classify", request=run.requested.run_overrides, session=settings
        )
    )
    return work_orders.classify(
        context, inputs=[_cut_message(run), *beside], call_id=call_id, provider_id=provider_id,
        model_id=model_id, token_budget=run.agent.budget_tokens("classify", config.budget),
        timeout_seconds=min(run.compute_order_timeout_s(), config.ho2.classify_timeout_ms / 1000),
        headroom_tokens=_estimate_answer(run),
    )  # fmt: skip


def _read_labels(run: Run, receipt: Receipt) -> Classification:
    """Return what a classification says; empty where it failed."""
    parsed = None if receipt.output_result is None else receipt.output_result.parsed
    return classification.read_classification(parsed, run.config.classify_labels, is_first=run.memo.is_first)


def _estimate_answer(run: Run) -> int:
    """Return what the answer's order will reserve at least; without that left, no classification is paid for.

    All that it may use, where the turn before was refused for a budget.
    """
    last = run.session.record.last_run
    if last is not None and last.code in _BUDGETS:
        return run.budget_tokens
    contract = run.resources.snapshot.contracts[get_contract_id(run.agent, "synthesize")]
    cap = min(contract.boundary.max_tokens, run.run_config.max_tokens or contract.boundary.max_tokens)
    told = len(run.input_text) + len(run.agent.system_prompt)
    return min(run.budget_tokens, told // run.config.attention.chars_per_token + cap)


def _cut_message(run: Run) -> Segment:
    """Return the user's message; of one that would fill the classification's budget alone, both ends of it."""
    config = run.config
    tokens = run.agent.budget_tokens("classify", config.budget)
    chars_max = tokens * config.attention.chars_per_token // 2
    if len(run.input_text) <= chars_max:
        return Segment(name="user_input", ref=run.requested.input_ref, text=run.input_text)
    return Segment(name="user_input", text=cut_middle(find_own_words(run.input_text), chars_max))


async def _synthesize(run: Run, inputs: list[Segment], progress: Progress) -> Receipt:
    """Ask the model for one round; in the first, classify the message beside it where the agent says so."""
    step = await run.new_round()
    progress.say(run.heard)
    run.heard = []
    planned = work_orders.synthesize(
        step, inputs=inputs, exchanges=progress.exchanges, run_config=run.run_config,
        token_budget=_compute_round_budget(run, progress.tokens_used), timeout_seconds=run.compute_order_timeout_s(),
        criteria=quality_gate.list_criteria(run.config), parent_wo_id=progress.parent,
    )  # fmt: skip
    beside, progress.beside = progress.beside, None
    aside = None if beside is None else _make_classification(run, step, beside, BESIDE_CALL_ID)
    for entry in progress.with_prompt:  # nothing is awaited or refused until the order is in the same write
        run.session.also(entry)
    progress.with_prompt = []
    if aside is None:
        return await run.effects.order(planned)
    return await run.effects.run_order_beside(planned, aside, partial(_record_classified, run))


async def _call_tools(run: Run, output: OutputResult, progress: Progress) -> None:
    """Settle the calls that the model asked for, as the exchange that the next round shows it."""
    receipts = await tool_batch.settle(
        run, output.tool_calls, invented=output.tools_invented, parent_wo_id=progress.parent or ""
    )
    settled = list(zip(output.tool_calls, receipts, strict=True))
    progress.tool_calls += [chain.summarise_call(call.tool_id, receipt) for call, receipt in settled]
    progress.tokens_used += sum(receipt.cost.total_tokens for receipt in receipts)  # of agents that were called
    results = [chain.render_call_result(call.call_id, receipt) for call, receipt in settled]
    progress.exchanges.append(Exchange(tool_calls=output.tool_calls, results=results, text=output.text))
    is_mistaken = all(chain.get_failure_code(receipt) in _MISTAKES for receipt in receipts)
    progress.mistakes = progress.mistakes + 1 if is_mistaken else 0
    if progress.mistakes > MISTAKES_MAX:
        raise WorkOrderFault("tool_invalid_args", "; ".join(result.text for result in results))


def _require_output(receipt: Receipt) -> OutputResult:
    """Return what the order brought. Raises WorkOrderFault for a failed one: a failure is never dressed up as text."""
    if receipt.state == "failed" or receipt.output_result is None:
        raise _make_fault(receipt)
    return receipt.output_result


def _make_fault(receipt: Receipt) -> WorkOrderFault:
    message = "it brought no output" if receipt.error is None else receipt.error.message
    code = chain.get_failure_code(receipt) or "execution_error"
    # A worker that stops cancels its orders. That is no refusal of the turn, which is what `cancelled` would say.
    return WorkOrderFault("execution_error" if code == "cancelled" else code, message)


def _require_round(run: Run, progress: Progress) -> None:
    """Raise unless turn_limit leaves a round and, after the first, followup_min_remaining tokens are left."""
    budget = run.config.budget
    if run.round_count >= budget.turn_limit:
        raise WorkOrderFault(
            "turn_limit_exceeded", f"run {run.run_id} used {run.round_count} rounds (budget.turn_limit)"
        )
    if _has_budget(run, progress.tokens_used):
        return
    if budget.budget_mode == "enforce":
        raise WorkOrderFault(
            "budget_exhausted",
            f"run {run.run_id} used {progress.tokens_used} of {run.budget_tokens} tokens "
            "(budget.synthesize_budget, or what its agent names instead; budget.followup_min_remaining)",
        )
    if budget.budget_mode == "warn":
        turn_record.warn_of_budget(run, progress.tokens_used)


def _has_room(run: Run, progress: Progress) -> bool:
    """Return whether the round limit and an enforced budget leave a further round."""
    budget = run.config.budget
    is_affordable = budget.budget_mode != "enforce" or _has_budget(run, progress.tokens_used)
    return run.round_count < budget.turn_limit and is_affordable


def _has_budget(run: Run, tokens_used: int) -> bool:
    return tokens_used == 0 or run.budget_tokens - tokens_used >= run.config.budget.followup_min_remaining


def _compute_round_budget(run: Run, tokens_used: int) -> int:
    """Return what a round may use: what is left; the whole budget where running over it is only warned of."""
    left = run.budget_tokens - tokens_used
    return left if left > 0 and _has_budget(run, tokens_used) else run.budget_tokens


def _compute_history_limits(run: Run) -> HistoryLimits:
    """Return the limits of this run's prompts: what its agent may have, and not more than its model can read."""
    own, most = compute_history_limits(run.config, run.agent), run.compute_window_share(limits.HISTORY_OF_WINDOW)
    return own if most is None else replace(own, budget_tokens=min(own.budget_tokens, most))


def compute_history_limits(config: AdminConfig, *agents: AgentFile) -> HistoryLimits:
    """Return how much of the past a prompt of any of these agents may show, from the configuration."""
    tokens = [agent.budget_tokens("history", config.budget) for agent in agents]
    return HistoryLimits(
        budget_tokens=max(tokens, default=config.budget.history_budget),
        turns_max=config.ho2.history_turns_max,
        digest_chars=HISTORY_DIGEST_CHARS,
        chars_per_token=config.attention.chars_per_token,
        known_max=limits.KNOWN_MAX,
    )
