"""By which template the contexts of a turn were filled, and what became of each stage: as the record has it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hobus.bus.messages.ledger import Entry
from hobus.bus.record.payloads.orders import ContextAssembled, ContextBeside, FragmentTrace, StageTrace
from hobus.config.attention_template import CLASSIFICATIONS, CONSOLIDATIONS
from hobus.launch.sessions.account import short
from hobus.launch.sessions.evidence import body_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSeen:
    """What a prompt was given beside its message, and how that came about."""

    sequence: int
    what: str
    """answer, classification, consolidation."""
    template_id: str
    template_version: str
    chosen_by: str
    tokens: int
    max_tokens: int
    queries: int = 0
    elapsed_ms: int
    stopped_by: str
    fallback: str
    is_cached: bool = False
    shown_by: str = ""
    """Short id of the order whose context it is; empty: it was assembled for this turn."""
    stages: tuple[StageTrace, ...]
    fragments: tuple[FragmentTrace, ...] = ()
    warnings: tuple[str, ...]


def contexts_in(turn: Iterable[Entry]) -> tuple[ContextSeen, ...]:
    """Each context of the turn, in the order of the record; what was erased is left out."""
    assembled = ((one, said) for one in turn if isinstance(said := body_of(one), ContextAssembled))
    return tuple(seen for one, said in assembled for seen in _contexts(one.sequence, said))


_WHAT = {CLASSIFICATIONS: "classification", CONSOLIDATIONS: "consolidation"}


def _contexts(sequence: int, said: ContextAssembled) -> Iterator[ContextSeen]:
    """The classification's goes before the answer's, as it was assembled."""
    for one in said.beside:
        yield _seen(sequence, one, else_what="other", elapsed_ms=sum(stage.duration_ms for stage in one.stages))
    yield _seen(
        sequence,
        said,
        else_what="answer",
        elapsed_ms=said.elapsed_ms,
        queries=said.queries_executed,
        is_cached=said.is_cached,
        shown_by=said.shown_by and short(said.shown_by),
        fragments=said.fragments,
    )


def _seen(sequence: int, said: ContextAssembled | ContextBeside, *, else_what: str, **own: Any) -> ContextSeen:
    """What both kinds of record say, and what is `own` to one."""
    return ContextSeen(
        sequence=sequence,
        what=_WHAT.get(said.contract_id, else_what),
        template_id=said.template_id,
        template_version=said.template_version,
        chosen_by=said.chosen_by,
        tokens=said.tokens_assembled,
        max_tokens=said.max_context_tokens,
        stopped_by=said.stopped_by,
        fallback=said.fallback,
        stages=said.stages,
        warnings=said.warnings,
        **own,
    )
