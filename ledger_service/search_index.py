"""Where which word stands in the record: a full-text index (SQLite FTS5) in a file of its own, beside the other index.

A cache that decides nothing: missing, damaged or of another record it is thrown away, and made anew while the ledger
works. The texts are not in it: an excerpt is read from the record, so what is gone from there is shown to nobody. A
text is found by its words, and narrowed by tokens of its own column: hashes of its session, agent, type and stream.

Words are those of FTS5's tokenizer: runs of letters and digits of any script, without case and diacritics. What is
asked goes through the same tokenizer and is quoted word by word, so no query has a syntax.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from math import log
from typing import NamedTuple, Self

from hobus.ledger_service.index import connection_to

FILE = "search.sqlite"
"""Its name in a ledger's directory."""
FILES = (FILE, f"{FILE}-wal", f"{FILE}-shm")
SCHEMA_VERSION = 1
_TOKENIZER = "tokenize = 'unicode61 remove_diacritics 2'"
_BITS = 8
"""Of a row's number: which body of its entry the text is. Stored: part of SCHEMA_VERSION."""
BODIES_MAX = 1 << _BITS
_SCHEMA = f"""
CREATE VIRTUAL TABLE texts USING fts5(text, about, content = '', {_TOKENIZER});
CREATE VIRTUAL TABLE terms USING fts5vocab(texts, col);
CREATE TABLE reached (one INTEGER PRIMARY KEY, sequence INTEGER, chain BLOB, texts INTEGER, chars INTEGER);
PRAGMA user_version = {SCHEMA_VERSION};
"""
_FIND = """
SELECT rowid FROM texts WHERE texts MATCH ? AND rowid >= ? AND rowid < ?
ORDER BY bm25(texts, 1.0, 0.0), rowid DESC LIMIT ?
"""
_K1, _B = 1.2, 0.75  # as FTS5's own bm25
_TERMS_KEPT = 4096
"""Only speed depends on it."""
_MARKS = "\x02", "\x03"


class Reached(NamedTuple):
    """How far the index goes, and what it holds."""

    sequence: int = -1
    chain: bytes = b""  # the record's chain value there: of another record it is another one
    texts: int = 0
    chars: int = 0


class IndexedText(NamedTuple):
    """A text on its way into the index."""

    sequence: int
    number: int  # of its body
    text: str
    about: tuple[str, ...]  # of `token`


class Weight(NamedTuple):
    """How well a text answers a question: 0 to 1, and where the words stand in it, [start, end) in characters."""

    score: float
    spans: tuple[tuple[int, int], ...]


def token(kind: str, value: str) -> str:
    """What a text is narrowed by: one word that stands for its session, agent, type or stream."""
    return kind + blake2b(value.encode("utf-8", "replace"), digest_size=8).hexdigest()


