"""From a question's words to its hits: over a full-text index, and whoever reads the texts. No I/O but the index's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import repeat
from operator import or_
from typing import NamedTuple

from hobus.bus import limits
from hobus.bus.errors import BusError
from hobus.bus.messages.ledger import Hit, Hits, Search
from hobus.bus.record.catalog import SEARCHED_STREAMS, get_stream_kind
from hobus.bus.record.entry import Entry
from hobus.bus.record.searched import SearchedText
from hobus.bus.word_scores import Weights, score, weigh_words
from hobus.ledger_service import limits as own_limits
from hobus.ledger_service.limits import QUERY_MAX_CHARS
from hobus.ledger_service.search_index import (
    Among,
    IndexedText,
    SearchIndex,
    Tokens,
    Word,
    make_token,
    place_of,
)

_QUESTION_MARKS = ("?", "\N{FULLWIDTH QUESTION MARK}", "\N{ARABIC QUESTION MARK}")
_EXCERPT_LEAD = 4
"""A part of a passage of this size stands before the first of its words."""
_COMPARED = 3
"""So many times the texts that are asked for get a score: which words they have orders them nearly as that does."""
_LOOKED_AT = 256
"""So many texts are looked at for each that is asked for, up to `limits.POSTINGS_MAX`: a turn asks for three."""
_OF_ONE_WORD = 32
"""So many of them for one word: what stands in more is common, and the newest that have it answer as well."""
_MEASURED = 128
"""Of so many texts it is asked how long they are."""
_WORD_CHARS = 6
"""About, with the blank behind it."""

TextAt = Callable[[int, int], tuple[Entry, SearchedText] | None]
"""(sequence, body number) -> the text there, and its entry; None where it is gone."""


class BestPassage(NamedTuple):
    """The part of a text that answers best, as long as an excerpt."""

    score: float  # 0 to 1
    start: int  # in characters of the text
    words: tuple[Word, ...]  # those of the question in it


class Scored(NamedTuple):
    """A text that was looked at."""

    sequence: int
    entry: Entry
    text: SearchedText
    passage: BestPassage


def make_indexed(
    sequence: int, entry: Entry, text: SearchedText, tokens: Tokens | None, *, principal: str
) -> IndexedText:
    """Return a text as it goes into the index, and out of it; `principal`: whose its session is, empty: unknown.

    `tokens` None: nobody will ask for words of one session.
    """
    about, kind = entry.provenance, get_stream_kind(entry.stream)
    session = _name_session_token(kind, about.session_id)
    narrowing = (
        session, make_token("a", about.agent_id), make_token("p", principal), make_token("t", entry.event_type),
        make_token("k", kind),
    )  # fmt: skip
    words = _cut(text.text, own_limits.SEARCHED_TEXT_MAX_BYTES)
    own = () if tokens is None else tuple([session + word for word in sorted(tokens.every(words))])
    return IndexedText(sequence, text.number, words, narrowing, own)


def choose_terms(question: Search, tokens: Tokens) -> list[str]:
    """Return the words to look for. Raises BusError(malformed) for a question that narrows by too many things."""
    if max(len(question.streams), len(question.event_types)) > limits.SEARCH_WORDS_MAX:
        raise BusError("malformed", f"more than {limits.SEARCH_WORDS_MAX} streams or types")
    return tokens.terms(_cut_question(question.words, QUERY_MAX_CHARS), limit=limits.SEARCH_WORDS_MAX)


def _cut_question(words: str, chars_max: int) -> str:
    """Return beginning and end of a long question: what is asked stands before or behind what was pasted."""
    half = chars_max // 2
    return words if len(words) <= chars_max else f"{words[:half]} {words[len(words) - half :]}"


def _read_at_most(question: Search) -> int:
    """Return how many of the texts that have the words are read."""
    return min(_COMPARED * question.limit, limits.HITS_MAX)


def find_hits(  # noqa: PLR0913 - what is asked, of what, within which bounds
    index: SearchIndex,
    tokens: Tokens,
    question: Search,
    terms: Sequence[str],
    *,
    after: int,
    before: int,
    text_at: TextAt,
) -> Iterator[Scored]:
    """Yield the likeliest texts by the words they have, each with its score; between two, others may be served."""
    if not terms:
        return
    kinds = question.streams or SEARCHED_STREAMS
    session = [_name_session_token(kind, question.session_id) for kind in kinds] if question.session_id else []
    among = Among(_list_narrowing(question, kinds), after, before, tuple(session))
    known, sought, held = _rank(index, among, terms, question.limit)
    for row in _choose_first(index, sought, held, known, _read_at_most(question), own_limits.EXCERPT_CHARS):
        sequence, number = place_of(row)
        found = text_at(sequence, number)
        if found is None or not _is_of(found[0], question):
            continue
        entry, text = found
        words = tokens.words(_cut(text.text, own_limits.SEARCHED_TEXT_MAX_BYTES), tuple(known.rarity))
        yield Scored(sequence, entry, text, find_passage(words, known, len(text.text), own_limits.EXCERPT_CHARS))


def _rank(
    index: SearchIndex, among: Among, terms: Sequence[str], asked_for: int
) -> tuple[Weights, list[str], dict[int, int]]:
    """Return what each word weighs among these texts, the words sought, and which of them, as bits, each text has."""
    postings_max = min(_LOOKED_AT * asked_for, own_limits.POSTINGS_MAX)
    most = min(_OF_ONE_WORD * asked_for, postings_max)
    found = {term: rows for term in terms if (rows := index.rows(among, term, limit=most))}
    texts, oldest = index.count(among, limit=postings_max + 1)
    if texts > postings_max and not among.session:
        texts, oldest = max(texts, index.reached.texts), among.after + 1
    counts = {
        term: len(rows) if len(rows) < most else _estimate_count(rows, texts, oldest, among.before)
        for term, rows in found.items()
    }
    known = weigh_words(counts, texts, index.reached.chars / max(index.reached.texts, 1))
    sought = choose_rarest(counts, postings_max, of_one=most)
    held: dict[int, int] = {}
    for number, term in enumerate(sought):
        rows = found[term]
        held.update(zip(rows, map(or_, map(held.get, rows, repeat(0)), repeat(1 << number)), strict=True))
    return known, sought, held


def _estimate_count(newest: Sequence[int], texts: int, oldest: int, before: int) -> int:
    """Return in how many of the texts a word stands that stands in more than were looked at: as often as in these."""
    looked_at = before - place_of(newest[-1])[0]
    return min(texts, max(len(newest), round(len(newest) * (before - oldest) / looked_at)))


def _choose_first(  # noqa: PLR0913, PLR0917 - which texts have which words, and what counts of them
    index: SearchIndex,
    sought: Sequence[str],
    held: Mapping[int, int],
    known: Weights,
    count: int,
    passage_chars: int,
) -> list[int]:
    """Return the texts to read: by which words they have and how long they are, of equal ones the newest.

    How often they have them, and how near to each other, is not known yet: so most of them are like many others.
    """
    # Not by FTS5's own bm25(): it goes by the length of a whole text, and put a long answer that alone had the rare
    # word of a question last of 630 texts. Here one passage of a text counts.
    terms_of = {bits: [term for at, term in enumerate(sought) if bits >> at & 1] for bits in set(held.values())}
    weighed = {bits: sum([known.rarity[term] for term in terms]) for bits, terms in terms_of.items()}
    first = sorted([(weighed[bits], row) for row, bits in held.items()], reverse=True)[:_MEASURED]
    rows = [row for _, row in first]
    words, most = index.lengths(rows), passage_chars // _WORD_CHARS + 1
    lengths = map(min, map(words.get, rows, repeat(most)), repeat(most))
    kinds = list(zip(map(held.__getitem__, rows), lengths, strict=True))
    scores = {
        (bits, length): score(dict.fromkeys(terms_of[bits], 1), known, min(length * _WORD_CHARS, passage_chars))
        for bits, length in set(kinds)
    }
    best = sorted(zip(map(scores.__getitem__, kinds), rows, strict=True), reverse=True)
    return [row for _, row in best[:count]]


def find_passage(words: Sequence[Word], known: Weights, chars: int, passage_chars: int) -> BestPassage:
    """Return the passage of a text in which the weightiest words stand together; the first of equals."""
    if chars <= passage_chars:
        return BestPassage(score(Counter([one.term for one in words]), known, chars), 0, tuple(words))
    value_of_best, best, first, behind = 0.0, 0, 0, 0
    held = dict.fromkeys(known.rarity, 0)
    for word in words:
        start = max(0, min(word.start - passage_chars // _EXCERPT_LEAD, chars - passage_chars))
        while behind < len(words) and words[behind].start < start + passage_chars:
            held[words[behind].term] += 1
            behind += 1
        while first < behind and words[first].start < start:
            held[words[first].term] -= 1
            first += 1
        value = sum([weight for term, weight in known.rarity.items() if held[term]])
        if value > value_of_best:
            value_of_best, best = value, start
    inside = tuple([one for one in words if best <= one.start < best + passage_chars])
    return BestPassage(score(Counter([one.term for one in inside]), known, min(chars, passage_chars)), best, inside)


def choose_rarest(counts: Mapping[str, int], postings_max: int, *, of_one: int) -> list[str]:
    """Return the rarest of the words that stand anywhere, as many as stand in so many texts together, at least one.

    Of a word that stands in more than `of_one`, the newest so many count. What has common words alone answers badly
    anyway.
    """
    sought: list[str] = []
    left = postings_max
    for count, term in sorted((count, term) for term, count in counts.items()):
        left -= min(count, of_one)
        if sought and left < 0:
            break
        sought.append(term)
    return sought


def make_hits(found: Sequence[Scored], question: Search, terms: list[str], *, head: int, reached: int) -> Hits:
    """Return the answer: of equal scores the newest first."""
    enough = [one for one in found if one.passage.score >= question.score_min]
    limit = min(question.limit, limits.HITS_MAX)
    late = question.statements_first
    first = nlargest(limit, enough, key=lambda one: (not (late and _is_asked(one)), one.passage.score, one.sequence))
    hits = [_make_hit(one, own_limits.EXCERPT_CHARS) for one in first]
    more = len(enough) > len(hits) or len(found) >= _read_at_most(question)
    return Hits(hits=hits, more=more, words=terms, head=head, reached=reached)


def _is_asked(found: Scored) -> bool:
    return found.text.text.rstrip().endswith(_QUESTION_MARKS)


def _list_narrowing(question: Search, kinds: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the groups of tokens that narrow the question; of one session no other, as it has one of each."""
    groups = [tuple([make_token("t", value) for value in question.event_types])]
    if not question.session_id:
        groups += [
            tuple([make_token("a", value) for value in (question.agent_id,) if value]),
            tuple([make_token("p", value) for value in (question.principal,) if value]),
            tuple([make_token("k", kind) for kind in kinds]),
        ]
    return tuple([group for group in groups if group])


def _is_of(entry: Entry, question: Search) -> bool:
    return question.agent_id in ("", entry.provenance.agent_id)


def _name_session_token(kind: str, session_id: str) -> str:
    return make_token("s", f"{kind}/{session_id}")


def _cut(text: str, max_bytes: int) -> str:
    """Return the beginning of a text that is no longer than this in UTF-8."""
    if len(text) * 4 <= max_bytes:
        return text
    return text.encode()[:max_bytes].decode("utf-8", "ignore")


def _make_hit(found: Scored, excerpt_chars: int) -> Hit:
    sequence, entry, text, passage = found
    at = passage.start
    return Hit(
        sequence=sequence,
        submission_id=entry.submission_id,
        stream=entry.stream,
        event_type=entry.event_type,
        session_id=entry.provenance.session_id,
        agent_id=entry.provenance.agent_id,
        at_us=entry.ledger_at_us,
        kind=text.kind,
        ref=text.ref,
        score=passage.score,
        excerpt=text.text[at : at + excerpt_chars],
        excerpt_at=at,
        text_chars=len(text.text),
        spans=[[word.start - at, word.end - at] for word in passage.words if word.end <= at + excerpt_chars],
    )
