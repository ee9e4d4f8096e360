"""By which template the contexts of a turn were filled, and what became of each stage: as the record has it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hobus.bus.messages.ledger import Entry
from hobus.bus.record.payload import payload_in
from hobus.bus.record.payloads.orders import ContextAssembled, FragmentTrace, StageTrace
from hobus.config.attention_template import CLASSIFICATIONS, CONSOLIDATIONS
from hobus.launch.sessions.account import short


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
    queries: int
    elapsed_ms: int
    stopped_by: str
    fallback: str
    is_cached: bool
    shown_by: str
    """Short id of the order whose context it is; empty: it was assembled for this turn."""
    stages: tuple[StageTrace, ...]
    fragments: tuple[FragmentTrace, ...]
    warnings: tuple[str, ...]


def contexts_in(turn: Iterable[Entry]) -> tuple[ContextSeen, ...]:
    """Each context of the turn, in the order of the record; what was erased is left out."""
    assembled = ((one, _payload(one)) for one in turn if one.event_type == "CONTEXT_ASSEMBLED")
    return tuple(seen for one, said in assembled if said is not None for seen in _contexts(one.sequence, said))


def _payload(entry: Entry) -> ContextAssembled | None:
    try:
        return payload_in(ContextAssembled, entry)
    except ValueError:  # of another version
        return None


_WHAT = {CLASSIFICATIONS: "classification", CONSOLIDATIONS: "consolidation"}


def _contexts(sequence: int, said: ContextAssembled) -> Iterator[ContextSeen]:
    """The classification's goes before the answer's, as it was assembled."""
    for one in said.beside:
        yield ContextSeen(
            sequence=sequence,
            what=_WHAT.get(one.contract_id, "other"),
            template_id=one.template_id,
            template_version=one.template_version,
            chosen_by=one.chosen_by,
            tokens=one.tokens_assembled,
            max_tokens=one.max_context_tokens,
            queries=0,
            elapsed_ms=sum(stage.duration_ms for stage in one.stages),
            stopped_by=one.stopped_by,
            fallback=one.fallback,
            is_cached=False,
            shown_by="",
            stages=one.stages,
            fragments=(),
            warnings=one.warnings,
        )
    yield _context(sequence, said)


def _context(sequence: int, said: ContextAssembled) -> ContextSeen:
    return ContextSeen(
        sequence=sequence,
        what=_WHAT.get(said.contract_id, "answer"),
        template_id=said.template_id,
        template_version=said.template_version,
        chosen_by=said.chosen_by,
        tokens=said.tokens_assembled,
        max_tokens=said.max_context_tokens,
        queries=said.queries_executed,
        elapsed_ms=said.elapsed_ms,
        stopped_by=said.stopped_by,
        fallback=said.fallback,
        is_cached=said.is_cached,
        shown_by=said.shown_by and short(said.shown_by),
        stages=said.stages,
        fragments=said.fragments,
        warnings=said.warnings,
    )
