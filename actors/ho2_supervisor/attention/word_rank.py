"""Which of a few texts answer some words best: BM25, by SQLite's full-text tokenizer over texts in memory.

For what is no text of the record, whose own index the ledger keeps: rows of registries, passages of files. Words are as
there (`ledger_service/search_index.py`), and so are scores.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from hobus.bus.word_scores import score, weigh_words

_TOKENIZER = "tokenize = 'unicode61 remove_diacritics 2'"


def rank_texts(texts: Sequence[str], words: str, *, words_max: int) -> list[tuple[float, int]]:
    """Return score, 0 to 1, and place of each text with any of the words, best first, of equal ones the earlier.

    At most `words_max` words count.
    """
    if not texts:
        return []
    found = _count_words([*texts, words])
    terms = sorted(found.pop(len(texts), Counter()))[:words_max]
    if not terms:
        return []
    usual = sum(found[number].total() for number in range(len(texts))) / len(texts)
    counts = {term: sum(term in found[number] for number in range(len(texts))) for term in terms}
    known = weigh_words(counts, len(texts), usual)
    scores = [round(score(found[number], known, found[number].total()), 9) for number in range(len(texts))]
    return sorted(((one, number) for number, one in enumerate(scores) if one), key=lambda pair: (-pair[0], pair[1]))


def _count_words(texts: Sequence[str]) -> defaultdict[int, Counter[str]]:
    """Map the index of each text to its words and their counts."""
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
