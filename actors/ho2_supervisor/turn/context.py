"""A turn's context: assembled once by the template of its agent, recorded before a prompt shows it.

Driven again after a crash, a turn shows the context that its recorded order holds, and asks nobody anew. An assembly
that fails is no end of a turn: it goes on with what there is, and its record says so.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import replace
from typing import Any

from hobus.actors.ho2_supervisor.attention.context import AssembledContext, AttentionRequest, Fragment, parts_of
from hobus.actors.ho2_supervisor.attention.engine import AssemblyFailed
from hobus.actors.ho2_supervisor.attention.pipeline import Room, Sources
from hobus.actors.ho2_supervisor.attention.sources import own_sources
from hobus.actors.ho2_supervisor.learning.learning import Recalled, beside
from hobus.actors.ho2_supervisor.turn import history, recall, work_orders
from hobus.actors.ho2_supervisor.turn.classification import Classification
from hobus.actors.ho2_supervisor.turn.history import HistoryLimits
from hobus.actors.ho2_supervisor.turn.lookups import lookups
from hobus.actors.ho2_supervisor.turn.run import Run
from hobus.actors.ho2_supervisor.turn.text_parts import TextPart
from hobus.bus.messages.ids import requested_id
from hobus.bus.messages.work_order import Segment
from hobus.bus.record.payloads.orders import ContextAssembled, FragmentTrace, StageTrace
from hobus.config.attention_rules import tokens_of
from hobus.config.attention_template import OfTurn, Template

OTHER = "assembled_context"
"""What prompt packs call all but memory and history."""
_NAMES = (recall.SEGMENT, history.NAME, OTHER)


async def understood(
    run: Run, limits: HistoryLimits, classify: Callable[[], Coroutine[Any, Any, Classification]]
) -> tuple[Classification, list[Segment]]:
    """The message's labels, and the context of its prompts; memory is read while the message is classified."""
    recorded = await _recorded(run)
    if recorded is not None:
        return await classify(), recorded
    request = _request_of(run)
    template = run.resources.attention.template_for(request)
    found = Recalled()
    if run.learning is not None and _has_memory(template):
        recalled = run.learning.recall(
            run.agent.agent_id, run.session.session_id, as_of_ts=run.requested.at, trace=run.trace
        )
        labels, found = await beside(classify(), recalled)
    else:
        labels = await classify()
    context = await _assembled(run, request, template, _sources(run, request, limits, labels, found))
    _record(run, context, labels, found)
    return labels, segments_of(run, context)


async def _recorded(run: Run) -> list[Segment] | None:
    """The context that an earlier drive of this run showed; None if it had sent no prompt yet."""
    recorded = await run.effects.recorded_inputs(run.answer_order_id)
    return None if recorded is None else [segment for segment in recorded if segment.name in _NAMES]


def segments_of(run: Run, context: AssembledContext) -> list[Segment]:
    """The context as a prompt's inputs, what changes least from turn to turn first."""
    return [
        *recall.segments(context.of("memory")),
        *run.effects.one_segment(history.NAME, parts_of(context.of("history"))),
        *run.effects.one_segment(OTHER, parts_of(_others(context))),
    ]


def _request_of(run: Run) -> AttentionRequest:
    return AttentionRequest(
        agent=run.agent,
        contract=run.resources.snapshot.contracts[work_orders.SYNTHESIZE_CONTRACT],
        session_id=run.session.session_id,
        work_order_id=run.answer_order_id,
        at=run.requested.at,
        user_input=run.input_text,
    )


def _has_memory(template: Template | None) -> bool:
    return template is not None and any(stage.type == "memory" and stage.enabled for stage in template.pipeline)


async def _assembled(
    run: Run, request: AttentionRequest, template: Template | None, sources: Sources
) -> AssembledContext:
    try:
        return await run.resources.attention.assemble(request, template, sources)
    except AssemblyFailed as failed:
        return replace(failed.tried, fragments=())


# --- what the turn itself has -----------------------------------------------------------------------------------------


def _sources(
    run: Run, request: AttentionRequest, limits: HistoryLimits, labels: Classification, found: Recalled
) -> Sources:
    budget = run.config.budget

    async def said(config: OfTurn, room: Room) -> AsyncGenerator[Fragment, None]:
        tokens = limits.budget_tokens if config.max_tokens is None else tokens_of(config.max_tokens, budget)
        within = replace(limits, budget_tokens=min(tokens, room.account.tokens_left))
        for one in history.shown(run.history, within):
            yield Fragment("history", one.source_id, one.parts)

    async def learned(config: OfTurn, room: Room) -> AsyncGenerator[Fragment, None]:
        tokens = budget.ho3_bias_budget if config.max_tokens is None else tokens_of(config.max_tokens, budget)
        for artifact in recall.chosen(run, labels, found, tokens):
            fragment = Fragment("memory", artifact.artifact_id, (TextPart(None, artifact.context_line),))
            if fragment.chars <= room.account.chars_left:
                yield fragment

    own = own_sources(
        request, run.resources.snapshot, run.resources.client, entries_max=run.config.ledger.read_entries_max
    )
    shown = {run.requested.input_ref, *(ref for turn in run.history.turns for ref in (turn.input_ref, turn.reply_ref))}
    return own | lookups(run, request, frozenset(shown)) | {"history": said, "memory": learned}


def _others(context: AssembledContext) -> list[Fragment]:
    return [fragment for fragment in context.fragments if fragment.source not in ("memory", "history")]


# --- its record -------------------------------------------------------------------------------------------------------


def _record(run: Run, context: AssembledContext, labels: Classification, found: Recalled) -> None:
    """CONTEXT_ASSEMBLED leaves before the prompt does."""
    lines = context.of("memory")
    cpt = run.config.attention.chars_per_token
    payload = ContextAssembled(
        as_of_ts=run.requested.at if found.as_of is None else found.as_of.as_of_ts,
        as_of_seq=None if found.as_of is None else found.as_of.as_of_seq,
        in_force=len(found.biases),
        budget=run.config.budget.ho3_bias_budget,
        tokens_used=sum(len(line.content) // cpt for line in lines),
        artifact_ids=tuple(line.source_id for line in lines),
        domain_labels=labels.domain,
        task_labels=labels.task,
        template_id=context.template_id,
        template_version=context.template_version,
        template_hash=context.template_hash,
        context_hash=context.context_hash,
        max_context_tokens=context.max_context_tokens,
        tokens_assembled=context.budget_used.tokens_assembled,
        queries_executed=context.budget_used.queries_executed,
        elapsed_ms=context.budget_used.elapsed_ms,
        stopped_by=context.stopped_by,
        stages=tuple(StageTrace(*stage) for stage in context.pipeline_trace),
        fallback=context.fallback,
        warnings=context.warnings,
        fragments=tuple(
            FragmentTrace(one.source, one.source_id, len(one.content) // cpt, one.relevance_score)
            for one in _others(context)
        ),
        is_cached=context.is_cached,
    )
    run.session.along(
        run.resources.entry(
            "CONTEXT_ASSEMBLED", payload, texts=[line.content for line in lines],
            stream="ho2_context_authority",
            provenance=run.session.provenance(run.run_id.run_seq),
            parents=[requested_id(run.session.session_id, run.requested.input_id)],
            reason=found.code, trace=run.trace,
        )
    )  # fmt: skip
