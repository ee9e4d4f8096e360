"""Answers to what is asked of memory, page by page. Pure.

An answer that could be large holds so many lines and ids, and says where the next page begins; asked as of the same
moment, all pages together are one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from hobus.actors.ho3_memory.agent_memory import AgentMemory, place_of_signal
from hobus.actors.ho3_memory.event_time import PointInTime
from hobus.bus.messages import memory as m

T = TypeVar("T")


def answer_signals(
    asked: m.ReadSignals, memory: AgentMemory, moment: PointInTime, as_of: m.AsOf, *, page_max: int
) -> m.Signals:
    """Return accumulators, sorted by signal and principal."""
    found = memory.signals(
        moment,
        signal_id=asked.signal_id,
        principal=asked.principal,
        min_count=asked.min_count,
        with_ids=asked.with_ids,
        after=asked.after,
    )
    page, has_more = cut_page(found, page_max, lambda one: len(one.event_ids) + len(one.session_ids))
    following = place_of_signal(page[-1].signal_id, page[-1].principal) if has_more else ""
    return m.Signals(signals=page, next=following, as_of=as_of)


def answer_overlays(
    asked: m.ReadOverlays, memory: AgentMemory, moment: PointInTime, as_of: m.AsOf, *, page_max: int
) -> m.Overlays:
    """Return overlays, in append order."""
    found = memory.artifacts.overlays(
        moment,
        signal_id=asked.signal_id,
        principal=asked.principal,
        active_only=asked.active_only,
        after=asked.after,
    )
    page, has_more = cut_page(found, page_max, lambda one: len(one.artifact.source_event_ids) + len(one.changes))
    return m.Overlays(overlays=page, next=_place(memory, page[-1].artifact) if has_more else None, as_of=as_of)


def answer_biases(
    asked: m.ReadActiveBiases, memory: AgentMemory, moment: PointInTime, as_of: m.AsOf, *, page_max: int
) -> m.Biases:
    """Return what is in force, in append order."""
    found = memory.list_active_biases(moment, principal=asked.principal, session_id=asked.session_id, after=asked.after)
    page, has_more = cut_page(found, page_max, lambda one: len(one.artifact.source_signal_ids))
    return m.Biases(biases=page, next=_place(memory, page[-1].artifact) if has_more else None, as_of=as_of)


def cut_page(rows: Iterable[T], page_max: int, ids_in: Callable[[T], int]) -> tuple[list[T], bool]:
    """Return the first rows that are at most so many lines and ids, at least one; and whether there are more."""
    page: list[T] = []
    size = 0
    for row in rows:
        size += 1 + ids_in(row)
        if page and size > page_max:
            return page, True
        page.append(row)
    return page, False


def _place(memory: AgentMemory, artifact: m.ArtifactFacts) -> int:
    """Return where an artifact stands in append order."""
    return memory.artifacts.first_seq(artifact.artifact_id)
