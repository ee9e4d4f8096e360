"""A turn's context: assembled once by the template of its agent, recorded before a prompt shows it.

Driven again after a crash, a turn shows the context that its recorded order holds, and asks nobody anew. An assembly
that fails is no end of a turn: it goes on with what there is, and its record says so.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from msgspec.structs import replace

from hobus.actors.ho2_supervisor import limits as own_limits
from hobus.actors.ho2_supervisor.attention.context import (
    AssembledContext,
    AttentionRequest,
    Fragment,
    list_parts,
    trace_context,
)
from hobus.actors.ho2_supervisor.attention.pipeline import AskingSource, FragmentSource, Room
from hobus.actors.ho2_supervisor.attention.sources import make_own_sources
from hobus.actors.ho2_supervisor.learning.learning import Recalled
from hobus.actors.ho2_supervisor.learning.learning import run_beside as at_once
from hobus.actors.ho2_supervisor.limits import FRAME_CHARS, LEFT_OUT_MAX
from hobus.actors.ho2_supervisor.turn import classify_context, history, projected, recall
from hobus.actors.ho2_supervisor.turn.blocks import compile_unsafe, make_harmless
from hobus.actors.ho2_supervisor.turn.classification import Classification
from hobus.actors.ho2_supervisor.turn.history import HistoryLimits
from hobus.actors.ho2_supervisor.turn.lookups import make_lookups
from hobus.actors.ho2_supervisor.turn.run import Run
from hobus.bus.errors import ConfigError
from hobus.bus.messages import transcript
from hobus.bus.messages.base import make_from
from hobus.bus.messages.ledger import WriteEntry
from hobus.bus.messages.memory import Labels
from hobus.bus.messages.transcript import NAME as HISTORY
from hobus.bus.messages.work_order import LEARNED, LOOKED_UP, Segment
from hobus.bus.record.payloads.orders import ContextAssembled, ContextBeside, FragmentTrace, LeftOut
from hobus.bus.record.text_parts import TextPart
from hobus.config.attention_rules import get_tokens
from hobus.config.attention_template import CLASSIFICATIONS, OfTurn, Template
from hobus.config.prompt_pack import frame_inputs, parse_pack

_NAMES = (LEARNED, HISTORY, LOOKED_UP)


Classify = Callable[[Sequence[Segment]], Coroutine[Any, Any, Classification]]
Understood = tuple[Classification, list[Segment], list[WriteEntry]]
"""A message's labels, what its prompts show beside it, and what is sent with the first order that shows that."""


async def understand(run: Run, limits: HistoryLimits, classify: Classify) -> Understood:
    """Return what the turn's prompts need; memory is read while the message is classified."""
    try:
        return await _understand(run, limits, classify)
    except asyncio.CancelledError:
        if run.session.record.state.lifecycle == "Cancelling":  # else its time is up, or somebody drives it on
            record_unanswered(run)
        raise


async def _understand(run: Run, limits: HistoryLimits, classify: Classify) -> Understood:
    if run.is_errand:
        return Classification(), [], []
    # As an earlier drive of this run showed it; None if it had sent no prompt yet.
    recorded = await run.effects.find_recorded_segments(run.answer_order_id, _NAMES)
    if recorded is not None:
        labels = await classify(())  # its order stands in the journal
        return labels, recorded, []
    is_classified = run.classification != "off"
    segments, run.beside = await classify_context.assemble(run) if is_classified else ([], None)
    named = run.named_template
    request = classify_context.make_request(
        run, "synthesize", run.answer_order_id,
        template_override=named if named in run.resources.attention.templates else None,
        tokens_max=run.compute_window_share(own_limits.CONTEXT_OF_WINDOW),
    )  # fmt: skip
    template = run.resources.attention.choose_template(request)
    found = Recalled()
    if run.recall_from is not None and _has_memory(template):
        recalled = run.recall_from.recall(run.session, run.agent.agent_id, as_of_ts=run.requested.at, trace=run.trace)
        labels, found = await at_once(classify(segments), recalled)
    else:
        labels = await classify(segments)
    sources = _make_sources(run, request, limits, labels, found)
    mode = run.config.projection.mode
    alive = projected.show_fragments(run) if mode != "off" else []
    attention = run.resources.attention
    context = await attention.assemble(
        request, template, sources | _show_liveness(run, alive if mode == "enforce" else [])
    )
    if said := run.template_fault:
        context = replace(context, warnings=(said, *context.warnings))
    _record(run, context, labels, found)
    run.beside = None
    entries: list[WriteEntry] = []
    if mode == "enforce":
        entries = [projected.make_computed(run, mode, context)]
    elif mode == "shadow":
        other = replace(request, work_order_id=f"{request.work_order_id}/projection")
        projection = await attention.assemble(other, template, sources | _show_liveness(run, alive))
        entries = [projected.make_computed(run, mode, projection), projected.make_compared(run, context, projection)]
    return labels, make_segments(run, context), entries


