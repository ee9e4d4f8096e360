"""Which of a few texts answer some words best: BM25, by SQLite's full-text tokenizer over texts in memory.

For what is no text of the record, whose own index the ledger keeps: rows of registries, passages of files. Words are as
there (`ledger_service/search_index.py`), and so are scores: the share of the most that any text could have.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import log
from typing import NamedTuple

_TOKENIZER = "tokenize = 'unicode61 remove_diacritics 2'"
_K1, _B = 1.2, 0.75  # as FTS5's own bm25


class Ranked(NamedTuple):
    """A text that has some of the words."""

    number: int
    """Its place among those that were given."""
    score: float
    """0 to 1."""


def ranked(texts: Sequence[str], words: str, *, words_max: int) -> list[Ranked]:
    """Every text that has any of the words, the best first, of equal ones the earlier; so many words count at most."""
    if not texts:
        return []
    found = _words_in([*texts, words])
    terms = sorted(found.pop(len(texts), Counter()))[:words_max]
    if not terms:
        return []
    usual = sum(found[number].total() for number in range(len(texts))) / max(1, len(texts))
    counts = {term: sum(term in found[number] for number in range(len(texts))) for term in terms}
    rarity = {term: log(1 + (len(texts) - count + 0.5) / (count + 0.5)) for term, count in counts.items()}
    most = sum(rarity.values()) * (_K1 + 1)
    ranking: list[Ranked] = []
    for number in range(len(texts)):
        longer = _K1 * (1 - _B + _B * found[number].total() / max(usual, 1))
        score = sum(
            rarity[term] * times * (_K1 + 1) / (times + longer) for term in terms if (times := found[number][term])
        )
        if score:
            ranking.append(Ranked(number, round(score / most, 9)))
    return sorted(ranking, key=lambda one: (-one.score, one.number))


def _words_in(texts: Sequence[str]) -> defaultdict[int, Counter[str]]:
    """Place of each text -> its words, and how often each stands in it."""
    import sqlite3  # noqa: PLC0415 - only templates that search beyond the record need it

    found: defaultdict[int, Counter[str]] = defaultdict(Counter)
    db = sqlite3.connect(":memory:", isolation_level=None)
    try:
        db.executescript(f"""
            CREATE VIRTUAL TABLE texts USING fts5(text, {_TOKENIZER});
            CREATE VIRTUAL TABLE words USING fts5vocab(texts, instance);
            BEGIN;
        """)
        plain = [
            (number, text.encode("utf-8", "replace").decode().replace("\0", " ")) for number, text in enumerate(texts)
        ]
        db.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", plain)
        for term, number in db.execute("SELECT term, doc FROM words"):
            found[number][term] += 1
    finally:
        db.close()
    return found
