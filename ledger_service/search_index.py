"""Where which word stands in the record: a full-text index (SQLite FTS5) in a file of its own, beside the other index.

A cache that decides nothing: missing, damaged or of another record it is thrown away, and made anew while the ledger
works. The texts are not in it: an excerpt is read from the record, so what is gone from there is shown to nobody. A
text is found by its words, and narrowed by tokens of its own column: hashes of its session, agent, principal, type and
stream. Each turn asks for words in one session, which would be looked for among those of all sessions: its words stand
in a third column once more, each behind the session's token.

Words are those of FTS5's tokenizer: runs of letters and digits of any script, without case and diacritics. What is
asked goes through the same tokenizer and is quoted word by word, so no query has a syntax.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter
from typing import NamedTuple, Self

from hobus.ledger_service.index import connect_index

FILE = "search.sqlite"
"""Its name in a ledger's directory."""
FILES = (FILE, f"{FILE}-wal", f"{FILE}-shm")
SCHEMA_VERSION = 5
"""4 had no words of one session."""
_TOKENIZER = "tokenize = 'unicode61 remove_diacritics 2'"
_BITS = 8
"""Of a row's number: which body of its entry the text is. Stored: part of SCHEMA_VERSION."""
BODIES_MAX = 1 << _BITS
_SCHEMA = f"""
CREATE VIRTUAL TABLE texts USING fts5(text, about, own, content = '', detail = column, {_TOKENIZER});
CREATE TABLE reached (one INTEGER PRIMARY KEY, sequence INTEGER, chain BLOB, texts INTEGER, chars INTEGER);
PRAGMA user_version = {SCHEMA_VERSION};
"""
_COUNT_ALL = "SELECT count(*), min(rowid) FROM (SELECT rowid FROM texts WHERE rowid >= ? AND rowid < ? LIMIT ?)"
_ROWS = "SELECT rowid FROM texts WHERE texts MATCH ? AND rowid >= ? AND rowid < ? ORDER BY rowid DESC LIMIT ?"
_COUNT = f"SELECT count(*), min(rowid) FROM ({_ROWS})"  # noqa: S608 - no words of anybody in it
_INSERT = "INSERT INTO texts (rowid, text, about, own) VALUES (?, ?, ?, ?)"
_DELETE = "INSERT INTO texts (texts, rowid, text, about, own) VALUES ('delete', ?, ?, ?, ?)"
_TERMS_KEPT, _MATCHERS_KEPT = 4096, 64
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
    about: tuple[str, ...]  # of `make_token`
    own: tuple[str, ...] = ()  # its words, each behind its session's token


class Word(NamedTuple):
    """A word where it stands in a text: [start, end) in characters."""

    start: int
    end: int
    term: str  # as the index has it


class Among(NamedTuple):
    """The texts that a question is about: of each group of tokens they have one, and they stand in this stretch."""

    about: tuple[tuple[str, ...], ...]
    after: int
    before: int
    session: tuple[str, ...] = ()
    """One more such group: the tokens of the one session that is asked about; empty: of any."""

    def of(self, term: str = "") -> tuple[str, int, int]:
        """Return those that have this word (empty: all), as the engine is asked."""
        groups = self.about if term or not self.session else (self.session, *self.about)
        parts = [f"{{about}} : ({_join_terms(group)})" for group in groups]
        if term and self.session:
            parts.append(f"{{own}} : ({_join_terms([f'{token}{term}' for token in self.session])})")
        elif term:
            parts.append(f'{{text}} : "{term}"')
        return " AND ".join(parts), self.after + 1 << _BITS, self.before << _BITS


@lru_cache(maxsize=_TERMS_KEPT)
def make_token(kind: str, value: str) -> str:
    """Return the word that stands for a text's session, agent, principal, type or stream."""
    return kind + blake2b(value.encode("utf-8", "replace"), digest_size=8).hexdigest()