def make_segments(run: Run, context: AssembledContext) -> list[Segment]:
    """Return the context as a prompt's inputs; what changes least from turn to turn comes first."""
    return [
        *recall.make_segments(context.of("memory")),
        *run.effects.make_one_segment(HISTORY, list_parts(context.of("history"))),
        *run.effects.segments(LOOKED_UP, list_parts(_list_others(context))),
    ]


def _has_memory(template: Template | None) -> bool:
    return template is not None and any(stage.type == "memory" and stage.enabled for stage in template.pipeline)


# --- what the turn itself has -----------------------------------------------------------------------------------------


def _make_sources(
    run: Run, request: AttentionRequest, limits: HistoryLimits, labels: Classification, found: Recalled
) -> dict[str, FragmentSource]:
    budget = run.config.budget
    blocks = _make_blocks(run, request, found)
    shown = {run.requested.input_ref}  # refs of what the prompt has by what was said: it is no find of a search

    def show_said(config: OfTurn, room: Room) -> Iterator[Fragment]:
        tokens = limits.budget_tokens if config.max_tokens is None else get_tokens(config.max_tokens, budget)
        left = room.account.tokens_left
        if left < tokens:  # rounded down, so that a word more elsewhere is no other beginning of the prompt
            tokens = left >> (cut := max(0, left.bit_length() - 3)) << cut
        within = replace(limits, budget_tokens=tokens)
        for one in history.show_history(run.history, within, blocks):
            shown.update([part.ref for part in one.parts if part.ref is not None])
            if one.learned:
                run.learned_earlier.update(one.learned)
            yield Fragment("history", one.source_id, one.parts)

    def show_learned(config: OfTurn, room: Room) -> Iterator[Fragment]:
        tokens = budget.ho3_bias_budget if config.max_tokens is None else get_tokens(config.max_tokens, budget)
        about = Labels(domain=list(labels.domain), task=list(labels.task))
        cpt = run.config.attention.chars_per_token
        for one in recall.weigh(found.biases, about, tokens, cpt, run.requested.at):
            run.weighed[one.artifact.artifact_id] = one
            fragment = Fragment("memory", one.artifact.artifact_id, (TextPart(None, one.artifact.context_line),))
            if not one.left_out and fragment.chars <= room.account.chars_left:
                yield fragment

    own = make_own_sources(request, run.resources.snapshot.manifests, run.resources.client)
    others = own | make_lookups(run, request, shown)
    unsafe = compile_unsafe(run.resources.snapshot.prompt_packs)
    # Memory lines were looked at before they were taken, and stand word for word; what was said stands in no block.
    sources: dict[str, FragmentSource] = {"memory": show_learned, "history": show_said}
    return sources | {name: _make_harmless(source, unsafe) for name, source in others.items()}


def _make_blocks(run: Run, request: AttentionRequest, found: Recalled) -> history.Blocks:
    """Return how this run's prompts show memory and context, and which lines are in force."""
    pack_id = request.contract.prompt_pack_id
    text = run.resources.snapshot.prompt_packs.get(pack_id)
    frames = {} if text is None else _find_frames(pack_id, text)
    return history.Blocks(frames, {one.artifact.artifact_id: one.artifact.context_line for one in found.biases})


@lru_cache(maxsize=64)
def _find_frames(pack_id: str, text: str) -> Mapping[str, tuple[str, str]]:
    """Return what stands around each input of the pack; empty for a text that is no pack, which the executor reports.

    Cached: the number kept affects speed alone.
    """
    try:
        shown = frame_inputs(parse_pack(pack_id, text))
    except ConfigError:
        return {}
    mark = transcript.write_head("user")
    is_short = {name: len(mark.join(around)) < FRAME_CHARS for name, around in shown.items()}
    return {name: around for name, around in shown.items() if name in (LEARNED, LOOKED_UP) and is_short[name]}


