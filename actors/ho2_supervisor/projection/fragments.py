"""The fragments of a turn's projection, in the order of their priority, and what of them a budget admits. Pure.

A fragment is one fact with where it comes from; text is made of them last. First comes what is alive: the active
intent, what failed, then what has no end yet, the newest first; then the memory lines that were chosen for the turn.
Those are counted here with the rest, and stand in a part of the prompt of their own (`ho3_biases`), not in the text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from hobus.actors.ho2_supervisor.projection.liveness import LivenessState
from hobus.actors.ho2_supervisor.session.intents import has_own_words
from hobus.actors.ho2_supervisor.session.order_lives import OrderLife
from hobus.actors.ho2_supervisor.turn.history import ERASED
from hobus.bus.messages.work_order import Segment

Source = Literal["ledger", "registry", "file", "search", "liveness", "memory", "history", "custom"]
ASSEMBLED_CONTEXT = "assembled_context"
PRIORITIES = ("intent", "failed", "open", "memory")
_LIVENESS: Source = "liveness"
_MEMORY: Source = "memory"


class Fragment(NamedTuple):
    """One fact for a model, and where it comes from.

    `content` is `lead` and the words behind `ref`, where those stand alone in the record; else it is all there is.
    """

    source: Source
    source_id: str
    content: str
    lead: str = ""
    ref: str | None = None

    def tokens(self, chars_per_token: int) -> int:
        """The estimate of section `attention`, rounded up: with the end of its line."""
        return -(-(len(self.content) + 1) // chars_per_token)


class Projection(NamedTuple):
    """What a turn's context is made of; `context_text` is the liveness fragments, one a line."""

    fragments: tuple[Fragment, ...]
    context_text: str
    context_hash: bytes  # SHA-256 of the text
    tokens_used: int  # of all fragments

    @property
    def fragment_count(self) -> int:
        """Memory lines included."""
        return len(self.fragments)

    def ids(self, source: Source) -> list[str]:
        """Source ids of the fragments from there."""
        return [fragment.source_id for fragment in self.fragments if fragment.source == source]

    def segments(self) -> list[Segment]:
        """The text as the order holds it; words that stand elsewhere in the record by their ref. Empty for no text."""
        segments: list[Segment] = []
        between = ""
        for number, fragment in enumerate(one for one in self.fragments if one.source != _MEMORY):
            between += "\n" if number else ""
            if fragment.ref is None:
                between += fragment.content
                continue
            segments.append(Segment(name=ASSEMBLED_CONTEXT, text=between + fragment.lead))
            segments.append(
                Segment(name=ASSEMBLED_CONTEXT, ref=fragment.ref, text=fragment.content[len(fragment.lead) :])
            )
            between = ""
        return [*segments, Segment(name=ASSEMBLED_CONTEXT, text=between)] if between else segments


def liveness_fragments(state: LivenessState, objectives: Mapping[str, str]) -> list[Fragment]:
    """What is alive, by priority. `objectives`: ref -> words; what is not there was erased."""
    active = state.active_intents
    return [
        *(_intent(intent_id, state.intents[intent_id].objective, objectives) for intent_id in reversed(active)),
        *(_failed(life) for life in _newest_first(state, active) if life.status == "failed"),
        *(_open(life) for life in _newest_first(state, active) if life.is_open),
    ]


def memory_fragments(lines: Iterable[Segment]) -> list[Fragment]:
    """The memory lines of a turn, the surest first. `lines`: segments; one without an artifact is no line."""
    return [Fragment(_MEMORY, line.artifact_id, line.text) for line in lines if line.artifact_id is not None]


def project(fragments: Sequence[Fragment], *, budget_tokens: int, chars_per_token: int) -> Projection:
    """Of fragments by priority what fits; one that does not is left out, and the next one tried."""
    kept: list[Fragment] = []
    used = 0
    for fragment in fragments:
        tokens = fragment.tokens(chars_per_token)
        if used + tokens <= budget_tokens:
            kept.append(fragment)
            used += tokens
    text = "\n".join(fragment.content for fragment in kept if fragment.source != _MEMORY)
    return Projection(tuple(kept), text, hashlib.sha256(text.encode()).digest(), used)


def _newest_first(state: LivenessState, active: Sequence[str]) -> list[OrderLife]:
    """Orders without an intent, or of an active one; what is about an intent that is over concerns nobody."""
    about = [life for life in state.work_orders.values() if life.intent_id is None or life.intent_id in active]
    return about[::-1]


def _intent(intent_id: str, ref: str, objectives: Mapping[str, str]) -> Fragment:
    lead, words = "active intent: ", objectives.get(ref)
    if words is None:
        return Fragment(_LIVENESS, intent_id, lead + ERASED)
    return Fragment(_LIVENESS, intent_id, lead + words, lead, ref if has_own_words(ref) else None)


def _failed(life: OrderLife) -> Fragment:
    why = "its answer was not good enough" if life.is_escalated else life.reason
    return Fragment(_LIVENESS, life.wo_id, f"failed: {_called(life)} ({why})")


def _open(life: OrderLife) -> Fragment:
    return Fragment(_LIVENESS, life.wo_id, f"without an end: {_called(life)}")


def _called(life: OrderLife) -> str:
    """An order in words: what it was for, and its turn's number."""
    run = life.wo_id.rpartition("-")[2].partition(".")[0]
    what = f"call of {life.tool_id}" if life.tool_id else life.wo_type or "order"
    return f"{what} in turn {run}"
