"""From a question's words to its hits: over a full-text index, and whoever reads the texts. No I/O but the index's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nlargest

from hobus.bus.errors import BusError
from hobus.bus.messages.ledger import Hit, Hits, Search
from hobus.bus.record.catalog import stream_kind
from hobus.bus.record.entry import Entry
from hobus.bus.record.searched import SearchedText
from hobus.config.schema import SearchConfig
from hobus.ledger_service.search_index import IndexedText, SearchIndex, Tokens, Weight, token

_EXCERPT_LEAD = 4
"""A part of an excerpt of this size stands before the first word that was found."""
_COMPARED = 2
"""So many times the texts that are asked for get a score of their own: the engine's order is nearly ours."""

TextAt = Callable[[int, int], tuple[Entry, SearchedText] | None]
"""(sequence, body number) -> the text there, and its entry; None where it is gone."""


def indexed(sequence: int, entry: Entry, text: SearchedText, config: SearchConfig) -> IndexedText:
    """A text as it goes into the index, and out of it."""
    about = entry.provenance
    tokens = (
        token("s", about.session_id), token("a", about.agent_id),
        token("t", entry.event_type), token("k", stream_kind(entry.stream)),
    )  # fmt: skip
    return IndexedText(sequence, text.number, _cut(text.text, config.text_max_bytes), tokens)


def terms_of(question: Search, tokens: Tokens, config: SearchConfig) -> list[str]:
    """The words to look for. Raises BusError(malformed) for a question that narrows by too many things."""
    if max(len(question.streams), len(question.event_types)) > config.words_max:
        raise BusError("malformed", f"more than {config.words_max} streams or types (ledger.search.words_max)")
    return tokens.terms(question.words[: config.query_max_chars], limit=config.words_max)


def each_hit(  # noqa: PLR0913 - what is asked, of what, within which bounds
    index: SearchIndex,
    tokens: Tokens,
    question: Search,
    terms: Sequence[str],
    *,
    after: int,
    before: int,
    config: SearchConfig,
    text_at: TextAt,
) -> Iterator[Hit]:
    """Those that the index ranks highest, each with its own score; between two of them others may be served."""
    if not terms:
        return
    counts = index.counts(terms)
    sought = looked_for(counts, config.postings_max)
    if not sought:
        return
    limit = min(_COMPARED * question.limit, config.hits_max)
    places = index.find(sought, _narrowed(question), after=after, before=before, limit=limit)
    for sequence, number in places:
        found = text_at(sequence, number)
        if found is None:
            continue
        entry, text = found
        weight = tokens.weigh(_cut(text.text, config.text_max_bytes), terms, counts, index.reached)
        yield _hit(sequence, entry, text, weight, config.excerpt_chars)


def looked_for(counts: Mapping[str, int], postings_max: int) -> list[str]:
    """The rarest of the words that stand anywhere, as many as stand in so many texts together, one at least.

    The engine looks at each of these texts. A text that has common words alone answers badly in any case.
    """
    sought: list[str] = []
    left = postings_max
    for count, term in sorted((count, term) for term, count in counts.items()):
        left -= count
        if sought and left < 0:
            break
        sought.append(term)
    return sought


def best(  # noqa: PLR0913 - what an answer says
    found: Sequence[Hit], question: Search, terms: list[str], *, config: SearchConfig, head: int, reached: int
) -> Hits:
    """The answer: of equal scores the newest first."""
    enough = [hit for hit in found if hit.score >= question.score_min]
    limit = min(question.limit, config.hits_max)
    hits = nlargest(limit, enough, key=lambda hit: (hit.score, hit.sequence))
    return Hits(hits=hits, more=len(enough) > len(hits), words=terms, head=head, reached=reached)


def _narrowed(question: Search) -> list[list[str]]:
    asked = (
        ("s", [question.session_id] if question.session_id else []),
        ("a", [question.agent_id] if question.agent_id else []),
        ("t", question.event_types),
        ("k", question.streams),
    )
    return [[token(kind, value) for value in values] for kind, values in asked if values]


def _cut(text: str, max_bytes: int) -> str:
    """The beginning of a text that is no longer than this in UTF-8."""
    if len(text) * 4 <= max_bytes:
        return text
    return text.encode()[:max_bytes].decode("utf-8", "ignore")


def _hit(sequence: int, entry: Entry, text: SearchedText, weight: Weight, excerpt_chars: int) -> Hit:
    """With the part of the text that begins shortly before the first of the words."""
    first = weight.spans[0][0] if weight.spans else 0
    at = max(0, min(first - excerpt_chars // _EXCERPT_LEAD, len(text.text) - excerpt_chars))
    excerpt = text.text[at : at + excerpt_chars]
    end = at + len(excerpt)
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
        score=weight.score,
        excerpt=excerpt,
        excerpt_at=at,
        text_chars=len(text.text),
        spans=[[start - at, stop - at] for start, stop in weight.spans if at <= start and stop <= end],
    )