def _show_liveness(run: Run, alive: Sequence[Fragment]) -> dict[str, FragmentSource]:
    """Return what is active, as far as there is room: what does not fit is left out, and the next one tried."""
    unsafe = compile_unsafe(run.resources.snapshot.prompt_packs)

    def show_shown(config: OfTurn, room: Room) -> Iterator[Fragment]:
        left, left_out = classify_context.count_chars_left(run, config, room), 0
        for fragment in alive:
            if fragment.chars <= left:
                left -= fragment.chars
                yield fragment._replace(parts=make_harmless(fragment.parts, unsafe))
            else:
                left_out += 1
        if left_out:
            room.leave_out(f"{left_out} of {len(alive)} facts left out: they do not fit")

    return {"liveness": show_shown}


def _make_harmless(source: AskingSource, unsafe: re.Pattern[str]) -> AskingSource:
    """Wrap a source so that nothing in its fragments closes or opens a block of the prompt."""

    async def yield_harmless(config: Any, room: Room) -> AsyncGenerator[Fragment, None]:
        async for fragment in source(config, room):
            safe = make_harmless(fragment.parts, unsafe)
            yield fragment if safe is fragment.parts else fragment._replace(parts=safe)

    return yield_harmless


def _list_others(context: AssembledContext) -> list[Fragment]:
    return [fragment for fragment in context.fragments if fragment.source not in ("memory", "history")]


# --- its record -------------------------------------------------------------------------------------------------------


def record_again(run: Run, order_id: str, shown: Sequence[Segment]) -> None:
    """Record CONTEXT_ASSEMBLED of a turn that brings results: what the order that asked for them showed; once."""
    if run.answer_order_id in run.memo.orders:
        return
    context = [one for one in shown if one.name in _NAMES]
    lines = [one for one in context if one.artifact_id is not None]
    text, cpt = "".join([one.text for one in context]), run.config.attention.chars_per_token
    payload = ContextAssembled(
        as_of_ts=run.requested.at, as_of_seq=None, in_force=0, budget=run.config.budget.ho3_bias_budget,
        tokens_used=sum(len(line.text) // cpt for line in lines),
        artifact_ids=tuple(line.artifact_id or "" for line in lines),
        context_hash=hashlib.sha256(text.encode()).digest(),
        max_context_tokens=run.agent.budget_tokens("projection", run.config.budget),
        tokens_assembled=len(text) // cpt, is_cached=True, shown_by=order_id,
    )  # fmt: skip
    _write(run, payload, [line.text for line in lines])


def _list_left_out(run: Run, shown: Collection[str]) -> Iterator[LeftOut]:
    return (
        LeftOut(name, "earlier" if name in run.learned_earlier else one.left_out or "room")
        for name, one in run.weighed.items()
        if name not in shown
    )


def record_unanswered(run: Run) -> None:
    """Record CONTEXT_ASSEMBLED of a turn that ends in its classification: nothing more was assembled."""
    if run.beside is not None:
        payload = trace_context(run.beside, as_of_ts=run.requested.at, as_of_seq=None)
        _write(run, payload._replace(contract_id=CLASSIFICATIONS), ())
        run.beside = None


def _record(run: Run, context: AssembledContext, labels: Classification, found: Recalled) -> None:
    """Send CONTEXT_ASSEMBLED before the prompt is sent."""
    lines = context.of("memory")
    cpt = run.config.attention.chars_per_token
    beside = run.beside and trace_context(run.beside, as_of_ts="", as_of_seq=None)
    payload = trace_context(
        context,
        as_of_ts=run.requested.at if found.as_of is None else found.as_of.as_of_ts,
        as_of_seq=None if found.as_of is None else found.as_of.as_of_seq,
    )._replace(
        in_force=len(found.biases),
        budget=run.config.budget.ho3_bias_budget,
        tokens_used=sum(len(line.content) // cpt for line in lines),
        artifact_ids=tuple(line.source_id for line in lines),
        domain_labels=labels.domain,
        task_labels=labels.task,
        fragments=tuple(
            FragmentTrace(one.source, one.source_id, len(one.content) // cpt, one.relevance_score)
            for one in _list_others(context)
        ),
        beside=() if beside is None else (make_from(ContextBeside, beside, contract_id=CLASSIFICATIONS),),
        scores=tuple(run.weighed[line.source_id].score for line in lines),
        left_out=tuple(islice(_list_left_out(run, {line.source_id for line in lines}), LEFT_OUT_MAX)),
    )
    _write(run, payload, [line.content for line in lines], reason=found.code)


def _write(run: Run, payload: ContextAssembled, lines: Sequence[str], *, reason: str = "") -> None:
    entry = run.make_entry("CONTEXT_ASSEMBLED", payload, texts=lines, stream=projected.STREAM, reason=reason)
    run.session.queue_along(entry)
