"""The memory lines of a turn: read as of its event time, chosen by numbers. Pure.

Filtered on fields, ranked by numbers, fitted to the budget, copied verbatim: meaning is never read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hobus.actors.ho2_supervisor.attention.context import Fragment
from hobus.actors.ho2_supervisor.learning.learning import Weighed
from hobus.bus.messages.ids import normalise_words, parse_iso
from hobus.bus.messages.memory import ArtifactFacts, Bias, Labels
from hobus.bus.messages.work_order import LEARNED, Segment


def make_segments(lines: Sequence[Fragment]) -> list[Segment]:
    """Return every line verbatim in a segment of its own, with line feeds between them."""
    parts: list[Segment] = []
    for line in lines:
        if parts:
            parts.append(Segment(name=LEARNED, text="\n"))
        parts.append(Segment(name=LEARNED, text=line.content, artifact_id=line.source_id))
    return parts


_DAY_S = 86_400
_DECIMALS = 9
"""Every float that is ranked is rounded to so many decimals first, so that all machines rank alike."""


def weigh(
    artifacts: Sequence[Bias], turn_labels: Labels, budget_tokens: int, chars_per_token: int, as_of_ts: str
) -> list[Weighed]:
    """Rank the artifacts, strongest first, each with why its line is not for this turn's prompt.

    One that does not fit the budget left is skipped, and the next one tried. Of several with the same words the
    strongest stands for all.
    """
    ranked = [(bias.artifact, score(bias, as_of_ts)) for bias in artifacts]
    ranked.sort(key=lambda one: (-one[1], -one[0].weight, one[0].artifact_id))
    found: list[Weighed] = []
    taken = set[str]()
    left = budget_tokens
    for artifact, rank in ranked:
        cost, words = len(artifact.context_line) // chars_per_token, normalise_words(artifact.context_line)
        if not _applies(artifact, turn_labels, as_of_ts):
            found.append(Weighed(artifact, rank, "labels"))
        elif words in taken or cost > left:
            found.append(Weighed(artifact, rank, "words" if words in taken else "room"))
        else:
            left -= cost
            taken.add(words)
            found.append(Weighed(artifact, rank, ""))
    return found


def score(bias: Bias, as_of_ts: str) -> float:
    """Return the rank: weight x decay x recency; recency = decay_modifier ** days since the consolidation."""
    artifact = bias.artifact
    days = max(0.0, parse_iso(as_of_ts) - parse_iso(artifact.consolidation_event_ts)) / _DAY_S
    return round(artifact.weight * bias.decay * artifact.decay_modifier**days, _DECIMALS)


def _applies(artifact: ArtifactFacts, turn_labels: Labels, as_of_ts: str) -> bool:
    """Return whether an artifact is in force then and shares a (kind, label) pair with the turn, or is global."""
    if not artifact.enabled or artifact.weight <= 0:
        return False
    # Timestamps have one width, so that text order is time order.
    if artifact.expires_at_event_ts is not None and artifact.expires_at_event_ts < as_of_ts:
        return False
    return artifact.scope == "global" or not set(_list_pairs(artifact.labels)).isdisjoint(_list_pairs(turn_labels))


def _list_pairs(labels: Labels) -> Iterable[tuple[str, str]]:
    return [*(("domain", label) for label in labels.domain), *(("task", label) for label in labels.task)]
