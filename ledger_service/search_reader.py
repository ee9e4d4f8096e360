"""Searches a ledger's directory without a running ledger: all texts are read and indexed in memory for one question."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hobus.bus.messages.ledger import Hits, Search
from hobus.bus.record.catalog import list_searched_bodies
from hobus.bus.record.entry import Entry
from hobus.bus.record.searched import SearchedText, list_searched_texts
from hobus.ledger_service.finding import choose_terms, find_hits, make_hits, make_indexed
from hobus.ledger_service.reader import read_entries
from hobus.ledger_service.search_index import BODIES_MAX, IndexedText, SearchIndex, Tokens

_AT_ONCE = 1024


def search_directory(path: Path, question: Search, progress: Callable[[int], None] = lambda _count: None) -> Hits:
    """Answer as the ledger itself would answer an operator. Raises Damage.

    `progress` is told how many entries were read. It costs a pass over the record, and its texts in memory.
    """
    index, tokens = SearchIndex.open(None), Tokens()
    of_session = tokens if question.session_id else None
    try:
        texts: dict[tuple[int, int], tuple[Entry, SearchedText]] = {}
        head, after = -1, question.after
        some: list[IndexedText] = []
        for entry in read_entries(path, with_bodies=True):
            head = entry.sequence
            if entry.ledger_at_us < question.since_us:
                after = max(after, head)
            if list_searched_bodies(entry.stream, entry.event_type):
                for text in list_searched_texts(entry):
                    if text.number < BODIES_MAX:
                        texts[head, text.number] = entry._replace(bodies=[]), text
                        some.append(make_indexed(head, entry, text, of_session, principal=""))
            if len(some) >= _AT_ONCE:
                index.add(some, sequence=head, chain=entry.chain)
                some.clear()
                progress(head + 1)
        index.add(some, sequence=head, chain=b"")
        terms = choose_terms(question, tokens)
        before = head + 1 if question.before is None else min(question.before, head + 1)
        found = find_hits(
            index, tokens, question, terms, after=after, before=before,
            text_at=lambda sequence, number: texts.get((sequence, number)),
        )  # fmt: skip
        return make_hits(list(found), question, terms, head=head, reached=head)
    finally:
        index.close()
        tokens.close()
