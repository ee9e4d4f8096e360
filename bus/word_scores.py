"""How well a text answers a question by the words that they share: BM25 as a share of what could be. Pure.

For the record, whose index the ledger keeps, and for what a supervisor ranks itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import NamedTuple

_K1, _B = 1.2, 0.75  # as SQLite's full-text engine has them


class Weights(NamedTuple):
    """What the words of a question weigh among the texts that it is about; a word in none weighs nothing."""

    rarity: Mapping[str, float]
    unique: float
    """Of a word that stood in one of them alone."""
    usual: float
    """How long a text usually is, in the unit of the lengths that are given."""
    most: float
    """What a text with all of them that could not have them more often would reach."""


def weigh_words(counts: Mapping[str, int], texts: int, usual: float) -> Weights:
    """Return the weights of words. `counts`: in how many of `texts` texts each word stands, if in any."""
    rarity = {word: _compute_rarity(count, texts) for word, count in counts.items() if count}
    return Weights(rarity, _compute_rarity(1, texts), max(usual, 1), sum(rarity.values()) * (_K1 + 1))


def _compute_rarity(count: int, texts: int) -> float:
    """Return a word's weight, never negative, also where most texts have the word (Lucene's formula)."""
    return log(1 + (max(texts, count) - count + 0.5) / (count + 0.5))


def score(counts: Mapping[str, int], known: Weights, length: float) -> float:
    """Return 0 to 1 for a text of this length that has each word so often.

    Its BM25 as a share of the most that any text could have (one that holds each word so often that once more adds
    nothing), times the weight of its rarest word as a share of the most that any word could have: what has the common
    words of a question alone answers nothing.
    """
    rarity, unique, usual, most = known
    longer = _K1 * (1 - _B + _B * length / usual)
    reached = rarest = 0.0
    for word, count in counts.items():
        if count and word in rarity:
            weight = rarity[word]
            reached += weight * count * (_K1 + 1) / (count + longer)
            rarest = weight if weight > rarest else rarest  # noqa: FURB136 - a call for each word of each text
    return reached / most * (rarest / unique) if reached else 0.0