class SearchIndex:
    """Every method may raise sqlite3.Error, which means: discard and rebuild."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self.reached = Reached()
        """Where it stands; everything after it is not found."""

    @classmethod
    def open(cls, path: str | None) -> Self:
        """Existing or new; None keeps it in memory. Raises sqlite3.DatabaseError for a file that is not this index."""
        db = connection_to(path or ":memory:")
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")  # never inconsistent; a power cut may lose the newest commits
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version == 0:
                db.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
            elif version != SCHEMA_VERSION:
                raise sqlite3.DatabaseError(f"search index schema {version}, not {SCHEMA_VERSION}")
            index = cls(db)
            index.reached = index._read_reached()
        except BaseException:
            db.close()
            raise
        return index

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def _read_reached(self) -> Reached:
        row = self._db.execute("SELECT sequence, chain, texts, chars FROM reached").fetchone()
        if row is None:
            return Reached()
        if tuple(map(type, row)) != (int, bytes, int, int):
            raise sqlite3.DatabaseError("the position of the search index is damaged")
        return Reached(*row)

    def add(self, texts: Sequence[IndexedText], *, sequence: int, chain: bytes) -> None:
        """These are found from now on, and it reaches this entry: in one transaction, or none of it."""
        chars = sum(len(one.text) for one in texts)
        before = self.reached
        reached = Reached(sequence, chain, before.texts + len(texts), before.chars + chars)
        with self._db:  # commits, or takes back
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(
                "INSERT INTO texts (rowid, text, about) VALUES (?, ?, ?)",
                [(_row(one.sequence, one.number), one.text, " ".join(one.about)) for one in texts],
            )
            self._db.execute("INSERT OR REPLACE INTO reached VALUES (1, ?, ?, ?, ?)", reached)
        self.reached = reached

    def forget(self, texts: Sequence[IndexedText]) -> None:
        """These are found no more: as they were added, which is what the index needs to take their words out."""
        before = self.reached
        gone = sum(len(one.text) for one in texts)
        reached = before._replace(texts=before.texts - len(texts), chars=before.chars - gone)
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(
                "INSERT INTO texts (texts, rowid, text, about) VALUES ('delete', ?, ?, ?)",
                [(_row(one.sequence, one.number), one.text, " ".join(one.about)) for one in texts],
            )
            self._db.execute("INSERT INTO texts (texts) VALUES ('optimize')")  # else the words stay beside a mark
            self._db.execute("INSERT OR REPLACE INTO reached VALUES (1, ?, ?, ?, ?)", reached)
        self.reached = reached

    def counts(self, terms: Sequence[str]) -> dict[str, int]:
        """In how many texts each of these words stands; those in none are left out."""
        question = f"SELECT term, doc FROM terms WHERE col = 'text' AND term IN ({', '.join('?' * len(terms))})"  # noqa: S608
        return dict(self._db.execute(question, tuple(terms)).fetchall())

    def find(
        self, terms: Sequence[str], about: Iterable[Sequence[str]], *, after: int, before: int, limit: int
    ) -> list[tuple[int, int]]:
        """(sequence, body number) of texts that have any of the words, those that BM25 ranks highest first.

        `about`: of each group of tokens the text has one; sequences are between `after` and `before`.
        """
        parts = [f"{{text}} : ({_any_of(terms)})", *(f"{{about}} : ({_any_of(group)})" for group in about)]
        bounds = (_row(after + 1, 0), _row(before, 0))
        rows = self._db.execute(_FIND, (" AND ".join(parts), *bounds, limit)).fetchall()
        return [(row >> _BITS, row & BODIES_MAX - 1) for (row,) in rows]


def _row(sequence: int, number: int) -> int:
    return sequence << _BITS | number


def _any_of(terms: Iterable[str]) -> str:
    """Words of the tokenizer have no quotes in them."""
    return " OR ".join(f'"{term}"' for term in terms)


class Tokens:
    """The tokenizer alone, over one text at a time, in memory."""

    def __init__(self) -> None:
        self._terms: dict[str, str] = {}
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        self._db.executescript(f"""
            CREATE VIRTUAL TABLE one USING fts5(text, {_TOKENIZER});
            CREATE VIRTUAL TABLE words USING fts5vocab(one, row);
        """)

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def terms(self, words: str, *, limit: int) -> list[str]:
        """The different words in it as the index has them, sorted; at most so many."""
        self._put(words)
        return [term for (term,) in self._db.execute("SELECT term FROM words ORDER BY term LIMIT ?", (limit,))]

    def weigh(self, text: str, terms: Sequence[str], counts: dict[str, int], reached: Reached) -> Weight:
        """Score and places of these words in a text.

        The score is the text's BM25 for the words as its share of the most that any text could have for them: of one
        that holds each of them so often that once more adds nothing. What is rare in the record counts most, a word
        that stands nowhere too. Weights of words are never negative, also where most texts have one (Lucene's formula).
        """
        self._put(text)
        spans = tuple(_spans(self._marked(terms)))
        found = Counter(self._term_of(text[start:end]) for start, end in spans)
        usual = reached.chars / reached.texts if reached.texts else len(text)
        longer = _K1 * (1 - _B + _B * len(text) / max(usual, 1))
        score = most = 0.0
        for term in terms:
            count = counts.get(term, 0)
            rarity = log(1 + (max(reached.texts, count) - count + 0.5) / (count + 0.5))
            times = found[term]
            score += rarity * times * (_K1 + 1) / (times + longer)
            most += rarity * (_K1 + 1)
        return Weight(score / most if most else 0.0, spans)

    def _term_of(self, word: str) -> str:
        """A word of a text as the index has it."""
        known = self._terms.get(word)
        if known is None:
            if len(self._terms) >= _TERMS_KEPT:
                self._terms.clear()
            known = self._terms[word] = next(iter(self.terms(word, limit=1)), "")
        return known

    def _put(self, text: str) -> None:
        plain = text.encode("utf-8", "replace").decode().translate(_BLANKS)
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")  # cheaper than to take the words of the last text out again
        self._db.execute("BEGIN")
        self._db.execute("INSERT INTO one (rowid, text) VALUES (1, ?)", (plain,))

    def _marked(self, terms: Sequence[str]) -> str:
        question = "SELECT highlight(one, 0, ?, ?) FROM one WHERE one MATCH ?"
        (marked,) = self._db.execute(question, (*_MARKS, _any_of(terms))).fetchone() or ("",)
        return marked


_BLANKS = {0: " ", **{ord(mark): " " for mark in _MARKS}}
"""Characters that would end a text in SQLite, or be taken for our marks: as long in the text that is looked at."""


def _spans(marked: str) -> Iterable[tuple[int, int]]:
    """Where the marked words stand in the text without marks."""
    at = 0
    for number, part in enumerate(marked.replace(_MARKS[1], _MARKS[0]).split(_MARKS[0])):
        if number % 2:
            yield at, at + len(part)
        at += len(part)