class SearchIndex:
    """One index. Every method may raise sqlite3.Error, which means: discard and rebuild."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self.reached = Reached()
        """Where it stands; everything after it is not found."""

    @classmethod
    def open(cls, path: str | None) -> Self:
        """Open an existing or new index; None keeps it in memory. Raises sqlite3.DatabaseError for a foreign file."""
        db = connect_index(path or ":memory:")
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
        self._db.close()

    def _read_reached(self) -> Reached:
        row = self._db.execute("SELECT sequence, chain, texts, chars FROM reached").fetchone()
        if row is None:
            return Reached()
        if tuple(map(type, row)) != (int, bytes, int, int):
            raise sqlite3.DatabaseError("the position of the search index is damaged")
        return Reached(*row)

    def add(self, texts: Sequence[IndexedText], *, sequence: int, chain: bytes) -> None:
        """Add texts and the entry reached, in one transaction or not at all."""
        chars = sum(len(one.text) for one in texts)
        before = self.reached
        reached = Reached(sequence, chain, before.texts + len(texts), before.chars + chars)
        with self._db:  # commits, or takes back
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(_INSERT, map(_make_row, texts))
            self._db.execute("INSERT OR REPLACE INTO reached VALUES (1, ?, ?, ?, ?)", reached)
        self.reached = reached

    def forget(self, texts: Sequence[IndexedText]) -> None:
        """Remove texts, given as they were added, which the index needs to take their words out."""
        before = self.reached
        gone = sum(len(one.text) for one in texts)
        reached = before._replace(texts=before.texts - len(texts), chars=before.chars - gone)
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(_DELETE, map(_make_row, texts))
            self._db.execute("INSERT INTO texts (texts) VALUES ('optimize')")  # else the words stay beside a mark
            self._db.execute("INSERT OR REPLACE INTO reached VALUES (1, ?, ?, ?, ?)", reached)
        self.reached = reached

    def count(self, among: Among, *, limit: int) -> tuple[int, int]:
        """Return how many of these texts there are, from the newest up to `limit`, and the oldest's sequence."""
        match, *stretch = among.of()
        asked = (_COUNT, (match, *stretch, limit)) if match else (_COUNT_ALL, (*stretch, limit))
        count, oldest = self._db.execute(*asked).fetchone()
        return count, place_of(oldest or 0)[0]

    def rows(self, among: Among, term: str, *, limit: int) -> list[int]:
        """Return the numbers (`place_of`) of the newest texts that have this word."""
        return list(map(itemgetter(0), self._db.execute(_ROWS, (*among.of(term), limit)).fetchall()))

    def lengths(self, rows: Sequence[int]) -> dict[int, int]:
        """Return how many words each of these texts has; what is gone is left out."""
        question = f"SELECT id, sz FROM texts_docsize WHERE id IN ({', '.join('?' * len(rows))})"  # noqa: S608
        found = self._db.execute(question, tuple(rows)).fetchall()
        return {row: sizes[0] if sizes[0] < 0x80 else _read_first_number(sizes) for row, sizes in found}  # noqa: PLR2004


def _read_first_number(sizes: bytes) -> int:
    """Return the first number that SQLite packed by seven bits a byte, the highest first."""
    number = 0
    for byte in sizes:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:  # noqa: PLR2004 - the last one of a number
            break
    return number


def place_of(row: int) -> tuple[int, int]:
    """Return (sequence, body number) of a text."""
    return row >> _BITS, row & BODIES_MAX - 1


def _make_row(one: IndexedText) -> tuple[int, str, str, str]:
    return one.sequence << _BITS | one.number, one.text, " ".join(one.about), " ".join(one.own)


def _join_terms(terms: Iterable[str]) -> str:
    """Return a query for any of the terms; words of the tokenizer have no quotes in them."""
    return " OR ".join([f'"{term}"' for term in terms])


class Tokens:
    """The tokenizer alone, over one text at a time, in memory; of plain ASCII a pattern finds the same words sooner."""

    def __init__(self) -> None:
        self._terms: dict[str, str] = {}
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        self._db.executescript(f"""
            CREATE VIRTUAL TABLE one USING fts5(text, {_TOKENIZER});
            CREATE VIRTUAL TABLE words USING fts5vocab(one, row);
        """)

    def close(self) -> None:
        self._db.close()

    def every(self, text: str) -> set[str]:
        """Return the different words of a text as the index has them."""
        if text.isascii():
            return set(_PLAIN_WORD.findall(text.lower()))
        self._put(text)
        return {term for (term,) in self._db.execute("SELECT term FROM words")}

    def terms(self, words: str, *, limit: int) -> list[str]:
        """Return the different words as the index has them, sorted; of too many the longest, which are mostly rare."""
        if words.isascii():
            found = self.every(words)
            return sorted(sorted(found, key=lambda term: (-len(term), term))[:limit])
        self._put(words)
        question = "SELECT term FROM words ORDER BY length(term) DESC, term LIMIT ?"
        return sorted([term for (term,) in self._db.execute(question, (limit,))])

    def words(self, text: str, terms: Sequence[str]) -> list[Word]:
        if text.isascii():
            return [Word(*one.span(), one[0]) for one in _make_matcher(tuple(terms)).finditer(text.lower())]
        self._put(text)
        found: list[Word] = []
        at = 0
        for number, part in enumerate(self._mark_terms(terms).replace(_MARKS[1], _MARKS[0]).split(_MARKS[0])):
            end = at + len(part)
            if number % 2:
                found.append(Word(at, end, self._find_term(text[at:end])))
            at = end
        return found

    def _find_term(self, word: str) -> str:
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

    def _mark_terms(self, terms: Sequence[str]) -> str:
        question = "SELECT highlight(one, 0, ?, ?) FROM one WHERE one MATCH ?"
        (marked,) = self._db.execute(question, (*_MARKS, _join_terms(terms))).fetchone() or ("",)
        return marked


@lru_cache(maxsize=_MATCHERS_KEPT)
def _make_matcher(terms: tuple[str, ...]) -> re.Pattern[str]:
    """Return what finds these words, at least one, in plain ASCII without capitals."""
    return re.compile(f"(?<![0-9a-z])(?:{'|'.join(map(re.escape, terms))})(?![0-9a-z])")


_PLAIN_WORD = re.compile("[0-9a-z]+")
_BLANKS = {0: " ", **{ord(mark): " " for mark in _MARKS}}
"""Characters that would end a text in SQLite, or be taken for our marks: as long in the text that is looked at."""
