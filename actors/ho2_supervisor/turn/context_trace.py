"""What CONTEXT_ASSEMBLED says of any context, whatever it was assembled for. Pure."""

from __future__ import annotations

from hobus.actors.ho2_supervisor.attention.context import AssembledContext
from hobus.bus.record.payloads.orders import ContextAssembled, StageTrace


def traced(context: AssembledContext, *, as_of_ts: str, as_of_seq: int | None) -> ContextAssembled:
    """By which template, in which stages, within which budget; without a line of memory."""
    return ContextAssembled(
        as_of_ts=as_of_ts,
        as_of_seq=as_of_seq,
        in_force=0,
        budget=0,
        tokens_used=0,
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
        is_cached=context.is_cached,
        chosen_by=context.chosen_by,
    )
