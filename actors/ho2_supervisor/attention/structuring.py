"""Fragments in order: each text once, sorted as a template says, the least relevant left out until all fits. Pure.

What was said in the session is never taken for a repetition: somebody may well say a thing twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hobus.actors.ho2_supervisor.attention.context import Fragment

Strategy = Literal["chronological", "relevance", "hierarchical"]


def order_fragments(fragments: Sequence[Fragment], strategy: Strategy, chars_max: int) -> list[Fragment]:
    """Order `distinct` fragments as a prompt gets them; `chars_max`: what they may take together."""
    kept = drop_excess(fragments, chars_max)
    match strategy:
        case "chronological":  # what has no time stays before what has
            return sorted(kept, key=lambda fragment: fragment.at_us)
        case "relevance":
            return sorted(kept, key=_rank)
        case "hierarchical":
            return sorted(kept, key=lambda fragment: (fragment.stage, _rank(fragment)))


def drop_repeated(fragments: Sequence[Fragment]) -> list[Fragment]:
    """Drop repetitions; the most relevant copy stays, in its place."""
    best: dict[str, Fragment] = {}
    for fragment in fragments:
        if fragment.source != "history":
            text = _get_said(fragment)
            known = best.get(text)
            if known is None or _rank(fragment) < _rank(known):
                best[text] = fragment
    return [one for one in fragments if one.source == "history" or best[_get_said(one)] is one]


def drop_excess(fragments: Sequence[Fragment], chars_max: int) -> list[Fragment]:
    """Drop the least relevant until the rest fits; of equally relevant ones the oldest goes first."""
    left = sum(fragment.chars for fragment in fragments)
    dropped: set[int] = set()
    order = sorted(range(len(fragments)), key=lambda at: (_rank(fragments[at]), -fragments[at].at_us, at))
    while left > chars_max and order:
        at = order.pop()
        dropped.add(at)
        left -= fragments[at].chars
    return [fragment for at, fragment in enumerate(fragments) if at not in dropped]


def _rank(fragment: Fragment) -> tuple[int, float]:
    """Return the sort key, lower for more relevant; what was asked for by name precedes every score."""
    score = fragment.relevance_score
    return (0, 0.0) if score is None else (1, -score)


def _get_said(fragment: Fragment) -> str:
    return " ".join(fragment.content.split())
