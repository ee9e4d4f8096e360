"""Section `ledger`: the record, and the search of it."""

from __future__ import annotations

from pydantic import Field

from hobus.bus.settings import LedgerClientSettings, NonNegative, Positive, Section


class SearchConfig(Section):
    """Search of the record by words."""

    enabled: bool = Field(description="false: nothing is indexed, the index is removed")
    text_max_bytes: Positive = Field(description="of one text so much is searched, from its beginning")
    words_max: Positive = Field(description="words of a question; also streams and types")
    postings_max: Positive = Field(description="texts looked at for a question, by its rarest words")
    hits_max: Positive = Field(description="texts of an answer, and texts whose scores are compared")
    excerpt_chars: Positive = Field(description="of a text that is found")
    wait_ms: NonNegative = Field(description="wait for entries that are not indexed yet")


class LedgerConfig(LedgerClientSettings):
    """The record."""

    segment_bytes: Positive = Field(description="size of one file of the record")
    reserve_bytes: NonNegative = Field(description="kept free on the disk beside one segment")
    zero_fill_chunk_bytes: Positive = Field(description="how much of a segment is zero-filled ahead at once")
    entry_max_bytes: Positive = Field(description="one entry without its bodies")
    bodies_max_bytes: Positive = Field(description="bodies of one entry together")
    read_bytes_max: Positive = Field(description="a page of entries; one entry is always given")
    read_entries_max: Positive = Field(description="most entries of a page, whatever was asked for")
    outstanding_max: Positive = Field(description="unacknowledged writes before `busy`")
    outstanding_max_bytes: Positive = Field(description="the same in bytes of their bodies; any one write is taken")
    known_filter_bytes: Positive = Field(
        description="memory that spares look-ups of new ids: two bytes per entry spare nearly all"
    )
    search: SearchConfig = Field(description="texts found by their words (docs/ledger.md, Search)")
